/*
 * The lock protects the lists and the flags. The struct belongs to the loop until it is closed after the thread has
 * ended. A thread that hangs in NVML keeps the struct and its job until the process ends.
 */
#include "gpu/nvml_queue.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "gpu/hangs.h"

struct nvml_queue {
        uv_mutex_t lock;
        uv_cond_t wake;
        struct list waiting;
        struct list finished;
        bool stop;
        bool has_ended;
        bool has_returned; /* the call that hung has returned */
        struct call_trace trace;
        uv_thread_t thread;
        char *library;
        char *driver_root;

        int timer;
        uv_poll_t poll; /* for |timer|: a call takes too long */
        bool is_hung;
        struct call_info hung;
        uv_async_t async;
        uv_timer_t patience;
        unsigned int open_handles;
        bool is_closing; /* the handles */
        bool is_left;    /* the thread hangs */
        void (*closed)(bool is_left, void *data);
        void *closed_data;
};

/* ---- the thread ---- */

/* True: nothing came for so long that NVML, which is open, is to be closed. Call it with the lock held. */
static bool wait_for_job(struct nvml_queue *queue, bool is_open)
{
        if (is_open)
                return uv_cond_timedwait(&queue->wake, &queue->lock, NVML_QUEUE_IDLE_MS * 1000000) == UV_ETIMEDOUT;
        uv_cond_wait(&queue->wake, &queue->lock);
        return false;
}

/* The next job; NULL: end the thread, or |ret_is_idle|. */
static struct nvml_job *next_job(struct nvml_queue *queue, bool is_open, bool *ret_is_idle)
{
        struct nvml_job *job = NULL;
        bool is_idle = false;

        uv_mutex_lock(&queue->lock);
        while (!queue->stop && list_is_empty(&queue->waiting) && !is_idle)
                is_idle = wait_for_job(queue, is_open);
        *ret_is_idle = !queue->stop && list_is_empty(&queue->waiting);
        if (!queue->stop && !*ret_is_idle) {
                job = container_of(queue->waiting.next, struct nvml_job, link);
                list_remove(&job->link);
        }
        uv_mutex_unlock(&queue->lock);
        return job;
}

/* False: the loop has left the thread behind and does not want results. */
static bool give_back(struct nvml_queue *queue, struct nvml_job *job)
{
        bool is_left;

        uv_mutex_lock(&queue->lock);
        is_left = queue->is_left;
        if (!is_left) {
                if (job)
                        list_append(&queue->finished, &job->link);
                else
                        queue->has_ended = true;
                uv_async_send(&queue->async);
        }
        uv_mutex_unlock(&queue->lock);
        return !is_left;
}

static void on_nvml_queue_call_ended(void *data)
{
        struct nvml_queue *queue = data;

        uv_mutex_lock(&queue->lock);
        queue->has_returned = true;
        if (!queue->is_left)
                uv_async_send(&queue->async);
        uv_mutex_unlock(&queue->lock);
}

static void nvml_queue_run(void *argument)
{
        struct nvml_queue *queue = argument;
        struct nvml *nvml = NULL;
        struct nvml_job *job;
        bool is_idle;

        while ((job = next_job(queue, nvml, &is_idle)) || is_idle) {
                struct error err = {.kind = ERROR_NONE};

                if (is_idle) {
                        nvml = nvml_close(nvml);
                        continue;
                }

                if (!nvml && nvml_open_traced(&nvml, queue->library, queue->driver_root, &queue->trace, &err) < 0)
                        nvml = NULL;
                call_trace_ask(&queue->trace, CALL_ON_DRIVER, 0, NULL);
                job->reopen = false;
                job->work(job, nvml, &err);
                job->has_worked = true;
                if (job->reopen)
                        nvml = nvml_close(nvml);
                if (!give_back(queue, job))
                        return;
        }
        nvml_close(nvml);
        give_back(queue, NULL);
}

/* ---- the loop ---- */

static void queue_free(struct nvml_queue *queue)
{
        call_trace_done(&queue->trace);
        uv_cond_destroy(&queue->wake);
        uv_mutex_destroy(&queue->lock);
        free(queue->library);
        free(queue->driver_root);
        free(queue);
}

static void on_nvml_queue_handle_closed(uv_handle_t *handle)
{
        struct nvml_queue *queue = handle->data;
        void (*closed)(bool is_left, void *data) = queue->closed;
        void *data = queue->closed_data;
        bool is_left = queue->is_left;

        if (--queue->open_handles)
                return;
        close(queue->timer);
        if (!is_left) {
                uv_thread_join(&queue->thread);
                queue_free(queue);
        }
        closed(is_left, data);
}

static void close_handles(struct nvml_queue *queue)
{
        if (queue->is_closing)
                return;
        queue->is_closing = true;
        call_trace_forget_timer(&queue->trace);
        uv_close((uv_handle_t *)&queue->poll, on_nvml_queue_handle_closed);
        uv_close((uv_handle_t *)&queue->async, on_nvml_queue_handle_closed);
        uv_close((uv_handle_t *)&queue->patience, on_nvml_queue_handle_closed);
}

static struct nvml_job *take_finished(struct nvml_queue *queue, bool *ret_has_ended)
{
        struct nvml_job *job = NULL;

        uv_mutex_lock(&queue->lock);
        if (!list_is_empty(&queue->finished)) {
                job = container_of(queue->finished.next, struct nvml_job, link);
                list_remove(&job->link);
        }
        *ret_has_ended = queue->has_ended;
        uv_mutex_unlock(&queue->lock);
        return job;
}

