#include "gpu/watch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/nvml_read.h"
#include "gpu/probe.h"

#define WAIT_MS 1000U      /* nvmlEventSetWait cannot be interrupted: this is how prompt a close is */
#define DRAIN_MAX 256U     /* events handled before probes and commands have their turn */
#define SWEEP_MS 5000U     /* between probes of all GPUs while waiting fails */
#define MIG_SETTLE_MS 200U /* a changed layout comes as a handful of events */
#define ERROR_SLEEP_MS 10U /* after the first failed wait; doubles up to WAIT_MS */
#define REFRESH_MS 30000U

/* Xids judge; the others only say when to look: the driver's layout changed, or a GPU is in trouble. */
#define EVENTS_LOOK (NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR | NVML_EVENT_TYPE_GPU_RECOVERY_ACTION)
#define EVENTS_WANTED (NVML_EVENT_TYPE_XID_CRITICAL_ERROR | NVML_EVENT_TYPE_MIG_CONFIG_CHANGE | EVENTS_LOOK)

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void watch_init(struct watch *watch, const struct watch_options *options)
{
        *watch = (struct watch){.options = options};
}

void watch_done(struct watch *watch)
{
        watch_close(watch);
        units_done(&watch->units);
        watch->inventory = inventory_free(watch->inventory);
}

void watch_close(struct watch *watch)
{
        if (watch->set)
                NVML_CALL(watch->nvml, event_set_free, watch->set);
        watch->set = NULL;
        watch->n_registered = 0;
        free(watch->devices);
        watch->devices = NULL;
        watch->nvml = nvml_close(watch->nvml);
}

/* ---- telling ---- */

static void tell_news(struct watch *watch, bool all, struct mail *mail)
{
        for (size_t g = 0; g < watch->units.n_groups; g++) {
                for (size_t u = 0; u < watch->units.groups[g].n_units; u++) {
                        struct unit_state *unit = &watch->units.groups[g].units[u];

                        if (unit->is_news || (all && unit->health.suspect))
                                mail_put_note(mail, unit->uuid, !unit->health.suspect, unit->health.reason);
                        unit->is_news = false;
                }
        }
}

/* ---- probing ---- */

/*
 * A GPU that does not pass takes its MIG devices down with it. |forced| probes the GPU itself though no probe is due, and
 * counts only when it fails: good probes count at their own times.
 */
static void probe_group(struct watch *watch, size_t position, bool forced, uint64_t now)
{
        const char *failure = watch->inventory->gpus[position].failure;
        struct unit_group *group = &watch->units.groups[position];
        char reason[sizeof(group->units->health.reason)];

        if (!failure && !probe_gpu(watch->nvml, group->units[0].uuid, reason, sizeof(reason)))
                failure = reason;
        if (forced && !failure)
                return;
        for (size_t i = 0; i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];
                bool is_due = unit->health.probe_at_ms <= now;
                const char *own = failure;
                char own_reason[sizeof(reason)];

                if (!is_due && (!failure || unit->health.suspect))
                        continue;
                if (!own && i > 0 && !probe_mig_device(watch->nvml, unit->uuid, own_reason, sizeof(own_reason)))
                        own = own_reason;
                if (health_probe(&unit->health, own, now))
                        unit->is_news = true;
        }
}

static void probe_all(struct watch *watch)
{
        for (size_t i = 0; i < watch->units.n_groups; i++)
                probe_group(watch, i, true, now_ms());
}

/* ---- events ---- */

/* True when events of this GPU arrive, or never will (a board or driver too old for them). */
static bool register_gpu(struct watch *watch, nvmlEventSet_t set, size_t position)
{
        const struct nvml *nvml = watch->nvml;
        unsigned long long supported = NVML_EVENT_TYPE_XID_CRITICAL_ERROR;
        nvmlDevice_t device;
        nvmlReturn_t code;

        if (nvml->device_get_by_uuid(watch->inventory->gpus[position].uuid, &device) != NVML_SUCCESS)
                return false;
        (void)NVML_CALL(nvml, device_get_event_types, device, &supported);
        if ((supported & EVENTS_WANTED) == 0)
                return true;
        code = NVML_CALL(nvml, device_register_events, device, supported & EVENTS_WANTED, set);
        if (code == NVML_SUCCESS) {
                watch->devices[position] = device;
                watch->n_registered++;
        }
        return code == NVML_SUCCESS || nvml_is_unknown(code);
}

