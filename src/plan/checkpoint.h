// SPDX-License-Identifier: Apache-2.0
/*
 * Parses kubelet's checkpoint, its record of the devices that each container holds: <device plugin
 * directory>/kubelet_internal_checkpoint. Pure: text in, values out.
 *
 * It has what pod-resources lacks: the UID of the pod, which also the cgroup of a process shows, and init containers.
 * kubelet writes it after each Allocate and after each list of ours, so a pod that has ended may stay in it until then.
 * Its format is internal to kubelet, so everything unexpected is left out, and callers must also work without it.
 *
 *   {"Data":{"PodDeviceEntries":[{"PodUID":…,"ContainerName":…,"ResourceName":…,"DeviceIDs":{"-1":["id",…]},…}],…},"Checksum":…}
 *
 * DeviceIDs goes by NUMA node since 1.20, -1 for none; before, it was a list. The checksum is not verified, because it
 * is over Go's internal form of the data; kubelet replaces the file atomically.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

#define CHECKPOINT_NAME "kubelet_internal_checkpoint"
/* The longest text that is accepted. */
#define CHECKPOINT_MAX ((size_t)16 * 1024 * 1024)

/* The devices of one resource that one container holds. */
struct checkpoint_entry {
        const char *pod_uid;
        const char *container;
        const char *resource;
        const char *const *devices; /* each once, at least one */
        size_t n_devices;
        const char *answer; /* the plugin's answer to Allocate: base64 of the message, or NULL */
};

struct checkpoint {
        const struct checkpoint_entry *entries; /* in kubelet's order, which is arbitrary */
        size_t n_entries;
};

/* Only resources whose name begins with |prefix| ("nvidia.com/"); "": all. Everything is copied into |arena|. */
int checkpoint_read(struct checkpoint *ret, struct arena *arena, const char *prefix, const char *text, size_t length,
        struct error *err) MUST_USE;

/* Both are of one container. */
bool checkpoint_is_of_container(const struct checkpoint_entry *a, const struct checkpoint_entry *b);
