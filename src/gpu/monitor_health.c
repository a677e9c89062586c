#include <stdio.h>
#include <string.h>

#include "gpu/monitor_parts.h"

#define SETTLE_MS UINT64_C(200)  /* a changed MIG layout or a new GPU causes several events */
#define SWEEP_MS UINT64_C(5000)  /* between two probes of all GPUs while waiting fails */
#define REPORT_MS UINT64_C(5000) /* how long waits must fail, without a single GPU as the cause, until it is reported */
#define REGISTER_AGAIN_MS UINT64_C(1000)

struct unit_group *monitor_find_group(const struct gpu_monitor *monitor, const char *uuid, const struct gpu **ret_gpu)
{
        for (size_t i = 0; i < monitor->units.n_groups; i++) {
                if (strcmp(monitor->units.groups[i].units[0].uuid, uuid) != 0)
                        continue;
                if (ret_gpu)
                        *ret_gpu = &monitor->inventory->gpus[i];
                return &monitor->units.groups[i];
        }
        return NULL;
}

static struct hang *find_hang(struct gpu_monitor *monitor, const struct gpu *gpu)
{
        return hangs_find(&monitor->hangs, CALL_ON_GPU, gpu->index, gpu->uuid);
}

/* ---- calls that hang ---- */

static void report_hang(struct gpu_monitor *monitor, const struct call_info *call, bool is_over)
{
        const struct gpu_monitor_options *to = &monitor->options;
        const struct gpu_hang hang = {.call = *call, .is_waited_for = hang_is_of_driver(call)};

        if (to->on_hang && !monitor->is_closing)
                to->on_hang(&hang, is_over, to->data);
}

/* A GPU is left out from now on; without the driver, what is known stays. */
void monitor_note_call(struct gpu_monitor *monitor, const struct call_info *lost, bool has_crashed)
{
        const uint64_t now_ms = gpu_call_now_ms();
        struct call_info call = *lost;
        struct unit_group *group;
        struct hang *hang;
        bool is_new;

        hang_name_gpu(&call, monitor->inventory);
        is_new = hangs_add(&monitor->hangs, &call, has_crashed, monitor->options.hang_pause_ms, now_ms);
        hang = hangs_find(&monitor->hangs, call.subject, call.index, call.gpu);
        group = call.subject == CALL_ON_GPU ? monitor_find_group(monitor, call.gpu, NULL) : NULL;
        if (group) {
                const struct skips skips = hangs_skips(&monitor->hangs);

                units_fail(group, skips_find(&skips, call.gpu)->reason, now_ms);
        }
        if (call.subject == CALL_ON_GPU || call.subject == CALL_ON_PAIR)
                monitor->refresh_at_ms = MIN(monitor->refresh_at_ms, now_ms);
        else if (hang_is_of_driver(&call))
                monitor->refresh_at_ms = hang->at_ms;
        if (is_new)
                report_hang(monitor, &call, false);
        monitor_report_news(monitor, false);
}

bool monitor_note_lost(struct gpu_monitor *monitor, const struct call_info *lost, const struct error *err)
{
        if (!err || !*lost->call)
                return false;
        monitor_note_call(monitor, lost, err->kind != ERROR_TIMEOUT);
        return true;
}

void monitor_end_hang(struct gpu_monitor *monitor, struct hang *hang)
{
        const uint64_t now_ms = gpu_call_now_ms();
        struct unit_group *group;

        hangs_end(hang, now_ms);
        group = monitor_find_group(monitor, hang->call.gpu, NULL);
        for (size_t i = 0; group && i < group->n_units; i++)
                health_poll_soon(&group->units[i].health, now_ms);
        monitor->refresh_at_ms = MIN(monitor->refresh_at_ms, now_ms);
        report_hang(monitor, &hang->call, true);
}

/* ---- asking anew about what hung ---- */

/* A reading of one GPU, or of the links between all, in a process that nobody else waits for. */
struct trial {
        struct nvml_request request;
        struct gpu_monitor *monitor;
        struct call_info call;
        struct list link;
};

static void trial_free(struct trial *trial)
{
        list_remove(&trial->link);
        free(trial);
}

