/*
 * A random UUID, version 4 (RFC 9562), that makes the key of a container's CDI annotation unique.
 *
 * It must differ among all containers of a pod, whichever agent made the answer, before or after a restart: if a key
 * occurs twice, one of the two and its devices are lost. Random bytes are fetched for several UUIDs at once, since
 * answers must not wait: the kernel blocks only in the first moments after boot.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TAG_SIZE ((size_t)37) /* with the final zero */

struct tag_pool {
        uint8_t bytes[8 * 16];
        size_t left; /* unused bytes, at the end of |bytes|; 0 at first */
};

int tag_draw(struct tag_pool *pool, char ret[static TAG_SIZE], struct error *err) MUST_USE;
