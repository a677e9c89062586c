/*
 * SHA-256 (FIPS 180-4), to name a content: what `sha256sum` prints for it, so that people can compare. Not for secrets: it takes no
 * care of time.
 */
#pragma once

#include <stddef.h>

#define SHA256_HEX ((size_t)64)

/* Lower-case hexadecimal digits, terminated. */
void sha256_hex(const void *bytes, size_t size, char ret[SHA256_HEX + 1]);
