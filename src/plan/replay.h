// SPDX-License-Identifier: Apache-2.0
/*
 * Replays a trace under a configuration: its requests go through the real choice of devices (plan/prefer.h)
 * and the real allocations with their reserve (plan/allocations.h), on nodes that are all alike. Pure.
 *
 * The scheduler only counts, as Kubernetes' does: a pod goes to the node of which the least is in use and that has as
 * many replicas left of those advertised; equal nodes are taken by chance, from |seed|. Where none has, the pod waits,
 * and the one that has waited longest gets what it can use. A pod that the node then refuses is lost: it is not created
 * again. What is advertised changes only where units fail, which none does here, so late reports of it change nothing.
 *
 * Which resource a pod asks for, and how many replicas of it: the resource of which what it needs is the least part of
 * a GPU.
 *
 *   - several GPUs: as many whole ones; shares of several GPUs are not considered
 *   - a unit that is not shared, time-slicing, MPS with provisioning uniform: 1, since more replicas add nothing
 *   - other shares: the fewest replicas with its memory and threads (granted ones; where those are not known, used
 *     ones), or with its part of a GPU; the number of replicas that it had counts where nothing else is known
 *
 * Claims of DRA: the scheduler accounts MiB and threads of each GPU; shares go to the first GPU that has both, whole
 * GPUs are taken from the other end (node/dra/layout.h). A request of unknown size claims what the defaults say.
 *
 * It knows no CPUs, no main memory, no affinity, no priorities, no failures, and no MIG devices that claims make.
 */
#pragma once

#include "plan/plan.h"
#include "plan/trace.h"

#define REPLAY_MAX_NODES 10000U

struct replay_result {
        size_t n_requests;
        size_t n_ran;
        size_t n_unfit;   /* no resource is large enough for them: they wait for ever */
        size_t n_refused; /* the scheduler admitted them, and the node found no unit with room */
        size_t n_waited;
        double wait_mean; /* seconds, of all that were admitted */
        int64_t wait_p95;
        int64_t wait_max;
        size_t n_memory_short;   /* used more memory than their share has, or than was left on their unit */
        size_t n_threads_short;  /* the same of threads: slower */
        size_t gpus;             /* of all nodes */
        size_t gpus_peak;        /* in use at once */
        double given_percent;    /* of all GPUs, over the time of the trace: in use */
        double stranded_percent; /* free while a pod waited */
        double reserved_percent; /* of all devices: not advertised */
        unsigned int largest;    /* the most replicas that one request needs */
};

/* The part of each GPU that claims can have, where DRA has all GPUs. */
struct replay_claims {
        uint64_t memory_mib; /* of one GPU, for shares; 0: only whole GPUs are offered */
        uint64_t least_mib;  /* of a share */
        uint64_t preset_mib; /* of a share that asks for none */
        unsigned int preset_permille;
};

/* How many replicas of |resource| the request needs; 0: it does not fit. */
unsigned int replay_replicas(const struct resource *resource, const struct trace_request *request);

/*
 * |n_nodes|: from 1 to REPLAY_MAX_NODES. |claims|: then the plan's resources do not count; NULL: DRA is off. |trace| is
 * sorted: trace_end(). The same input has the same result.
 */
struct replay_result replay_run(const struct plan *plan, const struct replay_claims *claims, const struct trace *trace,
        unsigned int n_nodes, uint64_t seed);

/*
 * Below 0: |a| is better: fewer lost or without memory, then less waiting, then fewer without threads, then fewer GPUs.
 */
int replay_compare(const struct replay_result *a, const struct replay_result *b);
