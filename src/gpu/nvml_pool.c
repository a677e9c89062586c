// SPDX-License-Identifier: Apache-2.0
/*
 * A lane is a worker with the request that it is at. Who waits gets a lane that has nothing to do; where there is none,
 * and each has been at its request for long, one more.
 */
#include "gpu/nvml_pool.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/hangs.h"

#define ENDING_MS UINT64_C(20) /* between two looks at a process that was killed; it does not report its end */

struct nvml_lane {
        struct worker *worker;
        struct nvml_request *request; /* NULL: nothing to do */
        uint64_t since_ms;
        bool must_renew;
        bool has_lost; /* its last process was killed amid a request about the next */
        char lost_gpu[CALL_GPU_SIZE];
};

struct nvml_pool {
        struct nvml_pool_options options;
        struct nvml_serving serving; /* what a process begins with */
        struct nvml_lane lanes[NVML_POOL_MAX];
        size_t n_lanes;
        struct list waiting;
        struct worker_call hangs[NVML_POOL_MAX];
        size_t n_hangs;
        uv_timer_t timer;
};

/* ---- in the process ---- */

/* The files belong to the driver, and reading them may hang. */
#define READING_FILES "reading /proc/driver/nvidia"

/* Without a path the linker finds the library, and it stays where it was loaded from. */
struct driver_mark nvml_serving_mark(const struct nvml_serving *serving)
{
        _free_ char *path = nvml_locate(serving->library, serving->driver_root);
        _free_ char *loaded = serving->nvml ? driver_library_path(serving->nvml) : NULL;
        struct driver_mark mark;

        gpu_call_begin(READING_FILES, 0);
        mark = driver_mark_take(strchr(path, '/') ? path : loaded, serving->system_root);
        gpu_call_end();
        return mark;
}

struct driver_gpus nvml_serving_gpus(const struct nvml_serving *serving)
{
        struct driver_gpus gpus;

        gpu_call_begin(READING_FILES, 0);
        gpus = driver_gpus_take(serving->system_root);
        gpu_call_end();
        return gpus;
}

/* Marks are taken before NVML is opened, so that a replacement during the opening is noticed. */
int nvml_serving_open(struct nvml_serving *serving, const struct nvml **ret, struct error *err)
{
        if (!serving->nvml) {
                if (serving->system_root) {
                        serving->mark = nvml_serving_mark(serving);
                        serving->gpus = nvml_serving_gpus(serving);
                }
                if (nvml_open(&serving->nvml, serving->library, serving->driver_root, err) < 0)
                        return -1;
                if (serving->system_root && serving->mark.library.inode == 0)
                        serving->mark = nvml_serving_mark(serving);
        }
        *ret = serving->nvml;
        return 0;
}

static void pack_error(struct pack *pack, struct error *err)
{
        PACK(pack, err->kind);
        if (err->kind != ERROR_NONE)
                PACK(pack, err->text);
}

/* The process has a copy of the pool's memory of its own. */
static void nvml_pool_serve(const void *message, size_t size, struct strbuf *answer, const void *data)
{
        struct nvml_serving *serving = (struct nvml_serving *)(uintptr_t)data;
        struct pack question = pack_reader(message, size, &serving->arena);
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
        struct pack to_body = pack_writer(&body);
        struct pack to_answer = pack_writer(answer);
        struct error err = {.kind = ERROR_NONE};
        nvml_serve_fn *function;

        PACK(&question, function);
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
        gpu_call_end(); /* since when it is in none */
        if (function(serving, &question, &to_body, &err) == 0)
                err.kind = ERROR_NONE;
        else
                strbuf_clear(&body);
        pack_error(&to_answer, &err);
        strbuf_append(answer, body.data, body.size);
        if (serving->must_close)
                serving->nvml = nvml_close(serving->nvml);
        serving->must_close = false;
        arena_done(&serving->arena);
}

/* ---- hangs ---- */

