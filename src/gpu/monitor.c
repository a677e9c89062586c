// SPDX-License-Identifier: Apache-2.0
#include "gpu/monitor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/hearing.h"
#include "gpu/known.h"
#include "gpu/look.h"
#include "gpu/prober.h"
#include "gpu/sampler.h"
#include "gpu/driver_change.h"

#define WAIT_MS 5000U
#define REFRESH_MS 30000U
#define EMPTY_MS 60000U
#define UNHEARD_MS 120000U
#define RETRY_MS 1000U
#define RETRY_MAX_MS UINT64_C(30000)
#define SLOW_MS UINT64_C(1000)                 /* a rescan that lasts longer is answered with what is known */
#define SETTLE_MS UINT64_C(200)                /* a changed MIG layout or a new GPU causes several events */
#define FIXED_MS (UINT64_C(24) * 3600 * 1000)  /* between two readings of a machine where nothing is watched */
#define RECOUNT_MS UINT64_C(5000)              /* the first time at most; doubles up to the next */
#define RECOUNT_MAX_MS (UINT64_C(3600) * 1000) /* a container may see fewer GPUs than the machine has */

/* A reading of the inventory, in a process. */
struct monitor_reading {
        struct nvml_request request;
        struct gpu_monitor *monitor;
        struct worker_call slow; /* the call that holds it up, once another reading has overtaken it */
        struct list link;        /* then, in |overtaken| */
};

struct gpu_monitor {
        struct gpu_monitor_options options; /* without 0 for defaults; the texts are its own */
        struct gpu_known known;
        struct trials trials;
        struct hearing hearing;
        struct prober prober;
        struct sampler sampler;
        struct uevent_watch *uevents; /* NULL: not available */
        uv_timer_t timer;             /* until something is due */

        /* The driver that was read. */
        struct driver_mark mark; /* of the driver that was read last */
        struct driver_gpus gpus;
        unsigned int nvml_count;
        bool was_away; /* since the last good reading, the driver was replaced or was unusable */
        bool has_mark;
        uint64_t empty_since_ms; /* since when all GPUs are gone; 0: they are not */
        uint64_t recount_at_ms; /* when to open NVML again because it counts other GPUs than the kernel; HEALTH_NEVER */
        uint64_t recount_ms;

        /* Reading. */
        struct monitor_reading *reading; /* NULL: none, or only such as were overtaken */
        struct list overtaken;           /* readings that a GPU, or a pair of them, holds up */
        uint64_t read_since_ms;
        uint64_t overtake_at_ms; /* when to see what the reading is in */
        uint64_t retry_ms;
        bool is_patient;  /* the next one waits for the slow ones, so that they are read at all */
        bool has_answers; /* what is being read answers all rescans so far */

        /* Reporting. */
        bool is_out;       /* all units were reported as unhealthy, since NVML cannot be used */
        bool must_report;  /* report the inventory, even if it has not changed */
        bool owes_answer;  /* to a rescan */
        bool holds_report; /* the inventory is reported when its GPUs are registered for events, or after SLOW_MS */
        bool wants_pause;
        char *reported; /* why NVML cannot be used, as it was reported last; NULL: it can */
        uint64_t held_since_ms;

        void (*closed)(void *data);
        void *closed_data;
};

static void turn(struct gpu_known *known);

static bool monitor_works(const struct gpu_monitor *monitor)
{
        return !monitor->known.is_closing && !monitor->wants_pause;
}

/* ---- reporting ---- */

/*
 * |out|: why NVML cannot be used, which makes each unit unhealthy, even one that is healthy itself; NULL: it can be
 * used.
 */
static void monitor_report_unit(
        const struct gpu_monitor *monitor, const struct unit_state *unit, const char *out, bool is_after)
{
        const struct gpu_monitor_options *to = &monitor->options;
        void (*report)(const char *, bool, const char *, uint64_t, void *) =
                is_after ? to->after_health : to->on_health;

        if (!report || monitor->known.is_closing)
                return;
        if (out)
                report(unit->uuid, false, out, 0, to->data);
        else
                report(unit->uuid, !unit->health.unhealthy, unit->health.reason, unit->health.xid, to->data);
}

