/*
 * Private to mps/supervisor/requests.c and mps/supervisor/allocations.c: what somebody asked of a control daemon, until he has
 * his answer.
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
        struct mps_run *run; /* NULL: nothing is under way */
        bool is_over;
        bool is_waiting;  /* for another request for the same allocation */
        bool is_unwanted; /* an allocation that was given back while it was being made */
        struct error err; /* kind ERROR_NONE: it went well */
        struct mps_allocation allocation;

        struct mps_allocation_request wanted; /* release: only |id| */
        pid_t client;                         /* terminate */
        const char *container_id;
        struct mps_poll *poll;
        struct mps_namespace name_space; /* being made */
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

struct request *request_new(struct mps_supervisor *supervisor, enum request_kind kind, void *data);
/* It is delivered from the loop's next turn. |err| NULL: it went well. */
void request_end(struct request *request, const struct error *err);
/* "MPS daemon '<daemon>' <what>" */
void request_fail(struct request *request, enum error_kind kind, const char *what, const char *daemon);
/* The control of the daemon, if its process can be asked; else the request is over. */
struct mps_control *request_control(struct request *request, const char *daemon);