static void nvml_pool_report(const struct nvml_pool *pool, const struct worker_call *call, bool is_over)
{
        char text[200];

        if (pool->options.on_hang) {
                pool->options.on_hang(call, is_over, pool->options.data);
                return;
        }
        hang_print(call, text, sizeof(text));
        if (is_over)
                log_info("NVML answers again", LOG_STR("call", text),
                        LOG_UINT("seconds", hang_seconds(call, clock_now_ms())));
        else
                log_error("a call into NVML does not return and was given up", LOG_STR("call", text),
                        LOG_UINT("seconds", hang_seconds(call, clock_now_ms())));
}

static struct worker_call *find_hang(struct nvml_pool *pool, const char *gpu)
{
        for (size_t i = 0; i < pool->n_hangs; i++)
                if (strcmp(pool->hangs[i].name, gpu) == 0)
                        return &pool->hangs[i];
        return NULL;
}

/*
 * |request->gpu| is what a later request has to be about. Reading a file may hang as well, which is not a call into
 * NVML.
 */
static void note_hang(struct nvml_pool *pool, const struct nvml_request *request)
{
        struct worker_call call = request->lost;

        if (find_hang(pool, request->gpu) || pool->n_hangs == NVML_POOL_MAX)
                return;
        if (!*call.call)
                snprintf(call.call, sizeof(call.call), "what is done between two calls");
        pool->hangs[pool->n_hangs] = call;
        snprintf(pool->hangs[pool->n_hangs++].name, sizeof(call.name), "%s", request->gpu);
        nvml_pool_report(pool, &call, false);
}

static void end_hang(struct nvml_pool *pool, const char *gpu)
{
        struct worker_call *hang = find_hang(pool, gpu);
        struct worker_call call;

        if (!hang)
                return;
        call = *hang;
        *hang = pool->hangs[--pool->n_hangs];
        nvml_pool_report(pool, &call, true);
}

size_t nvml_pool_hangs(const struct nvml_pool *pool, struct worker_call ret[NVML_POOL_MAX])
{
        for (size_t i = 0; i < pool->n_hangs; i++)
                ret[i] = pool->hangs[i];
        return pool->n_hangs;
}

/* ---- answers ---- */

static void dispatch(struct nvml_pool *pool);

static void on_pool_timer(uv_timer_t *timer)
{
        dispatch(timer->data);
}

/* Dispatches in a later turn of the loop, so that no callback runs inside nvml_pool_ask() or another callback. */
static void dispatch_soon(struct nvml_pool *pool, uint64_t after_ms)
{
        uv_timer_start(&pool->timer, on_pool_timer, after_ms, 0);
}

static void note_loss(struct nvml_lane *lane, const struct nvml_request *request)
{
        lane->has_lost = true;
        snprintf(lane->lost_gpu, sizeof(lane->lost_gpu), "%s", request->gpu);
}

static void release(struct nvml_request *request)
{
        strbuf_done(&request->question);
        strbuf_done(&request->message);
}

static void nvml_pool_answer(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct pack nothing = {.left = 0};

        release(request);
        request->done(request, err, err ? &nothing : answer);
}

static void on_lane_done(struct worker_request *inner, const struct error *cause, const void *bytes, size_t size)
{
        struct nvml_request *request = container_of(inner, struct nvml_request, inner);
        struct nvml_pool *pool = request->pool;
        struct nvml_lane *lane = request->lane;
        struct arena arena = ARENA_INIT;
        struct pack answer = pack_reader(bytes, size, &arena);
        struct error err = {.kind = ERROR_NONE};

        lane->request = NULL;
        if (lane->must_renew)
                worker_renew(lane->worker);
        lane->must_renew = false;
        if (cause) {
                note_loss(lane, request);
                request->lost = request->inner.lost;
                hang_explain(&request->lost, cause, clock_now_ms(), &err);
                if (cause->kind == ERROR_TIMEOUT)
                        note_hang(pool, request);
        } else {
                pack_error(&answer, &err);
                end_hang(pool, request->gpu);
        }
        dispatch_soon(pool, 0);
        nvml_pool_answer(request, err.kind == ERROR_NONE ? NULL : &err, &answer);
        arena_done(&arena);
}

/* ---- questions ---- */

static bool is_losing(const struct nvml_lane *lane)
{
        return lane->has_lost && worker_is_ending(lane->worker);
}

