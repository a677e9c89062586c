// SPDX-License-Identifier: Apache-2.0
/*
 * Private to requests.c and allocations.c in this folder: a request to a control daemon, until its answer is delivered.
 */
#pragma once

#include "mps/supervisor/allocations.h"
#include "mps/supervisor/observe.h"
#include "mps/supervisor/setting.h"

enum request_kind { REQUEST_ALLOCATION, REQUEST_RELEASE, REQUEST_TERMINATE };

struct request {
        struct list link; /* allocations->requests */
        struct arena arena;
        enum request_kind kind;
        struct mps_allocations *allocations;
        struct mps_daemon *daemon;   /* NULL: no command is running */
        struct mps_control *control; /* the daemon's, while a command is running */
        bool is_over;
        bool is_waiting;  /* for another request for the same allocation */
        bool is_unwanted; /* an allocation that was released while it was being created */
        struct error err; /* kind ERROR_NONE: success */
        struct mps_allocation allocation;

        struct mps_allocation_request wanted; /* release: only |id| */
        struct {
                struct mps_setting limits[2];
                size_t n_limits;
                unsigned int step;
        } making;         /* a namespace */
        const char *said; /* release of a partition: what the daemon answered to its removal */
        pid_t client;     /* terminate */
        const char *container_id;
        struct mps_poll *poll;
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

struct request *request_new(struct mps_allocations *allocations, enum request_kind kind, void *data);
void request_free(struct request *request);
/* Ends the request; the answer is delivered in the loop's next turn. |err| NULL: success. */
void request_end(struct request *request, const struct error *err);
/* The error is "MPS daemon '<name>' <what>". */
void request_fail(struct request *request, enum error_kind kind, const char *what, const char *name);
/* False: the daemon of that name has no process that can be asked, and the request has ended. */
bool request_find_daemon(struct request *request, const char *name);

/* Creates what the request asks for. It ends with an error, or by allocations_made(). */
void request_make(struct request *request);
/* Removes |value| from |daemon|, whose process has it. Ends by allocations_removed(). */
void request_remove(struct request *request, struct mps_daemon *daemon, const struct mps_record_allocation *value);

/* allocations.c */
/* |process| has created request->allocation. Ends the request. */
void allocations_made(struct request *request, const struct mps_record_daemon *process);
/* |err| NULL: it is gone. Ends the request. */
void allocations_removed(struct request *request, const struct error *err);
