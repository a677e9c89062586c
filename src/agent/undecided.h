/*
 * GPUs of which nobody has decided yet what MIG geometry they are to have: those that can have MIG, from the moment the
 * agent first sees them until it knows the node's label and has made a plan of it (agent/mig.h). A node that boots with
 * the label, or that an autoscaler adds with it, has whole GPUs then: a pod that got one would keep it from the
 * configuration for as long as it runs, and with migStrategy single it would have seven times what it asked for.
 *
 * They are withdrawn meanwhile, but for what somebody holds: that stays as it is. Not for longer than UNDECIDED_MS. As
 * long as the API server is away for all, no scheduler binds a pod to the node, and nothing is lost by waiting; if it
 * is away for the agent only (credentials, a network policy, a pod network that never comes up), the geometry will not
 * be changed, and the GPUs are of more use as they are. The bound is the time after which Kubernetes itself gives a
 * node up, by its default toleration of unreachable nodes: what is to be back by itself is back by then, a restart of
 * the control plane included.
 *
 * It knows neither the label nor who holds what.
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
 * Call with each inventory before questions about it: a GPU that it does not have is forgotten, and is undecided
 * again when it is back. True: some GPU is undecided that was not before.
 */
bool undecided_look(struct undecided *undecided, const struct inventory *inventory);

/* |uuid| of a GPU of the last inventory. */
bool undecided_has(const struct undecided *undecided, const char *uuid);
bool undecided_has_any(const struct undecided *undecided);

/* Whatever was seen is decided. True: some GPU was not. */
bool undecided_settle(struct undecided *undecided);

/* No callback after this. Accepts NULL, returns NULL. */
struct undecided *undecided_close(struct undecided *undecided);
