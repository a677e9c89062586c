/*
 * What makes the key of a container's CDI annotation its own: a random UUID, version 4 (RFC 9562).
 *
 * It has to differ among all containers of a pod, whichever agent made the answer, before or after a restart: a key that is
 * there twice is lost, and its devices with it. Randomness is fetched for several at once, since answers must not wait: the
 * kernel only makes anyone wait for it in the first moments after boot.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TAG_SIZE ((size_t)37) /* with the byte that ends it */

struct tag_pool {
        uint8_t bytes[8 * 16];
        size_t left; /* at the end of |bytes|, not used yet; 0 at first */
};

int tag_draw(struct tag_pool *pool, char ret[static TAG_SIZE], struct error *err) MUST_USE;
