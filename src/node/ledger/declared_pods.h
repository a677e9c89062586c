// SPDX-License-Identifier: Apache-2.0
/*
 * Reads pods that hold something by MPS, from kubelet or the API server (node/ledger/pod_source.h): what their
 * containers declare, at the start of a container, and for containers that had started before the agent; and whether
 * they have a volume of their own at /dev/shm. kubelet's list says which pod it is, and then its start is answered:
 *
 *     start ──► kubelet's list ──► the pod's object ──► the container's devices are made
 *         └───────────┴─────────────────┴──► after READ_MS at the latest, without what it declares, which is reported
 *
 * kubelet puts a pod's volumes behind the mounts of device plugins, so a pod's own volume at /dev/shm counts there, and
 * CUDA ends with error 805: client and server share memory by that folder. Only the pod's specification says so; each
 * pod is read once for it, after kubelet has listed it.
 */
#pragma once

#include "node/kubelet/broker.h"
#include "node/ledger/declared_containers.h"

struct container_start;

struct declared_pods {
        struct ledger_core *core;
        struct declared_containers *containers;
        struct container_start *start; /* makes the containers ready */
        struct list reads;             /* pods that are being read */
        uv_timer_t timer;              /* runs while kubelet or the API server is asked */
        struct map seen;               /* UIDs of pods of which it was looked whether they have a volume at /dev/shm */
        struct arena seen_arena;
};

/* Sets all but the pointers to the other objects, which the caller sets. */
void declared_pods_init(struct declared_pods *pods);
/* Another agent serves. */
void declared_pods_forget(struct declared_pods *pods);
/* Starts that wait are refused. */
void declared_pods_close(struct declared_pods *pods, struct closing *closing);

/* A container starts: |started| comes when its pod has been read, or could not be, within seconds. */
void declared_pods_start(struct declared_pods *pods, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context);

/* After kubelet's list: reads the next pod that was not read yet, and reports which units have too little memory. */
void declared_pods_read_next(struct declared_pods *pods);
