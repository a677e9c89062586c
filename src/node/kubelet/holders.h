// SPDX-License-Identifier: Apache-2.0
/*
 * Combines kubelet's two records of who holds which device. Pure.
 *
 *   list        pod-resources: names, correct for the moment, but without UIDs, and without init containers that end:
 *               those of a running pod keep their devices until the pod ends, but are never in the list. A kubelet that
 *               has just started may leave pods out.
 *   checkpoint  kubelet's record: UIDs, and every container, also init containers. kubelet drops ended pods from memory
 *               when the list is requested, but writes the record only at its next Allocate and at the next device list
 *               of a plugin. So an entry may be about a pod that has ended.
 *
 * An entry of the checkpoint that the list does not have is
 *
 *   over      if an earlier list had it: a container that is not an init container stays in the list until its pod
 *             ends. It stays over.
 *   alive     if the list has another container of its pod
 *   doubtful  otherwise. It counts as held, since it may be a running init container. A newer record of kubelet
 *             resolves the doubt: it has no ended pods. (plugins_repeat() makes kubelet write one: node/kubelet/plugins.h.)
 *
 * A device that the list has for two pods was given twice. Both are holders, and none is left out. Where their
 * containers have one name, nothing says whose of the UIDs in the checkpoint is which, so neither has one.
 */
#pragma once

#include "base/map.h"
#include "node/kubelet/pod_resources.h"
#include "plan/checkpoint.h"
#include "plan/allocations.h"
#include "plan/rollout.h"

/* One container's devices of one resource. */
struct holder {
        const char *pod_namespace; /* NULL, like the next two, for an init container that the list does not have */
        const char *pod;
        const char *container;
        const char *pod_uid; /* NULL: the checkpoint does not have it */
        bool is_doubtful;
        bool is_second;   /* one of its devices is that of another pod, too, which is the first of the two */
        bool is_disputed; /* a container of the same name, of another pod, has a device of it, too */
        const char *resource;
        const char **devices;
        size_t n_devices;
        const char *answer; /* in kubelet's record, or NULL */
};

struct holders;

/*
 * Copies everything. |checkpoint| and |before| (the previous holders) may be NULL. |is_whole|: kubelet knows all of its
 * pods, so an entry that was in the previous list and is missing now is over.
 */
struct holders *holders_new(
        const struct pod_list *list, const struct checkpoint *checkpoint, const struct holders *before, bool is_whole);
struct holders *holders_free(struct holders *holders); /* accepts NULL, returns NULL */

/*
 * The present holder of the device, or NULL. If there are two, the one in the list; of two there, the first by
 * namespace and name.
 */
const struct holder *holders_find(const struct holders *holders, const char *resource, const char *device);

struct holders_twice {
        const char *resource;
        const char *device;
        const struct holder *first;
        const struct holder *second;
};

/* Devices that two pods hold, in |arena|; what they point to is the holders'. */
size_t holders_twice(const struct holders *holders, struct arena *arena, const struct holders_twice **ret);

/* The resources with doubtful holders, each once, in |arena|. */
size_t holders_doubtful(const struct holders *holders, struct arena *arena, const char *const **ret);

/* A number that changes when the set of doubtful holders changes; 0: there is none. */
uint64_t holders_doubt(const struct holders *holders);

/*
 * A map from the UIDs of all pods in the checkpoint, also ended ones, to a value that is not NULL. Lives as long as the
 * holders.
 */
const struct map *holders_pods(const struct holders *holders);

/* All held devices, of all resources, in |arena|. |*ret| has room for |n_more| besides. */
size_t holders_all(const struct holders *holders, struct arena *arena, size_t n_more, struct rollout_held **ret);

/* All containers, once for each resource that they hold, in an array of the holders'. */
size_t holders_containers(const struct holders *holders, const struct holder **ret);

/* The devices of one resource that containers hold, in |arena|. What two pods hold, the first has. */
size_t holders_of(
        const struct holders *holders, const char *resource, struct arena *arena, struct allocations_held **ret);
