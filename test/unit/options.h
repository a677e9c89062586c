// SPDX-License-Identifier: Apache-2.0
/*
 * Options for tests of what reads them, as cmd/cli/command.h parses a command line: "--flag=value" of option_table
 * only, and variables.
 */
#pragma once

#include <assert.h>
#include <string.h>

#include "config/option.h"

/* Both lists end with NULL. All of it must be right. */
static inline void options_take(
        struct option_set *set, struct arena *arena, const char *const *arguments, const char *const *variables)
{
        struct error err;

        option_set_init(set, arena);
        for (; *arguments; arguments++) {
                const char *value = strchr(*arguments, '=') + 1;
                const size_t position =
                        option_find(arena_strndup(arena, *arguments + 2, (size_t)(value - *arguments) - 3));

                assert(option_check(&option_table[position], value, arena, &set->values[position], &err) == 0);
                set->sources[position] = OPTION_FLAG;
        }
        for (size_t i = 0; i < option_count; i++)
                if (!set->values[i]) {
                        char *const *environment = (char *const *)(uintptr_t)variables;

                        assert(option_from_environment(&option_table[i], environment, arena, &set->values[i], &err) ==
                                0);
                        if (set->values[i])
                                set->sources[i] = OPTION_ENVIRONMENT;
                }
}
