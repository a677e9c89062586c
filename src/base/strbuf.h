// SPDX-License-Identifier: Apache-2.0
/*
 * A growing buffer of bytes that is always a C string as well: |data| is never NULL, and data[size] is 0.
 *
 * The buffer has no limit of its own: code that fills it with input from outside checks the size first.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/macro.h"

struct strbuf {
        char *data;
        size_t size;
        size_t capacity; /* 0: |data| is the shared empty string */
};

extern char strbuf_empty[1];

#define STRBUF_INIT                                                                                                    \
        {                                                                                                              \
                .data = strbuf_empty                                                                                   \
        }

void strbuf_done(struct strbuf *buf);
void strbuf_reserve(struct strbuf *buf, size_t more);
void strbuf_append(struct strbuf *buf, const void *bytes, size_t size);
void strbuf_puts(struct strbuf *buf, const char *text);
void strbuf_putc(struct strbuf *buf, char c);
void strbuf_printf(struct strbuf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
void strbuf_vprintf(struct strbuf *buf, const char *format, va_list args) PRINTF_LIKE(2, 0);
void strbuf_consume(struct strbuf *buf, size_t size); /* drops |size| bytes at the front */
void strbuf_clear(struct strbuf *buf);                /* keeps the memory */

/* Returns the text, for the caller to free; the buffer is empty afterwards. */
char *strbuf_take(struct strbuf *buf);

/* ---- names ---- */

/*
 * A list of names in a sentence for people, of which the first few are enough: "a, b, c, …".
 */

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
