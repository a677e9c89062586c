// SPDX-License-Identifier: Apache-2.0
/*
 * GPUs whose MIG geometry is undecided: those that support MIG, from the moment the agent first sees them until it
 * knows the node's label and has made a plan of it (agent/mig.h). A node that boots with the label, or that an
 * autoscaler adds with it, has whole GPUs then: a pod that got one would block the configuration for as long as it
 * runs, and with migStrategy single it would have seven times what it asked for.
 *
 * Meanwhile they are withdrawn, except for units that a pod holds, and for UNDECIDED_MS at most. While the API server
 * is unreachable for all, no scheduler binds a pod to the node, and waiting costs nothing. If it is unreachable for the
 * agent only (credentials, a network policy, a pod network that never comes up), the geometry will not change, and the
 * GPUs are of more use as they are. The bound is Kubernetes' default toleration of unreachable nodes: an outage that
 * ends by itself, as a restart of the control plane, has ended by then.
 *
 * It knows neither the label nor the holders.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "gpu/inventory.h"

#define UNDECIDED_MS UINT64_C(300000)

struct undecided;

/* |passed|: the bound has passed, which was logged, and all are decided. */
struct undecided *undecided_new(uv_loop_t *loop, void (*passed)(void *data), void *data);

/*
 * Call with each inventory, before the functions below. A GPU that the inventory lacks is forgotten, and is undecided
 * again when it is back. True: at least one GPU has become undecided.
 */
bool undecided_look(struct undecided *undecided, const struct inventory *inventory);

/* |uuid| of a GPU of the last inventory. */
bool undecided_has(const struct undecided *undecided, const char *uuid);
bool undecided_has_any(const struct undecided *undecided);

/* Marks all GPUs seen so far as decided. True: at least one was undecided. */
bool undecided_settle(struct undecided *undecided);

/* No callback after this. Accepts NULL, returns NULL. */
struct undecided *undecided_close(struct undecided *undecided);
