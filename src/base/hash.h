// SPDX-License-Identifier: Apache-2.0
/*
 * FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv): to see that something has changed, and for short names.
 * Not for keys that a peer chooses: it can choose some that collide.
 *
 *         uint64_t sum = HASH_INIT;
 *
 *         hash_add(&sum, text, strlen(text));
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_INIT UINT64_C(14695981039346656037)

static inline void hash_add(uint64_t *sum, const void *bytes, size_t size)
{
        for (const unsigned char *byte = bytes, *end = byte + size; byte < end; byte++)
                *sum = (*sum ^ *byte) * UINT64_C(1099511628211);
}

/* ---- sha256 ---- */

/*
 * SHA-256 (FIPS 180-4), as a name for a content. It is what `sha256sum` prints, so people can compare. Not for secrets:
 * it does not run in constant time.
 */
#define SHA256_HEX ((size_t)64)

/* Lower-case hexadecimal digits, terminated. */
void sha256_hex(const void *bytes, size_t size, char ret[SHA256_HEX + 1]);
