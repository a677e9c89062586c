/*
 * Patterns of the configuration: '*' stands for any run of characters, everything else for itself; anchored at both ends.
 */
#pragma once

#include <stdbool.h>

/* Linear in |text| for each '*', whatever the pattern. */
bool pattern_matches(const char *pattern, const char *text);
