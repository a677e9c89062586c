// SPDX-License-Identifier: Apache-2.0
/*
 * Remembers driver calls that did not return: which GPU each is about, and when to ask that GPU again. Pure.
 *
 * The process that was in such a call was killed (gpu/nvml_pool.h). The GPU is left out from then on, so that no other
 * GPU waits for it, and is asked again alone, after a pause that doubles each time. If a GPU hangs again soon after it
 * has answered, its pause is not reset, because each attempt costs a process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/io/worker.h"
#include "gpu/inventory.h"

/* ---- call ---- */

/*
 * Records which driver call a process is in, about which GPU, and since when: NVML_CALL (gpu/nvml.h) and other code
 * that can block in the driver records it step by step (base/io/worker.h), so that the program that ends a hanging
 * process can name the call. It costs no system call but one of the clock. In other programs it is not read.
 */

/* The subject of a call. */
enum call_subject {
        CALL_ON_DRIVER, /* no GPU in particular */
        CALL_ON_GPU,
        CALL_ON_PAIR, /* two GPUs: either may be the one that does not answer */
        CALL_TO_OPEN, /* the library is being loaded or initialised, with three times the usual deadline: without
                       * persistence mode this initialises each GPU of the node, for some seconds */
        CALL_TO_WAIT, /* the process waits for events */
};

#define CALL_NO_INDEX UINT32_MAX
#define CALL_GPU_SIZE 96U /* as NVML_DEVICE_UUID_V2_BUFFER_SIZE */

/* Sets what the following calls are about. |uuid| may be "" or NULL. */
void gpu_call_about(enum call_subject subject, unsigned int index, const char *uuid);

/* |call|: its name, of WORKER_CALL_SIZE characters at most. |extra_ms|: how long it waits by design. */
void gpu_call_begin(const char *call, uint64_t extra_ms);
void gpu_call_end(void);

#define HANGS_MAX 32U
#define HANG_PAUSE_MS UINT64_C(5000) /* before it is asked again; doubles up to the next */
#define HANG_PAUSE_MAX_MS UINT64_C(600000)
#define HANG_RELAPSE_MS UINT64_C(600000) /* without a hang for this long, pauses start short again */

struct hang {
        struct worker_call call;
        bool has_crashed;   /* its process ended in the call instead */
        bool is_over;       /* it has answered; the entry only remembers how often it hung */
        bool is_tried;      /* it is being asked again: the owner sets it */
        unsigned int times; /* how often it hung within a short time */
        uint64_t at_ms;     /* the time to ask again; of one that is over, when it answered */
};

struct hangs {
        struct hang all[HANGS_MAX];
        size_t n;
};

/*
 * |call| did not return. |pause_ms|: the first pause. False: its GPU, or the driver, was known to hang. If there are
 * too many, the one that hung first gives way.
 */
bool hangs_add(
        struct hangs *hangs, const struct worker_call *call, bool has_crashed, uint64_t pause_ms, uint64_t now_ms);
void hangs_end(struct hang *hang, uint64_t now_ms);

/* The one that is not over, about the driver (its library, or no GPU in particular), about pairs, or about that GPU. */
struct hang *hangs_find(struct hangs *hangs, enum call_subject subject, unsigned int index, const char *uuid);

/* No GPU is known to be the cause: the library is being opened, or the driver asked about no GPU in particular. */
bool hang_is_of_driver(const struct worker_call *call);

/* The GPU that the call is about: its index and its UUID, as far as |inventory| (may be NULL) has them. */
void hang_name_gpu(struct worker_call *call, const struct inventory *inventory);

/* Names the lane of requests that ask alone about the subject of the call: the GPU, or a text that stands for it. */
void hang_print_lane(const struct worker_call *call, char text[CALL_GPU_SIZE]);

/* "nvmlDeviceGetMemoryInfo of GPU 1 (GPU-…)", or "… of GPU-…" if the index is not known. */
void hang_print(const struct worker_call *call, char *text, size_t size);

/*
 * |ret|: why a request has no answer, whose process was lost with |cause| (base/io/worker.h) in |call|. Where it was in
 * none, |ret| is |cause|.
 */
void hang_explain(const struct worker_call *call, const struct error *cause, uint64_t now_ms, struct error *ret);

/* How long it has not returned. */
uint64_t hang_seconds(const struct worker_call *call, uint64_t now_ms);

/* The GPUs that must not be asked. */
struct skipped_gpu {
        unsigned int index;
        char uuid[CALL_GPU_SIZE]; /* "": unknown */
        char reason[160];         /* for people */
};

struct skips {
        struct skipped_gpu gpus[HANGS_MAX];
        size_t n_gpus;
        bool pairs;        /* ask for no links between GPUs */
        bool has_only;     /* ask about no GPU but the next */
        unsigned int only; /* its index */
};

struct skips hangs_skips(const struct hangs *hangs);
/* Adds the GPU of |call|, or pairs; |reason| as above. */
void skips_add(struct skips *skips, const struct worker_call *call, const char *reason);

/* The reason to skip a GPU, found by index or by UUID; NULL: it may be asked. |skips| NULL: all may be asked. */
const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index);
const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid);