static void report(const struct call_info *call, bool has_returned)
{
        char text[200];
        uint64_t seconds = hang_seconds(call, call_trace_now_ms());

        hang_print(call, text, sizeof(text));
        if (has_returned)
                log_info("the call into NVML has returned", LOG_STR("call", text), LOG_UINT("seconds", seconds));
        else
                log_error("a call into NVML does not return, and what needs NVML waits for it", LOG_STR("call", text),
                        LOG_UINT("seconds", seconds));
}

static void on_nvml_queue_timer(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct nvml_queue *queue = poll->data;
        uint64_t count;

        (void)!read(queue->timer, &count, sizeof(count));
        if (!call_trace_over(&queue->trace, &queue->hung))
                return;
        queue->is_hung = true;
        report(&queue->hung, false);
}

static void end_hang(struct nvml_queue *queue)
{
        bool has_returned;

        uv_mutex_lock(&queue->lock);
        has_returned = queue->has_returned;
        queue->has_returned = false;
        uv_mutex_unlock(&queue->lock);
        if (!has_returned || !queue->is_hung)
                return;
        queue->is_hung = false;
        report(&queue->hung, true);
}

bool nvml_queue_hang(const struct nvml_queue *queue, struct call_info *ret)
{
        if (queue->is_hung)
                *ret = queue->hung;
        return queue->is_hung;
}

/* True when the thread has ended. */
static bool finish_jobs(struct nvml_queue *queue)
{
        struct nvml_job *job;
        bool has_ended;

        while ((job = take_finished(queue, &has_ended)))
                job->done(job);
        return has_ended;
}

static void on_async(uv_async_t *async)
{
        struct nvml_queue *queue = async->data;

        end_hang(queue);
        if (finish_jobs(queue))
                close_handles(queue);
}

static int open_handles(struct nvml_queue *queue, uv_loop_t *loop)
{
        int rc = uv_async_init(loop, &queue->async, on_async);

        if (rc < 0)
                return rc;
        uv_timer_init(loop, &queue->patience);
        if (uv_poll_init(loop, &queue->poll, queue->timer) < 0 ||
                uv_poll_start(&queue->poll, UV_READABLE, on_nvml_queue_timer) < 0)
                alloc_fail(); /* epoll accepts each timer */
        queue->async.data = queue->patience.data = queue->poll.data = queue;
        queue->open_handles = 3;
        uv_unref((uv_handle_t *)&queue->async);
        uv_unref((uv_handle_t *)&queue->poll);
        return 0;
}

/* The thread waits for the lock until there are the handles that it uses. */
static int begin(struct nvml_queue *queue, uv_loop_t *loop)
{
        int rc;

        uv_mutex_lock(&queue->lock);
        rc = uv_thread_create(&queue->thread, nvml_queue_run, queue);
        if (rc < 0) {
                uv_mutex_unlock(&queue->lock);
                return rc;
        }
        rc = open_handles(queue, loop);
        queue->stop = queue->is_left = rc < 0;
        uv_mutex_unlock(&queue->lock);
        if (rc < 0)
                uv_thread_join(&queue->thread);
        return rc;
}

int nvml_queue_new(struct nvml_queue **ret, uv_loop_t *loop, const char *library, const char *driver_root,
        uint64_t hang_ms, struct error *err)
{
        _close_ int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        struct nvml_queue *queue;
        int rc;

        if (timer < 0)
                return error_errno(err, errno, "prepare the thread for NVML");
        queue = xcalloc(1, sizeof(*queue));
        queue->timer = timer;
        call_trace_init(&queue->trace, timer, hang_ms, on_nvml_queue_call_ended, queue);
        if (uv_mutex_init(&queue->lock) < 0 || uv_cond_init(&queue->wake) < 0)
                alloc_fail(); /* of glibc */
        list_init(&queue->waiting);
        list_init(&queue->finished);
        queue->library = xstrdup(library ? library : "");
        queue->driver_root = xstrdup(driver_root ? driver_root : "");
        rc = begin(queue, loop);
        if (rc < 0) {
                queue_free(queue);
                return error_errno(err, -rc, "start the thread for NVML");
        }
        TAKE_FD(timer);
        *ret = queue;
        return 0;
}

void nvml_queue_add(struct nvml_queue *queue, struct nvml_job *job)
{
        job->has_worked = false;
        uv_mutex_lock(&queue->lock);
        list_append(&queue->waiting, &job->link);
        uv_cond_signal(&queue->wake);
        uv_mutex_unlock(&queue->lock);
}

static void on_patience(uv_timer_t *timer)
{
        struct nvml_queue *queue = timer->data;

        uv_mutex_lock(&queue->lock);
        queue->is_left = !queue->has_ended;
        uv_mutex_unlock(&queue->lock);
        if (queue->is_left)
                log_warn("NVML does not return; its thread is left behind");
        finish_jobs(queue);
        close_handles(queue);
}

void nvml_queue_close(
        struct nvml_queue *queue, uint64_t patience_ms, void (*closed)(bool is_left, void *data), void *data)
{
        queue->closed = closed;
        queue->closed_data = data;
        uv_ref((uv_handle_t *)&queue->async);
        uv_mutex_lock(&queue->lock);
        queue->stop = true;
        while (!list_is_empty(&queue->waiting)) {
                struct list *link = queue->waiting.next;

                list_remove(link);
                list_append(&queue->finished, link);
        }
        uv_cond_signal(&queue->wake);
        uv_mutex_unlock(&queue->lock);
        uv_timer_start(&queue->patience, on_patience, patience_ms, 0);
}
