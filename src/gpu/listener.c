/*
 * A new process takes over from the old one when it has registered. An event of that moment is reported by both or by
 * only one of them. So the old process runs for a while longer, and an event that both report counts once.
 */
#include "gpu/listener.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pack.h"
#include "gpu/hangs.h"
#include "gpu/look.h"
#include "gpu/nvml.h"
#include "gpu/nvml_read.h"

#define ERROR_SLEEP_MS 10U /* after the first failed wait; doubles up to the next */
#define ERROR_SLEEP_MAX_MS 1000U
#define OVERLAP_MS UINT64_C(300)
#define OVERLAP_EVENTS 32U

/*
 * Xids decide about health; the other events only say when to probe: the MIG layout changed, or a GPU has a problem.
 */
#define EVENTS_WANTED (NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE | LISTENER_EVENTS_POLL)

enum news { NEWS_REGISTERED, NEWS_EVENT, NEWS_FAILED, NEWS_RECOVERED };

struct failure {
        bool is_fatal;
        char reason[200];
};

struct listener_process {
        struct worker *worker;
        struct worker_request request;
        struct listener *listener;
        struct strbuf question;
        bool has_registered;
};

struct listener {
        struct listener_options options;
        char *library;
        char *driver_root;
        struct listener_process *now;  /* NULL: none */
        struct listener_process *next; /* registers */
        struct listener_process *old;  /* runs a while longer, so that no event is lost */
        uv_timer_t timer;              /* ends |old| */
        struct seen_event {
                struct listener_event event;
                bool by_old;
        } seen[OVERLAP_EVENTS]; /* reported by one of |now| and |old| so far */
        size_t n_seen;
};

/* ---- in the process ---- */

struct waiting {
        const struct nvml *nvml;
        nvmlEventSet_t set;
        struct listener_gpu *gpus;
        nvmlDevice_t *devices; /* NULL: not registered */
        size_t n_gpus;
        size_t n_registered;
        uint64_t wait_ms;
        bool has_failed;
        unsigned int n_failures; /* in a row */
};

static void pack_question(struct pack *pack, struct listener_gpu **gpus, size_t *n_gpus, bool *has_failed)
{
        PACK(pack, *n_gpus);
        PACK(pack, *has_failed);
        PACK_ARRAY(pack, *gpus, *n_gpus);
}

static void send_news(enum news news, const void *more, size_t size)
{
        _cleanup_(strbuf_done) struct strbuf message = STRBUF_INIT;

        strbuf_append(&message, &news, sizeof(news));
        strbuf_append(&message, more, size);
        worker_send_news(message.data, message.size);
}

static void listener_note_failure(struct listener_gpu *gpu, const struct error *err)
{
        gpu->state = EVENTS_FAIL;
        snprintf(gpu->reason, sizeof(gpu->reason), "%.*s", (int)sizeof(gpu->reason) - 1, err->text);
}

static nvmlReturn_t register_gpu(struct waiting *waiting, const struct listener_gpu *gpu, nvmlDevice_t *ret)
{
        const struct nvml *nvml = waiting->nvml;
        unsigned long long supported = NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
        nvmlReturn_t code;

        gpu_call_about(CALL_ON_GPU, gpu->index, gpu->uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, gpu->uuid, ret);
        if (code != NVML_SUCCESS)
                return code;
        (void)NVML_CALL(nvml, device_get_event_types, *ret, &supported);
        if ((supported & EVENTS_WANTED) == 0)
                return NVML_ERROR_NOT_SUPPORTED;
        return NVML_CALL(nvml, device_register_events, *ret, supported & EVENTS_WANTED, waiting->set);
}