static bool is_any_losing(const struct nvml_pool *pool)
{
        for (size_t i = 0; i < pool->n_lanes; i++)
                if (is_losing(&pool->lanes[i]))
                        return true;
        return false;
}

static bool is_asked_about(const struct nvml_pool *pool, const char *gpu)
{
        for (size_t i = 0; i < pool->n_lanes; i++) {
                const struct nvml_lane *lane = &pool->lanes[i];

                if ((lane->request && strcmp(lane->request->gpu, gpu) == 0) ||
                        (is_losing(lane) && strcmp(lane->lost_gpu, gpu) == 0))
                        return true;
        }
        return false;
}

static struct nvml_lane *add_lane(struct nvml_pool *pool)
{
        struct nvml_lane *lane = &pool->lanes[pool->n_lanes++];

        lane->worker = worker_new(pool->options.loop, pool->options.name, nvml_pool_serve, &pool->serving);
        if (lane == pool->lanes && pool->options.idle_ms)
                worker_set_idle(lane->worker, pool->options.idle_ms);
        return lane;
}

/* NULL: there is none now. |ret_at_ms|: when there may be one more. */
static struct nvml_lane *find_lane(struct nvml_pool *pool, uint64_t now_ms, uint64_t *ret_at_ms)
{
        *ret_at_ms = 0;
        for (size_t i = 0; i < pool->n_lanes; i++) {
                if (!pool->lanes[i].request && !is_losing(&pool->lanes[i]))
                        return &pool->lanes[i];
                *ret_at_ms = MAX(*ret_at_ms, pool->lanes[i].since_ms + NVML_POOL_SLOW_MS);
        }
        if (*ret_at_ms > now_ms || pool->n_lanes == NVML_POOL_MAX)
                return NULL;
        return add_lane(pool);
}

static void nvml_pool_begin(
        struct nvml_pool *pool, struct nvml_lane *lane, struct nvml_request *request, uint64_t now_ms)
{
        struct pack pack;

        strbuf_clear(&request->message);
        pack = pack_writer(&request->message);
        PACK(&pack, request->serve);
        strbuf_append(&request->message, request->question.data, request->question.size);
        list_remove(&request->link);
        request->lane = lane;
        lane->has_lost = false;
        lane->request = request;
        lane->since_ms = now_ms;
        request->inner = (struct worker_request){.message = request->message.data,
                .size = request->message.size,
                .deadline_ms = pool->options.hang_ms,
                .done = on_lane_done};
        worker_ask(lane->worker, &request->inner);
}

/* The step of a predecessor that can neither return nor be ended: about the same GPU, or before there was any. */
static bool find_left(const struct nvml_request *request, struct worker_call *ret)
{
        return worker_find_left(CALL_TO_OPEN, "", ret) ||
               worker_find_left(*request->gpu ? CALL_ON_GPU : CALL_ON_DRIVER, request->gpu, ret);
}

static bool fail_if_left(struct nvml_request *request)
{
        char text[200];
        struct error err;

        if (!find_left(request, &request->lost))
                return false;
        hang_print(&request->lost, text, sizeof(text));
        error_raise(&err, ERROR_TIMEOUT, "%s does not return, and its process cannot be ended: reboot the node", text);
        list_remove(&request->link);
        nvml_pool_answer(request, &err, NULL);
        return true;
}

static struct nvml_request *next_request(struct nvml_pool *pool)
{
        LIST_FOR_EACH(link, &pool->waiting) {
                struct nvml_request *request = container_of(link, struct nvml_request, link);

                if (!is_asked_about(pool, request->gpu))
                        return request;
        }
        return NULL;
}

static void dispatch(struct nvml_pool *pool)
{
        const uint64_t now_ms = clock_now_ms();
        struct nvml_request *request;
        struct nvml_lane *lane;
        uint64_t at_ms = 0;

        uv_timer_stop(&pool->timer);
        while ((request = next_request(pool))) {
                if (worker_count_left() && fail_if_left(request))
                        continue;
                lane = find_lane(pool, now_ms, &at_ms);
                if (!lane)
                        break; /* until a lane has an answer, or there may be one more */
                nvml_pool_begin(pool, lane, request, now_ms);
        }
        if (!list_is_empty(&pool->waiting) && is_any_losing(pool))
                dispatch_soon(pool, ENDING_MS);
        else if (request && pool->n_lanes < NVML_POOL_MAX)
                dispatch_soon(pool, at_ms - now_ms);
}

