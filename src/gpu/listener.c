// SPDX-License-Identifier: Apache-2.0
#include "gpu/listener.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/look.h"
#include "gpu/monitor.h"
#include "gpu/nvml.h"
#include "gpu/nvml_read.h"

#define ERROR_SLEEP_MS 10U /* after the first failed wait; doubles up to the next */
#define ERROR_SLEEP_MAX_MS 1000U

/*
 * Xids decide about health; the other events only say when to probe: the MIG layout changed, or a GPU has a problem.
 */
#define EVENTS_WANTED (NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE | LISTENER_EVENTS_POLL)

struct waiting {
        const struct nvml *nvml;
        nvmlEventSet_t set;
        struct listener_wanted wanted;
        nvmlDevice_t *devices; /* NULL: not registered */
        size_t n_registered;
        uint64_t wait_ms;
        unsigned int n_failures; /* in a row */
};

void listener_pack(struct pack *pack, struct listener_wanted *wanted)
{
        PACK(pack, wanted->n_gpus);
        PACK(pack, wanted->has_failed);
        PACK_ARRAY(pack, wanted->gpus, wanted->n_gpus);
}

static void send_news(enum listener_news news, const void *more, size_t size)
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
        for (size_t i = 0; i < waiting->wanted.n_gpus; i++) {
                struct listener_gpu *gpu = &waiting->wanted.gpus[i];
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
        waiting->wanted.gpus = ARENA_ARRAY(arena, struct listener_gpu, count);
        for (unsigned int i = 0; i < count; i++) {
                struct listener_gpu *gpu = &waiting->wanted.gpus[waiting->wanted.n_gpus];
                nvmlDevice_t device;

                gpu_call_about(CALL_ON_GPU, i, NULL);
                gpu->index = i;
                if (NVML_CALL(waiting->nvml, device_get_by_index, i, &device) == NVML_SUCCESS &&
                        NVML_CALL(waiting->nvml, device_get_uuid, device, gpu->uuid, sizeof(gpu->uuid)) == NVML_SUCCESS)
                        waiting->wanted.n_gpus++;
                gpu->uuid[sizeof(gpu->uuid) - 1] = '\0';
        }
}

static void listener_name_gpu(const struct waiting *waiting, nvmlDevice_t device, struct listener_event *event)
{
        for (size_t i = 0; i < waiting->wanted.n_gpus; i++)
                if (waiting->devices[i] == device)
                        snprintf(event->uuid, sizeof(event->uuid), "%s", waiting->wanted.gpus[i].uuid);
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
        send_news(LISTENER_EVENT, &event, sizeof(event));
}

static void send_failure(struct waiting *waiting, nvmlReturn_t code)
{
        struct listener_failure failure = {.is_fatal = look_is_fatal(code)};
        struct error err;

        (void)!nvml_fail(waiting->nvml, code, "nvmlEventSetWait", &err);
        snprintf(failure.reason, sizeof(failure.reason), "%.*s", (int)sizeof(failure.reason) - 1, err.text);
        send_news(LISTENER_FAILED, &failure, sizeof(failure));
        waiting->wanted.has_failed = true;
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
        if (waiting->wanted.has_failed)
                send_news(LISTENER_RECOVERED, NULL, 0);
        waiting->wanted.has_failed = false;
}

void listener_serve(const void *message, size_t size, struct strbuf *answer, const void *data)
{
        const struct gpu_monitor_options *options = data;
        struct arena arena = ARENA_INIT;
        struct pack question = pack_reader(message, size, &arena);
        struct waiting waiting = {.wait_ms = options->wait_ms};
        struct nvml *nvml;
        struct error err;

        listener_pack(&question, &waiting.wanted);
        if (nvml_open(&nvml, options->library, options->paths.driver_root, &err) < 0) {
                strbuf_puts(answer, err.text);
                return;
        }
        waiting.nvml = nvml;
        if (waiting.wanted.n_gpus == 0)
                find_all(&waiting, &arena);
        waiting.devices = ARENA_ARRAY(&arena, nvmlDevice_t, waiting.wanted.n_gpus);
        register_all(&waiting);
        send_news(LISTENER_REGISTERED, waiting.wanted.gpus, waiting.wanted.n_gpus * sizeof(*waiting.wanted.gpus));
        while (waiting.n_registered)
                wait_for_events(&waiting);
}