/* As in NVIDIA's plugin, a GPU that cannot be registered fails, unless its board or driver is too old for events. */
static void register_all(struct waiting *waiting)
{
        nvmlReturn_t made;

        gpu_call_about(CALL_TO_WAIT, 0, NULL);
        made = NVML_CALL(waiting->nvml, event_set_create, &waiting->set);
        for (size_t i = 0; i < waiting->n_gpus; i++) {
                struct listener_gpu *gpu = &waiting->gpus[i];
                const nvmlReturn_t code =
                        made == NVML_SUCCESS ? register_gpu(waiting, gpu, &waiting->devices[i]) : made;
                struct error err;

                gpu->state = EVENTS_ARRIVE;
                waiting->n_registered += code == NVML_SUCCESS;
                if (code == NVML_SUCCESS)
                        continue;
                waiting->devices[i] = NULL;
                gpu->state = EVENTS_UNSUPPORTED;
                if (nvml_is_unknown(code))
                        continue;
                (void)!nvml_fail(waiting->nvml, code,
                        made == NVML_SUCCESS ? "its health events are not available: nvmlDeviceRegisterEvents"
                                             : "health events are not available: nvmlEventSetCreate",
                        &err);
                listener_note_failure(gpu, &err);
        }
        gpu_call_about(CALL_TO_WAIT, 0, NULL);
}

static void find_all(struct waiting *waiting, struct arena *arena)
{
        unsigned int count = 0;

        (void)NVML_CALL(waiting->nvml, device_get_count, &count);
        count = MIN(count, NVML_READ_MAX_GPUS);
        waiting->gpus = ARENA_ARRAY(arena, struct listener_gpu, count);
        for (unsigned int i = 0; i < count; i++) {
                struct listener_gpu *gpu = &waiting->gpus[waiting->n_gpus];
                nvmlDevice_t device;

                gpu_call_about(CALL_ON_GPU, i, NULL);
                gpu->index = i;
                if (NVML_CALL(waiting->nvml, device_get_by_index, i, &device) == NVML_SUCCESS &&
                        NVML_CALL(waiting->nvml, device_get_uuid, device, gpu->uuid, sizeof(gpu->uuid)) == NVML_SUCCESS)
                        waiting->n_gpus++;
                gpu->uuid[sizeof(gpu->uuid) - 1] = '\0';
        }
}

static void listener_name_gpu(const struct waiting *waiting, nvmlDevice_t device, struct listener_event *event)
{
        for (size_t i = 0; i < waiting->n_gpus; i++)
                if (waiting->devices[i] == device)
                        snprintf(event->uuid, sizeof(event->uuid), "%s", waiting->gpus[i].uuid);
        if (!*event->uuid)
                (void)NVML_CALL(waiting->nvml, device_get_uuid, device, event->uuid, sizeof(event->uuid));
        event->uuid[sizeof(event->uuid) - 1] = '\0';
}

static void send_event(const struct waiting *waiting, const nvmlEventData_t *raw)
{
        struct listener_event event = {.type = raw->eventType,
                .data = raw->eventData,
                .gpu_instance = raw->gpuInstanceId,
                .compute_instance = raw->computeInstanceId};

        listener_name_gpu(waiting, raw->device, &event);
        send_news(NEWS_EVENT, &event, sizeof(event));
}

static void send_failure(struct waiting *waiting, nvmlReturn_t code)
{
        struct failure failure = {.is_fatal = look_is_fatal(code)};
        struct error err;

        (void)!nvml_fail(waiting->nvml, code, "nvmlEventSetWait", &err);
        snprintf(failure.reason, sizeof(failure.reason), "%.*s", (int)sizeof(failure.reason) - 1, err.text);
        send_news(NEWS_FAILED, &failure, sizeof(failure));
        waiting->has_failed = true;
        usleep(MIN(ERROR_SLEEP_MS << MIN(waiting->n_failures, 7U), ERROR_SLEEP_MAX_MS) * 1000);
        waiting->n_failures++;
}

