// SPDX-License-Identifier: Apache-2.0
/*
 * Pods: those of agents, and those that wait for devices or were refused some. Reading them is pure.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "cluster/node.h"

#define CLUSTER_POD_SELECTOR "status.phase!=Running,status.phase!=Succeeded" /* a field selector */
#define CLUSTER_CONTAINERS ((size_t)128)                                     /* of a pod; more are ignored, and so on */
#define CLUSTER_CLAIMS ((size_t)64)

/* How much of a resource one pod asks for. */
struct cluster_request {
        const char *resource;
        uint64_t count;   /* of the pod, as the scheduler counts */
        uint64_t largest; /* of one container: what has to come from one GPU where it is shared */
};

/* A ResourceClaim that the pod names. */
struct cluster_claim {
        const char *name;   /* in the pod */
        const char *object; /* of the ResourceClaim; NULL: not made yet */
};

struct cluster_pod {
        const char *namespace;
        const char *name;
        const char *uid;
        const char *phase;                      /* "Pending", "Failed", … */
        const char *node;                       /* NULL: not scheduled */
        const char *reason;                     /* the pod's, or else that of its condition PodScheduled; NULL: none */
        const char *message;                    /* the same */
        const char *owner;                      /* "ReplicaSet/train-7d4b", which makes the next one; NULL: none */
        int64_t created;                        /* Unix seconds; 0: unknown */
        bool is_gated;                          /* spec.schedulingGates */
        bool is_deleted;                        /* metadata.deletionTimestamp */
        const struct cluster_request *requests; /* only resources with a domain that is not kubernetes.io */
        size_t n_requests;
        const struct cluster_claim *claims;
        size_t n_claims;
};

/* NULL where the pod asks for no such resource and has no claim. All lives in |arena|. */
const struct cluster_pod *cluster_pod_read(const json_t *object, struct arena *arena);

/*
 * Whether it waits (to be scheduled, or for its containers), or kubelet refused it; a pod that ran and failed does
 * neither.
 */
bool cluster_pod_has_trouble(const struct cluster_pod *pod);
bool cluster_pod_is_refused(const struct cluster_pod *pod); /* by kubelet, when it was to start there */

/* The pod of an agent, in |arena|; NULL where it is not scheduled, or is ending. */
const struct cluster_agent *cluster_agent_read(const json_t *object, struct arena *arena);