/* |after_health| is called for all units after the last call of |on_health|. */
static void report_units(struct gpu_monitor *monitor, bool all, const char *out)
{
        for (unsigned int is_after = 0; is_after < 2; is_after++) {
                for (size_t g = 0; g < monitor->known.units.n_groups; g++) {
                        for (size_t u = 0; u < monitor->known.units.groups[g].n_units; u++) {
                                struct unit_state *unit = &monitor->known.units.groups[g].units[u];

                                if (out || unit->is_news || (all && unit->health.unhealthy))
                                        monitor_report_unit(monitor, unit, out, is_after);
                                if (!out && is_after)
                                        unit->is_news = false;
                        }
                }
        }
}

static void monitor_report_news(struct gpu_known *known, bool all)
{
        struct gpu_monitor *monitor = container_of(known, struct gpu_monitor, known);

        if (!monitor->is_out && !monitor->holds_report) /* else all are reported when that is over */
                report_units(monitor, all, NULL);
}

static void report_inventory(struct gpu_monitor *monitor, bool all)
{
        monitor->is_out = monitor->holds_report = false;
        if (all) {
                monitor->must_report = monitor->owes_answer = false;
                monitor->options.on_inventory(inventory_copy(monitor->known.inventory), monitor->options.data);
        }
        monitor_report_news(&monitor->known, all);
}

static void answer_from_memory(struct gpu_monitor *monitor)
{
        const struct gpu_monitor_options *to = &monitor->options;

        if (!monitor->owes_answer || !monitor->known.inventory || monitor->known.is_closing)
                return;
        monitor->owes_answer = false;
        to->on_inventory(inventory_copy(monitor->known.inventory), to->data);
        if (!monitor->is_out) {
                monitor_report_news(&monitor->known, true);
                return;
        }
        report_units(monitor, true, monitor->reported);
        if (!monitor->known.is_closing)
                to->on_unavailable(monitor->reported, to->data);
}

/* ---- NVML cannot be used ---- */

/* Accepts NULL, returns NULL. */
static struct monitor_reading *reading_cancel(struct monitor_reading *reading)
{
        if (!reading)
                return NULL;
        nvml_pool_cancel(reading->monitor->known.pool, &reading->request);
        list_remove(&reading->link);
        free(reading);
        return NULL;
}

/* Cancels all requests and stops waiting for events. */
static void cancel_all(struct gpu_monitor *monitor)
{
        prober_cancel(&monitor->prober);
        trials_cancel(&monitor->trials);
        hearing_stop(&monitor->hearing);
        sampler_cancel(&monitor->sampler);
}

static void close_all(struct gpu_monitor *monitor)
{
        cancel_all(monitor);
        monitor->reading = reading_cancel(monitor->reading);
        while (!list_is_empty(&monitor->overtaken))
                reading_cancel(container_of(monitor->overtaken.next, struct monitor_reading, link));
        nvml_pool_renew(monitor->known.pool);
}

static void monitor_retry_later(struct gpu_monitor *monitor)
{
        monitor->known.refresh_at_ms = clock_now_ms() + monitor->retry_ms;
        monitor->retry_ms = MIN(monitor->retry_ms * 2, MAX(RETRY_MAX_MS, monitor->options.retry_ms));
}

static void monitor_give_up(struct gpu_monitor *monitor, const char *reason)
{
        const struct gpu_monitor_options *to = &monitor->options;
        const bool has_inventory = monitor->known.inventory && monitor->must_report;
        const bool is_news = has_inventory || !monitor->reported || strcmp(monitor->reported, reason) != 0;
        const bool was_out = monitor->is_out && !has_inventory;

        close_all(monitor);
        monitor_retry_later(monitor);
        monitor->known.is_open = false;
        monitor->was_away = true;
        free(monitor->reported);
        monitor->reported = xstrdup(reason);
        if (has_inventory) {
                monitor->must_report = monitor->owes_answer = false;
                to->on_inventory(inventory_copy(monitor->known.inventory), to->data);
        }
        monitor->is_out = monitor->known.inventory != NULL;
        if (!was_out)
                report_units(monitor, true, monitor->reported);
        if (is_news && !monitor->known.is_closing)
                to->on_unavailable(monitor->reported, to->data);
}

/* ---- what was read ---- */

/* Nothing is watched there. */
static void fix(struct gpu_monitor *monitor, enum platform platform)
{
        bool is_news;

        close_all(monitor);
        is_news = gpu_known_keep(&monitor->known, platform_inventory(platform));
        monitor->known.refresh_at_ms = clock_now_ms() + FIXED_MS;
        report_inventory(monitor, is_news || monitor->must_report || monitor->is_out);
}

