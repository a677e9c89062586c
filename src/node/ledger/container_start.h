// SPDX-License-Identifier: Apache-2.0
/*
 * Makes what a container needs before it starts: CDI devices with the limits of all that it holds at the daemon of the
 * node, and with those that it declares itself, at any daemon. kubelet names the ids of one resource; its checkpoint,
 * which it has written by then, has the other shares of the same container and the device that each answer named. The
 * checkpoint has init containers, too, and needs no socket.
 *
 * An init container may have had the same ids as one that comes after it, so every container that has just these ids is
 * made ready.
 */
#pragma once

#include "node/ledger/declared_pods.h"
#include "node/ledger/share_metadata.h"

struct container_start {
        struct ledger_core *core;
        struct declared_containers *containers;
        struct declared_pods *pods;
        struct share_metadata *metadata;
};

/* Implements the broker's start(). |started| may be called before this returns. */
void container_start(struct container_start *start, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context);

/* Like container_start(), but at once, with the present knowledge of the container's declaration. */
int container_start_now(struct container_start *start, const char *resource, const char *const *ids, size_t n_ids,
        struct error *err) MUST_USE;

/*
 * After a reboot the CDI devices of containers that are created again are missing: makes them for all containers in
 * kubelet's checkpoint, except for those that declare their share, which is not known yet. Removes the devices of ended
 * pods.
 */
void container_start_all(struct container_start *start);

/* Notes the shares of the pod's containers, which run, in declared_containers. */
void container_start_note_shares(struct container_start *start, const struct checkpoint *record, const char *pod_uid);

/* The entry's container may declare its share of that resource. */
bool container_start_is_declared(const struct ledger_core *core, const struct checkpoint_entry *entry);
/* |entry| is of that resource and has these ids and no others. */
bool container_start_has_just(
        const struct checkpoint_entry *entry, const char *resource, const char *const *ids, size_t n_ids);
