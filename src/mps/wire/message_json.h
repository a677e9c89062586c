/*
 * Private to mps/wire/message*.c: values to JSON, and back with a bound for each.
 *
 * Writing never fails: text that is no UTF-8 or has control characters is repaired, and cut where it is too long, since some of
 * it comes from tenants. Reading notes the first thing that is wrong and goes on with zeros, so that callers test once.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define MESSAGE_TEXT_MAX ((size_t)1024)

/* Absent where |text| is NULL. */
void message_put_text(json_t *object, const char *key, const char *text);
void message_put_uint(json_t *object, const char *key, uint64_t number);
/* The text with a newline; the caller frees. Takes |json|. */
char *message_print(json_t *json, size_t flags);

struct message_in {
        struct arena *arena;
        struct error *err;
        bool is_bad; /* |err| is filled */
};

enum message_text {
        MESSAGE_ANY,        /* no control characters */
        MESSAGE_PATH,       /* a relative path of letters, digits, '.', '-', '_', without "." and ".." in it */
        MESSAGE_UUID,       /* letters, digits, '-', '/': what goes into commands and variables as one word */
        MESSAGE_ALLOCATION, /* [a-z0-9_]{1,64} */
};

void message_bad(struct message_in *in, const char *format, ...) PRINTF_LIKE(2, 3);
/* Puts "<key>[<index>]: " before what was wrong. */
void message_bad_item(struct message_in *in, const char *key, size_t index);

/* The root of a text: an object, to be given to json_decref(), or NULL. */
json_t *message_load(struct message_in *in, const char *text, size_t length);

/* NULL where it is absent, or bad. */
const char *message_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind);
/* The same; being absent is bad. */
const char *message_need_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind);
/* Absent is 0, and bad where |least| is more. */
uint64_t message_uint(struct message_in *in, const json_t *object, const char *key, uint64_t least, uint64_t most);
bool message_bool(struct message_in *in, const json_t *object, const char *key);
/* Position of the word among |count| names; absent is 0. */
unsigned int message_word(struct message_in *in, const json_t *object, const char *key,
        const char *(*name)(unsigned int position), unsigned int count);
/* NULL where it is absent, or bad; |ret_count| is 0 then. */
const json_t *message_array(
        struct message_in *in, const json_t *object, const char *key, size_t most, size_t *ret_count);
const char *const *message_texts(struct message_in *in, const json_t *object, const char *key, enum message_text kind,
        size_t most, size_t *ret_count);
/* NULL where it is absent, or bad. */
const json_t *message_object(struct message_in *in, const json_t *object, const char *key);
