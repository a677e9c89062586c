/*
 * Private to requests.c, request_make.c and allocations.c in this folder: a request to a control daemon, until its
 * answer is delivered.
 */
#pragma once

#include "mps/control/namespace.h"
#include "mps/supervisor/parts.h"

enum request_kind { REQUEST_ALLOCATION, REQUEST_RELEASE, REQUEST_TERMINATE };

struct request {
        struct list link; /* supervisor->requests */
        struct arena arena;
        enum request_kind kind;
        struct mps_supervisor *supervisor;
        struct mps_run *run; /* NULL: no command is running */
        bool is_over;
        bool is_waiting;  /* for another request for the same allocation */
        bool is_unwanted; /* an allocation that was released while it was being created */
        struct error err; /* kind ERROR_NONE: success */
        struct mps_allocation allocation;

        struct mps_allocation_request wanted; /* release: only |id| */
        pid_t client;                         /* terminate */
        const char *container_id;
        const char *said; /* release of a partition: what the daemon answered to its removal */
        struct mps_poll *poll;
        struct mps_namespace name_space; /* being made */
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

struct request *request_new(struct mps_supervisor *supervisor, enum request_kind kind, void *data);
/* Ends the request; the answer is delivered in the loop's next turn. |err| NULL: success. */
void request_end(struct request *request, const struct error *err);
/* "MPS daemon '<daemon>' <what>" */
void request_fail(struct request *request, enum error_kind kind, const char *what, const char *daemon);
/* The control of the daemon; NULL if it has no process that can be asked, and then the request has ended. */
struct mps_control *request_control(struct request *request, const char *daemon);

/* request_make.c */
/* Creates what the request asks for. It ends with an error, or by supervisor_allocations_made(). */
void request_make(struct request *request, struct mps_control *control);
/* Ends by supervisor_allocations_removed(). */
void request_remove(struct request *request, const struct mps_record_allocation *value, struct mps_control *control);

/* allocations.c */
/* |process| has created request->allocation. Ends the request. */
void supervisor_allocations_made(struct request *request, const struct mps_record_daemon *process);
/* |err| NULL: it is gone. Ends the request. */
void supervisor_allocations_removed(struct request *request, const struct error *err);
