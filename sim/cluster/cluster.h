/*
 * A stand-in for a cluster's API server and its scheduler, as far as a node with DRA needs them, for the demonstration: HTTP in clear on
 * 127.0.0.1, everybody may do everything, and objects are whatever is written, by the path of their collection:
 *
 *     /apis/resource.k8s.io/v1/resourceslices      name: object
 *
 * It has get, list, watch, create, replace, patch and delete; versions that grow with each write, and conflicts. A patch is a merge patch,
 * server-side apply, too; a subresource is the object. Selectors, limits and timeouts are not looked at: there is one node, and nobody
 * else's objects. test/e2e/apiserver.py is the judge of what is written.
 *
 * One thread, the loop's.
 */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "base/error.h"

#define CLUSTER_SLICES "/apis/resource.k8s.io/v1/resourceslices"
#define CLUSTER_CLAIMS "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#define CLUSTER_NODES "/api/v1/nodes"

struct cluster;

int cluster_new(struct cluster **ret, uv_loop_t *loop, struct error *err) MUST_USE;

/* Of its users, for the caller to free. */
char *cluster_kubeconfig(const struct cluster *cluster);

/* Connections end at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct cluster *cluster_close(struct cluster *cluster);

/* {name: object}, borrowed until the loop goes on; NULL: there are none. */
json_t *cluster_objects(const struct cluster *cluster, const char *collection);

/* Creates or replaces it, as somebody else in the cluster would; |object| is taken over. What is returned is borrowed. */
const json_t *cluster_put(struct cluster *cluster, const char *collection, json_t *object);

/*
 * The scheduler: status.allocation of a claim of one request for one device, for the caller to release, from the slices of |node|
 * ({name: object}, made in the order of their names), with what |claims| ({name: object}) have already. NULL: nothing fits. Pure.
 *
 * As the real one does, it takes the first device that fits; it knows capacities with their policies and shared counters. Classes are
 * gpu.warpshare.dev and shared.gpu.warpshare.dev, and mean devices of one type each.
 */
json_t *cluster_allocate(const json_t *claim, json_t *slices, json_t *claims, const char *node);
