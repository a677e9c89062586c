/*
 * From one plan to the next while containers hold what the one before promised them: which part of the wanted plan can be served
 * now, and what waits for whom. Pure: what is held is told, and the answer is a plan like any other.
 *
 * Nobody who runs is touched, and nothing is promised twice:
 *
 *   - A unit goes over at once if nobody holds it, or if who holds it has under the new plan what he has now: a whole unit that
 *     stays whole, replicas of a time-sliced unit (they have no part of their own: any number is as good), and a part by MPS
 *     whose sharing policy and name stay (share/sharing_policy.h). Another unit of the same resource never waits for it.
 *   - Of such a unit no more is given than the new plan has of it, less what is held under other ids or another name: the
 *     free ids beyond that are *unavailable*, listed and not healthy, until something is given back.
 *   - Every other unit *waits*: nobody new gets it, under the old sharing policy or the new one, until all who hold it have ended. Whole
 *     GPU and MIG device on it wait for one another as if they were one unit. MPS with one daemon for several units
 *     goes over as one.
 *   - Ids that are held and that the new plan does not have stay in the list of the name they were given under, at the end of their unit or
 *     as a *kept* unit that has nothing else. A name that the new plan does not have stays as long as that. They count as healthy
 *     as long as the resource has anything else to give, so that the scheduler, which subtracts what such pods asked for,
 *     sees all of that; and as not healthy when it has not, so that one that is given back does not go out again.
 *   - Units under MPS that wait keep their sharing policy in |draining|: ledger, limits, and the daemon that must not change. Those of their
 *     ids that are held count as healthy under the same condition, where a request is for one id; all others are unavailable. One
 *     that is given back, and asked for again before that was heard of, has its place under the previous sharing policy, where it was. Where a
 *     request may be for several ids none is healthy, since it must not mix two daemons: then the scheduler sees as much less.
 *
 * Judged anew whenever the wanted plan or what is held changes. Nothing is remembered in between but the sharing policies of MPS: ids tell the
 * rest by their form. So an agent that starts in the middle of it goes on where the one before was.
 *
 * Where nothing waits the answer is the wanted plan itself.
 */
#pragma once

#include "share/sharing_policy.h"

/* One device that some container holds, as kubelet tells it. */
struct rollout_held {
        const char *resource;
        const char *device;
        const char *holder; /* "namespace/pod/container", for people; NULL: not known */
};

/* What the agent has promised so far. */
struct rollout_previous {
        const struct sharing_policy_list *policies; /* under MPS */
        const char *const *names;                   /* of the resources that were advertised */
        size_t n_names;
        /* |policies| and |names| are all there were. Else an agent without this record ran, and what is held under MPS is what is wanted. */
        bool is_known;
        bool all_is_held; /* nobody has told yet what is held: every unit under MPS counts as held */
};

/* A unit, or what is left of one, that is held otherwise than the wanted plan has it. */
struct rollout_pending {
        const char *resource; /* the name under which it is held */
        const char *unit;     /* UUID */
        const char *from;     /* "mps, 20 replicas" */
        const char *to;       /* "mps, 10 replicas of nvidia.com/gpu.small", "not advertised" */
        size_t n_devices;     /* held */
        const char *holders;  /* "team/pod/main, …", at most a few; "" not known */
        bool waits;           /* nobody new gets anything of the unit; else what is beyond the new number only */
};

struct rollout {
        struct arena arena;
        const struct plan *plan; /* to serve now: the wanted one, or |own| */
        struct plan *own;        /* in |arena|, and borrows from the wanted one; NULL: nothing waits */
        const struct rollout_pending *pending;
        size_t n_pending;
};

/*
 * |held| may have devices of others, which are left out, and the same device several times. The wanted plan must outlive the
 * rollout; |previous| and |held| need not.
 */
struct rollout *rollout_new(const struct plan *wanted, const struct rollout_previous *previous,
        const struct rollout_held *held, size_t n_held);
struct rollout *rollout_free(struct rollout *rollout); /* accepts NULL, returns NULL */

/* True when neither kubelet nor the operator could tell the two apart. */
bool rollout_is_same(const struct rollout *a, const struct rollout *b);
