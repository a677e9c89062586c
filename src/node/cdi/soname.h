/*
 * The SONAME of a shared library, "libcuda.so.1", from its dynamic section. Every offset and size in the file is
 * checked before it is used; a file that is cut, hostile or of another word size has no SONAME.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SONAME_SIZE ((size_t)256)

/* |ret| has SONAME_SIZE bytes. Does not move the file offset of |fd|. */
bool soname_read(int fd, char *ret);
