/*
 * kubelet's own record of who holds which devices: <device plugin directory>/kubelet_internal_checkpoint. Pure: text in, values out.
 *
 * It has what pod-resources does not tell: the UID of the pod, which is what a process's cgroup shows, and init containers. It is
 * written after each Allocate and each list of ours, so a pod that has ended may stay in it until then. The form is kubelet's own
 * affair, so everything that is not as expected is left out, and nothing may depend on it being there.
 *
 *   {"Data":{"PodDeviceEntries":[{"PodUID":…,"ContainerName":…,"ResourceName":…,"DeviceIDs":{"-1":["id",…]},…}],…},"Checksum":…}
 *
 * DeviceIDs goes by NUMA node since 1.20, -1 for none; before, it was a list. The checksum is over Go's own idea of the data and is
 * not looked at: kubelet replaces the file whole.
 */
#pragma once

#include "base/alloc.h"
#include "base/error.h"

#define CHECKPOINT_NAME "kubelet_internal_checkpoint"
/* The longest text that is taken. */
#define CHECKPOINT_MAX ((size_t)16 * 1024 * 1024)

/* What one container holds of one resource. */
struct checkpoint_entry {
        const char *pod_uid;
        const char *container;
        const char *resource;
        const char *const *devices; /* each once, at least one */
        size_t n_devices;
        const char *answer; /* what the plugin answered to Allocate: base64 of the message, or NULL */
};

struct checkpoint {
        const struct checkpoint_entry *entries; /* in kubelet's order, which is none */
        size_t n_entries;
};

/* Of resources whose name begins with |prefix| only ("nvidia.com/"), or of all where it is "". All is copied into |arena|. */
int checkpoint_read(struct checkpoint *ret, struct arena *arena, const char *prefix, const char *text, size_t length,
        struct error *err) MUST_USE;
