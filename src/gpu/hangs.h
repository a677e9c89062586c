/*
 * Decides what follows from a driver call that does not return: which GPU it is about, whether another thread can go
 * on, and what that thread must not ask. Pure: values in, values out.
 *
 * A thread inside a call that hangs cannot be ended. It is dismissed and left there; a successor asks about everything
 * except that GPU. When the call returns, that GPU is asked again. If that hangs again, the pause before the next
 * attempt grows, since each attempt delays the other GPUs until the hang is noticed. So each GPU blocks at most one
 * thread, and at most HANGS_MAX threads are blocked in total. If there are more, or if another thread would hang at the
 * same place, the monitor waits for the thread and keeps the last known state.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "gpu/call.h"
#include "gpu/inventory.h"

#define HANGS_MAX 16U                 /* dismissed threads */
#define HANG_PAUSE_MS UINT64_C(30000) /* before a GPU that hung twice is asked again; doubles up to the next */
#define HANG_PAUSE_MAX_MS UINT64_C(600000)
#define HANG_RELAPSE_MS UINT64_C(600000) /* without a hang for this long, pauses start short again */

enum hang_answer {
        HANG_WAIT,    /* no news of any GPU until it returns */
        HANG_REPLACE, /* another thread can continue */
};

/* |dismissed|: the calls of the threads that were dismissed earlier. */
enum hang_answer hang_judge(const struct call_info *call, const struct call_info *dismissed, size_t n_dismissed);

/*
 * It has the event set, which no other thread may use meanwhile. What makes or frees one does that beside the one in
 * use.
 */
bool hang_has_events(const struct call_info *call);

/* The GPU that the call is about. Without a UUID it is identified by its index in |inventory| (may be NULL). */
void hang_name_gpu(struct call_info *call, const struct inventory *inventory);

/* "nvmlDeviceGetMemoryInfo of GPU 1 (GPU-…)", or "… of GPU-…" if the index is not known. */
void hang_print(const struct call_info *call, char *text, size_t size);

/*
 * |ret|: why a request has no answer, whose process was lost with |cause| (io/worker.h) in |call|. Where it was in
 * none, |ret| is |cause|.
 */
void hang_explain(const struct call_info *call, const struct error *cause, uint64_t now_ms, struct error *ret);

/* How long it has not returned. */
uint64_t hang_seconds(const struct call_info *call, uint64_t now_ms);

/* What must not be asked. */
struct skipped_gpu {
        unsigned int index;
        char uuid[CALL_GPU_SIZE]; /* "": unknown */
        char reason[160];         /* for people */
};

#define SKIPS_MAX (2 * HANGS_MAX)

struct skips {
        struct skipped_gpu gpus[SKIPS_MAX];
        size_t n_gpus;
        bool pairs; /* ask for no links between GPUs */
};

/*
 * Adds |call|, which hangs, or hung repeatedly (|is_over|: it has returned). |skips| starts zeroed; a call about no GPU
 * adds nothing.
 */
void skips_add(struct skips *skips, const struct call_info *call, bool is_over);

/* The GPUs that hung before, most recent first. Zeroed at first. */
struct hang_history {
        struct hang_past {
                struct call_info call;
                unsigned int times;   /* how often it hung within a short time */
                uint64_t asked_at_ms; /* when it may be asked again */
        } past[HANGS_MAX];
        size_t n_past;
};

/*
 * The call of a dismissed thread has returned. Returns how long its GPU must not be asked; |pause_ms|: the first pause.
 */
uint64_t hang_history_add(
        struct hang_history *history, const struct call_info *call, uint64_t pause_ms, uint64_t now_ms);

/* The reason to skip a GPU, found by index or by UUID; NULL: it may be asked. |skips| NULL: all may be asked. */
const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index);
const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid);
