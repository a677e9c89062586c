// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for kubelet's device manager, for the demonstration, the benchmarks and the stress tests: it serves
 * Registration, connects to the plugins that register, follows ListAndWatch, counts capacity and allocatable, and runs
 * pods of one container.
 *
 * It behaves as kubelet 1.36 does, with the defects that plugins must cope with: a plugin is identified by its resource
 * name only, a second registration replaces the first without closing it, and the end of an old stream disconnects the
 * plugin that has the name by then. A pod never ends, and keeps its devices; PodResourcesLister/List and the checkpoint
 * list them. It has no scheduler and no container runtime (sim/runtime is one).
 *
 * One thread, the loop's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <deviceplugin.pb-c.h>

#include "base/alloc.h"
#include "base/error.h"

struct kubelet;

struct kubelet_options {
        uv_loop_t *loop;
        const char *directory;     /* kubelet.sock is made in it */
        const char *pod_resources; /* path of the socket for List; NULL: none */
        /* Called when a Register request arrives, before it is handled. May be NULL. */
        void (*on_register)(const char *resource, void *data);
        /* Called when capacity or allocatable of a resource has changed. May be NULL. */
        void (*on_change)(const char *resource, size_t capacity, size_t allocatable, void *data);
        void *data;
};

int kubelet_new(struct kubelet **ret, const struct kubelet_options *options, struct error *err) MUST_USE;

/* Ends every connection and removes its sockets; |closed| is called from the loop. */
void kubelet_close(struct kubelet *kubelet, void (*closed)(void *data), void *data);

/* Zero for a resource that was never registered. */
size_t kubelet_capacity(const struct kubelet *kubelet, const char *resource);
size_t kubelet_allocatable(const struct kubelet *kubelet, const char *resource);
unsigned int kubelet_registrations(const struct kubelet *kubelet);

/*
 * Each device of a resource in the order of the list: its id, whether it is healthy, and the pod that holds it, or
 * NULL.
 */
typedef void kubelet_device_fn(const char *id, bool healthy, const char *pod, void *data);
void kubelet_each_device(const struct kubelet *kubelet, const char *resource, kubelet_device_fn *visit, void *data);

/* The newest pod of that name, as its cgroup has it; NULL: none was admitted. */
const char *kubelet_pod_uid(const struct kubelet *kubelet, const char *pod);

struct kubelet_request {
        const char *resource;
        size_t count;
};

/*
 * |options|: the joined answers of all resources, with which the container is started. NULL: the container does not
 * start, and |error| is the reason as the pod's status would have it. Both are valid during the call.
 */
typedef void kubelet_answer_fn(const V1beta1__ContainerAllocateResponse *options, const char *error, void *data);

/*
 * Runs a pod of one container that requests all of |requests|, each for another resource, as kubelet does:
 *
 *   admission   for each resource, in any order: candidates are the healthy devices that nobody holds, in random order;
 *               GetPreferredAllocation, if there is a choice and the plugin offers it; Allocate; the checkpoint is
 *               written. The pod holds these devices then. If one resource fails, the pod is rejected and holds
 *               nothing.
 *   start       PreStartContainer, with a deadline of 30 s, for each of its resources whose plugin has that in its
 *               options. If one fails, the container does not start, and the pod still holds its devices.
 *   options     the answers are joined. If two have the same environment variable or annotation, or a mount or device
 *               at the same path in the container, the first is used and the other dropped. The container gets the CDI
 *               devices of all.
 */
void kubelet_run(struct kubelet *kubelet, const char *pod, const struct kubelet_request *requests, size_t n_requests,
        kubelet_answer_fn *answered, void *data);
