/*
 * Base64 into bytes, and back. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Standard base64 with padding; line breaks between digits are ignored. |ret| has room for |length| bytes. False:
 * |text| is not base64, and |ret| may have been written to.
 */
bool base64_decode(const char *text, size_t length, unsigned char *ret, size_t *ret_size);

/* With padding and without line breaks, for the caller to free. */
char *base64_encode(const unsigned char *bytes, size_t size);
