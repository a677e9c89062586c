// SPDX-License-Identifier: Apache-2.0
/*
 * Everything this node shows to kubelet: one plugin a resource, the watch on kubelet's directory, and the lock that
 * keeps a second agent out.
 *
 * A plan is applied resource by resource: a resource that is the same in the new plan sees no message, one that changed
 * gets a new list on the stream it has, one that is new starts, one that is gone closes.
 *
 * Of the agents of a node one is serving, the one that had the lock last:
 *
 *     waiting ──lock taken──► serving ──another agent has the lock──► waiting
 *
 * Until then nothing is served; the agent that waits takes over when the other one ends. The lock is on the directory
 * itself, and goes with it: where kubelet's directory is replaced, it is taken again on the new one, and there another
 * agent may be faster. While the directory is missing, the agent that served counts as serving, since no other agent
 * can; a plan that comes then closes what is served, and waits.
 *
 * Plans are carried out, and health and what is unavailable by the broker are read, at the end of the turn of the loop
 * in which they changed, so that kubelet gets one message for all of it and never sees a state between.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "gpu/units.h"
#include "node/kubelet/broker.h"
#include "plan/plan.h"

struct plugins;

struct plugins_options {
        uv_loop_t *loop;
        const char *kubelet_socket;       /* "": serve in the standard directory, but do not register */
        uint64_t poll_ms;                 /* of kubelet's directory, beside inotify; 0: 5,000 */
        const struct unit_health *health; /* it and |broker| must outlive the plugins */
        const struct broker *broker;      /* NULL: none */
        uint64_t bind_timeout_ms;         /* how long a request may wait for it; 0: BROKER_TIMEOUT_MS */
        /*
         * The directory is gone for good for this process: it is the mount point of a directory that was removed on the
         * host. Only a new container can see the new one.
         */
        void (*on_stranded)(void *data);
        /*
         * Serving began or ended: what was applied is served after the call, or is not served any more. Not called from
         * plugins_new().
         */
        void (*on_serving)(bool is_serving, void *data);
        void *data;
};

int plugins_new(struct plugins **ret, const struct plugins_options *options, struct error *err) MUST_USE;

/* The previous plan must stay valid until the next call, and |plan| until the one after it. */
void plugins_apply(struct plugins *plugins, const struct plan *plan);

/*
 * Carries out now the plan that was applied in this turn, if one was: before the table of health is that of another
 * inventory.
 */
void plugins_settle(struct plugins *plugins);

/* False: another agent serves this node, or kubelet's directory is missing. */
bool plugins_is_serving(const struct plugins *plugins);

/* Other units are healthy than before, or other ids unavailable by the broker: both are read again. */
void plugins_refresh(struct plugins *plugins);
/* Sends kubelet now what plugins_refresh() would send at the end of the loop's turn. */
void plugins_flush(struct plugins *plugins);

/*
 * Sends kubelet the list of a resource once more, because kubelet then writes its checkpoint, which keeps ended pods
 * until then. False: kubelet does not receive the list of such a resource.
 */
bool plugins_repeat(struct plugins *plugins, const char *resource);

/* The list that kubelet has of one resource, borrowed until the next turn of the loop; NULL: nothing. */
const struct device_list *plugins_list(const struct plugins *plugins, const char *resource);

/*
 * Closes everything; requests that wait for the broker are refused; |closed| is called from the loop when all is gone.
 */
void plugins_close(struct plugins *plugins, void (*closed)(void *data), void *data);
