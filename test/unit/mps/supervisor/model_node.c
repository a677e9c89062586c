/* model_daemons.h: what the kernel and NVML say. */
#include "model_daemons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "gpu/nvml_queue.h"
#include "mps/supervisor/environment.h"
#include "mps/supervisor/identity.h"
#include "mps/supervisor/peer.h"
#include "mps/supervisor/process.h"

/* ---- mps/supervisor/identity.h, process.h, peer.h ---- */

uint64_t identity_start_time(pid_t pid)
{
        return model_daemon_of_client(pid) ? 1 : 0;
}

bool identity_is_alive(pid_t pid UNUSED, uint64_t start_time)
{
        return model_daemon_started(start_time);
}

bool identity_has_ended(pid_t pid UNUSED, uint64_t start_time)
{
        return !model_daemon_started(start_time);
}

static const struct model_daemon *of_lock;

pid_t identity_of_lock(const char *pipe_directory)
{
        of_lock = model_daemon_at(pipe_directory);
        return of_lock ? getpid() : 0;
}

enum identity_daemon identity_judge_daemon(
        pid_t pid UNUSED, const char *program UNUSED, uint64_t *ret_start_time, struct error *err UNUSED)
{
        *ret_start_time = of_lock->start_time;
        return IDENTITY_DAEMON;
}

int identity_open_server(pid_t pid UNUSED, pid_t daemon UNUSED, uint64_t start_time UNUSED)
{
        return -1;
}

void identity_kill(int pidfd UNUSED)
{
}

char *identity_variable(pid_t pid UNUSED, const char *variable)
{
        return xstrdup(strcmp(variable, "CUDA_VISIBLE_DEVICES") == 0 && of_lock ? of_lock->units : "");
}

void identity_find_daemons(const char *root, const char *program UNUSED,
        void (*found)(const struct identity_found *found, void *data), void *data)
{
        for (size_t i = 0; i < daemons.n_all; i++) {
                const struct model_daemon *daemon = &daemons.all[i];
                char name[96];

                if (!daemon->is_alive)
                        continue;
                snprintf(name, sizeof(name), "%s", daemon->pipe + strlen(root) + 1);
                *strrchr(name, '/') = '\0';
                found(&(struct identity_found){getpid(), daemon->start_time, name, daemon->units}, data);
        }
}

bool identity_has_variable(pid_t pid UNUSED, const char *variable, const char *value)
{
        return strcmp(variable, "CUDA_MPS_PIPE_DIRECTORY") == 0 && model_daemon_at(value);
}

unsigned int identity_end_orphans(pid_t daemon UNUSED, uint64_t start_time UNUSED, const char *pipe_directory UNUSED)
{
        return 0;
}

pid_t identity_parent(pid_t pid UNUSED)
{
        return 0;
}

void identity_children(pid_t pid UNUSED, void (*found)(pid_t child, void *data) UNUSED, void *data UNUSED)
{
}

uint64_t process_start_time(const char *root UNUSED, pid_t pid)
{
        return model_daemon_of_client(pid) ? 1 : 0;
}

int process_read(struct process *ret, struct arena *arena, const char *root UNUSED, pid_t pid, struct error *err)
{
        if (!model_daemon_of_client(pid))
                return error_set(err, ERROR_NOT_FOUND, "no such process");
        *ret = (struct process){.pid = pid,
                .start_time = 1,
                .pod_uid = "uid-train",
                .container_id = arena_printf(arena, "c%d", (int)pid)};
        return 0;
}

/* NULL: the environments of clients stay unknown. */
struct environments *environments_new(uv_loop_t *loop UNUSED, const char *root UNUSED)
{
        return NULL;
}

struct environments *environments_close(struct environments *environments UNUSED)
{
        return NULL;
}

bool environments_ask(struct environments *environments UNUSED, struct environment_question *question UNUSED)
{
        return false;
}

void environments_cancel(struct environment_question *question UNUSED)
{
}

void peer_wait_done(struct peer_wait *wait UNUSED)
{
}

enum peer_found peer_poll(struct peer_wait *wait UNUSED, pid_t daemon UNUSED, uint64_t start_time UNUSED,
        uint64_t now_ms UNUSED, const struct peer_patience *patience UNUSED, char **ret_who UNUSED)
{
        return PEER_NONE;
}

bool peer_close_one(pid_t daemon UNUSED, uint64_t start_time UNUSED, peer_rank_fn *rank UNUSED, void *data UNUSED,
        char **ret_who UNUSED)
{
        return false;
}

/* ---- gpu/nvml_queue.h ---- */

struct nvml_queue {
        uv_timer_t timer;
        struct list jobs;
        void (*closed)(bool is_left, void *data);
        void *data;
};

static struct nvml_queue *the_queue;

static nvmlReturn_t say_driver(char *version, unsigned int length)
{
        snprintf(version, length, "590.48");
        return NVML_SUCCESS;
}

static nvmlReturn_t find_device(const char *uuid, nvmlDevice_t *device)
{
        unsigned int unit = (unsigned int)(uuid[4] - '0');

        *device = (nvmlDevice_t)(uintptr_t)&daemons.is_lost[unit];
        return daemons.is_lost[unit] ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

static nvmlReturn_t say_capability(nvmlDevice_t device UNUSED, int *major, int *minor)
{
        *major = 8;
        *minor = 0;
        return NVML_SUCCESS;
}

static struct nvml nvml = {.functions = {.system_get_driver_version = say_driver,
                                   .device_get_by_uuid = find_device,
                                   .device_get_compute_capability = say_capability}};

static void on_jobs(uv_timer_t *timer)
{
        struct nvml_queue *queue = timer->data;
        struct error err = {0};

        while (!list_is_empty(&queue->jobs)) {
                struct nvml_job *job = container_of(queue->jobs.next, struct nvml_job, link);

                list_remove(&job->link);
                job->work(job, &nvml, &err);
                job->has_worked = true;
                job->done(job);
        }
}

int nvml_queue_new(struct nvml_queue **ret, uv_loop_t *loop, const char *library UNUSED, const char *driver_root UNUSED,
        uint64_t hang_ms UNUSED, struct error *err UNUSED)
{
        *ret = the_queue = xcalloc(1, sizeof(*the_queue));
        list_init(&the_queue->jobs);
        uv_timer_init(loop, &the_queue->timer);
        the_queue->timer.data = the_queue;
        return 0;
}

void nvml_queue_add(struct nvml_queue *queue, struct nvml_job *job)
{
        list_append(&queue->jobs, &job->link);
        if (!daemons.is_nvml_late)
                uv_timer_start(&queue->timer, on_jobs, 0, 0);
}

void model_answer_nvml(void)
{
        if (the_queue)
                uv_timer_start(&the_queue->timer, on_jobs, 0, 0);
}

bool nvml_queue_hang(const struct nvml_queue *queue UNUSED, struct call_info *ret UNUSED)
{
        return false;
}

static void on_queue_closed(uv_handle_t *handle)
{
        struct nvml_queue *queue = handle->data;

        queue->closed(false, queue->data);
        free(queue);
}

void nvml_queue_close(
        struct nvml_queue *queue, uint64_t patience_ms UNUSED, void (*closed)(bool is_left, void *data), void *data)
{
        queue->closed = closed;
        queue->data = data;
        while (!list_is_empty(&queue->jobs)) {
                struct nvml_job *job = container_of(queue->jobs.next, struct nvml_job, link);

                list_remove(&job->link);
                job->done(job);
        }
        the_queue = NULL;
        uv_close((uv_handle_t *)&queue->timer, on_queue_closed);
}
