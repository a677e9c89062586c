/*
 * The lock guards the lists and the flags. The struct belongs to the loop until it is closed with the thread ended; a thread
 * that hangs in NVML keeps it, and what it was working on, for as long as the process lives.
 */
#include "mps/nvml_queue.h"

#include "base/alloc.h"
#include "base/log.h"

struct nvml_queue {
        uv_mutex_t lock;
        uv_cond_t wake;
        struct list waiting;
        struct list finished;
        bool stop;
        bool has_ended;
        uv_thread_t thread;
        char *library;
        char *driver_root;

        uv_async_t async;
        uv_timer_t patience;
        unsigned int open_handles;
        bool is_closing; /* the handles */
        bool is_left;    /* the thread hangs */
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- the thread ---- */

/* The next job; NULL: it is time to end. */
static struct nvml_job *next_job(struct nvml_queue *queue)
{
        struct nvml_job *job = NULL;

        uv_mutex_lock(&queue->lock);
        while (!queue->stop && list_is_empty(&queue->waiting))
                uv_cond_wait(&queue->wake, &queue->lock);
        if (!queue->stop) {
                job = container_of(queue->waiting.next, struct nvml_job, link);
                list_remove(&job->link);
        }
        uv_mutex_unlock(&queue->lock);
        return job;
}

/* True when the loop is still there to be told. */
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

static void run(void *argument)
{
        struct nvml_queue *queue = argument;
        struct nvml *nvml = NULL;
        struct nvml_job *job;

        while ((job = next_job(queue))) {
                struct error err = {.kind = ERROR_NONE};

                if (!nvml && nvml_open(&nvml, queue->library, queue->driver_root, &err) < 0)
                        nvml = NULL;
                job->reopen = false;
                job->work(job, nvml, &err);
                if (job->reopen)
                        nvml = nvml_close(nvml);
                if (!give_back(queue, job))
                        return;
        }
        nvml_close(nvml);
        give_back(queue, NULL);
}

/* ---- the loop ---- */

static void on_handle_closed(uv_handle_t *handle)
{
        struct nvml_queue *queue = handle->data;
        void (*closed)(void *data) = queue->closed;
        void *data = queue->closed_data;

        if (--queue->open_handles)
                return;
        if (!queue->is_left) {
                uv_thread_join(&queue->thread);
                uv_cond_destroy(&queue->wake);
                uv_mutex_destroy(&queue->lock);
                free(queue->library);
                free(queue->driver_root);
                free(queue);
        }
        closed(data);
}

static void close_handles(struct nvml_queue *queue)
{
        if (queue->is_closing)
                return;
        queue->is_closing = true;
        uv_close((uv_handle_t *)&queue->async, on_handle_closed);
        uv_close((uv_handle_t *)&queue->patience, on_handle_closed);
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

static void on_async(uv_async_t *async)
{
        struct nvml_queue *queue = async->data;
        struct nvml_job *job;
        bool has_ended;

        while ((job = take_finished(queue, &has_ended)))
                job->done(job);
        if (has_ended)
                close_handles(queue);
}

int nvml_queue_new(
        struct nvml_queue **ret, uv_loop_t *loop, const char *library, const char *driver_root, struct error *err)
{
        struct nvml_queue *queue = xcalloc(1, sizeof(*queue));
        int rc = uv_async_init(loop, &queue->async, on_async);

        if (rc < 0) {
                free(queue);
                return error_errno(err, -rc, "prepare the thread for NVML");
        }
        uv_timer_init(loop, &queue->patience);
        queue->async.data = queue->patience.data = queue;
        queue->open_handles = 2;
        uv_mutex_init(&queue->lock);
        uv_cond_init(&queue->wake);
        list_init(&queue->waiting);
        list_init(&queue->finished);
        queue->library = xstrdup(library ? library : "");
        queue->driver_root = xstrdup(driver_root ? driver_root : "");
        rc = uv_thread_create(&queue->thread, run, queue);
        if (rc < 0)
                abort(); /* as out of memory */
        uv_unref((uv_handle_t *)&queue->async);
        *ret = queue;
        return 0;
}

void nvml_queue_add(struct nvml_queue *queue, struct nvml_job *job)
{
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
        close_handles(queue);
}

void nvml_queue_close(struct nvml_queue *queue, uint64_t patience_ms, void (*closed)(void *data), void *data)
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
