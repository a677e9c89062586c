/*
 * A list of names in a sentence for people, of which the first few are enough: "a, b, c, …".
 */
#pragma once

#include "base/strbuf.h"

struct names {
        struct strbuf text;
        unsigned int max;   /* names that are written */
        unsigned int count; /* names that were added */
};

#define NAMES_INIT(most)                                                                                               \
        {                                                                                                              \
                .text = STRBUF_INIT, .max = (most)                                                                     \
        }

/* Once |max| are written, the next one is "…", and all others are only counted. */
void names_add(struct names *names, const char *format, ...) PRINTF_LIKE(2, 3);

static inline void names_done(struct names *names)
{
        strbuf_done(&names->text);
}
