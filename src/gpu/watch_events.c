#include "gpu/watch_events.h"

#include <stdio.h>
#include <string.h>

#include "gpu/probe.h"

#define DRAIN_MAX 256U     /* events handled before probes and commands have their turn */
#define SWEEP_MS 5000U     /* between probes of all GPUs while waiting fails */
#define TELL_MS 5000U      /* of failed waits that no single GPU is to blame for, until that is told */
#define ERROR_SLEEP_MS 10U /* after the first failed wait; doubles up to the next */
#define ERROR_SLEEP_MAX_MS 1000U

/* Xids judge; the others only say when to look: the driver's layout changed, or a GPU is in trouble. */
#define EVENTS_LOOK                                                                                                    \
        (NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_DRAM_RETIREMENT_EVENT |                                \
                NVML_EVENT_TYPE_DRAM_RETIREMENT_FAILURE | NVML_EVENT_TYPE_FATAL_POISON_ERROR |                         \
                NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR | NVML_EVENT_TYPE_GPU_RECOVERY_ACTION)
#define EVENTS_WANTED (NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE | EVENTS_LOOK)

/* ---- registering ---- */

/*
 * Makes events of this GPU arrive. Also 0 when they never will, because the board or the driver is too old for them; as
 * upstream, any other failure means that nothing would be heard of the GPU, so that it cannot be called healthy.
 */
static int register_gpu(struct watch *watch, size_t position, struct error *err)
{
        const struct nvml *nvml = watch->nvml;
        unsigned long long supported = NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
        nvmlDevice_t device;
        nvmlReturn_t code;

        if (!watch->set) {
                *err = watch->set_error;
                return err->kind == ERROR_NONE ? 0 : -1;
        }
        code = nvml->device_get_by_uuid(watch->inventory->gpus[position].uuid, &device);
        if (code == NVML_SUCCESS) {
                (void)NVML_CALL(nvml, device_get_event_types, device, &supported);
                if ((supported & EVENTS_WANTED) == 0)
                        return 0;
                code = NVML_CALL(nvml, device_register_events, device, supported & EVENTS_WANTED, watch->set);
        }
        if (code == NVML_SUCCESS) {
                watch->n_registered += !watch->devices[position];
                watch->devices[position] = device;
                return 0;
        }
        if (nvml_is_unknown(code))
                return 0;
        return nvml_fail(nvml, code, "its health events cannot be had: nvmlDeviceRegisterEvents", err);
}

/* ---- probing ---- */

static struct probe_result find_whole(struct watch *watch, size_t position, bool forced)
{
        const struct gpu *gpu = &watch->inventory->gpus[position];
        struct probe_result result = {.finding = HEALTH_BAD};
        struct error err;

        if (gpu->failure) {
                if (probe_gpu(watch->nvml, gpu->uuid, false).finding == HEALTH_GONE)
                        result.finding = HEALTH_GONE;
                snprintf(result.reason, sizeof(result.reason), "%s", gpu->failure);
                return result;
        }
        result = probe_gpu(watch->nvml, gpu->uuid, watch->policy.counts_remaps);
        if (health_is_good(result.finding) && watch->is_unheard && watch->devices[position]) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%s", watch->unheard);
        }
        if (health_is_good(result.finding) && !forced && register_gpu(watch, position, &err) < 0) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%.*s", (int)sizeof(result.reason) - 1, err.text);
        }
        return result;
}

void watch_probe(struct watch *watch, size_t position, bool forced, uint64_t now)
{
        struct unit_group *group = &watch->units.groups[position];
        struct probe_result whole = find_whole(watch, position, forced);

        for (size_t i = 0; i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];
                bool is_due = !forced && unit->health.probe_at_ms <= now;
                struct probe_result own = whole;

                if (!is_due && unit->health.suspect)
                        continue;
                if (health_is_good(own.finding) && i > 0)
                        own = probe_mig_device(watch->nvml, unit->uuid);
                if (health_is_good(own.finding))
                        own.finding = whole.finding;
                else if (i > 0 && health_is_good(whole.finding))
                        own.finding = HEALTH_BAD; /* its GPU is there, so that this is no sign of a reset */
                if (health_probe(&unit->health, own.finding, own.reason, now))
                        unit->is_news = true;
        }
}

void watch_probe_all(struct watch *watch)
{
        for (size_t i = 0; watch->nvml && i < watch->units.n_groups; i++)
                watch_probe(watch, i, true, watch_now_ms());
}

/* ---- events ---- */

static void create_set(struct watch *watch)
{
        nvmlReturn_t code = NVML_CALL(watch->nvml, event_set_create, &watch->set);

        watch->set_error = (struct error){0};
        if (code == NVML_SUCCESS)
                return;
        watch->set = NULL;
        if (!nvml_is_unknown(code))
                (void)!nvml_fail(
                        watch->nvml, code, "no health events can be had: nvmlEventSetCreate", &watch->set_error);
}

/* Nothing would be heard of this GPU. */
static void fail_unheard(struct watch *watch, size_t position, const char *reason)
{
        struct unit_group *group = &watch->units.groups[position];

        if (!health_policy_has_checks(&watch->policy))
                return;
        for (size_t i = 0; i < group->n_units; i++)
                if (!group->units[i].health.suspect && health_fail(&group->units[i].health, reason, watch_now_ms()))
                        group->units[i].is_news = true;
}

