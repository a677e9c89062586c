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

#include "base/error.h"
#include "gpu/call.h"
#include "gpu/inventory.h"

#define HANGS_MAX 32U
#define HANG_PAUSE_MS UINT64_C(5000) /* before it is asked again; doubles up to the next */
#define HANG_PAUSE_MAX_MS UINT64_C(600000)
#define HANG_RELAPSE_MS UINT64_C(600000) /* without a hang for this long, pauses start short again */

struct hang {
        struct call_info call;
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
bool hangs_add(struct hangs *hangs, const struct call_info *call, bool has_crashed, uint64_t pause_ms, uint64_t now_ms);
void hangs_end(struct hang *hang, uint64_t now_ms);

/* The one that is not over, about the driver (its library, or no GPU in particular), about pairs, or about that GPU. */
struct hang *hangs_find(struct hangs *hangs, enum call_subject subject, unsigned int index, const char *uuid);

/* No GPU is known to be the cause: the library is being opened, or the driver asked about no GPU in particular. */
bool hang_is_of_driver(const struct call_info *call);

/* The GPU that the call is about: its index and its UUID, as far as |inventory| (may be NULL) has them. */
void hang_name_gpu(struct call_info *call, const struct inventory *inventory);

/* Names the lane of requests that ask alone about the subject of the call: the GPU, or a text that stands for it. */
void hang_print_lane(const struct call_info *call, char text[CALL_GPU_SIZE]);

/* "nvmlDeviceGetMemoryInfo of GPU 1 (GPU-…)", or "… of GPU-…" if the index is not known. */
void hang_print(const struct call_info *call, char *text, size_t size);

/*
 * |ret|: why a request has no answer, whose process was lost with |cause| (base/io/worker.h) in |call|. Where it was in
 * none, |ret| is |cause|.
 */
void hang_explain(const struct call_info *call, const struct error *cause, uint64_t now_ms, struct error *ret);

/* How long it has not returned. */
uint64_t hang_seconds(const struct call_info *call, uint64_t now_ms);

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
void skips_add(struct skips *skips, const struct call_info *call, const char *reason);

/* The reason to skip a GPU, found by index or by UUID; NULL: it may be asked. |skips| NULL: all may be asked. */
const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index);
const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid);
