/*
 * A generation: the config, the inventory and the plan that belong together. Immutable once built, but for how much of the plan is
 * served already (share/rollout.h); the agent keeps the one in force and the one before it, which kubelet may still ask for.
 */
#pragma once

#include "base/log.h"
#include "gpu/inventory.h"
#include "nodeconfig/settings.h"
#include "share/rollout.h"

struct generation {
        struct settings *settings;
        struct inventory *inventory;
        struct arena arena;
        struct plan *plan;                /* what the config wants */
        bool is_published;                /* its CDI specifications are there */
        struct rollout *rollout;          /* what of it is served now; NULL until it is in force */
        struct rollout *rollout_previous; /* kubelet may still ask for it; NULL: none of this generation */
};

/*
 * Everything that can be decided before kubelet sees any of it. Writes nothing. Takes a reference to |settings| and, on success, the
 * inventory. Warnings go to the log, at level |warnings|.
 */
int generation_new(struct generation **ret, struct settings *settings, struct inventory *inventory,
        enum log_level warnings, struct error *err) MUST_USE;

/* Writes the CDI specifications that its plan needs, once: of the agent that serves, before kubelet sees the plan. */
int generation_publish(struct generation *generation, enum log_level warnings, struct error *err) MUST_USE;

struct generation *generation_free(struct generation *generation); /* accepts NULL, returns NULL */

/* |next|, which it takes over, is in force instead of the one before; the one before that goes. */
void generation_serve(struct generation *generation, struct rollout *next);