/* GPUs do not all disappear at once, but a starting driver has none at first. */
static bool is_too_early(struct gpu_monitor *monitor, const struct inventory *fresh)
{
        if (fresh->n_gpus > 0 || !monitor->known.inventory || monitor->known.inventory->n_gpus == 0) {
                monitor->empty_since_ms = 0;
                return false;
        }
        if (monitor->empty_since_ms == 0)
                monitor->empty_since_ms = clock_now_ms();
        return clock_now_ms() - monitor->empty_since_ms < monitor->options.empty_ms;
}

/* The kernel has other GPUs than NVML counted: NVML or the kernel was read too early. */
static void plan_recount(struct gpu_monitor *monitor, bool is_first)
{
        const uint64_t first_ms = MIN(RECOUNT_MS, monitor->options.refresh_ms);

        if (!monitor->gpus.known || monitor->gpus.count == monitor->nvml_count) {
                monitor->recount_at_ms = HEALTH_NEVER;
                monitor->recount_ms = first_ms;
        } else if (is_first || monitor->recount_at_ms == HEALTH_NEVER || monitor->recount_at_ms <= clock_now_ms()) {
                if (is_first)
                        monitor->recount_ms = first_ms;
                monitor->recount_at_ms = clock_now_ms() + monitor->recount_ms;
                monitor->recount_ms = MIN(monitor->recount_ms * 2, RECOUNT_MAX_MS);
        }
}

/* The driver is another one than what the process has loaded, or the kernel has other GPUs: who asks next, opens it. */
static bool is_outdated(struct gpu_monitor *monitor, const struct look_reading *reading)
{
        if (driver_mark_is_same(&reading->mark, &reading->now) && driver_gpus_are_same(&reading->gpus, &reading->seen))
                return false;
        nvml_pool_renew(monitor->known.pool);
        monitor->known.refresh_at_ms = 0;
        return true;
}

/* Processes with another library than the one that was read with have to go. */
static void note_driver(struct gpu_monitor *monitor, const struct look_reading *reading)
{
        const bool had_mark = monitor->has_mark;
        const bool is_other = had_mark && !driver_mark_is_same(&reading->mark, &monitor->mark);
        const bool has_others = had_mark && !driver_gpus_are_same(&reading->gpus, &monitor->gpus);

        if (is_other || has_others)
                cancel_all(monitor);
        /* Not if NVML was only opened to count the GPUs again: the driver kept its state. */
        if (is_other || monitor->was_away)
                units_release(&monitor->known.units);
        monitor->was_away = false;
        monitor->mark = reading->mark;
        monitor->has_mark = true;
        monitor->gpus = reading->gpus;
        monitor->nvml_count = reading->nvml_count;
        plan_recount(monitor, has_others || !had_mark);
}

static void use_inventory(struct gpu_monitor *monitor, struct look_reading *reading)
{
        const uint64_t now_ms = clock_now_ms();
        struct inventory *fresh = TAKE_PTR(reading->inventory);
        const bool is_first = !monitor->known.inventory;
        const bool is_news = gpu_known_keep(&monitor->known, fresh);

        monitor->known.is_open = fresh->n_gpus > 0;
        /* Somebody may have wanted the next one already. */
        gpu_known_read_by(&monitor->known, MIN(now_ms + monitor->options.refresh_ms, monitor->recount_at_ms));
        if (monitor->known.is_open) {
                monitor->retry_ms = monitor->options.retry_ms;
        } else {
                hearing_stop(&monitor->hearing);
                monitor_retry_later(monitor);
        }
        if (is_news)
                sampler_cancel(&monitor->sampler);
        prober_apply(&monitor->prober, reading->findings, reading->n_findings);
        hearing_update(&monitor->hearing, is_news && !is_first, now_ms);
        free(monitor->reported);
        monitor->reported = NULL;
        monitor->must_report = monitor->must_report || is_news || monitor->is_out;
        if (!monitor->holds_report)
                monitor->held_since_ms = now_ms;
        monitor->holds_report = hearing_is_registering(&monitor->hearing) && monitor->must_report;
        if (!monitor->holds_report)
                report_inventory(monitor, monitor->must_report);
}

