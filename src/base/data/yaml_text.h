/*
 * The bytes of a YAML text as UTF-8, as go-yaml takes them: a byte order mark says whether it is UTF-8 or UTF-16 of
 * either order; without one it is UTF-8. Editors of other systems write both. Pure. Part of base/data/yaml.h.
 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"

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
