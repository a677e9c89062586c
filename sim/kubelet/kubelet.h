/*
 * A stand-in for kubelet's device manager, for the demonstration, the benchmarks and the stress tests: it serves
 * Registration, dials plugins back, follows ListAndWatch, counts capacity and allocatable, and asks for devices as kubelet
 * does for a container.
 *
 * It behaves as kubelet 1.36 does, defects included where plugins must live with them: plugins are known by resource name
 * alone, a second registration replaces the first without closing it, and the end of an old stream disconnects whatever plugin
 * has the name by then. Devices that a pod holds stay held until pod_remove, and PodResourcesLister/List tells of them. It has
 * no scheduler and no checkpoint, and of pods no more than their names.
 *
 * One thread, the loop's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"

struct kubelet;

struct kubelet_options {
        uv_loop_t *loop;
        const char *directory;     /* kubelet.sock is made in it */
        const char *pod_resources; /* path of the socket for List; NULL: none */
        /* A Register request arrived, before anything is made of it. May be NULL. */
        void (*on_register)(const char *resource, void *data);
        /* Capacity or allocatable of a resource changed. May be NULL. */
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

/* Each device of a resource in the order of the list: its id, whether it is healthy, and the pod that holds it, or NULL. */
typedef void kubelet_device_fn(const char *id, bool healthy, const char *pod, void *data);
void kubelet_each_device(const struct kubelet *kubelet, const char *resource, kubelet_device_fn *visit, void *data);

/* What a container was given. Valid during the callback. */
struct kubelet_answer {
        bool admitted;
        const char *error; /* when not admitted: what would stand in the pod's status */
        const char *const *ids;
        size_t n_ids;
        const char *const *names; /* environment, by position */
        const char *const *values;
        size_t n_environment;
        int64_t prefer_ns; /* from sending to answer */
        int64_t allocate_ns;
};

typedef void kubelet_answer_fn(const struct kubelet_answer *answer, void *data);

/*
 * Admits a container that asks for |count| of |resource|, as kubelet does: candidates are the healthy devices that nobody
 * holds, in random order; GetPreferredAllocation if there is a choice; then Allocate. The devices are held by |pod| after.
 */
void kubelet_admit(struct kubelet *kubelet, const char *pod, const char *resource, size_t count,
        kubelet_answer_fn *answered, void *data);