static void on_tried(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct trial *trial = container_of(request, struct trial, request);
        struct gpu_monitor *monitor = trial->monitor;
        const struct call_info call = trial->call;
        const struct call_info lost = request->lost;
        struct hang *hang = hangs_find(&monitor->hangs, call.subject, call.index, call.gpu);
        struct look_reading reading = {0};

        trial_free(trial);
        if (hang)
                hang->is_tried = false;
        if (!monitor_note_lost(monitor, &lost, err) && hang) {
                if (!err && look_reading_unpack(answer, &reading))
                        monitor_end_hang(monitor, hang);
                else
                        hang->at_ms = gpu_call_now_ms() + monitor->options.hang_pause_ms;
        }
        inventory_free(reading.inventory);
        monitor_turn(monitor);
}

static void try_anew(struct gpu_monitor *monitor, struct hang *hang)
{
        struct trial *trial = xcalloc(1, sizeof(*trial));
        struct look_reading_wanted wanted = {.discovery = PLATFORM_CHOICE_NVML,
                .paths = monitor->options.paths,
                .counts_remaps = monitor->policy.counts_remaps,
                .has_probes = true};

        if (hang->call.subject == CALL_ON_GPU) {
                wanted.skips = (struct skips){.pairs = true, .has_only = true, .only = hang->call.index};
        } else {
                wanted.skips = hangs_skips(&monitor->hangs);
                wanted.skips.pairs = false;
        }
        hang->is_tried = true;
        trial->monitor = monitor;
        trial->call = hang->call;
        list_append(&monitor->trials, &trial->link);
        nvml_request_init(&trial->request, NULL, NULL, on_tried);
        hang_print_lane(&hang->call, trial->request.gpu);
        look_ask_reading(&trial->request, &wanted);
        nvml_pool_ask(monitor->pool, &trial->request);
}

/* The driver as a whole is asked anew by the next reading. */
static bool is_tried_alone(const struct hang *hang)
{
        return !hang->is_over && !hang->is_tried &&
               (hang->call.subject == CALL_ON_GPU || hang->call.subject == CALL_ON_PAIR);
}

static void try_due(struct gpu_monitor *monitor, uint64_t now_ms)
{
        for (size_t i = 0; i < monitor->hangs.n; i++)
                if (is_tried_alone(&monitor->hangs.all[i]) && monitor->hangs.all[i].at_ms <= now_ms)
                        try_anew(monitor, &monitor->hangs.all[i]);
}

static uint64_t trials_due_ms(const struct gpu_monitor *monitor)
{
        uint64_t due_ms = HEALTH_NEVER;

        for (size_t i = 0; i < monitor->hangs.n; i++)
                if (is_tried_alone(&monitor->hangs.all[i]))
                        due_ms = MIN(due_ms, monitor->hangs.all[i].at_ms);
        return due_ms;
}

/* ---- registering ---- */

static const struct listener_gpu *find_ear(const struct gpu_monitor *monitor, const char *uuid)
{
        for (size_t i = 0; i < monitor->n_ears; i++)
                if (strcmp(monitor->ears[i].uuid, uuid) == 0)
                        return &monitor->ears[i];
        return NULL;
}

/* The wait for events hangs. */
static struct hang *find_deaf(struct gpu_monitor *monitor)
{
        return hangs_find(&monitor->hangs, CALL_TO_HEAR, CALL_NO_INDEX, "");
}

/* One lost GPU makes each wait fail. The probe that finds it again has it registered. */
static bool is_to_be_heard(struct gpu_monitor *monitor, size_t position)
{
        const struct unit_group *group = &monitor->units.groups[position];
        const struct gpu *gpu = &monitor->inventory->gpus[position];

        return !gpu->failure && !(group->fails && group->units[0].health.unhealthy) && !find_hang(monitor, gpu);
}

void monitor_register(struct gpu_monitor *monitor)
{
        const struct inventory *inventory = monitor->inventory;
        struct listener_gpu *gpus;
        size_t n_gpus = 0;

        /* One that waits and can neither return nor be ended: another one would be left behind as well. */
        if (worker_find_left(CALL_TO_HEAR, "", NULL)) {
                monitor->must_register = true;
                monitor->register_at_ms = gpu_call_now_ms() + REGISTER_AGAIN_MS;
                return;
        }
        gpus = xcalloc(inventory->n_gpus, sizeof(*gpus));
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (!is_to_be_heard(monitor, i))
                        continue;
                gpus[n_gpus].index = gpu->index;
                snprintf(gpus[n_gpus].uuid, sizeof(gpus->uuid), "%s", gpu->uuid);
                n_gpus++;
        }
        monitor->must_register = monitor->is_hearing_all = false;
        monitor->is_registering = n_gpus > 0;
        monitor->registered_ms = gpu_call_now_ms();
        listener_hear(monitor->listener, gpus, n_gpus, monitor->unheard_since_ms || find_deaf(monitor));
        if (n_gpus == 0)
                monitor->n_ears = 0;
        free(gpus);
}

