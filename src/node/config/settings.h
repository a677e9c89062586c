// SPDX-License-Identifier: Apache-2.0
/*
 * One reading of the configuration, with what the environment adds to it. Everything that is built from it shares it.
 */
#pragma once

#include "base/alloc.h"
#include "config/config.h"
#include "config/option.h"
#include "gpu/health.h"

struct settings {
        unsigned int references;
        struct arena arena;
        const struct config *config;
        struct health_policy policy; /* from the file's rules, and from NVIDIA's variables in the environment */
};

/* |text|: the content to use; NULL: the file that the options name. */
int settings_new(struct settings **ret, const struct option_set *options, const struct config_text *text,
        struct error *err) MUST_USE;
struct settings *settings_ref(struct settings *settings);
struct settings *settings_unref(struct settings *settings); /* accepts NULL, returns NULL */

/* A config_warn_fn that logs, at the enum log_level at |data|; NULL: as a warning. */
void settings_warn(const char *text, void *data);
