/*
 * SHA-256 (FIPS 180-4), as a name for a content. It is what `sha256sum` prints, so people can compare. Not for secrets:
 * it does not run in constant time.
 */
#pragma once

#include <stddef.h>

#define SHA256_HEX ((size_t)64)

/* Lower-case hexadecimal digits, terminated. */
void sha256_hex(const void *bytes, size_t size, char ret[SHA256_HEX + 1]);