/*
 * After another inventory all are registered anew, since a GPU that was reset is not any more; but one that hangs could
 * not be: while it is heard, that stays so.
 */
bool monitor_needs_registering(struct gpu_monitor *monitor, bool is_news)
{
        bool hears_hung = false;

        for (size_t i = 0; i < monitor->inventory->n_gpus; i++) {
                const struct gpu *gpu = &monitor->inventory->gpus[i];
                const bool is_heard = find_ear(monitor, gpu->uuid);

                if (!is_heard && is_to_be_heard(monitor, i))
                        return true;
                hears_hung = hears_hung || (is_heard && find_hang(monitor, gpu));
        }
        return is_news && !hears_hung;
}

/* No event of this GPU would arrive. */
static void fail_unheard(struct gpu_monitor *monitor, struct unit_group *group, const char *reason)
{
        if (!health_policy_has_checks(&monitor->policy))
                return;
        for (size_t i = 0; i < group->n_units; i++)
                if (!group->units[i].health.unhealthy &&
                        health_fail(&group->units[i].health, reason, gpu_call_now_ms()))
                        group->units[i].is_news = true;
}

void monitor_apply_ears(struct gpu_monitor *monitor)
{
        for (size_t i = 0; i < monitor->n_ears; i++) {
                struct unit_group *group = monitor_find_group(monitor, monitor->ears[i].uuid, NULL);

                if (group && monitor->ears[i].state == EAR_FAILED)
                        fail_unheard(monitor, group, monitor->ears[i].reason);
        }
}

static void on_registered(const struct listener_gpu *gpus, size_t n_gpus, void *data)
{
        struct gpu_monitor *monitor = data;

        free(monitor->ears);
        monitor->ears = xcalloc(n_gpus, sizeof(*gpus));
        monitor->n_ears = n_gpus;
        monitor->is_registering = monitor->is_hearing_all = false;
        for (size_t i = 0; i < n_gpus; i++)
                monitor->ears[i] = gpus[i];
        monitor_apply_ears(monitor);
        if (monitor->inventory && monitor_needs_registering(monitor, false))
                monitor->must_register = true; /* all were registered before it was known which there are */
        monitor_report_news(monitor, false);
        monitor_turn(monitor);
}

static void on_lost(const char *reason UNUSED, const struct call_info *call, bool has_crashed, void *data)
{
        struct gpu_monitor *monitor = data;

        monitor->is_registering = monitor->is_hearing_all = false;
        monitor->must_register = true;
        monitor->register_at_ms = MAX(gpu_call_now_ms(), monitor->registered_ms + REGISTER_AGAIN_MS);
        if (call) {
                const struct hang *hang;

                monitor_note_call(monitor, call, has_crashed);
                hang = hangs_find(&monitor->hangs, call->subject, call->index, call->gpu);
                if (hang && call->subject != CALL_ON_GPU)
                        monitor->register_at_ms = hang->at_ms; /* others are left out, and need not wait */
        } else if (monitor->is_open) {
                monitor_read_anew(monitor); /* NVML cannot be opened: the reading says why */
        }
        monitor_turn(monitor);
}

/* ---- probes ---- */

struct probing {
        struct nvml_request request;
        struct gpu_monitor *monitor;
        bool is_forced;
        struct look_finding units[LOOK_UNITS_MAX]; /* of which the names are set before */
        size_t n_units;
        struct list link;
};

static void probing_free(struct probing *probing)
{
        list_remove(&probing->link);
        free(probing);
}

/* False: it is not known yet whether events of the GPU arrive. */
static bool judge_whole(struct gpu_monitor *monitor, const struct gpu *gpu, bool is_forced, struct probe_result *whole)
{
        const struct listener_gpu *ear = find_ear(monitor, gpu->uuid);
        const char *problem = NULL;

        if (gpu->failure) {
                problem = gpu->failure;
        } else if (health_is_good(whole->finding) && ear && monitor->is_unheard && ear->state == EAR_HEARS) {
                problem = monitor->unheard;
        } else if (health_is_good(whole->finding) && !is_forced) {
                if ((!ear || ear->state == EAR_FAILED) && !monitor->is_registering)
                        monitor->must_register = true;
                if (!ear)
                        return false;
                if (ear->state == EAR_FAILED)
                        problem = ear->reason;
        }
        if (problem) {
                whole->finding = whole->finding == HEALTH_GONE ? HEALTH_GONE : HEALTH_BAD;
                snprintf(whole->reason, sizeof(whole->reason), "%s", problem);
        }
        return true;
}

