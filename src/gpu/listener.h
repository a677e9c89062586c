// SPDX-License-Identifier: Apache-2.0
/*
 * A process (base/io/worker.h) that registers for the events of GPUs and waits for nothing else, so that an event is
 * reported at once, even while other calls hang. gpu/hearing.h begins such processes and reads their news; this is what
 * runs in one.
 *
 * One lost GPU in a set of events makes each wait for it fail, so the caller leaves lost GPUs out. The listener does
 * not know what an event means.
 */
#pragma once

#include "base/pack.h"
#include "gpu/hangs.h"
#include "gpu/nvml_abi.h"

/* Events that say when to probe a GPU: it has a problem. */
#define LISTENER_EVENTS_POLL                                                                                           \
        (NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_DRAM_RETIREMENT_EVENT |                                \
                NVML_EVENT_TYPE_DRAM_RETIREMENT_FAILURE | NVML_EVENT_TYPE_FATAL_POISON_ERROR |                         \
                NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR | NVML_EVENT_TYPE_GPU_RECOVERY_ACTION)

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

/* The question: the GPUs (|state| is not read), or none for all GPUs of the driver. */
struct listener_wanted {
        struct listener_gpu *gpus;
        size_t n_gpus;
        bool has_failed; /* the last wait of the process before this one failed */
};
void listener_pack(struct pack *pack, struct listener_wanted *wanted);

/* Each piece of news is its kind, followed by what the kind says. */
enum listener_news {
        LISTENER_REGISTERED, /* struct listener_gpu for each GPU */
        LISTENER_EVENT,      /* struct listener_event */
        LISTENER_FAILED,     /* struct listener_failure: a wait has failed; it is tried again */
        LISTENER_RECOVERED,  /* the first wait that succeeds after others failed */
};

struct listener_event {
        char uuid[CALL_GPU_SIZE]; /* of the GPU; "": not known */
        uint64_t type;            /* NVML_EVENT_TYPE_* */
        uint64_t data;            /* the Xid */
        unsigned int gpu_instance;
        unsigned int compute_instance;
};

struct listener_failure {
        bool is_fatal; /* no call can succeed with this library and driver */
        char reason[200];
};

/*
 * A worker_serve_fn, whose data is the struct gpu_monitor_options: library, driver root and |wait_ms| are read. Answers
 * with an error's text if NVML cannot be used, and with nothing if no GPU could be registered.
 */
void listener_serve(const void *message, size_t size, struct strbuf *answer, const void *data);
