// SPDX-License-Identifier: Apache-2.0
/*
 * One YAML scalar into a jansson value: the resolution rules of YAML 1.1 as go-yaml v2 applies them. Part of
 * base/data/yaml.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/*
 * |tag| is NULL for none; |plain| says that the scalar is unquoted. The text is |size| bytes, ends with a NUL and has
 * none inside. NULL if the tag is unknown or the text is not what the tag says, or a number is not finite.
 */
json_t *yaml_scalar(const char *tag, bool plain, const char *text, size_t size);

/* ---- yaml text ---- */

/*
 * The bytes of a YAML text as UTF-8, as go-yaml takes them: a byte order mark says whether it is UTF-8 or UTF-16 of
 * either order; without one it is UTF-8. Editors of other systems write both. Pure. Part of base/data/yaml.h.
 */

struct yaml_text {
        const char *at;
        size_t size;
        struct strbuf converted; /* what |at| points into, where it was UTF-16 */
};

/*
 * |ret| points into |text|, or has bytes of its own, to be released by yaml_text_done(). That it is UTF-8 is not
 * checked. False for UTF-16 that is none: half a character, or half a pair of surrogates.
 */
bool yaml_text_read(struct yaml_text *ret, const char *text, size_t size);
void yaml_text_done(struct yaml_text *text);
