/*
 * NVML for the supervisor: calls block, sometimes for seconds and sometimes for ever, so they are made on a thread of its own,
 * one job after the other. NVML is opened when the first job comes, and anew after one that asks for it.
 *
 * A call that has not returned after ten seconds is told in the log, and by nvml_queue_hang(); the jobs behind it wait, since each of them
 * would hang as well or is about a daemon whose order counts. A job says by call_trace_ask() which GPU it asks.
 *
 * A job is embedded in what its owner knows of it. |work| runs on the thread, |done| on the loop; between nvml_queue_add()
 * and |done| the job belongs to the queue.
 */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "gpu/nvml.h"

struct nvml_job {
        struct list link;
        /* |nvml| is NULL where there is no NVML; |err| says why then. */
        void (*work)(struct nvml_job *job, const struct nvml *nvml, const struct error *err);
        void (*done)(struct nvml_job *job);
        bool has_worked; /* for |done|: else the queue was closed before */
        bool reopen;     /* set by |work|: the library has lost its driver or a GPU */
};

struct nvml_queue;

/* |library| and |driver_root| as in nvml_open(); |hang_ms| 0: CALL_LIMIT_MS. */
int nvml_queue_new(struct nvml_queue **ret, uv_loop_t *loop, const char *library, const char *driver_root,
        uint64_t hang_ms, struct error *err) MUST_USE;
void nvml_queue_add(struct nvml_queue *queue, struct nvml_job *job);

/* The call that hangs now, if one does. */
bool nvml_queue_hang(const struct nvml_queue *queue, struct call_info *ret);

/*
 * |done| is called for every job before |closed|. Where NVML hangs, its thread is left alone after |patience_ms| with its job, and |closed|
 * is called without it (|is_left|): then |done| of that job is not.
 */
void nvml_queue_close(
        struct nvml_queue *queue, uint64_t patience_ms, void (*closed)(bool is_left, void *data), void *data);
