// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for a cluster's API server and its scheduler, as far as a node with DRA needs them, for the demonstration.
 * It serves HTTP without TLS on 127.0.0.1, every client may do everything, and objects are stored as they are written,
 * by the path of their collection:
 *
 *     /apis/resource.k8s.io/v1/resourceslices      name: object
 *
 * It has get, list, watch, create, replace, patch and delete of the resources in address.c, versions that grow with
 * each write, and conflicts. Patches are merge patches and server-side apply, which removes what its manager leaves
 * out, and knows no conflicts with other managers. Selectors, limits and timeouts are ignored: there is only one node.
 * What admission.h knows is refused as by a real API server; test/e2e/apiserver.py refuses more.
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

/* A kubeconfig for its clients, for the caller to free. */
char *cluster_kubeconfig(const struct cluster *cluster);

/* Connections end at once; the memory is freed when the loop has closed the handles. Accepts NULL, returns NULL. */
struct cluster *cluster_close(struct cluster *cluster);

/* {name: object}, valid until the loop runs again; NULL: there are none. */
json_t *cluster_objects(const struct cluster *cluster, const char *collection);

/*
 * Creates or replaces an object, as another client in the cluster would. Takes the reference to |object|; returns a
 * borrowed one.
 */
const json_t *cluster_put(struct cluster *cluster, const char *collection, json_t *object);

/* As kubelet does: deletes the ResourceSlices of that node, of this driver or of all (NULL). */
void cluster_wipe_slices(struct cluster *cluster, const char *node, const char *driver);

/*
 * The scheduler, pure: the status.allocation for a claim with one request for one device, for the caller to release.
 * |slices| ({name: object}) are searched for devices of |node| in the order of their names; what |claims| ({name:
 * object}) have is taken. NULL: no device fits.
 *
 * As Kubernetes' scheduler does, it takes the first device that fits; it knows capacities, their request policies and
 * shared counters. It has two device classes, gpu.warpshare.dev and shared.gpu.warpshare.dev, each for devices of one
 * type.
 */
json_t *cluster_allocate(const json_t *claim, json_t *slices, json_t *claims, const char *node);
