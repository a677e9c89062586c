#include "gpu/watch_events.h"

#include <stdio.h>
#include <string.h>

#include "gpu/probe.h"
#include "gpu/watch_sample.h"

#define DRAIN_MAX 256U     /* events per step, before probes and requests are handled */
#define SWEEP_MS 5000U     /* between two probes of all GPUs while waiting fails */
#define REPORT_MS 5000U    /* how long waits must fail, without a single GPU as the cause, until it is reported */
#define ERROR_SLEEP_MS 10U /* after the first failed wait; doubles up to the next */
#define ERROR_SLEEP_MAX_MS 1000U

/* Xids decide about health; the other events only say when to probe: the MIG layout changed, or a GPU has a problem. */
#define EVENTS_POLL                                                                                                    \
        (NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_DRAM_RETIREMENT_EVENT |                                \
                NVML_EVENT_TYPE_DRAM_RETIREMENT_FAILURE | NVML_EVENT_TYPE_FATAL_POISON_ERROR |                         \
                NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR | NVML_EVENT_TYPE_GPU_RECOVERY_ACTION)
#define EVENTS_WANTED (NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE | EVENTS_POLL)

/* ---- registering ---- */

static const struct watch_ear *find_ear(const struct watch_ears *ears, const char *uuid)
{
        for (size_t i = 0; i < ears->n_gpus; i++)
                if (strcmp(ears->gpus[i].uuid, uuid) == 0)
                        return &ears->gpus[i];
        return NULL;
}

static void add_ear(struct watch_ears *ears, const char *uuid, nvmlDevice_t device)
{
        struct watch_ear *ear;

        if (find_ear(ears, uuid))
                return;
        ears->gpus = xrealloc(ears->gpus, (ears->n_gpus + 1) * sizeof(*ears->gpus));
        ear = &ears->gpus[ears->n_gpus++];
        *ear = (struct watch_ear){.device = device};
        snprintf(ear->uuid, sizeof(ear->uuid), "%s", uuid);
}

/*
 * Registers for the events of this GPU. Returns 0 also if the board or the driver is too old for events. Any other
 * failure means, as in NVIDIA's plugin, that no event of the GPU would arrive, so it must not be healthy.
 */
static int register_gpu(struct watch *watch, struct watch_ears *ears, size_t position, struct error *err)
{
        const struct nvml *nvml = watch->nvml;
        const char *uuid = watch->inventory->gpus[position].uuid;
        unsigned long long supported = NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
        nvmlDevice_t device;
        nvmlReturn_t code;

        if (!ears->set) {
                *err = watch->set_error;
                return err->kind == ERROR_NONE ? 0 : -1;
        }
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);
        if (code == NVML_SUCCESS) {
                (void)NVML_CALL(nvml, device_get_event_types, device, &supported);
                if ((supported & EVENTS_WANTED) == 0)
                        return 0;
                code = NVML_CALL(nvml, device_register_events, device, supported & EVENTS_WANTED, ears->set);
        }
        if (code == NVML_SUCCESS) {
                add_ear(ears, uuid, device);
                return 0;
        }
        if (nvml_is_unknown(code))
                return 0;
        return nvml_fail(nvml, code, "its health events are not available: nvmlDeviceRegisterEvents", err);
}

/* ---- probing ---- */

static struct probe_result find_whole(struct watch *watch, size_t position, bool forced)
{
        const struct gpu *gpu = &watch->inventory->gpus[position];
        struct probe_result result = {.finding = HEALTH_BAD};
        const struct skipped_gpu *skipped = skips_find(&watch->skips, gpu->uuid);
        struct error err;

        if (skipped) {
                snprintf(result.reason, sizeof(result.reason), "%s", skipped->reason);
                return result;
        }
        if (gpu->failure) {
                if (probe_gpu(watch->nvml, gpu->uuid, false).finding == HEALTH_GONE)
                        result.finding = HEALTH_GONE;
                snprintf(result.reason, sizeof(result.reason), "%s", gpu->failure);
                return result;
        }
        result = probe_gpu(watch->nvml, gpu->uuid, watch->policy.counts_remaps);
        if (health_is_good(result.finding) && watch->is_unheard && find_ear(&watch->ears, gpu->uuid)) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%s", watch->unheard);
        }
        if (health_is_good(result.finding) && !forced && register_gpu(watch, &watch->ears, position, &err) < 0) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%.*s", (int)sizeof(result.reason) - 1, err.text);
        }
        return result;
}

/* Sets which GPU the next calls are about. */
static void ask_gpu(const struct watch *watch, size_t position)
{
        const struct gpu *gpu = &watch->inventory->gpus[position];

        call_trace_ask(watch->options->trace, CALL_ON_GPU, gpu->index, gpu->uuid);
}

