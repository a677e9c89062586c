// SPDX-License-Identifier: Apache-2.0
/*
 * Reads bytes of shared libraries and of ldconfig. Every offset and size is checked before it is used: files that are
 * truncated, hostile, or of another architecture or word size are ignored.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SONAME_SIZE ((size_t)256)

/*
 * The SONAME of a shared library, "libcuda.so.1", from its dynamic section. |ret| has SONAME_SIZE bytes. Does not move
 * the file offset of |fd|. False: it has none.
 */
bool soname_read(int fd, char *ret);

/* glibc's own on a large machine is 200 KiB. */
#define LDCACHE_LIMIT ((size_t)16 * 1024 * 1024)

/*
 * The path of library |name| ("libcuda.so.1") in ld.so.cache, to find a driver whose libraries are in a folder that is
 * not in our search path. It points into |bytes|, in glibc's format "glibc-ld.so.cache1.1", alone or behind the older
 * one. NULL if the cache does not have it.
 */
const char *ldcache_find(const char *bytes, size_t size, const char *name);
