/*
 * Who holds which device: kubelet's two accounts of it in one. Pure.
 *
 *   list        pod-resources: names, right about the moment, but without UIDs, and without init containers that end: those of a pod that
 *               runs on keep their devices until the pod ends, and the list never has them. A kubelet that has just started may leave
 *               pods out.
 *   checkpoint  kubelet's record: UIDs, and every container, init containers among them. kubelet takes ended pods out of its memory
 *               when somebody asks for the list, but writes the record only with its next Allocate and with the next list of devices that a
 *               plugin sends. So an entry may be about a pod that has ended.
 *
 * An entry of the checkpoint that the list does not have is
 *
 *   over      if the list had it before: the list has a container that is no init container until its pod ends. It stays over.
 *   alive     if the list has another container of its pod
 *   doubtful  else. It counts as held, for it may be an init container that runs. What resolves the doubt is a record that kubelet
 *             has written since: in that an ended pod is not. (kubelet/plugins.h: plugins_repeat() makes kubelet write one.)
 */
#pragma once

#include "base/map.h"
#include "kubelet/pod_resources.h"
#include "share/checkpoint.h"
#include "share/allocations.h"
#include "share/rollout.h"

struct holder {
        const char *pod_namespace; /* NULL, as the next two: an init container, of which the list does not know */
        const char *pod;
        const char *container;
        const char *pod_uid; /* NULL: the checkpoint does not have it */
        bool is_doubtful;
};

struct holders;

/*
 * Copies all; |checkpoint| and |before|, the holders of the list before, may be NULL. |is_whole|: the list is that of a kubelet that knows all of its
 * pods, so what it had before and has no more is over.
 */
struct holders *holders_new(
        const struct pod_list *list, const struct checkpoint *checkpoint, const struct holders *before, bool is_whole);
struct holders *holders_free(struct holders *holders); /* accepts NULL, returns NULL */

/* Who has the device now, or NULL. Of two, the one that the list has. */
const struct holder *holders_find(const struct holders *holders, const char *resource, const char *device);

/* The resources of which something is held doubtfully, each once, in |arena|. */
size_t holders_doubtful(const struct holders *holders, struct arena *arena, const char *const **ret);

/* A number that is another one when others are doubtful; 0: nobody is. */
uint64_t holders_doubt(const struct holders *holders);

/* UIDs of all pods that the checkpoint has, also those that are over → not NULL. Lives as long as the holders. */
const struct map *holders_pods(const struct holders *holders);

/* Every device that is held, of all resources, in |arena|. */
size_t holders_all(const struct holders *holders, struct arena *arena, struct rollout_held **ret);

/* What containers hold of one resource, in |arena|. */
size_t holders_of(
        const struct holders *holders, const char *resource, struct arena *arena, struct allocations_held **ret);