static void ask_driver(const struct watch *watch)
{
        call_trace_ask(watch->options->trace, CALL_ON_DRIVER, 0, NULL);
}

void watch_probe(struct watch *watch, size_t position, bool forced, uint64_t now)
{
        struct unit_group *group = &watch->units.groups[position];
        struct probe_result whole;

        ask_gpu(watch, position);
        whole = find_whole(watch, position, forced);
        for (size_t i = 0; i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];
                bool is_due = !forced && unit->health.probe_at_ms <= now;
                struct probe_result own = whole;

                if (!is_due && unit->health.unhealthy)
                        continue;
                if (health_is_good(own.finding) && i > 0)
                        own = probe_mig_device(watch->nvml, unit->uuid);
                if (health_is_good(own.finding))
                        own.finding = whole.finding;
                else if (i > 0 && health_is_good(whole.finding))
                        own.finding = HEALTH_BAD; /* its GPU is there, so this does not prove a reset */
                if (health_probe(&unit->health, own.finding, own.reason, now))
                        unit->is_news = true;
        }
        ask_driver(watch);
}

void watch_probe_all(struct watch *watch)
{
        for (size_t i = 0; watch->nvml && i < watch->units.n_groups; i++)
                watch_probe(watch, i, true, watch_now_ms());
}

/* ---- events ---- */

static size_t find_group(const struct watch *watch, nvmlDevice_t device)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        size_t n = watch->units.n_groups;

        for (size_t i = 0; i < watch->ears.n_gpus; i++)
                if (watch->ears.gpus[i].device == device)
                        snprintf(uuid, sizeof(uuid), "%s", watch->ears.gpus[i].uuid);
        if (!*uuid && NVML_CALL(watch->nvml, device_get_uuid, device, uuid, sizeof(uuid)) != NVML_SUCCESS)
                return n;
        uuid[sizeof(uuid) - 1] = '\0';
        for (size_t i = 0; i < n; i++)
                if (strcmp(watch->units.groups[i].units[0].uuid, uuid) == 0)
                        return i;
        return n;
}

static void handle_xid(struct watch *watch, size_t group, const nvmlEventData_t *event)
{
        watch_count_xid(watch, group, event->eventData);
        switch (health_policy_effect(&watch->policy, event->eventData)) {
        case XID_IGNORED:
                break;
        case XID_CHECK:
                watch->units.groups[group].must_poll = true;
                break;
        case XID_UNHEALTHY:
                if (!units_xid(&watch->units, group, event->gpuInstanceId, event->computeInstanceId, event->eventData,
                            watch_now_ms()))
                        watch_poll(watch);
                break;
        }
}

