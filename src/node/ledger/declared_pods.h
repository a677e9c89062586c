/*
 * The pods whose containers declare what they need, read from the API server: at the start of a container, and for
 * containers that had started before the agent. kubelet's list says which pod it is, and then its start is answered:
 *
 *     start ──► kubelet's list ──► GET of the pod ──► the container's devices are made
 *         └───────────┴─────────────────┴──► after READ_MS at the latest, without what it declares, which is reported
 */
#pragma once

#include "node/kubelet/broker.h"
#include "node/ledger/declared_room.h"
#include "node/ledger/own_shm.h"

struct container_start;

struct declared_pods {
        struct ledger_core *core;
        struct declared_containers *containers;
        struct declared_room *room;
        struct own_shm *own_shm;
        struct container_start *start; /* makes the containers ready */
        struct list reads;             /* pods that are being read */
        uv_timer_t timer;              /* runs while the API server is asked */
};

/* Sets all but the pointers to the other objects, which the caller sets. */
void declared_pods_init(struct declared_pods *pods);
/* Starts that wait are refused. */
void declared_pods_close(struct declared_pods *pods, struct closing *closing);

/* A container starts: |started| comes when its pod has been read, or could not be, within seconds. */
void declared_pods_start(struct declared_pods *pods, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context);

/* After kubelet's list: reads the next pod that was not read yet, and reports which units have too little memory. */
void declared_pods_read_next(struct declared_pods *pods);