/*
 * Makes a new event set with every GPU that is not out of reach. One lost GPU in a set makes each wait fail, so it must not
 * stay; it is registered again once it is back. The old set goes last, so that no event falls between the two.
 */
static void register_events(struct watch *watch)
{
        size_t n = watch->inventory->n_gpus;
        nvmlEventSet_t set = NULL;

        free(watch->devices);
        watch->devices = xcalloc(n, sizeof(*watch->devices));
        watch->n_registered = 0;
        if (NVML_CALL(watch->nvml, event_set_create, &set) != NVML_SUCCESS)
                set = NULL;
        for (size_t i = 0; set && i < n; i++) {
                char ignored[256];

                if (watch->units.groups[i].units[0].health.suspect &&
                        !probe_gpu(watch->nvml, watch->inventory->gpus[i].uuid, ignored, sizeof(ignored)))
                        continue;
                if (!register_gpu(watch, set, i))
                        probe_group(watch, i, true, now_ms());
        }
        if (watch->set)
                (void)NVML_CALL(watch->nvml, event_set_free, watch->set);
        watch->set = set;
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

static void refresh_within(struct watch *watch, uint64_t delay_ms)
{
        watch->refresh_at_ms = MIN(watch->refresh_at_ms, now_ms() + delay_ms);
}

static void handle_event(struct watch *watch, const nvmlEventData_t *event)
{
        size_t group = find_group(watch, event->device);

        if (event->eventType == NVML_EVENT_TYPE_MIG_CONFIG_CHANGE || group == watch->units.n_groups) {
                refresh_within(watch, MIG_SETTLE_MS);
        } else if (event->eventType & EVENTS_LOOK) {
                probe_group(watch, group, true, now_ms());
        } else if (event->eventType == NVML_EVENT_TYPE_XID_CRITICAL_ERROR) {
                if (!units_xid(&watch->units, group, event->gpuInstanceId, event->computeInstanceId,
                            &watch->options->policy, event->eventData, now_ms()))
                        refresh_within(watch, MIG_SETTLE_MS);
        }
}

static nvmlReturn_t wait_event(struct watch *watch, nvmlEventData_t *event, unsigned int timeout_ms)
{
        /* The oldest form of the call leaves the instance fields as they are. */
        *event = (nvmlEventData_t){.gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE};
        return NVML_CALL(watch->nvml, event_set_wait, watch->set, event, timeout_ms);
}

/* Errors after which no call will ever work again with this library and driver. */
static bool is_fatal(nvmlReturn_t code)
{
        return code == NVML_ERROR_UNINITIALIZED || code == NVML_ERROR_DRIVER_NOT_LOADED ||
               code == NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

/* A wait that fails says nothing about which GPU is to blame: ask each, and wait for the others without it. */
static uint64_t handle_wait_error(struct watch *watch)
{
        uint64_t now = now_ms();

        watch->wait_errors = MIN(watch->wait_errors + 1, 8U);
        if (now >= watch->sweep_at_ms) {
                watch->sweep_at_ms = now + SWEEP_MS;
                probe_all(watch);
                register_events(watch);
        }
        return MIN((uint64_t)ERROR_SLEEP_MS << (watch->wait_errors - 1), (uint64_t)WAIT_MS);
}

/* ---- the inventory ---- */

int watch_refresh(struct watch *watch, bool tell, struct mail *mail, struct error *err)
{
        uint64_t refresh_ms = watch->options->refresh_ms ? watch->options->refresh_ms : REFRESH_MS;
        struct inventory *fresh = NULL;
        bool is_news;

        if (nvml_read(&fresh, watch->nvml, &watch->options->paths, err) < 0)
                return -1;
        if (watch->inventory)
                inventory_keep(fresh, watch->inventory);
        is_news = !watch->inventory || !inventory_is_same(watch->inventory, fresh);
        inventory_free(watch->inventory);
        watch->inventory = fresh;
        units_update(&watch->units, fresh, watch->options->probe_ms, now_ms());
        watch->refresh_at_ms = now_ms() + refresh_ms;
        /* A restart must not turn a GPU that waits for its reset into a healthy one: who is seen anew is probed. */
        if (is_news && !watch->options->policy.none)
                probe_all(watch);
        if (is_news || !watch->set)
                register_events(watch);
        if (is_news || tell)
                mail_put_inventory(mail, inventory_copy(fresh));
        tell_news(watch, is_news || tell, mail);
        return 0;
}

int watch_open(struct watch *watch, bool tell, struct mail *mail, struct error *err)
{
        if (nvml_open(&watch->nvml, watch->options->library, watch->options->paths.driver_root, err) < 0)
                return -1;
        watch->sweep_at_ms = 0;
        watch->wait_errors = 0;
        if (watch_refresh(watch, tell, mail, err) < 0) {
                watch_close(watch);
                return -1;
        }
        return 0;
}

/* ---- one step ---- */

static uint64_t next_due(const struct watch *watch)
{
        uint64_t due = watch->refresh_at_ms;

        for (size_t i = 0; i < watch->units.n_groups; i++)
                due = MIN(due, units_probe_at(&watch->units.groups[i]));
        return due;
}

static unsigned int time_left(const struct watch *watch)
{
        uint64_t due = next_due(watch);
        uint64_t now = now_ms();

        return due <= now ? 0 : (unsigned int)MIN(due - now, (uint64_t)WAIT_MS);
}

static int wait_for_events(struct watch *watch, uint64_t *ret_sleep_ms, struct error *err)
{
        unsigned int timeout = time_left(watch);
        nvmlReturn_t code = NVML_SUCCESS;
        nvmlEventData_t event;

        *ret_sleep_ms = 0;
        if (!watch->set || watch->n_registered == 0) {
                *ret_sleep_ms = timeout;
                return 0;
        }
        for (unsigned int i = 0; i < DRAIN_MAX && code == NVML_SUCCESS; i++) {
                code = wait_event(watch, &event, i == 0 ? timeout : 0);
                if (code == NVML_SUCCESS)
                        handle_event(watch, &event);
        }
        if (code == NVML_SUCCESS || code == NVML_ERROR_TIMEOUT) {
                watch->wait_errors = 0;
                return 0;
        }
        if (is_fatal(code))
                return nvml_fail(watch->nvml, code, "nvmlEventSetWait", err);
        *ret_sleep_ms = handle_wait_error(watch);
        return 0;
}

/* The units of a GPU that could not be read are let back by nothing but a reading that succeeds. */
static bool needs_reading(const struct watch *watch, uint64_t now)
{
        for (size_t i = 0; i < watch->units.n_groups; i++)
                if (watch->inventory->gpus[i].failure && units_probe_at(&watch->units.groups[i]) <= now)
                        return true;
        return false;
}

/* A GPU in good health without events: it was out of reach when the set was made. */
static bool needs_registering(const struct watch *watch, size_t position)
{
        return !watch->devices[position] && !watch->units.groups[position].units[0].health.suspect;
}

static int do_what_is_due(struct watch *watch, struct mail *mail, struct error *err)
{
        uint64_t now = now_ms();
        bool again = false;

        if ((watch->refresh_at_ms <= now || needs_reading(watch, now)) && watch_refresh(watch, false, mail, err) < 0)
                return -1;
        for (size_t i = 0; i < watch->units.n_groups; i++) {
                if (units_probe_at(&watch->units.groups[i]) > now)
                        continue;
                probe_group(watch, i, false, now);
                again = again || needs_registering(watch, i);
        }
        if (again)
                register_events(watch);
        tell_news(watch, false, mail);
        return 0;
}

int watch_step(struct watch *watch, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err)
{
        if (wait_for_events(watch, ret_sleep_ms, err) < 0)
                return -1;
        return do_what_is_due(watch, mail, err);
}
