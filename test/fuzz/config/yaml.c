// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as a configuration file. First the tree alone, then the whole way to a config and its print.
 *
 *         tools/fuzz 60 fuzz-config-yaml
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "options.h"
#include "base/data/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void warn_nobody(const char *text, void *data UNUSED)
{
        if (strlen(text) == 0)
                abort(); /* a warning always says something */
}

/* Every container that the tree has must know its line; aliases make the walk as long as the caps allow. */
static void check_lines(const struct yaml *yaml, const json_t *node)
{
        const char *key;
        json_t *value;
        size_t i;

        if (json_is_array(node)) {
                json_array_foreach(node, i, value)
                {
                        if (yaml_line_at(yaml, node, i) <= 0)
                                abort();
                        check_lines(yaml, value);
                }
        } else if (json_is_object(node)) {
                json_object_foreach((json_t *)(uintptr_t)node, key, value)
                {
                        if (yaml_line_of(yaml, node, key) <= 0)
                                abort();
                        check_lines(yaml, value);
                }
        }
}

static void check_tree(const uint8_t *data, size_t size)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        struct error err;

        if (yaml_load(&yaml, "config 'fuzz'", (const char *)data, size, warn_nobody, NULL, &err) < 0)
                return;
        check_lines(yaml, yaml->root);
}

static void check_config(const uint8_t *data, size_t size)
{
        static const char *const environment[] = {"MPS_ROOT=/mps", NULL};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _close_ int fd = memfd_create("config", MFD_CLOEXEC);
        const struct config *config;
        struct option_set set;
        struct error err;
        char flag[64];
        const char *const arguments[] = {flag, NULL};

        snprintf(flag, sizeof(flag), "--config-file=/proc/self/fd/%d", fd);
        if (fd < 0 || write(fd, data, size) != (ssize_t)size)
                abort();
        options_take(&set, &arena, arguments, environment);
        if (config_build(&set, &arena, &config, warn_nobody, NULL, &err) < 0)
                return;
        free(config_print(config));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        check_tree(data, size);
        check_config(data, size);
        return 0;
}
