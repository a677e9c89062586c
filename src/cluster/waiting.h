// SPDX-License-Identifier: Apache-2.0
/*
 * Pods that wait for a GPU, or were refused one: the part of struct cluster that follows them. Those of one namespace
 * must not hide the others', so of each there are CLUSTER_PODS_OF_NAMESPACE and no more; of the rest only the names are
 * known. When there is room again, the first of them is read by its name.
 */
#pragma once

#include <jansson.h>

#include "cluster/nodes.h"
#include "net/kube/list.h"
#include "net/kube/watch.h"

struct waiting_pods {
        struct kube_client *client;
        struct cluster_changes *changes;
        bool is_one_namespace;    /* all pods are of one: it has no bound of its own then */
        struct sorted pods;       /* private, as all that follows */
        struct sorted more;       /* those that are left out */
        struct kube_list *refill; /* reads the one that is called |refill_key|; NULL: none */
        char *refill_key;
        struct arena more_arena; /* of the newest waiting_count_more() */
};

void waiting_done(struct waiting_pods *waiting);

/* A pod that neither runs nor has succeeded; it may be none that asks for a GPU. */
void waiting_on_pod(struct waiting_pods *waiting, enum kube_change change, const json_t *object);

/* |at| is less than waiting->pods.count. */
const struct cluster_pod *waiting_at(const struct waiting_pods *waiting, size_t at);

/* Counts the pods that are left out, by namespace; valid until the next call. */
const struct cluster_more *waiting_count_more(struct waiting_pods *waiting, size_t *ret_count);