void watch_register(struct watch *watch)
{
        size_t n = watch->inventory->n_gpus;
        nvmlEventSet_t old = watch->set;

        free(watch->devices);
        watch->devices = xcalloc(n, sizeof(*watch->devices));
        watch->n_registered = 0;
        create_set(watch);
        for (size_t i = 0; i < n; i++) {
                const struct gpu *gpu = &watch->inventory->gpus[i];
                struct error err;

                if (watch->units.groups[i].units[0].health.suspect &&
                        (gpu->failure || !health_is_good(probe_gpu(watch->nvml, gpu->uuid, false).finding)))
                        continue;
                if (register_gpu(watch, i, &err) < 0)
                        fail_unheard(watch, i, err.text);
        }
        if (old)
                (void)NVML_CALL(watch->nvml, event_set_free, old);
}

static size_t find_group(const struct watch *watch, nvmlDevice_t device)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        size_t n = watch->units.n_groups;

        for (size_t i = 0; i < n; i++)
                if (watch->devices[i] == device)
                        return i;
        if (watch->nvml->device_get_uuid(device, uuid, sizeof(uuid)) != NVML_SUCCESS)
                return n;
        uuid[sizeof(uuid) - 1] = '\0';
        for (size_t i = 0; i < n; i++)
                if (strcmp(watch->units.groups[i].units[0].uuid, uuid) == 0)
                        return i;
        return n;
}

static void handle_xid(struct watch *watch, size_t group, const nvmlEventData_t *event)
{
        switch (health_policy_effect(&watch->policy, event->eventData)) {
        case XID_IGNORED:
                break;
        case XID_LOOK:
                watch_probe(watch, group, true, watch_now_ms());
                break;
        case XID_UNHEALTHY:
                if (!units_xid(&watch->units, group, event->gpuInstanceId, event->computeInstanceId, event->eventData,
                            watch_now_ms()))
                        watch_look(watch);
                break;
        }
}

static void handle_event(struct watch *watch, const nvmlEventData_t *event)
{
        size_t group = find_group(watch, event->device);

        if (event->eventType == NVML_EVENT_TYPE_MIG_CONFIG_CHANGE || group == watch->units.n_groups)
                watch_look(watch);
        else if (event->eventType == NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
                handle_xid(watch, group, event);
        else if (event->eventType & EVENTS_LOOK && health_policy_has_checks(&watch->policy))
                watch_probe(watch, group, true, watch_now_ms());
}

static nvmlReturn_t wait_event(struct watch *watch, nvmlEventData_t *event, unsigned int timeout_ms)
{
        /* The oldest form of the call leaves the instance fields as they are. */
        *event = (nvmlEventData_t){.gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE};
        return NVML_CALL(watch->nvml, event_set_wait, watch->set, event, timeout_ms);
}

static void end_unheard(struct watch *watch)
{
        watch->wait_errors = 0;
        watch->is_unheard = false;
        watch->unheard[0] = '\0';
}

/* Probing each GPU found none to leave out, and the waits fail on: like a registration that failed, in the end. */
static void note_unheard(struct watch *watch, nvmlReturn_t code, uint64_t lasted_ms)
{
        struct error err;

        if (lasted_ms < MIN((uint64_t)TELL_MS, watch->options->unheard_ms))
                return;
        (void)!nvml_fail(watch->nvml, code, "no health events arrive: nvmlEventSetWait", &err);
        snprintf(watch->unheard, sizeof(watch->unheard), "%.*s", (int)sizeof(watch->unheard) - 1, err.text);
        watch->is_unheard = lasted_ms >= watch->options->unheard_ms && health_policy_has_checks(&watch->policy);
        for (size_t i = 0; watch->is_unheard && i < watch->units.n_groups; i++)
                if (watch->devices[i])
                        fail_unheard(watch, i, watch->unheard);
}

/* A wait that fails says nothing about which GPU is to blame: ask each, and wait for the others without it. */
static uint64_t handle_wait_error(struct watch *watch, nvmlReturn_t code)
{
        uint64_t now = watch_now_ms();

        if (watch->wait_errors == 0)
                watch->unheard_since_ms = now;
        note_unheard(watch, code, now - watch->unheard_since_ms);
        watch->wait_failures++;
        watch->wait_errors = MIN(watch->wait_errors + 1, 8U);
        if (now >= watch->sweep_at_ms) {
                watch->sweep_at_ms = now + SWEEP_MS;
                watch_probe_all(watch);
                watch_register(watch);
        }
        return MIN((uint64_t)ERROR_SLEEP_MS << (watch->wait_errors - 1), (uint64_t)ERROR_SLEEP_MAX_MS);
}

int watch_wait(struct watch *watch, unsigned int timeout_ms, uint64_t *ret_sleep_ms, struct error *err)
{
        nvmlReturn_t code = NVML_SUCCESS;
        nvmlEventData_t event;

        *ret_sleep_ms = 0;
        if (!watch->set || watch->n_registered == 0) {
                *ret_sleep_ms = timeout_ms;
                return 0;
        }
        for (unsigned int i = 0; i < DRAIN_MAX && code == NVML_SUCCESS; i++) {
                code = wait_event(watch, &event, i == 0 ? timeout_ms : 0);
                if (code == NVML_SUCCESS)
                        handle_event(watch, &event);
        }
        if (code == NVML_SUCCESS || code == NVML_ERROR_TIMEOUT) {
                end_unheard(watch);
                return 0;
        }
        if (watch_error_is_fatal(code))
                return nvml_fail(watch->nvml, code, "nvmlEventSetWait", err);
        *ret_sleep_ms = handle_wait_error(watch, code);
        return 0;
}
