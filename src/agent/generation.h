// SPDX-License-Identifier: Apache-2.0
/*
 * A generation: the configuration, the inventory and the plan that belong together. Once built it is immutable, except
 * for how much of the plan is served already (plan/rollout.h). The agent keeps the one in force and the previous one,
 * whose devices kubelet may still request.
 */
#pragma once

#include "base/log.h"
#include "node/cdi/files.h"
#include "gpu/inventory.h"
#include "node/config/settings.h"
#include "plan/rollout.h"

struct generation {
        struct settings *settings;
        struct inventory *inventory;
        struct arena arena;
        struct plan *plan;       /* of this configuration and inventory */
        unsigned int nodes;      /* NODE_*: there when its CDI specifications were written */
        struct rollout *rollout; /* which part is served now; NULL until it is in force */
        struct rollout
                *rollout_previous; /* the part that was served before, which kubelet may still request; NULL: none */
};

/*
 * Makes the plan and checks everything that can be checked before kubelet sees it. Writes nothing. Takes a reference to
 * |settings| and, on success, the inventory. Logs warnings at level |warnings|.
 */
int generation_new(struct generation **ret, struct settings *settings, struct inventory *inventory,
        enum log_level warnings, struct error *err) MUST_USE;

/*
 * Writes the CDI specifications of the plan. Only the agent that serves does that, before kubelet sees the plan.
 */
int generation_publish(
        struct generation *generation, struct cdi_files *files, enum log_level warnings, struct error *err) MUST_USE;

/* Writes them once more, with what was missing the last time and may be there now. */
int generation_publish_again(struct generation *generation, struct cdi_files *files, struct error *err) MUST_USE;

/* They were written without device nodes that are there now, or that CUDA needs. */
bool generation_lacks_nodes(const struct generation *generation);

struct generation *generation_free(struct generation *generation); /* accepts NULL, returns NULL */

/*
 * Puts |next| in force, and takes ownership of it. The rollout that was in force is kept as the previous one; the one
 * before is freed.
 */
void generation_serve(struct generation *generation, struct rollout *next);