/* A GPU that holds up another reading is what it was. */
static void keep_slow(struct inventory *fresh, const struct inventory *known)
{
        for (size_t i = 0; i < fresh->n_gpus; i++) {
                struct gpu *gpu = &fresh->gpus[i];
                const struct gpu *before = inventory_find(known, gpu->uuid);

                if (before && gpu->failure && !*gpu->failure)
                        gpu->failure = before->failure ? arena_strdup(&fresh->arena, before->failure) : NULL;
        }
}

static void use_reading(struct gpu_monitor *monitor, struct look_reading *reading)
{
        if (reading->platform != PLATFORM_NVML) {
                fix(monitor, reading->platform);
                return;
        }
        if (is_outdated(monitor, reading))
                return;
        note_driver(monitor, reading);
        if (monitor->known.inventory) {
                inventory_keep(reading->inventory, monitor->known.inventory);
                keep_slow(reading->inventory, monitor->known.inventory);
        }
        if (is_too_early(monitor, reading->inventory)) {
                _free_ char *reason =
                        xasprintf("NVML no longer shows any of the %zu GPUs", monitor->known.inventory->n_gpus);

                monitor_give_up(monitor, reason);
                return;
        }
        if (monitor->options.discovery != PLATFORM_CHOICE_NVML && platform_is_integrated(reading->inventory))
                fix(monitor, PLATFORM_TEGRA);
        else
                use_inventory(monitor, reading);
}

/* GPUs are reported when their events arrive, so that no event after the report is missed. */
static void report_held(struct gpu_monitor *monitor, uint64_t now_ms)
{
        if (monitor->holds_report &&
                (!hearing_is_registering(&monitor->hearing) || monitor->held_since_ms + SLOW_MS <= now_ms))
                report_inventory(monitor, true);
}

/* ---- reading ---- */

static void take_reading(struct gpu_monitor *monitor, const struct error *err, struct pack *answer)
{
        struct hang *hang = hangs_find(&monitor->known.hangs, CALL_ON_DRIVER, CALL_NO_INDEX, "");
        struct look_reading reading = {0};

        if (hang)
                gpu_known_end_hang(&monitor->known, hang);
        monitor->hearing.must_sweep = false;
        monitor->is_patient = false;
        if (err)
                monitor_give_up(monitor, err->text);
        else if (!look_reading_unpack(answer, &reading))
                monitor_give_up(monitor, "what was read of the GPUs is not whole");
        else
                use_reading(monitor, &reading);
        inventory_free(reading.inventory);
        if (monitor->owes_answer && !monitor->has_answers)
                monitor->known.refresh_at_ms = 0; /* a rescan was requested during this reading */
}

static void monitor_on_read(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct monitor_reading *reading = container_of(request, struct monitor_reading, request);
        struct gpu_monitor *monitor = reading->monitor;
        const struct worker_call lost = request->lost;
        const bool is_overtaken = reading != monitor->reading;

        if (!is_overtaken)
                monitor->reading = NULL;
        list_remove(&reading->link);
        free(reading);
        if (gpu_known_note_lost(&monitor->known, &lost, err)) {
                answer_from_memory(monitor);
        } else if (is_overtaken) {
                monitor->is_patient = true;
                monitor->known.refresh_at_ms = 0;
        } else {
                take_reading(monitor, err, answer);
        }
        turn(&monitor->known);
}

static struct skips find_skips(const struct gpu_monitor *monitor)
{
        struct skips skips = hangs_skips(&monitor->known.hangs);

        LIST_FOR_EACH(link, &monitor->overtaken)
                skips_add(&skips, &container_of(link, struct monitor_reading, link)->slow, "");
        return skips;
}

static void read_now(struct gpu_monitor *monitor, uint64_t now_ms)
{
        const struct gpu_monitor_options *options = &monitor->options;
        const struct look_reading_wanted wanted = {.discovery = options->discovery,
                .can_load = options->can_load,
                .paths = options->paths,
                .skips = find_skips(monitor),
                .counts_remaps = monitor->known.policy.counts_remaps,
                .has_probes = monitor->hearing.must_sweep || health_policy_has_checks(&monitor->known.policy)};

        /* If the kernel does not show its GPUs, a rescan gets NVML's count. */
        if (monitor->recount_at_ms <= now_ms || (monitor->owes_answer && !monitor->gpus.known) ||
                !monitor->known.is_open)
                nvml_pool_renew(monitor->known.pool);
        monitor->has_answers = true;
        monitor->read_since_ms = now_ms;
        monitor->overtake_at_ms = now_ms + SLOW_MS;
        monitor->known.refresh_at_ms = HEALTH_NEVER;
        monitor->reading = xcalloc(1, sizeof(*monitor->reading));
        monitor->reading->monitor = monitor;
        list_init(&monitor->reading->link);
        nvml_request_init(&monitor->reading->request, NULL, NULL, monitor_on_read);
        look_ask_reading(&monitor->reading->request, &wanted);
        nvml_pool_ask(monitor->known.pool, &monitor->reading->request);
}