static const struct probe_result *find_finding(const struct look_finding *findings, size_t n, const char *uuid)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(findings[i].unit, uuid) == 0)
                        return &findings[i].result;
        return NULL;
}

/* |forced|: only failures count, and good probes count at their own times. */
static void apply_probe(struct gpu_monitor *monitor, struct unit_group *group, const struct gpu *gpu,
        const struct look_finding *findings, size_t n_findings, bool is_forced)
{
        const uint64_t now_ms = gpu_call_now_ms();
        struct probe_result whole = findings[0].result;
        bool is_known;

        group->fails = !health_is_good(whole.finding);
        is_known = judge_whole(monitor, gpu, is_forced, &whole);
        for (size_t i = 0; i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];
                const struct probe_result *found = find_finding(findings, n_findings, unit->uuid);
                const bool is_due = !is_forced && unit->health.probe_at_ms <= now_ms;
                struct probe_result own = whole;

                if ((!is_due && unit->health.unhealthy) || (!found && health_is_good(whole.finding)))
                        continue;
                if (!is_known) {
                        unit->health.probe_at_ms =
                                unit->health.unhealthy ? now_ms + unit->health.first_interval_ms : HEALTH_NEVER;
                        continue;
                }
                if (i > 0 && health_is_good(whole.finding)) {
                        own = *found;
                        /* Its GPU is there, so this does not prove a reset. */
                        own.finding = health_is_good(own.finding) ? whole.finding : HEALTH_BAD;
                }
                if (health_probe(&unit->health, own.finding, own.reason, now_ms))
                        unit->is_news = true;
        }
}

/* It is not asked, and stays what it is. */
static void put_off(struct unit_group *group, uint64_t now_ms)
{
        group->must_poll = false;
        for (size_t i = 0; i < group->n_units; i++) {
                struct health *health = &group->units[i].health;

                if (health->probe_at_ms <= now_ms)
                        health->probe_at_ms = now_ms + health->first_interval_ms;
        }
}

static void on_probed(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct probing *probing = container_of(request, struct probing, request);
        struct gpu_monitor *monitor = probing->monitor;
        const struct call_info lost = request->lost;
        struct probe_result results[LOOK_UNITS_MAX];
        const struct gpu *gpu;
        struct unit_group *group = monitor_find_group(monitor, probing->units[0].unit, &gpu);

        if (group && !err && look_probe_unpack(answer, results, probing->n_units)) {
                for (size_t i = 0; i < probing->n_units; i++)
                        probing->units[i].result = results[i];
                apply_probe(monitor, group, gpu, probing->units, probing->n_units, probing->is_forced);
        }
        probing_free(probing);
        if (group && err)
                put_off(group, gpu_call_now_ms());
        if (!monitor_note_lost(monitor, &lost, err) && err)
                monitor_read_anew(monitor); /* NVML cannot be opened: the reading says why */
        monitor_report_news(monitor, false);
        monitor_turn(monitor);
}

static bool is_probed(const struct gpu_monitor *monitor, const struct unit_group *group)
{
        LIST_FOR_EACH(link, &monitor->probes)
                if (strcmp(container_of(link, struct probing, link)->units[0].unit, group->units[0].uuid) == 0)
                        return true;
        return false;
}

static void add_unit(struct probing *probing, struct look_probe_wanted *wanted, const char *uuid)
{
        struct look_finding *unit = &probing->units[probing->n_units++];

        snprintf(unit->unit, sizeof(unit->unit), "%s", uuid);
        wanted->units[wanted->n_units++] = unit->unit;
}

