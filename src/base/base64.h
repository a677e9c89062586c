/*
 * Base64 into bytes, and back. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Standard base64 with its padding; line breaks between digits do not count. |ret| has room for |length| bytes, and is filled as far as it
 * went where the answer is false.
 */
bool base64_decode(const char *text, size_t length, unsigned char *ret, size_t *ret_size);

/* With padding and without line breaks, for the caller to free. */
char *base64_encode(const unsigned char *bytes, size_t size);
