/*
 * Patterns of the configuration: '*' matches any run of characters, everything else matches itself; the whole text must
 * match.
 */
#pragma once

#include <stdbool.h>

/* Linear in |text| for each '*'. */
bool pattern_matches(const char *pattern, const char *text);