static void probe(struct gpu_monitor *monitor, size_t position, bool is_forced, uint64_t now_ms)
{
        struct unit_group *group = &monitor->units.groups[position];
        const struct gpu *gpu = &monitor->inventory->gpus[position];
        struct probing *probing = xcalloc(1, sizeof(*probing));
        struct look_probe_wanted wanted = {.index = gpu->index, .counts_remaps = monitor->policy.counts_remaps};

        *probing = (struct probing){.monitor = monitor, .is_forced = is_forced};
        list_append(&monitor->probes, &probing->link);
        add_unit(probing, &wanted, gpu->uuid);
        for (size_t i = 1; i < group->n_units && wanted.n_units < LOOK_UNITS_MAX; i++)
                if (!group->units[i].health.unhealthy || group->units[i].health.probe_at_ms <= now_ms)
                        add_unit(probing, &wanted, group->units[i].uuid);
        nvml_request_init(&probing->request, NULL, gpu->uuid, on_probed);
        look_ask_probe(&probing->request, &wanted);
        nvml_pool_ask(monitor->pool, &probing->request);
}

/* If nothing can become healthy, no probe is needed. */
static uint64_t probe_at(const struct gpu_monitor *monitor, const struct unit_group *group)
{
        if (is_probed(monitor, group))
                return HEALTH_NEVER;
        if (group->must_poll)
                return 0;
        return monitor->policy.recover ? units_probe_at(group) : HEALTH_NEVER;
}

static void probe_due(struct gpu_monitor *monitor, uint64_t now_ms)
{
        for (size_t i = 0; i < monitor->units.n_groups; i++) {
                struct unit_group *group = &monitor->units.groups[i];
                const struct gpu *gpu = &monitor->inventory->gpus[i];
                const bool is_forced = group->must_poll;

                if (probe_at(monitor, group) > now_ms)
                        continue;
                if (find_hang(monitor, gpu)) {
                        put_off(group, now_ms);
                        continue;
                }
                /* A GPU that could not be read becomes healthy only by a reading. */
                if (gpu->failure && !is_forced)
                        monitor->refresh_at_ms = MIN(monitor->refresh_at_ms, now_ms);
                group->must_poll = false;
                probe(monitor, i, is_forced, now_ms);
        }
}

void monitor_apply_findings(struct gpu_monitor *monitor, const struct look_finding *findings, size_t n_findings)
{
        for (size_t i = 0; i < n_findings; i++) {
                const struct gpu *gpu;
                struct unit_group *group = monitor_find_group(monitor, findings[i].unit, &gpu);
                size_t n = 1;

                if (!group)
                        continue;
                while (i + n < n_findings && !monitor_find_group(monitor, findings[i + n].unit, NULL))
                        n++;
                apply_probe(monitor, group, gpu, &findings[i], n, true);
        }
}

/* ---- events ---- */

static void handle_xid(struct gpu_monitor *monitor, struct unit_group *group, const struct listener_event *event)
{
        monitor_count_xid(monitor, event->uuid, event->data);
        switch (health_policy_effect(&monitor->policy, event->data)) {
        case XID_IGNORED:
                break;
        case XID_CHECK:
                group->must_poll = true;
                break;
        case XID_UNHEALTHY:
                if (!units_xid(&monitor->units, (size_t)(group - monitor->units.groups), event->gpu_instance,
                            event->compute_instance, event->data, gpu_call_now_ms()))
                        gpu_monitor_poll(monitor);
                break;
        }
}

