/*
 * Extended resource names as NVIDIA's plugin forms and accepts them: "nvidia.com/<RFC 1123 subdomain>", 63 bytes at
 * most.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

#define RESOURCE_NAME_PREFIX "nvidia.com/"
#define RESOURCE_NAME_SHARED ".shared" /* appended by renameByDefault */
#define RESOURCE_NAME_MAX ((size_t)63)

/* The full name, with the prefix added where it is not there. Errors begin with the value. */
int resource_name_check(const char *name, struct arena *arena, const char **ret, struct error *err) MUST_USE;