/*
 * A GPU that has held up the reading for SLOW_MS gets a process of its own, in which it may answer yet; all others are
 * read at once, and of this one what is known stays.
 */
static void overtake(struct gpu_monitor *monitor, uint64_t now_ms)
{
        struct monitor_reading *reading = monitor->reading;
        struct worker_call call = nvml_pool_find_call(&reading->request);
        char lane[CALL_GPU_SIZE];

        monitor->overtake_at_ms = now_ms + SLOW_MS / 2;
        hang_name_gpu(&call, monitor->known.inventory);
        if (!*call.call || call.since_ms + SLOW_MS > now_ms || monitor->is_patient ||
                (call.subject != CALL_ON_PAIR && !gpu_known_find_group(&monitor->known, call.name, NULL)))
                return;
        hang_print_lane(&call, lane);
        nvml_pool_narrow(monitor->known.pool, &reading->request, lane);
        reading->slow = call;
        list_append(&monitor->overtaken, &reading->link);
        monitor->reading = NULL;
        read_now(monitor, now_ms);
}

static uint64_t overtake_due_ms(const struct gpu_monitor *monitor)
{
        return monitor->reading && monitor->known.inventory ? monitor->overtake_at_ms : HEALTH_NEVER;
}

/* ---- what is due ---- */

static uint64_t answer_due_ms(const struct gpu_monitor *monitor)
{
        if (monitor->holds_report)
                return monitor->held_since_ms + SLOW_MS;
        return monitor->owes_answer && monitor->known.inventory && monitor->reading ? monitor->read_since_ms + SLOW_MS
                                                                                    : HEALTH_NEVER;
}

static void on_monitor_timer(uv_timer_t *timer)
{
        struct gpu_monitor *monitor = timer->data;

        turn(&monitor->known);
}

