/*
 * Which container holds which devices, as kubelet tells it over its pod-resources socket (v1.PodResourcesLister/List).
 *
 * kubelet limits calls to 100 a second for all callers together, makes the socket anew at each of its starts, and answers
 * without pod UIDs. Up to 1.33 it may list pods that have ended, whose devices belong to somebody else by now; since it frees
 * those before it answers, an id is in one container at most, and should it be in two, the later in the list counts.
 */
#pragma once

#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"

/* The largest answer that is taken. */
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

/* Protobuf → list in |arena|, with all that it points to; of resources whose name begins with |prefix| only ("nvidia.com/"), or of all where it is "". */
int pod_list_read(struct pod_list *ret, struct arena *arena, const char *prefix, const uint8_t *message, size_t size,
        struct error *err) MUST_USE;

struct pod_resources;

/* |socket| is connected to at the first question, and anew after any error. */
int pod_resources_new(struct pod_resources **ret, uv_loop_t *loop, const char *socket, struct error *err) MUST_USE;
void pod_resources_close(struct pod_resources *pods); /* accepts NULL; nothing is called back any more */

/*
 * |err| is NULL on success; |list| is valid in the call, and is of all resources. Errors: ERROR_UNAVAILABLE (kubelet is not there,
 * or has had too many calls: ask again later), ERROR_TIMEOUT after 5 s, ERROR_INVALID for an answer that is none.
 *
 * Questions asked while one is on its way share its answer only if they came before it was sent: so an answer is never older than
 * its question. kubelet enters a container's devices only when it has read the answer of Allocate, so a list that was asked for
 * soon after may not have them yet. |done| is called from the loop, never from within the question, and may ask or close.
 */
typedef void pod_list_fn(const struct error *err, const struct pod_list *list, void *data);
void pod_resources_list(struct pod_resources *pods, pod_list_fn *done, void *data);