void nvml_request_init(struct nvml_request *request, nvml_serve_fn *serve_it, const char *gpu,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer))
{
        *request =
                (struct nvml_request){.serve = serve_it, .done = done, .question = STRBUF_INIT, .message = STRBUF_INIT};
        snprintf(request->gpu, sizeof(request->gpu), "%s", gpu ? gpu : "");
}

void nvml_pool_ask(struct nvml_pool *pool, struct nvml_request *request)
{
        request->pool = pool;
        request->lane = NULL;
        list_append(&pool->waiting, &request->link);
        if (pool->n_lanes == 0)
                worker_begin(add_lane(pool)->worker);
        if (!uv_is_active((uv_handle_t *)&pool->timer))
                dispatch_soon(pool, 0);
}

void nvml_pool_cancel(struct nvml_pool *pool, struct nvml_request *request)
{
        if (request->lane && request->lane->request == request) {
                request->lane->request = NULL;
                note_loss(request->lane, request);
                worker_cancel(request->lane->worker, &request->inner);
                dispatch_soon(pool, 0);
        } else {
                list_remove(&request->link);
        }
        release(request);
}

struct worker_call nvml_pool_find_call(const struct nvml_request *request)
{
        if (request->lane && request->lane->request == request)
                return worker_current_call(request->lane->worker);
        return (struct worker_call){0};
}

void nvml_pool_narrow(struct nvml_pool *pool, struct nvml_request *request, const char *gpu)
{
        snprintf(request->gpu, sizeof(request->gpu), "%s", gpu);
        dispatch_soon(pool, 0);
}

/* ---- begin and end ---- */

void nvml_pool_renew(struct nvml_pool *pool)
{
        for (size_t i = 0; i < pool->n_lanes; i++) {
                pool->lanes[i].must_renew = pool->lanes[i].request != NULL;
                worker_renew(pool->lanes[i].worker);
        }
}

bool nvml_pool_has_ended(const struct nvml_pool *pool)
{
        for (size_t i = 0; i < pool->n_lanes; i++)
                if (!worker_has_ended(pool->lanes[i].worker))
                        return false;
        return true;
}

struct nvml_pool *nvml_pool_new(const struct nvml_pool_options *options)
{
        struct nvml_pool *pool = xcalloc(1, sizeof(*pool));

        pool->options = *options;
        pool->options.hang_ms = options->hang_ms ? options->hang_ms : NVML_POOL_HANG_MS;
        pool->serving.library = xstrdup(options->library ? options->library : "");
        pool->serving.driver_root = xstrdup(options->driver_root ? options->driver_root : "");
        pool->serving.system_root = options->system_root ? xstrdup(options->system_root) : NULL;
        list_init(&pool->waiting);
        uv_timer_init(options->loop, &pool->timer);
        pool->timer.data = pool;
        return pool;
}

static void free_pool(uv_handle_t *handle)
{
        struct nvml_pool *pool = handle->data;

        free((char *)(uintptr_t)pool->serving.library);
        free((char *)(uintptr_t)pool->serving.driver_root);
        free((char *)(uintptr_t)pool->serving.system_root);
        free(pool);
}

static void fail_request(struct nvml_pool *pool, struct nvml_request *request)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "NVML was not asked: the program ends");
        nvml_pool_cancel(pool, request);
        request->done(request, &err, &(struct pack){.left = 0});
}

struct nvml_pool *nvml_pool_close(struct nvml_pool *pool)
{
        if (!pool)
                return NULL;
        while (!list_is_empty(&pool->waiting))
                fail_request(pool, container_of(pool->waiting.next, struct nvml_request, link));
        for (size_t i = 0; i < pool->n_lanes; i++) {
                if (pool->lanes[i].request)
                        fail_request(pool, pool->lanes[i].request);
                worker_close(pool->lanes[i].worker);
        }
        uv_close((uv_handle_t *)&pool->timer, free_pool);
        return NULL;
}
