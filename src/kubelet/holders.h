/*
 * Who holds which device: kubelet's two accounts of it in one. pod-resources has names, and is right about the moment;
 * the checkpoint has the UIDs of pods and their init containers, and may still have pods that have ended. Pure.
 *
 * A container that only the checkpoint has counts as long as another container of its pod is in the list. So an init container
 * counts until its pod ends, unless no other container of the pod has a device: then nothing shows that it is alive.
 */
#pragma once

#include "kubelet/pod_resources.h"
#include "share/checkpoint.h"
#include "share/grants.h"
#include "share/handover.h"

struct holder {
        const char *pod_namespace; /* NULL, as the next two: an init container, of which the list does not know */
        const char *pod;
        const char *container;
        const char *pod_uid; /* NULL: the checkpoint does not have it */
};

struct holders;

/* Copies both; |checkpoint| may be NULL. */
struct holders *holders_new(const struct pod_list *list, const struct checkpoint *checkpoint);
struct holders *holders_free(struct holders *holders); /* accepts NULL, returns NULL */

/* Who has the device now, or NULL. Of two, the one that the list has. */
const struct holder *holders_find(const struct holders *holders, const char *resource, const char *device);

/* Every device that is held, of all resources, in |arena|. */
size_t holders_all(const struct holders *holders, struct arena *arena, struct handover_held **ret);

/* What containers hold of one resource, in |arena|. */
size_t holders_of(const struct holders *holders, const char *resource, struct arena *arena, struct grants_held **ret);
