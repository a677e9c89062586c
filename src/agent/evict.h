// SPDX-License-Identifier: Apache-2.0
/*
 * Evicts pods by the API server's eviction, which respects PodDisruptionBudgets and gives a pod its grace period. An
 * eviction is about the pod with that UID: a new pod of the same name is not evicted. Each pod is asked for again after
 * EVICT_AGAIN_MS, as long as its caller wants it gone.
 */
#pragma once

#include "net/kube/client.h"

#define EVICT_AGAIN_MS UINT64_C(10000)
#define EVICT_PODS_MAX ((size_t)256)

struct evictions;

struct evictions *evictions_new(struct kube_client *client); /* outlives it */
/* |uid| NULL: it is not known, so the pod cannot be evicted. */
void evictions_ask(struct evictions *evictions, const char *pod_namespace, const char *pod, const char *uid);

/* Why the last eviction was refused, or "". */
const char *evictions_refusal(const struct evictions *evictions);

/* Accepts NULL, returns NULL. */
struct evictions *evictions_close(struct evictions *evictions);
