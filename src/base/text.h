// SPDX-License-Identifier: Apache-2.0
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
 * Characters that are not seen but change what is: a terminal takes control characters for commands, others turn the
 * direction of what follows or make two names look like one. These are the general categories Cc, Zl and Zp, and the
 * property Default_Ignorable_Code_Point, of which Bidi_Control is a part. A new line and a tab are among them.
 * https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt
 *
 * How many bytes the one at |text| has, and which it is (|ret_code| may be NULL); 0: none is there.
 */
size_t text_hidden_length(const char *text, uint32_t *ret_code);

/*
 * Makes text from outside fit to be shown on one line, in place, before it reaches a terminal, a page, an event, a
 * condition or a metric: white space and ends of lines become a blank, each other hidden character '?', and so each
 * byte that is not valid UTF-8. The text does not get longer. Logs escape instead (base/log.h).
 */
void text_clean(char *text);
bool text_is_clean(const char *text); /* it would stay as it is */

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

/* ---- base64 ---- */

/*
 * Base64 into bytes, and back. Pure.
 */

/*
 * Standard base64 with padding; line breaks between digits are ignored. |ret| has room for |length| bytes. False:
 * |text| is not base64, and |ret| may have been written to.
 */
bool base64_decode(const char *text, size_t length, unsigned char *ret, size_t *ret_size);

/* With padding and without line breaks, for the caller to free. */
char *base64_encode(const unsigned char *bytes, size_t size);

/* ---- quantity ---- */

/*
 * Quantities of Kubernetes ("10Gi", "10240Mi", "1.5k", "1e3", "100m") as whole numbers, rounded up: "100m" is 1. The
 * API server counts like that (resource.Quantity.Value()). Pure.
 */

/* The most digits, before and after the point together, without leading zeros. */
#define QUANTITY_DIGITS ((unsigned int)19)

/* False: |text| is not a quantity, is below 0, or is more than INT64_MAX. */
bool quantity_value(const char *text, uint64_t *ret);
