// SPDX-License-Identifier: Apache-2.0
/*
 * Looks after the CDI specifications while this agent serves: each container that starts, also one that is started
 * again, needs them, and other programs write to their folder. The folder is watched; every Prepare of a claim checks
 * as well. What was removed or changed is written again, and so is what lacked a device node that is there now: then
 * the GPUs are read, so that a plan counts on it. Where the folder was removed on the host, only a new container can
 * see the new one, and the agent ends.
 */
#pragma once

#include "agent/generation.h"
#include "agent/agent.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/io/dirwatch.h"

struct agent_cdi {
        struct agent *agent;
        struct cdi_files *files;
        struct generation *generation; /* in force; NULL: none yet */
        bool is_serving;
        struct retry retry;     /* while the plan in force is served without its specifications */
        uv_timer_t pause;       /* after a repair, until the next may be made */
        struct dirwatch *watch; /* NULL: this agent does not serve, or CDI is not used */
        char *watched;          /* its folder */
        struct complaint complaint;
};

void agent_cdi_init(struct agent_cdi *cdi, struct agent *agent);

/* The files that this process has written, for others that write CDI specifications, too. */
struct cdi_files *agent_cdi_files(const struct agent_cdi *cdi);

/* True: this agent serves and writes the files; false: another agent does. */
void agent_cdi_serve(struct agent_cdi *cdi, bool is_serving);

/*
 * |generation| is in force, or this agent serves it from now on: its specifications are looked after, or tried again.
 * |has_claims|: the DRA driver runs, and may have specifications of claims.
 */
void agent_cdi_follow(struct agent_cdi *cdi, struct generation *generation, bool has_claims);

/* Checks at once, and repairs what can be repaired. */
void agent_cdi_repair(struct agent_cdi *cdi);

void agent_cdi_close(struct agent_cdi *cdi);
/* When the loop has closed the handles. */
void agent_cdi_done(struct agent_cdi *cdi);
