// SPDX-License-Identifier: Apache-2.0
/*
 * Granted against used, with names: the use of each pod UID (node/usage/usage.h), joined to the allocations. Pure.
 *
 * A row is one pod on one unit. The container is known if all allocations of the pod on the unit, or on the node if the
 * unit is unknown, belong to one container: a process shows only the id of its container, and just kubelet could map it
 * to one of the pod's containers.
 *
 * A pod has a row if it has an allocation or a process. A pod that has neither any more, and whose name is unknown, has
 * none: its series end. An allocation without a single pod UID has a row of its own, so that the sums of allocations
 * are right: for example one whose owner kubelet has not reported yet, or a claim that several pods use together.
 */
#pragma once

#include "node/usage/usage.h"

#define USAGE_ROW_ID_LENGTH 8U

/* The share of one container. */
struct usage_owner {
        const char *unit;    /* UUID; NULL: of which unit is not known, so only the names count unless |is_granted| */
        const char *pod_uid; /* NULL: unknown, or several; then |key| stands for it */
        const char *key;     /* of the one that it was given to, among all that have no |pod_uid| */
        const char *pod_namespace; /* names may be NULL, as far as they are not known */
        const char *pod;
        const char *container;
        const char *claim;             /* the name of the ResourceClaim that it was given by */
        const char *resource;          /* NULL: not by the device plugin, or unknown */
        const char *tier;              /* how the limits are enforced; NULL: there are none */
        bool is_granted;               /* even though the unit is not known */
        uint64_t limit;                /* bytes of the unit's memory; 0: none */
        size_t replicas;               /* 0: not granted by replicas, or unknown */
        unsigned int threads_permille; /* 0: none granted, or unknown */
};

struct usage_row {
        char id[USAGE_ROW_ID_LENGTH +
                1];          /* of unit and pod: the same as long as both are, after a restart, too; [a-z2-7] */
        const char *unit;    /* "": unknown */
        const char *pod_uid; /* NULL: unknown, or several */
        const char *pod_namespace;
        const char *pod;
        const char *container;
        const char *claim;
        const char *resource; /* NULL, as tier, if two of its containers differ */
        const char *tier;
        bool is_granted;                 /* something of this unit; else the next three are 0 */
        uint64_t limit;                  /* bytes, of all its containers; 0: none, or one has none */
        size_t replicas;                 /* of all its containers */
        unsigned int threads_permille;   /* of all its containers; 0: none are known */
        const struct usage_share *share; /* NULL: it has no processes there, and had none */
};

/* By unit and pod, in |arena|; texts are those of |owners| and |shares|. */
size_t usage_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n_shares,
        struct arena *arena, const struct usage_row **ret);
