/*
 * Reports events of GPUs: a process (base/io/worker.h) that registers for their events and waits for nothing else, so
 * that an event is reported at once, even while other calls hang.
 *
 *     STOPPED ──(listener_set_gpus)──► REGISTERING ──(registered)──► WAITING
 *       ▲                                  │                           │  └─(listener_set_gpus): another process takes
 *       └───(its process is lost)──────────┴───────────────────────────┘     over once it has registered: no event lost
 *
 * One lost GPU in a set of events makes each wait for it fail, so the caller leaves lost GPUs out. The listener does
 * not know what an event means.
 */
#pragma once

#include <uv.h>

#include "gpu/call.h"
#include "gpu/nvml_abi.h"

/* Events that say when to probe a GPU: it has a problem. */
#define LISTENER_EVENTS_POLL                                                                                           \
        (NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_DRAM_RETIREMENT_EVENT |                                \
                NVML_EVENT_TYPE_DRAM_RETIREMENT_FAILURE | NVML_EVENT_TYPE_FATAL_POISON_ERROR |                         \
                NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR | NVML_EVENT_TYPE_GPU_RECOVERY_ACTION)

struct listener;

struct listener_gpu {
        char uuid[CALL_GPU_SIZE];
        unsigned int index;
        enum {
                EVENTS_ARRIVE,
                EVENTS_UNSUPPORTED, /* the board or the driver is too old for events */
                EVENTS_FAIL,        /* as |reason| says: no event of it would arrive */
        } state;
        char reason[200];
};

struct listener_event {
        char uuid[CALL_GPU_SIZE]; /* of the GPU; "": not known */
        uint64_t type;            /* NVML_EVENT_TYPE_* */
        uint64_t data;            /* the Xid */
        unsigned int gpu_instance;
        unsigned int compute_instance;
};

/* All are called from the loop, and may call anything here. */
struct listener_options {
        uv_loop_t *loop;
        const char *library; /* as in nvml_open() */
        const char *driver_root;
        uint64_t wait_ms; /* of one wait for events, after which it waits again */
        uint64_t hang_ms; /* after which a call counts as hanging */
        void (*on_registered)(const struct listener_gpu *gpus, size_t n_gpus, void *data);
        void (*on_event)(const struct listener_event *event, void *data);
        /* A wait has failed; it is tried again. |is_fatal|: no call can succeed with this library and driver. */
        void (*on_failed)(const char *reason, bool is_fatal, void *data);
        void (*on_recovered)(void *data); /* the first wait that succeeds after others failed */
        /* No process is left: |reason|; |call|: the call that hung or crashed, or NULL. */
        void (*on_lost)(const char *reason, const struct call_info *call, bool has_crashed, void *data);
        void *data;
};

struct listener *listener_new(const struct listener_options *options);

/*
 * Reports events of these GPUs from now on (|state| is not read), of none if |n_gpus| is 0. |has_failed|: the last wait
 * failed.
 */
void listener_set_gpus(struct listener *listener, const struct listener_gpu *gpus, size_t n_gpus, bool has_failed);
/* Reports events of all GPUs of the driver, before it is known which GPUs there are. */
void listener_set_all(struct listener *listener);
void listener_stop(struct listener *listener);
/* No process is left that may have NVML open. */
bool listener_has_ended(const struct listener *listener);

struct listener *listener_close(struct listener *listener); /* accepts NULL, returns NULL */
