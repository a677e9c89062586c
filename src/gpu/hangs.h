/*
 * What follows from a call into the driver that does not return: who is to blame, whether another thread goes on without it, and what that
 * one must not ask. Pure: values in, values out.
 *
 * A thread inside a call that hangs cannot be ended. It is dismissed, and left where it is; a successor goes on and asks everything but
 * the GPU that hangs. When the call returns, that GPU is asked again; if that hangs as well, later and later, since each attempt makes the
 * others wait for as long as it takes to notice. So each GPU costs one thread at most, and HANGS_MAX are the most in all: beyond that, and where another thread
 * would only hang in the same place, the thread is waited for, and what was known last stays.
 */
#pragma once

#include <stddef.h>

#include "gpu/call_trace.h"
#include "gpu/inventory.h"

#define HANGS_MAX 16U                 /* dismissed threads */
#define HANG_PAUSE_MS UINT64_C(30000) /* before a GPU is asked again that hung twice; doubles up to the next */
#define HANG_PAUSE_MAX_MS UINT64_C(600000)
#define HANG_RELAPSE_MS UINT64_C(600000) /* who did not hang for so long begins anew */

enum hang_answer {
        HANG_WAIT,    /* until it returns nothing is heard of any GPU */
        HANG_REPLACE, /* another thread can go on */
};

/* |dismissed|: the calls of the threads that were dismissed before. */
enum hang_answer hang_judge(const struct call_info *call, const struct call_info *dismissed, size_t n_dismissed);

/* It has the event set, which no other thread may use meanwhile. What makes or frees one does that beside the one in use. */
bool hang_has_events(const struct call_info *call);

/* Which GPU it is: one that has not told its UUID is known by its index, where |inventory| (or NULL) has it. */
void hang_name_gpu(struct call_info *call, const struct inventory *inventory);

/* "nvmlDeviceGetMemoryInfo of GPU 1 (GPU-…)", "… of GPU-…" where the index is not known. */
void hang_print(const struct call_info *call, char *text, size_t size);

/* For how long it has not returned. */
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
        bool pairs; /* links between GPUs */
};

/* |call| hangs, or has done so again and |is_over| now. Zero skips at first; what is about no GPU adds none. */
void skips_add(struct skips *skips, const struct call_info *call, bool is_over);

/* Who hung before, the newest of them. Zero at first. */
struct hang_history {
        struct hang_past {
                struct call_info call;
                unsigned int times;   /* one soon after the other */
                uint64_t asked_at_ms; /* when it may be asked again */
        } past[HANGS_MAX];
        size_t n_past;
};

/* A dismissed thread's call has returned. For how long what it was about must not be asked yet; |pause_ms|: the first one. */
uint64_t hang_history_add(
        struct hang_history *history, const struct call_info *call, uint64_t pause_ms, uint64_t now_ms);

/* By its place, or by its UUID; NULL: it may be asked. |skips| NULL: all may. */
const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index);
const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid);
