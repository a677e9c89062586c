// SPDX-License-Identifier: Apache-2.0
/*
 * JSON objects of our own, on disk and between our processes: a table says which member of a struct is which field. By
 * it the struct is written, in the table's order, and read back, with a bound for each value. What the values mean
 * together is for the caller.
 *
 * Writing does not fail. Reading notes the first fault and continues with zeros, so that callers test once.
 * Fields without a row are ignored.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define JSON_REAL_MOST 9007199254740992.0 /* 2^53, up to which a double has every integer */

/* The texts that a field accepts. */
struct json_text {
        bool (*is)(const char *text);
        size_t most;      /* bytes */
        const char *must; /* what stands between "must be " and "<most> bytes" */
        /*
         * It is cleaned (base/text.h) when it is read, since who wrote it may be older or another, and when it is
         * written, where it is also cut to |most|. Else a text that is not UTF-8 becomes null.
         */
        bool is_repaired;
};

enum json_field_kind {     /* and the type of the member */
        JSON_FIELD_TEXT,   /* const char *, in the arena; NULL: left out */
        JSON_FIELD_UINT,   /* an unsigned integer of 4 or 8 bytes */
        JSON_FIELD_INT,    /* a signed one; below 0 is written as 0 */
        JSON_FIELD_REAL,   /* double, from 0 to JSON_REAL_MOST; NaN: left out */
        JSON_FIELD_BOOL,   /* bool */
        JSON_FIELD_WORD,   /* an enum, by name */
        JSON_FIELD_OBJECT, /* a struct */
        JSON_FIELD_TEXTS,  /* from here on lists: const char *const * and a count */
        JSON_FIELD_REALS,  /* const double * and a count; NaN: null */
        JSON_FIELD_ITEMS,  /* const struct * and a count */
        JSON_FIELD_ARRAY,  /* struct [most] and a count; without a count it is full */
};

struct json_field {
        const char *name;
        enum json_field_kind kind;
        bool is_needed;  /* else it may be absent: NULL, |absent|, false, the first word, no items */
        bool leaves_out; /* the number |absent|, or a list without items */
        size_t offset;
        size_t size;
        size_t count;         /* offset of the size_t; 0: none */
        size_t has;           /* offset of a bool that says whether the field is there; 0: none */
        uint64_t absent;      /* a number where there is none */
        uint64_t least, most; /* of a number; of how many items a list has; |most|: how many words there are */
        const struct json_text *text;
        const char *(*word)(unsigned int position);
        const struct json_shape *shape;
};

struct json_shape {
        const struct json_field *fields;
        size_t n_fields;
        size_t size; /* of the struct */
};

#define JSON_SHAPE(type, fields)                                                                                       \
        {                                                                                                              \
                (fields), sizeof(fields) / sizeof(*(fields)), sizeof(type)                                             \
        }

/* Rows of a table. What else is to be set may follow, as |.is_needed = true|. */
#define JSON_ROW(key, what, type, member, ...)                                                                         \
        {                                                                                                              \
                .name = (key), .kind = JSON_FIELD_##what, .offset = offsetof(type, member),                            \
                .size = sizeof(((type *)0)->member), __VA_ARGS__                                                       \
        }
#define JSON_TEXT(key, type, member, how, ...) JSON_ROW(key, TEXT, type, member, .text = &(how), ##__VA_ARGS__)
#define JSON_UINT(key, type, member, from, to, ...)                                                                    \
        JSON_ROW(key, UINT, type, member, .least = (from), .most = (to), ##__VA_ARGS__)
#define JSON_INT(key, type, member, from, to) JSON_ROW(key, INT, type, member, .least = (from), .most = (to))
#define JSON_REAL(key, type, member) JSON_ROW(key, REAL, type, member)
#define JSON_REALS(key, type, member, number, longest)                                                                 \
        JSON_ROW(key, REALS, type, member, .count = offsetof(type, number), .most = (longest), .leaves_out = true)
/* Left out where it is |unknown|. */
#define JSON_KNOWN(key, type, member, unknown, to)                                                                     \
        JSON_ROW(key, UINT, type, member, .leaves_out = true, .absent = (unknown), .most = (to))
#define JSON_BOOL(key, type, member, ...) JSON_ROW(key, BOOL, type, member, ##__VA_ARGS__)
#define JSON_WORD(key, type, member, name, count, ...)                                                                 \
        JSON_ROW(key, WORD, type, member, .word = (name), .most = (count), ##__VA_ARGS__)
#define JSON_MEMBER(key, type, member, of, ...) JSON_ROW(key, OBJECT, type, member, .shape = &(of), ##__VA_ARGS__)
#define JSON_TEXTS(key, type, member, number, how, from, to, ...)                                                      \
        JSON_ROW(key, TEXTS, type, member, .count = offsetof(type, number), .text = &(how), .least = (from),           \
                .most = (to), ##__VA_ARGS__)
#define JSON_ITEMS(key, type, member, number, of, from, to, ...)                                                       \
        JSON_ROW(key, ITEMS, type, member, .count = offsetof(type, number), .shape = &(of), .least = (from),           \
                .most = (to), ##__VA_ARGS__)

/* ---- writing ---- */

void json_fields_put(json_t *object, const struct json_shape *shape, const void *from);
/* The text with a newline; the caller frees. Takes |json|. */
char *json_fields_print(json_t *json, size_t flags);

/* ---- reading ---- */

struct json_in {
        struct arena *arena; /* for texts and lists */
        struct error *err;
        bool is_bad; /* |err| is filled */
};

/* The root of a text: an object, to be given to json_decref(), or NULL. */
json_t *json_fields_load(struct json_in *in, const char *text, size_t length);
/* |object| may be NULL, or no object: it has no fields then. |to| is zeroed; other members stay. */
void json_fields_take(struct json_in *in, const json_t *object, const struct json_shape *shape, void *to);
/* Noted where nothing was wrong before. */
void json_fields_bad(struct json_in *in, const char *format, ...) PRINTF_LIKE(2, 3);
