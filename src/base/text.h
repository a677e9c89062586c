/*
 * Text to values and back, strictly: a whole string or an error, never a prefix, never a locale.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, no sign, no blank, at most |max|. */
bool text_to_uint(const char *text, uint64_t max, uint64_t *ret_value);

/* Go's spellings (strconv.ParseBool): 1 t T TRUE true True 0 f F FALSE false False. */
bool text_to_bool(const char *text, bool *ret_value);

/* The candidate nearest to |word| by edit distance (at most half of its length), or NULL: for "did you mean". */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/* Length of the valid UTF-8 sequence at |text|, which ends with a 0, or 0 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF). */
size_t text_utf8_length(const char *text);

/* Replaces every byte sequence that is not valid UTF-8 by '?', in place: kubelet refuses a message with such a string. */
void text_make_utf8(char *text);

bool text_starts_with(const char *text, const char *prefix);

/* The order of bytes, for qsort() and bsearch() in an array of texts. */
int text_compare(const void *a, const void *b);

/* Both may be NULL, which is the same as NULL only. */
bool text_is_same(const char *a, const char *b);

/*
 * A DNS subdomain, of any length but 0: labels of lower-case letters, digits and '-' that begin and end alphanumerically, separated by dots
 * (RFC 1123 2.1).
 */
bool text_is_subdomain(const char *text);
