// SPDX-License-Identifier: Apache-2.0
#include "base/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

char strbuf_empty[1];

void strbuf_done(struct strbuf *buf)
{
        if (buf->capacity)
                free(buf->data);
        *buf = (struct strbuf)STRBUF_INIT;
}

void strbuf_reserve(struct strbuf *buf, size_t more)
{
        size_t capacity = buf->capacity ? buf->capacity : 64;
        size_t need = buf->size + more + 1;

        if (need <= buf->capacity)
                return;
        while (capacity < need)
                capacity *= 2;
        buf->data = xrealloc(buf->capacity ? buf->data : NULL, capacity);
        buf->capacity = capacity;
        buf->data[buf->size] = '\0';
}

void strbuf_append(struct strbuf *buf, const void *bytes, size_t size)
{
        if (size == 0)
                return;
        strbuf_reserve(buf, size);
        memcpy(buf->data + buf->size, bytes, size);
        buf->size += size;
        buf->data[buf->size] = '\0';
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
        strbuf_append(buf, text, strlen(text));
}

void strbuf_putc(struct strbuf *buf, char c)
{
        strbuf_append(buf, &c, 1);
}

void strbuf_vprintf(struct strbuf *buf, const char *format, va_list args)
{
        va_list again;
        int length;

        va_copy(again, args);
        length = vsnprintf(NULL, 0, format, args);
        assert(length >= 0);
        strbuf_reserve(buf, (size_t)length);
        vsnprintf(buf->data + buf->size, (size_t)length + 1, format, again);
        buf->size += (size_t)length;
        va_end(again);
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        strbuf_vprintf(buf, format, args);
        va_end(args);
}

void strbuf_consume(struct strbuf *buf, size_t size)
{
        assert(size <= buf->size);
        if (size == 0)
                return;
        memmove(buf->data, buf->data + size, buf->size - size + 1);
        buf->size -= size;
}

void strbuf_clear(struct strbuf *buf)
{
        buf->size = 0;
        if (buf->capacity)
                buf->data[0] = '\0';
}

char *strbuf_take(struct strbuf *buf)
{
        char *text = buf->capacity ? buf->data : xstrdup("");

        *buf = (struct strbuf)STRBUF_INIT;
        return text;
}

/* ---- names ---- */

void names_add(struct names *names, const char *format, ...)
{
        va_list args;

        if (names->count <= names->max && names->count > 0)
                strbuf_puts(&names->text, ", ");
        if (names->count < names->max) {
                va_start(args, format);
                strbuf_vprintf(&names->text, format, args);
                va_end(args);
        } else if (names->count == names->max) {
                strbuf_puts(&names->text, "…");
        }
        names->count++;
}
