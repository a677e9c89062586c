// SPDX-License-Identifier: Apache-2.0
/*
 * Typed values from a YAML tree, strictly: each function reads one member of an object. It leaves the default if the
 * member is missing, and fails with line, path and value if the member is wrong. It knows no key of the scenario.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/data/yaml.h"

/* One object of the tree that is being read. */
struct decode {
        const struct yaml *yaml;
        const json_t *object;
        const char *path; /* "gpus[1].mig", "" at the top */
        struct arena *arena;
        int line; /* where it begins, 0 unknown */
};

struct decode_word {
        const char *word;
        uint64_t value;
};

/* |object| must be an object with no key but |keys| (NULL-terminated). */
int decode_object(const struct decode *decode, const char *const *keys, struct error *err) MUST_USE;

/* Raises an error at the line of |key|: "<name> line 3: <path>.<key>: <text>". */
int decode_fail(const struct decode *decode, const char *key, struct error *err, const char *format, ...)
        PRINTF_LIKE(4, 5);
int decode_fail_item(const struct decode *decode, const char *key, const json_t *array, size_t index, struct error *err,
        const char *format, ...) PRINTF_LIKE(6, 7);

bool decode_has(const struct decode *decode, const char *key);

int decode_bool(const struct decode *decode, const char *key, bool *value, struct error *err) MUST_USE;
int decode_uint(
        const struct decode *decode, const char *key, uint64_t max, uint64_t *value, struct error *err) MUST_USE;
int decode_uint32(
        const struct decode *decode, const char *key, uint64_t max, unsigned int *value, struct error *err) MUST_USE;

/* The text has at most |size| - 1 bytes; a number is read as the text that it would print as. */
int decode_text(
        const struct decode *decode, const char *key, size_t size, const char **value, struct error *err) MUST_USE;

/* One of the words of |table| (NULL-terminated). */
int decode_word(const struct decode *decode, const char *key, const struct decode_word *table, uint64_t *value,
        struct error *err) MUST_USE;
bool decode_find_word(const struct decode_word *table, const char *word, uint64_t *value);

/* Bytes: 1073741824, "1GiB", "500 MiB". */
int decode_size(const struct decode *decode, const char *key, uint64_t *value, struct error *err) MUST_USE;

/* Milliseconds: "200ms", "2s", 0. */
int decode_duration(const struct decode *decode, const char *key, unsigned int *value_ms, struct error *err) MUST_USE;
bool decode_duration_value(const json_t *value, unsigned int *value_ms);

/*
 * The member |key| as an object or array, NULL if missing; another type is an error. |nested| is filled for an object.
 */
int decode_member(
        const struct decode *decode, const char *key, struct decode *nested, bool *found, struct error *err) MUST_USE;
int decode_array(
        const struct decode *decode, const char *key, size_t max, const json_t **array, struct error *err) MUST_USE;
/* Item |index| of the array under |key|. */
struct decode decode_item(const struct decode *decode, const char *key, const json_t *array, size_t index);
