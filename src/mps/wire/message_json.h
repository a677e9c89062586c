/*
 * Private to mps/wire/message*.c: writes values as JSON, and reads them back with a bound for each.
 *
 * Writing never fails: text that is invalid UTF-8, has control characters or is too long is repaired and cut, since
 * some of it comes from tenants. Reading keeps the first error and goes on with zeros, so that callers check once.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define MESSAGE_TEXT_MAX ((size_t)1024)

/* Leaves the member out if |text| is NULL. */
void message_put_text(json_t *object, const char *key, const char *text);
void message_put_uint(json_t *object, const char *key, uint64_t number);
/* The text with a newline; the caller frees it. Takes |json|. */
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
/* Puts "<key>[<index>]: " in front of the error. */
void message_bad_item(struct message_in *in, const char *key, size_t index);

/* Parses a text: an object, to be released with json_decref(), or NULL. */
json_t *message_load(struct message_in *in, const char *text, size_t length);

/* NULL if it is missing, or invalid. */
const char *message_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind);
/* The same; a missing one is an error. */
const char *message_need_text(struct message_in *in, const json_t *object, const char *key, enum message_text kind);
/* A missing number is 0, and an error if |least| is more. */
uint64_t message_uint(struct message_in *in, const json_t *object, const char *key, uint64_t least, uint64_t most);
bool message_bool(struct message_in *in, const json_t *object, const char *key);
/* The index of the word among |count| names; a missing word is 0. */
unsigned int message_word(struct message_in *in, const json_t *object, const char *key,
        const char *(*name)(unsigned int position), unsigned int count);
/* NULL if it is missing, or invalid; then |ret_count| is 0. */
const json_t *message_array(
        struct message_in *in, const json_t *object, const char *key, size_t most, size_t *ret_count);
const char *const *message_texts(struct message_in *in, const json_t *object, const char *key, enum message_text kind,
        size_t most, size_t *ret_count);
/* NULL if it is missing, or invalid. */
const json_t *message_object(struct message_in *in, const json_t *object, const char *key);