static void handle_event(struct watch *watch, const nvmlEventData_t *event)
{
        size_t group = find_group(watch, event->device);

        if (event->eventType == NVML_EVENT_TYPE_MIG_CONFIG_CHANGE || group == watch->units.n_groups)
                watch_poll(watch);
        else if (event->eventType == NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
                handle_xid(watch, group, event);
        else if (event->eventType & EVENTS_POLL && health_policy_has_checks(&watch->policy))
                watch->units.groups[group].must_poll = true;
}

static nvmlReturn_t wait_event(struct watch *watch, nvmlEventData_t *event, unsigned int timeout_ms)
{
        /* The oldest form of the call does not write the instance fields. */
        *event = (nvmlEventData_t){.gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE};
        return NVML_CALL_LASTING(watch->nvml, timeout_ms, event_set_wait, watch->ears.set, event, timeout_ms);
}

void watch_hear(struct watch *watch)
{
        nvmlEventData_t event;

        for (unsigned int i = 0; watch->ears.set && i < DRAIN_MAX; i++) {
                if (wait_event(watch, &event, 0) != NVML_SUCCESS)
                        return;
                handle_event(watch, &event);
        }
}

/* ---- the event set ---- */

static void create_set(struct watch *watch, struct watch_ears *ears)
{
        nvmlReturn_t code = NVML_CALL(watch->nvml, event_set_create, &ears->set);

        watch->set_error = (struct error){0};
        if (code == NVML_SUCCESS)
                return;
        ears->set = NULL;
        if (!nvml_is_unknown(code))
                (void)!nvml_fail(
                        watch->nvml, code, "health events are not available: nvmlEventSetCreate", &watch->set_error);
}

/* No event of this GPU would arrive. */
static void fail_unheard(struct watch *watch, size_t position, const char *reason)
{
        struct unit_group *group = &watch->units.groups[position];

        if (!health_policy_has_checks(&watch->policy))
                return;
        for (size_t i = 0; i < group->n_units; i++)
                if (!group->units[i].health.unhealthy && health_fail(&group->units[i].health, reason, watch_now_ms()))
                        group->units[i].is_news = true;
}

static void register_gpus(struct watch *watch, struct watch_ears *ears)
{
        for (size_t i = 0; i < watch->inventory->n_gpus; i++) {
                const struct gpu *gpu = &watch->inventory->gpus[i];
                struct error err;

                if (skips_find(&watch->skips, gpu->uuid) || find_ear(ears, gpu->uuid))
                        continue;
                ask_gpu(watch, i);
                if (watch->units.groups[i].units[0].health.unhealthy &&
                        (gpu->failure || !health_is_good(probe_gpu(watch->nvml, gpu->uuid, false).finding)))
                        continue;
                if (register_gpu(watch, ears, i, &err) < 0)
                        fail_unheard(watch, i, err.text);
        }
        ask_driver(watch);
}

/* Built beside the old set, so that a watch which takes over in between finds a complete set. */
void watch_register(struct watch *watch)
{
        struct watch_ears ears = {0};
        struct watch_ears old;

        create_set(watch, &ears);
        register_gpus(watch, &ears);
        watch_hear(watch);
        old = watch->ears;
        watch->ears = ears;
        if (old.set && old.set != watch->disowned)
                NVML_RELEASE(watch->nvml, event_set_free, old.set);
        free(old.gpus);
}

static bool hears_skipped(const struct watch *watch)
{
        for (size_t i = 0; i < watch->skips.n_gpus; i++)
                if (find_ear(&watch->ears, watch->skips.gpus[i].uuid))
                        return true;
        return false;
}

void watch_register_anew(struct watch *watch)
{
        if (watch->ears.set && hears_skipped(watch))
                register_gpus(watch, &watch->ears);
        else
                watch_register(watch);
}

/* ---- waiting ---- */

void watch_poll_due(struct watch *watch)
{
        if (watch->must_sweep) {
                watch->must_sweep = false;
                watch_probe_all(watch);
                watch_register(watch);
        }
        for (size_t i = 0; i < watch->units.n_groups; i++) {
                if (!watch->units.groups[i].must_poll)
                        continue;
                watch->units.groups[i].must_poll = false;
                watch_probe(watch, i, true, watch_now_ms());
        }
}

static void end_unheard(struct watch *watch)
{
        watch->wait_errors = 0;
        watch->is_unheard = false;
        watch->unheard[0] = '\0';
}

/*
 * Each GPU was probed and none is the cause, but the waits still fail: in the end, treat this like a failed
 * registration.
 */
static void note_unheard(struct watch *watch, nvmlReturn_t code, uint64_t lasted_ms)
{
        struct error err;

        if (lasted_ms < MIN((uint64_t)REPORT_MS, watch->options->unheard_ms))
                return;
        (void)!nvml_fail(watch->nvml, code, "no health events arrive: nvmlEventSetWait", &err);
        snprintf(watch->unheard, sizeof(watch->unheard), "%.*s", (int)sizeof(watch->unheard) - 1, err.text);
        watch->is_unheard = lasted_ms >= watch->options->unheard_ms && health_policy_has_checks(&watch->policy);
        for (size_t i = 0; watch->is_unheard && i < watch->units.n_groups; i++)
                if (find_ear(&watch->ears, watch->units.groups[i].units[0].uuid))
                        fail_unheard(watch, i, watch->unheard);
}

/* A failed wait does not say which GPU is the cause: probe each one, and wait without the faulty one. */
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
                watch->must_sweep = true;
        }
        return MIN((uint64_t)ERROR_SLEEP_MS << (watch->wait_errors - 1), (uint64_t)ERROR_SLEEP_MAX_MS);
}

int watch_wait(struct watch *watch, unsigned int timeout_ms, uint64_t *ret_sleep_ms, struct error *err)
{
        nvmlEventData_t event;
        nvmlReturn_t code;

        *ret_sleep_ms = 0;
        watch->has_heard = false;
        if (!watch->ears.set || watch->ears.n_gpus == 0) {
                *ret_sleep_ms = timeout_ms;
                return 0;
        }
        code = wait_event(watch, &event, timeout_ms);
        watch->has_heard = code == NVML_SUCCESS;
        if (watch->has_heard)
                handle_event(watch, &event);
        if (code == NVML_SUCCESS || code == NVML_ERROR_TIMEOUT) {
                end_unheard(watch);
                return 0;
        }
        if (watch_error_is_fatal(code))
                return nvml_fail(watch->nvml, code, "nvmlEventSetWait", err);
        *ret_sleep_ms = handle_wait_error(watch, code);
        return 0;
}
