/*
 * Reads ld.so.cache, the list of libraries that ldconfig writes, to find a driver whose libraries are in a folder that
 * is not in our search path. The format is glibc's "glibc-ld.so.cache1.1", alone or behind the older one. Libraries of
 * another architecture or word size are ignored. Every offset is checked: of a cache that is cut or hostile, the
 * invalid entries are ignored.
 */
#pragma once

#include <stddef.h>

/* glibc's own on a large machine is 200 KiB. */
#define LDCACHE_LIMIT ((size_t)16 * 1024 * 1024)

/* The path of library |name| ("libcuda.so.1"), which points into |bytes|; NULL if the cache does not have it. */
const char *ldcache_find(const char *bytes, size_t size, const char *name);