static void on_event(const struct listener_event *event, void *data)
{
        struct gpu_monitor *monitor = data;
        struct unit_group *group = monitor_find_group(monitor, event->uuid, NULL);

        if (event->type == NVML_EVENT_TYPE_MIG_CONFIG_CHANGE || !group)
                gpu_monitor_poll(monitor);
        else if (event->type == NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
                handle_xid(monitor, group, event);
        else if (event->type & LISTENER_EVENTS_POLL && health_policy_has_checks(&monitor->policy))
                group->must_poll = true;
        monitor_report_news(monitor, false);
        monitor_turn(monitor);
}

static void report_unheard(struct gpu_monitor *monitor, const char *reason)
{
        if (monitor->options.on_unheard && !monitor->is_closing)
                monitor->options.on_unheard(reason, monitor->options.data);
}

static void on_heard(void *data)
{
        struct gpu_monitor *monitor = data;
        const bool was_reported = *monitor->unheard;
        struct hang *hang = find_deaf(monitor);

        if (hang)
                monitor_end_hang(monitor, hang);
        monitor->unheard_since_ms = 0;
        monitor->is_unheard = false;
        monitor->unheard[0] = '\0';
        if (was_reported)
                report_unheard(monitor, NULL);
        monitor_turn(monitor);
}

/*
 * Each GPU was probed and none is the cause, but the waits still fail: in the end, treat this like a failed
 * registration.
 */
static void note_unheard(struct gpu_monitor *monitor, const char *reason, uint64_t lasted_ms)
{
        const bool was_reported = *monitor->unheard;

        if (lasted_ms < MIN(REPORT_MS, monitor->options.unheard_ms))
                return;
        snprintf(monitor->unheard, sizeof(monitor->unheard), "no health events arrive: %.*s",
                (int)sizeof(monitor->unheard) - 32, reason);
        monitor->is_unheard = lasted_ms >= monitor->options.unheard_ms && health_policy_has_checks(&monitor->policy);
        if (!was_reported)
                report_unheard(monitor, monitor->unheard);
        for (size_t i = 0; monitor->is_unheard && i < monitor->units.n_groups; i++) {
                struct unit_group *group = &monitor->units.groups[i];
                const struct listener_gpu *ear = find_ear(monitor, group->units[0].uuid);

                if (ear && ear->state == EAR_HEARS)
                        fail_unheard(monitor, group, monitor->unheard);
        }
}

/* A failed wait does not say which GPU is the cause: probe each one, and wait without the faulty one. */
static void on_failed(const char *reason, bool is_fatal, void *data)
{
        struct gpu_monitor *monitor = data;
        const uint64_t now_ms = gpu_call_now_ms();

        if (is_fatal) {
                monitor_give_up(monitor, reason);
                monitor_turn(monitor);
                return;
        }
        if (!monitor->unheard_since_ms)
                monitor->unheard_since_ms = now_ms;
        monitor->failed_waits++;
        note_unheard(monitor, reason, now_ms - monitor->unheard_since_ms);
        if (now_ms >= monitor->sweep_at_ms) {
                monitor->sweep_at_ms = now_ms + SWEEP_MS;
                monitor->must_sweep = monitor->must_register = true;
                monitor->refresh_at_ms = now_ms;
        }
        monitor_report_news(monitor, false);
        monitor_turn(monitor);
}

void monitor_init_listener(struct gpu_monitor *monitor)
{
        const struct listener_options options = {
                .loop = monitor->timer.loop,
                .library = monitor->options.library,
                .driver_root = monitor->options.paths.driver_root,
                .wait_ms = monitor->options.wait_ms,
                .hang_ms = monitor->options.hang_ms,
                .on_registered = on_registered,
                .on_event = on_event,
                .on_failed = on_failed,
                .on_heard = on_heard,
                .on_lost = on_lost,
                .data = monitor,
        };

        monitor->listener = listener_new(&options);
}

/* ---- what is due ---- */

void monitor_ask_due(struct gpu_monitor *monitor, uint64_t now_ms)
{
        try_due(monitor, now_ms);
        if (!monitor->is_open)
                return;
        probe_due(monitor, now_ms);
        if (monitor->must_register && !monitor->must_sweep && monitor->register_at_ms <= now_ms)
                monitor_register(monitor);
}

uint64_t monitor_health_due_ms(const struct gpu_monitor *monitor)
{
        uint64_t due_ms = trials_due_ms(monitor);

        for (size_t i = 0; monitor->is_open && i < monitor->units.n_groups; i++)
                due_ms = MIN(due_ms, probe_at(monitor, &monitor->units.groups[i]));
        if (monitor->is_open && monitor->must_register && !monitor->must_sweep)
                due_ms = MIN(due_ms, monitor->register_at_ms);
        return due_ms;
}

void monitor_cancel_health(struct gpu_monitor *monitor)
{
        while (!list_is_empty(&monitor->probes)) {
                struct probing *probing = container_of(monitor->probes.next, struct probing, link);

                nvml_pool_cancel(monitor->pool, &probing->request);
                probing_free(probing);
        }
        while (!list_is_empty(&monitor->trials)) {
                struct trial *trial = container_of(monitor->trials.next, struct trial, link);

                nvml_pool_cancel(monitor->pool, &trial->request);
                trial_free(trial);
        }
        for (size_t i = 0; i < monitor->hangs.n; i++)
                monitor->hangs.all[i].is_tried = false;
        listener_stop(monitor->listener);
        monitor->is_registering = monitor->is_hearing_all = false;
        monitor->n_ears = 0;
}

void gpu_monitor_poll(struct gpu_monitor *monitor)
{
        const uint64_t soon_ms = gpu_call_now_ms() + (monitor->is_open ? SETTLE_MS : 0);

        monitor->refresh_at_ms = MIN(monitor->refresh_at_ms, soon_ms);
        monitor_turn(monitor);
}