static void wait_for_due(struct gpu_monitor *monitor)
{
        const uint64_t now_ms = clock_now_ms();
        uint64_t due_ms = MIN(trials_due_ms(&monitor->trials), sampler_due_ms(&monitor->sampler));

        due_ms = MIN(due_ms, hearing_due_ms(&monitor->hearing));
        if (monitor->known.is_open)
                due_ms = MIN(due_ms, prober_due_ms(&monitor->prober));
        due_ms = MIN(due_ms, MIN(answer_due_ms(monitor), overtake_due_ms(monitor)));
        if (!monitor->reading)
                due_ms = MIN(due_ms, monitor->known.refresh_at_ms);
        if (due_ms == HEALTH_NEVER)
                uv_timer_stop(&monitor->timer);
        else
                uv_timer_start(&monitor->timer, on_monitor_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void ask_due(struct gpu_monitor *monitor, uint64_t now_ms)
{
        trials_begin_due(&monitor->trials, now_ms);
        if (monitor->known.is_open)
                prober_begin_due(&monitor->prober, now_ms);
        hearing_begin_due(&monitor->hearing, now_ms);
}

static void turn(struct gpu_known *known)
{
        struct gpu_monitor *monitor = container_of(known, struct gpu_monitor, known);
        const uint64_t now_ms = clock_now_ms();

        if (!monitor_works(monitor))
                return;
        uv_update_time(monitor->timer.loop);
        report_held(monitor, now_ms);
        if (monitor_works(monitor) && answer_due_ms(monitor) <= now_ms)
                answer_from_memory(monitor);
        if (monitor_works(monitor))
                ask_due(monitor, now_ms);
        if (monitor_works(monitor) && sampler_due_ms(&monitor->sampler) <= now_ms)
                sampler_begin_due(&monitor->sampler, now_ms);
        if (monitor_works(monitor) && !monitor->reading && monitor->known.refresh_at_ms <= now_ms)
                read_now(monitor, now_ms);
        if (monitor_works(monitor) && overtake_due_ms(monitor) <= now_ms)
                overtake(monitor, now_ms);
        if (monitor_works(monitor))
                wait_for_due(monitor);
}

/* ---- events ---- */

void gpu_monitor_poll(struct gpu_monitor *monitor)
{
        gpu_known_read_by(&monitor->known, clock_now_ms() + (monitor->known.is_open ? SETTLE_MS : 0));
        turn(&monitor->known);
}

static void handle_xid(struct gpu_monitor *monitor, struct unit_group *group, const struct listener_event *event)
{
        struct units *units = &monitor->known.units;

        sampler_count_xid(&monitor->sampler, event->uuid, event->data);
        switch (health_policy_effect(&monitor->known.policy, event->data)) {
        case XID_IGNORED:
                break;
        case XID_CHECK:
                group->must_poll = true;
                break;
        case XID_UNHEALTHY:
                if (!units_xid(units, (size_t)(group - units->groups), event->gpu_instance, event->compute_instance,
                            event->data, clock_now_ms()))
                        gpu_monitor_poll(monitor);
                break;
        }
}

static void on_event(struct gpu_known *known, const struct listener_event *event)
{
        struct gpu_monitor *monitor = container_of(known, struct gpu_monitor, known);
        struct unit_group *group = gpu_known_find_group(&monitor->known, event->uuid, NULL);

        if (event->type == NVML_EVENT_TYPE_MIG_CONFIG_CHANGE || !group)
                gpu_monitor_poll(monitor);
        else if (event->type == NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
                handle_xid(monitor, group, event);
        else if (event->type & LISTENER_EVENTS_POLL && health_policy_has_checks(&monitor->known.policy))
                group->must_poll = true;
        monitor_report_news(&monitor->known, false);
        turn(&monitor->known);
}

static void on_fatal(struct gpu_known *known, const char *reason)
{
        monitor_give_up(container_of(known, struct gpu_monitor, known), reason);
        turn(known);
}

/* ---- for its owner ---- */

void gpu_monitor_rescan(struct gpu_monitor *monitor)
{
        monitor->must_report = monitor->owes_answer = true;
        monitor->has_answers = false;
        monitor->retry_ms = monitor->options.retry_ms;
        if (!monitor->reading)
                monitor->known.refresh_at_ms = 0;
        if (monitor_works(monitor))
                uv_timer_start(&monitor->timer, on_monitor_timer, 0, 0);
}

void gpu_monitor_pause(struct gpu_monitor *monitor)
{
        if (monitor->wants_pause)
                return;
        monitor->wants_pause = true;
        uv_timer_stop(&monitor->timer);
        close_all(monitor);
}

bool gpu_monitor_is_paused(const struct gpu_monitor *monitor)
{
        return monitor->wants_pause && nvml_pool_has_ended(monitor->known.pool) && hearing_has_ended(&monitor->hearing);
}

void gpu_monitor_resume(struct gpu_monitor *monitor)
{
        if (!monitor->wants_pause)
                return;
        monitor->wants_pause = false;
        monitor->known.refresh_at_ms = 0;
        uv_timer_start(&monitor->timer, on_monitor_timer, 0, 0);
}

void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy)
{
        const bool had_checks = health_policy_has_checks(&monitor->known.policy);

        monitor->known.policy = *policy;
        if (!had_checks && health_policy_has_checks(policy))
                monitor->known.refresh_at_ms = 0; /* what was not probed is */
        if (monitor_works(monitor))
                uv_timer_start(&monitor->timer, on_monitor_timer, 0, 0);
}

uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor)
{
        return monitor->hearing.failed_waits;
}

size_t gpu_monitor_hangs(const struct gpu_monitor *monitor, struct gpu_hang ret[GPU_MONITOR_MAX_HANGS])
{
        size_t n = 0;

        for (size_t i = 0; i < monitor->known.hangs.n; i++) {
                const struct hang *hang = &monitor->known.hangs.all[i];

                if (!hang->is_over)
                        ret[n++] =
                                (struct gpu_hang){.call = hang->call, .is_waited_for = hang_is_of_driver(&hang->call)};
        }
        return n;
}

/* ---- begin and end ---- */

static void free_monitor(struct gpu_monitor *monitor)
{
        inventory_free(monitor->known.inventory);
        units_done(&monitor->known.units);
        sampler_done(&monitor->sampler);
        free(monitor->reported);
        free((char *)(uintptr_t)monitor->options.library);
        free((char *)(uintptr_t)monitor->options.paths.system_root);
        free((char *)(uintptr_t)monitor->options.paths.driver_root);
        free(monitor);
}

static void on_monitor_closed(uv_handle_t *handle)
{
        struct gpu_monitor *monitor = handle->data;
        void (*closed)(void *data) = monitor->closed;
        void *data = monitor->closed_data;

        free_monitor(monitor);
        if (closed)
                closed(data);
}

void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data)
{
        assert(!monitor->known.is_closing);
        monitor->known.is_closing = true;
        monitor->closed = closed;
        monitor->closed_data = data;
        monitor->uevents = uevent_watch_close(monitor->uevents);
        close_all(monitor);
        monitor->known.pool = nvml_pool_close(monitor->known.pool);
        uv_close((uv_handle_t *)&monitor->timer, on_monitor_closed);
}

