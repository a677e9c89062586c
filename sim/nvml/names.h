// SPDX-License-Identifier: Apache-2.0
/*
 * The names of all functions that the library exports, for scenarios that make one of them fail.
 */
#pragma once

#include <stdbool.h>

bool name_is_call(const char *name);
const char *name_nearest(const char *name); /* or NULL */
