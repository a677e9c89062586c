/*
 * NVML for who changes GPUs: the supervisor, and the agent where it makes MIG devices. Calls block, sometimes for
 * seconds and sometimes for ever, so a separate thread makes them, one job after the other. NVML is opened for the
 * first job, and again after a job that asks for it. It is closed when there was no job for NVML_QUEUE_IDLE_MS: a GPU
 * that this process has opened cannot be reset.
 *
 * A call that has not returned after ten seconds is logged, and nvml_queue_hang() reports it. The jobs behind it wait:
 * each would hang as well, or must not overtake those before it. A job calls call_trace_ask() to say
 * which GPU it asks.
 *
 * A job is embedded in a struct of its owner. |work| runs on the thread, |done| on the loop; from nvml_queue_add()
 * until |done| the job belongs to the queue.
 */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "gpu/nvml.h"

struct nvml_job {
        struct list link;
        /* |nvml| is NULL if NVML is missing; |err| says why. */
        void (*work)(struct nvml_job *job, const struct nvml *nvml, const struct error *err);
        void (*done)(struct nvml_job *job);
        bool has_worked; /* for |done|; false: the queue was closed before it ran */
        bool reopen;     /* set by |work|: the library has lost its driver or a GPU */
};

#define NVML_QUEUE_IDLE_MS UINT64_C(5000)

struct nvml_queue;

/* |library| and |driver_root| as in nvml_open(); |hang_ms| 0: CALL_LIMIT_MS. Fails where no thread can be started. */
int nvml_queue_new(struct nvml_queue **ret, uv_loop_t *loop, const char *library, const char *driver_root,
        uint64_t hang_ms, struct error *err) MUST_USE;
void nvml_queue_add(struct nvml_queue *queue, struct nvml_job *job);

/* The call that hangs now, if any. */
bool nvml_queue_hang(const struct nvml_queue *queue, struct call_info *ret);

/*
 * |done| is called for every job before |closed|. If NVML hangs, the thread and its job are left behind after
 * |patience_ms|; then |is_left| is true, and |done| of that job is not called.
 */
void nvml_queue_close(
        struct nvml_queue *queue, uint64_t patience_ms, void (*closed)(bool is_left, void *data), void *data);
