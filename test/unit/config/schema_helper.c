// SPDX-License-Identifier: Apache-2.0
/*
 * For schema.py: without arguments the schema of the configuration file; else what the agent thinks of the file named,
 * by exit status: 0 nothing, 1 an error, 2 a warning.
 */
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"
#include "options.h"

static void note(const char *text, void *data)
{
        bool *is_warned = data;

        fprintf(stderr, "%s\n", text);
        *is_warned = true;
}

int main(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *const environment[] = {"MPS_ROOT=/run/nvidia/mps", NULL};
        const char *arguments[] = {argc > 1 ? arena_printf(&arena, "--config-file=%s", argv[1]) : NULL, NULL};
        const struct config *config;
        bool is_warned = false;
        struct option_set options;
        struct error err;

        if (argc == 1) {
                _free_ char *schema = config_schema();

                puts(schema);
                return 0;
        }
        options_take(&options, &arena, arguments, environment);
        if (config_build(&options, &arena, &config, note, &is_warned, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        return is_warned ? 2 : 0;
}
