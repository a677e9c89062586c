// SPDX-License-Identifier: Apache-2.0
/* Event sets, and waiting for the next event of the scenario. */
#include "sim/nvml/calls.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include "sim/nvml/library.h"

#define EVENTS                                                                                                         \
        (NVML_EVENT_TYPE_SINGLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_PSTATE |        \
                NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_CLOCK)

/* inotify does not report changes on a network file system; so the file is also read again after this time. */
#define LOOK_MS 1000

/* The directory is watched, not the file: a file that is replaced is another file. */
static void watch_directory(struct nvmlEventSet_st *set, const char *path, char **ret_name)
{
        _free_ char *directory = xstrdup(path);
        char *slash = strrchr(directory, '/');

        *ret_name = xstrdup(slash ? slash + 1 : path);
        if (slash)
                slash[slash == directory] = '\0';
        inotify_add_watch(set->changes, slash ? directory : ".",
                IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *ret)
{
        _cleanup_(call_end) struct call call = call_any(__func__);
        struct nvmlEventSet_st *set;

        if (call.result)
                return call.result;
        if (!ret)
                return NVML_ERROR_INVALID_ARGUMENT;
        set = xcalloc(1, sizeof(*set));
        set->references = 1;
        list_init(&set->events);
        list_append(&call.world->event_sets, &set->link);
        set->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        set->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (set->wake < 0 || set->changes < 0) {
                event_set_close(set);
                return NVML_ERROR_UNKNOWN;
        }
        watch_directory(set, call.world->path, &set->file);
        if (call.world->scenario->geometry_file)
                watch_directory(set, call.world->scenario->geometry_file, &set->geometry);
        *ret = set;
        return NVML_SUCCESS;
}

static struct nvmlEventSet_st *find_set(const struct world *world, nvmlEventSet_t handle)
{
        LIST_FOR_EACH(link, &world->event_sets) {
                struct nvmlEventSet_st *set = container_of(link, struct nvmlEventSet_st, link);

                if (set == handle)
                        return set;
        }
        return NULL;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle)
{
        _cleanup_(call_end) struct call call = call_any(__func__);
        struct nvmlEventSet_st *set;

        if (call.result)
                return call.result;
        set = find_set(call.world, handle);
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        event_set_close(set);
        return NVML_SUCCESS;
}

static unsigned long long supported_events(const struct gpu *gpu)
{
        return gpu->config->model->memory_slices ? EVENTS | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE : EVENTS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
        RETURN_GPU_VALUE(device, types, supported_events(call.gpu));
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        struct nvmlEventSet_st *set;

        if (call.result)
                return call.result;
        set = find_set(call.world, handle);
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (types & ~supported_events(call.gpu))
                return NVML_ERROR_NOT_SUPPORTED;
        for (size_t i = 0; i < set->n_registered; i++) {
                if (set->registered[i].gpu == call.gpu) {
                        set->registered[i].types |= types;
                        return NVML_SUCCESS;
                }
        }
        if (set->n_registered == ARRAY_SIZE(set->registered))
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
        set->registered[set->n_registered].gpu = call.gpu;
        set->registered[set->n_registered++].types = types;
        return NVML_SUCCESS;
}

static int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads inotify's events. Other files of the directory change too: a program's log, say, at every call. */
static bool scenario_changed(const struct nvmlEventSet_st *set)
{
        char buffer[4096] __attribute__((aligned(8)));
        bool changed = false;
        ssize_t size;

        while ((size = read(set->changes, buffer, sizeof(buffer))) > 0) {
                const struct inotify_event *event;

                for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof(*event) + event->len)) {
                        event = (const struct inotify_event *)(const void *)(buffer + at);
                        /* An event without a name: the queue overflowed, or it is about the directory itself. */
                        changed = changed || event->len == 0 || strcmp(event->name, set->file) == 0 ||
                                  (set->geometry && strcmp(event->name, set->geometry) == 0);
                }
        }
        return changed;
}

/* Sleeps until the file changes, another thread queues an event, or |deadline_ms| has come. */
static void sleep_until_change(const struct nvmlEventSet_st *set, int64_t deadline_ms)
{
        int64_t look_ms = MIN(deadline_ms, now_ms() + LOOK_MS);
        int64_t left;

        while ((left = look_ms - now_ms()) > 0) {
                struct pollfd fds[] = {{.fd = set->changes, .events = POLLIN}, {.fd = set->wake, .events = POLLIN}};
                eventfd_t count;

                if (poll(fds, ARRAY_SIZE(fds), (int)left) <= 0 || eventfd_read(set->wake, &count) == 0 ||
                        scenario_changed(set))
                        return;
        }
}

/* Called with the lock, which it releases while it sleeps. */
static nvmlReturn_t wait_for_event(struct call *call, struct nvmlEventSet_st *set, unsigned int timeout_ms)
{
        int64_t deadline = now_ms() + MIN(timeout_ms, call->world->scenario->longest_wait_ms);

        while (list_is_empty(&set->events)) {
                if (now_ms() >= deadline)
                        return NVML_ERROR_TIMEOUT;
                call_pause(call);
                sleep_until_change(set, deadline);
                if (!call_resume(call) || set->closed)
                        return NVML_ERROR_UNINITIALIZED;
        }
        return NVML_SUCCESS;
}

static nvmlReturn_t event_wait(const char *name, nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
        _cleanup_(call_end) struct call call = call_any(name);
        struct nvmlEventSet_st *set;
        struct event *event;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        set = find_set(call.world, handle);
        if (!set)
                return NVML_ERROR_INVALID_ARGUMENT;
        set->references++;
        result = wait_for_event(&call, set, timeout_ms);
        if (result == NVML_SUCCESS) {
                event = container_of(set->events.next, struct event, link);
                *data = (nvmlEventData_t){.device = &event->gpu->handle,
                        .eventType = event->what.type,
                        .eventData = event->what.data,
                        .gpuInstanceId = event->what.gi,
                        .computeInstanceId = event->what.ci};
                list_remove(&event->link);
                free(event);
        }
        event_set_unref(set);
        return result;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
        return data ? event_wait(__func__, set, data, timeout_ms) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeout_ms)
{
        nvmlEventData_t event;
        nvmlReturn_t result;

        if (!data)
                return NVML_ERROR_INVALID_ARGUMENT;
        result = event_wait(__func__, set, &event, timeout_ms);
        if (result == NVML_SUCCESS)
                *data = (nvmlEventData_v1_t){event.device, event.eventType, event.eventData};
        return result;
}
