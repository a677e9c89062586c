#include "base/data/yaml_text.h"

#include <stdint.h>
#include <string.h>

#include "base/macro.h"

struct reader {
        const unsigned char *at;
        const unsigned char *end;
        bool is_big; /* endian */
};

/* Returns -1 when less than a whole unit is left. */
static int32_t take_unit(struct reader *reader)
{
        const unsigned char *at = reader->at;

        if (reader->end - at < 2)
                return -1;
        reader->at += 2;
        return reader->is_big ? at[0] << 8 | at[1] : at[1] << 8 | at[0];
}

/* -1: it is none. */
static int32_t take_character(struct reader *reader)
{
        int32_t unit = take_unit(reader);
        int32_t low;

        if (unit < 0xd800 || unit > 0xdfff)
                return unit;
        low = take_unit(reader);
        if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff)
                return -1;
        return 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
}

static void put_character(struct strbuf *text, int32_t character)
{
        unsigned char bytes[4];
        size_t size = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
        static const unsigned char leading[] = {0, 0, 0xc0, 0xe0, 0xf0};

        for (size_t i = size - 1; i > 0; i--, character >>= 6)
                bytes[i] = (unsigned char)(0x80 | (character & 0x3f));
        bytes[0] = (unsigned char)(leading[size] | character);
        strbuf_append(text, (const char *)bytes, size);
}

static bool convert(struct strbuf *text, struct reader *reader)
{
        while (reader->at < reader->end) {
                int32_t character = take_character(reader);

                if (character < 0)
                        return false;
                put_character(text, character);
        }
        return true;
}

bool yaml_text_read(struct yaml_text *ret, const char *text, size_t size)
{
        bool is_big = size >= 2 && memcmp(text, "\xfe\xff", 2) == 0;
        struct reader reader = {(const unsigned char *)text + 2, (const unsigned char *)text + size, is_big};

        *ret = (struct yaml_text){.at = text, .size = size, .converted = STRBUF_INIT};
        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
                ret->at += 3;
                ret->size -= 3;
        } else if (is_big || (size >= 2 && memcmp(text, "\xff\xfe", 2) == 0)) {
                if (!convert(&ret->converted, &reader)) {
                        yaml_text_done(ret);
                        return false;
                }
                ret->at = ret->converted.data;
                ret->size = ret->converted.size;
        }
        return true;
}

void yaml_text_done(struct yaml_text *text)
{
        strbuf_done(&text->converted);
}
