/*
 * A look into ld.so.cache, the list of libraries that ldconfig writes: for drivers whose libraries are in a folder that nobody
 * thought of. The format is glibc's "glibc-ld.so.cache1.1", alone or behind the one before it; of libraries for another
 * architecture or word size nothing is seen. Every offset is checked: a cache that is cut or hostile just has less in it.
 */
#pragma once

#include <stddef.h>

/* glibc's own on a large machine is 200 KiB. */
#define LDCACHE_LIMIT ((size_t)16 * 1024 * 1024)

/* The path of library |name| ("libcuda.so.1"), inside |bytes|; NULL when it is not there. */
const char *ldcache_find(const char *bytes, size_t size, const char *name);
