/* Values from text and back, strictly: the whole string must be valid, and the locale does not matter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, no sign, no blank, at most |max|. */
bool text_to_uint(const char *text, uint64_t max, uint64_t *ret_value);

/* Go's spellings (strconv.ParseBool): 1 t T TRUE true True 0 f F FALSE false False. */
bool text_to_bool(const char *text, bool *ret_value);

/*
 * The candidate nearest to |word| by edit distance, for "did you mean"; NULL if even that differs in more than half of
 * |word|.
 */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

/*
 * Length of the valid UTF-8 sequence at |text|, which ends with a 0, or 0 (RFC 3629: no overlong forms, no surrogates,
 * at most U+10FFFF).
 */
size_t text_utf8_length(const char *text);

/*
 * Replaces every byte sequence that is not valid UTF-8 by '?', in place: kubelet refuses a message with such a string.
 */
void text_make_utf8(char *text);

/*
 * Control characters, which a terminal would take for commands: those of ASCII, and in valid UTF-8 also U+0080 to
 * U+009F. The second puts |with| in the place of each of their bytes.
 */
bool text_has_controls(const char *text);
void text_replace_controls(char *text, char with);

bool text_starts_with(const char *text, const char *prefix);

/* Compares texts byte by byte, for qsort() and bsearch() in an array of texts. */
int text_compare(const void *a, const void *b);

/* Both may be NULL; NULL is the same only as NULL. */
bool text_is_same(const char *a, const char *b);

/*
 * Whether |text| is a DNS subdomain (RFC 1123 2.1), of any length except 0: labels of lower-case letters, digits and
 * '-', separated by dots; each label begins and ends with a letter or digit.
 */
bool text_is_subdomain(const char *text);
