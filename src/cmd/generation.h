/*
 * A generation: the config, the inventory and the plan that belong together. Immutable once built; the agent keeps the one in
 * force and the one before it, which kubelet may still ask for.
 */
#pragma once

#include "config/config.h"
#include "config/option.h"
#include "gpu/inventory.h"
#include "share/plan.h"

/* One reading of the configuration. Shared by the generations that were built from it. */
struct settings {
        unsigned int references;
        struct arena arena;
        const struct config *config;
};

int settings_new(struct settings **ret, const struct option_set *options, struct error *err) MUST_USE;
struct settings *settings_ref(struct settings *settings);
struct settings *settings_unref(struct settings *settings); /* accepts NULL, returns NULL */

struct generation {
        struct settings *settings;
        struct inventory *inventory;
        struct arena arena;
        struct plan *plan;
};

/* Takes a reference to |settings| and, on success, the inventory. Warnings go to the log. */
int generation_new(
        struct generation **ret, struct settings *settings, struct inventory *inventory, struct error *err) MUST_USE;
struct generation *generation_free(struct generation *generation); /* accepts NULL, returns NULL */
