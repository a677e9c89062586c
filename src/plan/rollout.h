// SPDX-License-Identifier: Apache-2.0
/*
 * A rollout: from one plan to the next while containers still hold what the previous plan gave them. It says which part
 * of the wanted plan can be served now, and which units wait for which containers. Pure: the caller says what is held;
 * the answer is a plan like any other.
 *
 * Example: GPU-0 and GPU-1 are shared by MPS into 10 replicas each, and a container holds GPU-0::3. The new
 * configuration says 20 replicas. GPU-1 is not in use and has its 20 replicas at once. GPU-0 waits: its memory limit
 * would halve under the running container. GPU-0::3 stays listed under the previous sharing policy, and the other ids
 * of GPU-0 are unavailable. When the container ends, the rollout is made again and GPU-0 has its 20 replicas too.
 * With time-slicing nothing would wait, since a slice has no limit of its own: with GPU-0::3 held, 19 of the 20 new ids
 * are healthy and free.
 *
 * The rule:
 *
 *   1. No running container gets more or less, and nothing is promised twice.
 *   2. A unit changes over at once if no container holds it, or if its containers would have the same under the new
 *      plan: a whole unit, a time slice, or a share under MPS of the same sharing policy (plan/sharing_policy.h) and
 *      resource name.
 *   3. It gives what the new plan has, less what is held of it under other ids or another name.
 *   4. Every other unit waits: no new container gets it until all of its containers have ended: those that hold its
 *      ids, and those that are bound to it with ids of others (plan/allocations.h). A GPU and its MIG devices wait for
 *      one another, and the units of one MPS daemon wait together. No other unit waits.
 *   5. A unit under MPS that waits keeps its sharing policy: daemon and limits, in |draining|.
 *   6. A held id that the new plan does not have stays listed until it is given back. It is healthy while its unit is
 *      there and its resource has anything else to give, and under MPS only if each request is for one id.
 *
 * Why 6: the scheduler subtracts what the pods of such ids asked for, so they have to count. Where nothing else is to
 * give, an id that is given back would be given out again. Where a request may be for several ids, it could mix two
 * daemons; the scheduler then sees fewer. An id that is asked for again before kubelet has listed the change is
 * allocated under the previous sharing policy, on the same unit.
 *
 * It is made again whenever the wanted plan or what is held changes. Only the sharing policies of MPS are remembered;
 * the form of an id says the rest. So an agent that starts during a rollout continues where the previous one stopped.
 *
 * If nothing waits, the answer is the wanted plan itself.
 *
 * A GPU that is lost when an agent starts is not in the inventory, and no plan can have it. The sharing policies that
 * its containers were promised are |absent|, to be recorded with the plan, so that they get the same again when the GPU
 * is back.
 */
#pragma once

#include "plan/sharing_policy.h"

/* One device that a container holds, according to kubelet. */
struct rollout_held {
        const char *resource;
        const char *device;
        const char *unit;    /* UUID of the unit that it is bound to; NULL: the one that its id names */
        const char *holder;  /* "namespace/pod/container", for people; NULL: unknown */
        const char *pod_uid; /* NULL: unknown */
};

/* The sharing policies and resources that the agent has promised so far. */
struct rollout_previous {
        const struct sharing_policy_list *policies; /* under MPS */
        const char *const *names;                   /* of the resources that were advertised */
        size_t n_names;
        /*
         * |policies| and |names| are all there were. Else an agent without this record ran, and what is held under MPS
         * is what is wanted.
         */
        bool is_known;
        bool all_is_held; /* it is not known yet what is held: every unit under MPS counts as held */
};

/* A unit, or the rest of one, that is held in another way than in the wanted plan. */
struct rollout_pending {
        const char *resource; /* the name under which it is held */
        const char *unit;     /* UUID */
        const char *from;     /* "mps, 20 replicas" */
        const char *to;       /* "mps, 10 replicas of nvidia.com/gpu.small", "not advertised" */
        size_t n_devices;     /* held */
        const char *holders;  /* "team/pod/main, …", at most a few; "" not known */
        bool waits;           /* no new container gets any part of the unit; false: only the devices beyond the new
                               * number are unavailable */
};

struct rollout {
        struct arena arena;
        const struct plan *plan; /* the plan to serve now: the wanted one, or |own| */
        struct plan *own;        /* in |arena|, borrows from the wanted one; NULL: nothing waits */
        const struct rollout_pending *pending;
        size_t n_pending;
        struct sharing_policy_list absent; /* in |arena|: of units that are held and that the inventory lacks */
};

/*
 * |held| may contain devices of other resources, which are ignored, and duplicates. The wanted plan must outlive the
 * rollout; |previous| and |held| need not.
 */
struct rollout *rollout_new(const struct plan *wanted, const struct rollout_previous *previous,
        const struct rollout_held *held, size_t n_held);
struct rollout *rollout_free(struct rollout *rollout); /* accepts NULL, returns NULL */

/* How |plan| shares the unit |uuid|, which was held under the name |held|: as rollout_pending.to. May be in |arena|. */
const char *rollout_say(struct arena *arena, const struct plan *plan, const char *held, const char *uuid);

/* True if neither kubelet nor the operator can see a difference. */
bool rollout_is_same(const struct rollout *a, const struct rollout *b);
