// SPDX-License-Identifier: Apache-2.0
/* model_daemons.h: what the kernel and NVML say. */
#include "model_daemons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "gpu/nvml_pool.h"
#include "mps/supervisor/environment.h"
#include "mps/supervisor/process.h"
#include "mps/supervisor/peer.h"

/* ---- mps/supervisor/process.h, process.h, peer.h ---- */

bool process_is_alive(pid_t pid UNUSED, uint64_t start_time)
{
        return model_daemon_started(start_time);
}

bool process_has_ended(pid_t pid UNUSED, uint64_t start_time)
{
        return !model_daemon_started(start_time);
}

static const struct model_daemon *of_lock;

pid_t process_of_lock(const char *pipe_directory)
{
        of_lock = model_daemon_at(pipe_directory);
        return of_lock ? getpid() : 0;
}

enum process_daemon process_check_daemon(
        pid_t pid UNUSED, const char *program UNUSED, uint64_t *ret_start_time, struct error *err UNUSED)
{
        *ret_start_time = of_lock->start_time;
        return PROCESS_DAEMON;
}

int process_open_server(pid_t pid UNUSED, pid_t daemon UNUSED, uint64_t start_time UNUSED)
{
        return -1;
}

void process_kill(int pidfd UNUSED)
{
}

char *process_variable(pid_t pid UNUSED, const char *variable)
{
        return xstrdup(strcmp(variable, "CUDA_VISIBLE_DEVICES") == 0 && of_lock ? of_lock->units : "");
}

size_t process_find_daemons(
        const char *root, const char *program UNUSED, struct arena *arena, const struct process_found **ret)
{
        struct process_found *found = ARENA_ARRAY(arena, struct process_found, daemons.n_all);
        size_t count = 0;

        for (size_t i = 0; i < daemons.n_all; i++) {
                const struct model_daemon *daemon = &daemons.all[i];
                const char *name = daemon->pipe + strlen(root) + 1;

                if (daemon->is_alive)
                        found[count++] = (struct process_found){getpid(), daemon->start_time,
                                arena_strndup(arena, name, (size_t)(strrchr(name, '/') - name)),
                                arena_strdup(arena, daemon->units)};
        }
        *ret = found;
        return count;
}

bool process_has_variable(pid_t pid UNUSED, const char *variable, const char *value)
{
        return strcmp(variable, "CUDA_MPS_PIPE_DIRECTORY") == 0 && model_daemon_at(value);
}

unsigned int process_end_orphans(pid_t daemon UNUSED, uint64_t start_time UNUSED, const char *pipe_directory UNUSED)
{
        return 0;
}

pid_t process_parent(pid_t pid UNUSED)
{
        return 0;
}

void process_children(pid_t pid UNUSED, void (*found)(pid_t child, void *data) UNUSED, void *data UNUSED)
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

void mps_peers_init(struct mps_peers *peers, uv_loop_t *loop UNUSED, peer_rank_fn *rank UNUSED,
        void (*closed)(char *who, void *data) UNUSED, void *data UNUSED)
{
        *peers = (struct mps_peers){.pid = 0};
}

void mps_peers_follow(struct mps_peers *peers UNUSED, pid_t pid UNUSED, uint64_t start_time UNUSED)
{
}

void mps_peers_on_slow(struct mps_peers *peers UNUSED)
{
}

void mps_peers_on_refused(struct mps_peers *peers UNUSED)
{
}

bool mps_peers_are_blocking(const struct mps_peers *peers UNUSED)
{
        return false;
}

void mps_peers_close(struct mps_peers *peers UNUSED, struct closing *closing UNUSED)
{
}

/* ---- gpu/nvml_pool.h ---- */

struct nvml_pool {
        uv_timer_t timer;
        struct list requests;
};

static struct nvml_pool *the_pool;

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

static struct nvml nvml_of_model = {.functions = {.system_get_driver_version = say_driver,
                                            .device_get_by_uuid = find_device,
                                            .device_get_compute_capability = say_capability}};

int nvml_serving_open(struct nvml_serving *serving UNUSED, const struct nvml **ret, struct error *err UNUSED)
{
        *ret = &nvml_of_model;
        return 0;
}

void nvml_request_init(struct nvml_request *request, nvml_serve_fn *serve, const char *gpu,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer))
{
        *request = (struct nvml_request){.serve = serve, .done = done, .question = STRBUF_INIT};
        snprintf(request->gpu, sizeof(request->gpu), "%s", gpu);
}

/* Of those about one unit the first, and of the units that of the last: only that order is promised. */
static struct nvml_request *next_request(const struct nvml_pool *pool)
{
        const struct nvml_request *last = container_of(pool->requests.previous, struct nvml_request, link);

        LIST_FOR_EACH(link, &pool->requests) {
                struct nvml_request *request = container_of(link, struct nvml_request, link);

                if (strcmp(request->gpu, last->gpu) == 0)
                        return request;
        }
        return NULL; /* not reached */
}

static void answer(struct nvml_request *request)
{
        struct arena arena = ARENA_INIT;
        struct nvml_serving serving = {.nvml = NULL};
        struct strbuf bytes = STRBUF_INIT;
        struct pack question = pack_reader(request->question.data, request->question.size, &arena);
        struct pack to_answer = pack_writer(&bytes);
        struct error err;
        const int rc = request->serve(&serving, &question, &to_answer, &err);
        struct pack from_answer = pack_reader(bytes.data, rc < 0 ? 0 : bytes.size, &arena);

        list_remove(&request->link);
        strbuf_done(&request->question);
        request->done(request, rc < 0 ? &err : NULL, &from_answer);
        strbuf_done(&bytes);
        arena_done(&arena);
}

static void on_requests(uv_timer_t *timer)
{
        struct nvml_pool *pool = timer->data;

        while (!list_is_empty(&pool->requests))
                answer(next_request(pool));
}

struct nvml_pool *nvml_pool_new(const struct nvml_pool_options *options)
{
        the_pool = xcalloc(1, sizeof(*the_pool));
        list_init(&the_pool->requests);
        uv_timer_init(options->loop, &the_pool->timer);
        the_pool->timer.data = the_pool;
        return the_pool;
}

void nvml_pool_ask(struct nvml_pool *pool, struct nvml_request *request)
{
        list_append(&pool->requests, &request->link);
        if (!daemons.is_nvml_late)
                uv_timer_start(&pool->timer, on_requests, 0, 0);
}

void model_answer_nvml(void)
{
        if (the_pool)
                uv_timer_start(&the_pool->timer, on_requests, 0, 0);
}

void nvml_pool_renew(struct nvml_pool *pool UNUSED)
{
}

size_t nvml_pool_hangs(const struct nvml_pool *pool UNUSED, struct worker_call ret[NVML_POOL_MAX] UNUSED)
{
        return 0;
}

static void on_pool_closed(uv_handle_t *handle)
{
        free(handle->data);
}

struct nvml_pool *nvml_pool_close(struct nvml_pool *pool)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the program ends");
        while (!list_is_empty(&pool->requests)) {
                struct nvml_request *request = container_of(pool->requests.next, struct nvml_request, link);

                list_remove(&request->link);
                strbuf_done(&request->question);
                request->done(request, &err, &(struct pack){.left = 0});
        }
        the_pool = NULL;
        uv_close((uv_handle_t *)&pool->timer, on_pool_closed);
        return NULL;
}
