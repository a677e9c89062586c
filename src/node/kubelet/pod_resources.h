// SPDX-License-Identifier: Apache-2.0
/*
 * Asks kubelet which container holds which devices, over its pod-resources socket (v1.PodResourcesLister/List).
 *
 * kubelet limits calls to 100 a second for all callers together, creates the socket again at each start, and answers
 * without pod UIDs. It frees the devices of ended pods before it answers, so an id is in one pod only: two pods with
 * one id are a fault, which node/kubelet/holders.h reports. If two containers of one pod have an id, the later counts.
 */
#pragma once

#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"

/* The largest answer that is accepted. */
#define POD_RESOURCES_MAX ((size_t)16 * 1024 * 1024)

struct held_device {
        const char *resource;
        const char *id;
};

struct pod_container {
        const char *pod_namespace;
        const char *pod;
        const char *container;
        const struct held_device *devices; /* each once; by resource, then id */
        size_t n_devices;
};

struct pod_list {
        const struct pod_container *containers; /* those that hold a device, in kubelet's order */
        size_t n_containers;
};

/*
 * Protobuf → list in |arena|, with everything that it points to. Only resources whose name begins with |prefix|
 * ("nvidia.com/"); "": all.
 */
int pod_list_read(struct pod_list *ret, struct arena *arena, const char *prefix, const uint8_t *message, size_t size,
        struct error *err) MUST_USE;

struct pod_resources;

/* Connects to |socket| at the first question, and again after any error. */
int pod_resources_new(struct pod_resources **ret, uv_loop_t *loop, const char *socket, struct error *err) MUST_USE;
void pod_resources_close(struct pod_resources *pods); /* accepts NULL; no callback after this */

/*
 * |err| is NULL on success; |list| is valid during the call, and has all resources. Errors: ERROR_UNAVAILABLE (kubelet
 * does not run, or gets too many calls: ask again later), ERROR_TIMEOUT after 5 s, ERROR_INVALID for an invalid answer.
 *
 * A question that is asked during a call gets the answer of the next call, so an answer is never older than its
 * question. kubelet enters a container's devices only when it has read the answer of Allocate, so a list that was
 * requested shortly after may not have them yet. |done| is called from the loop, never inside the question, and may ask
 * or close.
 */
typedef void pod_list_fn(const struct error *err, const struct pod_list *list, void *data);
void pod_resources_list(struct pod_resources *pods, pod_list_fn *done, void *data);