static char *copy_text(const char *text)
{
        return xstrdup(text ? text : "");
}

static void init_options(struct gpu_monitor *monitor, const struct gpu_monitor_options *options)
{
        struct gpu_monitor_options *own = &monitor->options;

        *own = *options;
        own->library = copy_text(options->library);
        own->paths.system_root = copy_text(options->paths.system_root);
        own->paths.driver_root = copy_text(options->paths.driver_root);
        own->can_load = options->can_load ? options->can_load : platform_can_load;
        own->retry_ms = options->retry_ms ? options->retry_ms : RETRY_MS;
        own->refresh_ms = options->refresh_ms ? options->refresh_ms : REFRESH_MS;
        own->wait_ms = options->wait_ms ? options->wait_ms : WAIT_MS;
        own->empty_ms = options->empty_ms ? options->empty_ms : EMPTY_MS;
        own->unheard_ms = options->unheard_ms ? options->unheard_ms : UNHEARD_MS;
        own->hang_ms = options->hang_ms ? options->hang_ms : NVML_POOL_HANG_MS;
        own->hang_pause_ms = options->hang_pause_ms ? options->hang_pause_ms : HANG_PAUSE_MS;
        if (options->policy)
                monitor->known.policy = *options->policy;
        else
                health_policy_parse(&monitor->known.policy, NULL, NULL, NULL);
}

/* The monitor reports hangs by itself. */
static void on_pool_hang(const struct worker_call *call UNUSED, bool is_over UNUSED, void *data UNUSED)
{
}

static void on_uevent(void *data)
{
        gpu_monitor_poll(data);
}

static void monitor_init_objects(struct gpu_monitor *monitor)
{
        monitor->known.options = &monitor->options;
        monitor->known.turn = turn;
        monitor->known.report_news = monitor_report_news;
        monitor->known.on_event = on_event;
        monitor->known.on_fatal = on_fatal;
        sampler_init(&monitor->sampler, &monitor->known);
        trials_init(&monitor->trials, &monitor->known);
        prober_init(&monitor->prober, &monitor->known, &monitor->hearing);
}

struct gpu_monitor *gpu_monitor_new(uv_loop_t *loop, const struct gpu_monitor_options *options)
{
        struct gpu_monitor *monitor = xcalloc(1, sizeof(*monitor));
        struct error ignored;

        assert(options->on_inventory && options->on_unavailable && options->on_health);
        init_options(monitor, options);
        monitor_init_objects(monitor);
        list_init(&monitor->overtaken);
        monitor->recount_at_ms = HEALTH_NEVER;
        monitor->recount_ms = MIN(RECOUNT_MS, monitor->options.refresh_ms);
        monitor->retry_ms = monitor->options.retry_ms;
        uv_timer_init(loop, &monitor->timer);
        monitor->timer.data = monitor;
        monitor->known.pool = nvml_pool_new(&(struct nvml_pool_options){.loop = loop,
                .name = "gpu",
                .library = monitor->options.library,
                .driver_root = monitor->options.paths.driver_root,
                .system_root = monitor->options.paths.system_root,
                .hang_ms = monitor->options.hang_ms,
                /* Opening NVML costs more than a reading. */
                .idle_ms = options->sample_ms ? options->sample_ms + WORKER_IDLE_MS : 0,
                .on_hang = on_pool_hang});
        hearing_init(&monitor->hearing, &monitor->known, loop);
        if (uevent_watch_new(&monitor->uevents, loop, on_uevent, monitor, &ignored) < 0)
                monitor->uevents = NULL; /* not allowed here: each refresh compares instead */
        turn(&monitor->known);
        return monitor;
}
