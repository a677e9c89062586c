// SPDX-License-Identifier: Apache-2.0
/*
 * The partitions and namespaces that containers have in the daemons, and the requests to make, remove and end them.
 * allocations.c keeps those that exist equal to those that are wanted, requests.c has what a daemon is asked for one
 * container.
 */
#pragma once

#include "base/list.h"
#include "base/io/loop.h"
#include "mps/supervisor/daemon.h"

/* Its members are for these two files. */
struct mps_allocations {
        struct mps_daemons *daemons;
        struct mps_record_owner owner;
        struct list entries;
        struct list requests;
        uv_timer_t timer; /* the next attempt to reconcile */
        bool is_paused;
};

/* It is paused. */
void mps_allocations_init(
        struct mps_allocations *allocations, struct mps_daemons *daemons, const struct mps_record_owner *owner);
/* While it is paused only requests are carried out: before all daemons that run are known, and at the end. */
void mps_allocations_pause(struct mps_allocations *allocations, bool is_paused);
void mps_allocations_close(struct mps_allocations *allocations, struct closing *closing);
/* No callback is called any more. */
void mps_allocations_done(struct mps_allocations *allocations);

void mps_allocations_restore(struct mps_allocations *allocations, const struct mps_record *record);
void mps_allocations_fill_record(const struct mps_allocations *allocations, struct mps_record *record);

/* Creates the partition or namespace. A second request with the same id returns the existing one. */
void mps_allocations_make(struct mps_allocations *allocations, const struct mps_allocation_request *wanted,
        mps_granted_fn *done, void *data);
/*
 * Removes the partition or namespace. If that fails, for example while it has clients, it is removed as soon as
 * possible.
 */
void mps_allocations_release(struct mps_allocations *allocations, const char *id, mps_done_fn *done, void *data);
/*
 * The list of all allocations that are granted now. Missing ones are created; earlier ones that are not in the list are
 * released. Later requests and releases change it. Without this call everything that was not released is wanted.
 */
void mps_allocations_hold(
        struct mps_allocations *allocations, const struct mps_allocation_request *wanted, size_t n_wanted);
/*
 * Terminates a client through the control daemon. An error unless the daemon lists the client now, in the given
 * container.
 */
void mps_allocations_terminate(struct mps_allocations *allocations, const char *daemon, pid_t client,
        const char *container_id, mps_done_fn *done, void *data);

/* Compares the wanted allocations with the existing ones, and starts what can be done now. */
void mps_allocations_reconcile(struct mps_allocations *allocations);
/* Calls the callbacks of requests that have an answer. */
void mps_allocations_deliver(struct mps_allocations *allocations);
/* |daemon| will be closed: its requests end with an error. */
void mps_allocations_fail_daemon(struct mps_allocations *allocations, const struct mps_daemon *daemon);

/* Adds a notice to the status of a daemon that lacks what its containers are to have. */
void mps_allocations_describe(
        const struct mps_allocations *allocations, struct arena *arena, struct mps_daemon_status *daemon);
/* The namespaces that the process of |daemon| has for containers: copies, in |arena|. */
size_t mps_allocations_list_namespaces(const struct mps_allocations *allocations, const struct mps_daemon *daemon,
        struct arena *arena, struct mps_allocation_request **ret);