static void wait_for_events(struct waiting *waiting)
{
        /* The oldest form of the call does not write the instance fields. */
        nvmlEventData_t event = {.gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE};
        const nvmlReturn_t code = NVML_CALL_LASTING(
                waiting->nvml, waiting->wait_ms, event_set_wait, waiting->set, &event, (unsigned int)waiting->wait_ms);

        if (code == NVML_SUCCESS)
                send_event(waiting, &event);
        if (code != NVML_SUCCESS && code != NVML_ERROR_TIMEOUT) {
                send_failure(waiting, code);
                return;
        }
        waiting->n_failures = 0;
        if (waiting->has_failed)
                send_news(NEWS_RECOVERED, NULL, 0);
        waiting->has_failed = false;
}

/* Answers with an error's text if NVML cannot be used, and with nothing if no GPU could be registered. */
static void listener_serve(const void *message, size_t size, struct strbuf *answer, const void *data)
{
        const struct listener *listener = data;
        struct arena arena = ARENA_INIT;
        struct pack question = pack_reader(message, size, &arena);
        struct waiting waiting = {.wait_ms = listener->options.wait_ms};
        struct nvml *nvml;
        struct error err;

        pack_question(&question, &waiting.gpus, &waiting.n_gpus, &waiting.has_failed);
        if (nvml_open(&nvml, listener->library, listener->driver_root, &err) < 0) {
                strbuf_puts(answer, err.text);
                return;
        }
        waiting.nvml = nvml;
        if (waiting.n_gpus == 0)
                find_all(&waiting, &arena);
        waiting.devices = ARENA_ARRAY(&arena, nvmlDevice_t, waiting.n_gpus);
        register_all(&waiting);
        send_news(NEWS_REGISTERED, waiting.gpus, waiting.n_gpus * sizeof(*waiting.gpus));
        while (waiting.n_registered)
                wait_for_events(&waiting);
}

/* ---- one process ---- */

static struct listener_process *process_close(struct listener_process *process)
{
        if (process) {
                worker_close(process->worker);
                strbuf_done(&process->question);
                free(process);
        }
        return NULL;
}

static void end_overlap(struct listener *listener)
{
        listener->old = process_close(listener->old);
        listener->n_seen = 0;
        uv_timer_stop(&listener->timer);
}

static void on_overlap(uv_timer_t *timer)
{
        end_overlap(timer->data);
}

static void listener_take_over(struct listener *listener)
{
        end_overlap(listener);
        listener->old = TAKE_PTR(listener->now);
        listener->now = TAKE_PTR(listener->next);
        if (listener->old)
                uv_timer_start(&listener->timer, on_overlap, OVERLAP_MS, 0);
}

static bool listener_is_same(const struct listener_event *a, const struct listener_event *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && a->type == b->type && a->data == b->data &&
               a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance;
}

/*
 * True if the other of the two processes has reported the event already; else it is remembered as reported by this one.
 */
static bool is_duplicate(struct listener *listener, const struct listener_event *event, bool by_old)
{
        if (!listener->old)
                return false;
        for (size_t i = 0; i < listener->n_seen; i++) {
                if (listener->seen[i].by_old == by_old || !listener_is_same(&listener->seen[i].event, event))
                        continue;
                listener->seen[i] = listener->seen[--listener->n_seen];
                return true;
        }
        if (listener->n_seen < OVERLAP_EVENTS)
                listener->seen[listener->n_seen++] = (struct seen_event){*event, by_old};
        return false;
}

