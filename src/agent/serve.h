/*
 * The duties of the one agent of a node that serves: the agent that has the lock on kubelet's folder
 * (node/kubelet/plugins.h). Other agents read the GPUs and plan, too, so that they can take over at once.
 */
#pragma once

#include "agent/modules.h"
#include "base/log.h"
#include "base/io/keeper.h"

struct agent_serving {
        struct agent *agent;
        struct keeper_crashes crashes; /* of the agents before this one in the container */
        bool has_reported_crash;
        struct complaint no_mig; /* why the MIG manager does not run, although it is configured */
};

void agent_serving_begin(struct agent_serving *serving);
uint64_t agent_serving_crashes(const struct agent_serving *serving);
/* Returns a sentence for /healthz that the caller frees; NULL: no problem. */
char *agent_serving_find_problem(const struct agent_serving *serving);

/* Callbacks of the plugins; |data| is the object. */
void agent_serving_changed(bool is_serving, void *data);
void agent_serving_stranded(void *data);