static void on_news(struct worker_request *request, const void *bytes, size_t size)
{
        struct listener_process *process = container_of(request, struct listener_process, request);
        struct listener *listener = process->listener;
        const struct listener_options *to = &listener->options;
        struct arena arena = ARENA_INIT;
        struct pack pack = pack_reader(bytes, size, &arena);
        struct listener_event event;
        struct listener_gpu *gpus = NULL;
        struct failure failure;
        size_t n_gpus;
        enum news news;

        PACK(&pack, news);
        switch (news) {
        case NEWS_REGISTERED:
                if (process == listener->next)
                        listener_take_over(listener);
                n_gpus = pack.left / sizeof(*gpus);
                PACK_ARRAY(&pack, gpus, n_gpus);
                to->on_registered(gpus, n_gpus, to->data);
                break;
        case NEWS_EVENT:
                PACK(&pack, event);
                if (!is_duplicate(listener, &event, process == listener->old))
                        to->on_event(&event, to->data);
                break;
        case NEWS_FAILED:
                PACK(&pack, failure);
                if (process == listener->now)
                        to->on_failed(failure.reason, failure.is_fatal, to->data);
                break;
        case NEWS_RECOVERED:
                if (process == listener->now)
                        to->on_recovered(to->data);
                break;
        }
        arena_done(&arena);
}

static void on_process_done(struct worker_request *request, const struct error *err, const void *bytes, size_t size)
{
        struct listener_process *process = container_of(request, struct listener_process, request);
        struct listener *listener = process->listener;
        const struct call_info call = gpu_call_of_worker(&request->lost);
        char reason[512];

        snprintf(reason, sizeof(reason), "%.*s", err ? (int)sizeof(reason) - 1 : (int)size,
                err ? err->text : (const char *)bytes);
        if (process == listener->old) {
                end_overlap(listener);
                return;
        }
        if (process == listener->now)
                listener->now = NULL;
        else
                listener->next = NULL;
        process_close(process);
        if (*reason)
                listener->options.on_lost(reason, err && *call.call ? &call : NULL, err && err->kind != ERROR_TIMEOUT,
                        listener->options.data);
}

/* ---- all of them ---- */

static void listener_begin(struct listener *listener, struct listener_gpu *gpus, size_t n_gpus, bool has_failed)
{
        struct listener_process *process = xcalloc(1, sizeof(*process));
        struct pack pack;

        listener->next = process_close(listener->next);
        *process = (struct listener_process){.listener = listener, .question = STRBUF_INIT};
        pack = pack_writer(&process->question);
        pack_question(&pack, &gpus, &n_gpus, &has_failed);
        process->worker = worker_new(listener->options.loop, "gpu-events", listener_serve, listener);
        process->request = (struct worker_request){.message = process->question.data,
                .size = process->question.size,
                .deadline_ms = listener->options.hang_ms,
                .done = on_process_done,
                .news = on_news};
        listener->next = process;
        worker_ask(process->worker, &process->request);
}

void listener_set_gpus(struct listener *listener, const struct listener_gpu *gpus, size_t n_gpus, bool has_failed)
{
        if (n_gpus)
                listener_begin(listener, (struct listener_gpu *)(uintptr_t)gpus, n_gpus, has_failed);
        else
                listener_stop(listener);
}

void listener_set_all(struct listener *listener)
{
        listener_begin(listener, NULL, 0, false);
}

void listener_stop(struct listener *listener)
{
        end_overlap(listener);
        listener->next = process_close(listener->next);
        listener->now = process_close(listener->now);
}

bool listener_has_ended(const struct listener *listener)
{
        return !listener->now && !listener->next && !listener->old && !worker_is_one_ending("gpu-events");
}

struct listener *listener_new(const struct listener_options *options)
{
        struct listener *listener = xcalloc(1, sizeof(*listener));

        listener->options = *options;
        listener->library = xstrdup(options->library);
        listener->driver_root = xstrdup(options->driver_root);
        uv_timer_init(options->loop, &listener->timer);
        listener->timer.data = listener;
        return listener;
}

static void free_listener(uv_handle_t *handle)
{
        struct listener *listener = handle->data;

        free(listener->library);
        free(listener->driver_root);
        free(listener);
}

struct listener *listener_close(struct listener *listener)
{
        if (listener) {
                listener_stop(listener);
                uv_close((uv_handle_t *)&listener->timer, free_listener);
        }
        return NULL;
}
