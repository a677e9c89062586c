#include "gpu/hearing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_MS UINT64_C(5000)  /* between two probes of all GPUs while waiting fails */
#define REPORT_MS UINT64_C(5000) /* how long waits must fail, without a single GPU as the cause, until it is reported */
#define REGISTER_AGAIN_MS UINT64_C(1000)

static const struct listener_gpu *find_registered(const struct hearing *hearing, const char *uuid)
{
        for (size_t i = 0; i < hearing->n_gpus; i++)
                if (strcmp(hearing->gpus[i].uuid, uuid) == 0)
                        return &hearing->gpus[i];
        return NULL;
}

/* The wait for events hangs. */
static struct hang *find_hanging_wait(struct hearing *hearing)
{
        return hangs_find(&hearing->known->hangs, CALL_TO_WAIT, CALL_NO_INDEX, "");
}

/* ---- registering ---- */

/* One lost GPU makes each wait fail. The probe that finds it again has it registered. */
static bool can_be_registered(const struct hearing *hearing, size_t position)
{
        const struct unit_group *group = &hearing->known->units.groups[position];
        const struct gpu *gpu = &hearing->known->inventory->gpus[position];

        return !gpu->failure && !(group->fails && group->units[0].health.unhealthy) &&
               !gpu_known_find_hang(hearing->known, gpu);
}

static void register_gpus(struct hearing *hearing)
{
        const struct inventory *inventory = hearing->known->inventory;
        struct listener_gpu *gpus;
        size_t n_gpus = 0;

        /* A process that waits and can neither return nor be ended: another one would be left behind as well. */
        if (worker_find_left(CALL_TO_WAIT, "", NULL)) {
                hearing->must_register = true;
                hearing->register_at_ms = gpu_call_now_ms() + REGISTER_AGAIN_MS;
                return;
        }
        gpus = xcalloc(inventory->n_gpus, sizeof(*gpus));
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (!can_be_registered(hearing, i))
                        continue;
                gpus[n_gpus].index = gpu->index;
                snprintf(gpus[n_gpus].uuid, sizeof(gpus->uuid), "%s", gpu->uuid);
                n_gpus++;
        }
        hearing->must_register = hearing->is_hearing_all = false;
        hearing->is_registering = n_gpus > 0;
        hearing->registered_ms = gpu_call_now_ms();
        listener_set_gpus(hearing->listener, gpus, n_gpus, hearing->failing_since_ms || find_hanging_wait(hearing));
        if (n_gpus == 0)
                hearing->n_gpus = 0;
        free(gpus);
}

/*
 * After a new inventory all GPUs are registered again, since a reset ends the registration of a GPU. But a GPU that
 * hangs could not be registered again: so while one of the registered GPUs hangs, the registration stays as it is.
 */
static bool needs_registering(struct hearing *hearing, bool is_news)
{
        const struct inventory *inventory = hearing->known->inventory;
        bool has_hung = false;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];
                const bool is_registered = find_registered(hearing, gpu->uuid);

                if (!is_registered && can_be_registered(hearing, i))
                        return true;
                has_hung = has_hung || (is_registered && gpu_known_find_hang(hearing->known, gpu));
        }
        return is_news && !has_hung;
}

/* No event of this GPU would arrive. */
static void fail_group(struct hearing *hearing, struct unit_group *group, const char *reason)
{
        if (!health_policy_has_checks(&hearing->known->policy))
                return;
        for (size_t i = 0; i < group->n_units; i++)
                if (!group->units[i].health.unhealthy &&
                        health_fail(&group->units[i].health, reason, gpu_call_now_ms()))
                        group->units[i].is_news = true;
}

static void fail_unregistered(struct hearing *hearing)
{
        for (size_t i = 0; i < hearing->n_gpus; i++) {
                struct unit_group *group = gpu_known_find_group(hearing->known, hearing->gpus[i].uuid, NULL);

                if (group && hearing->gpus[i].state == EVENTS_FAIL)
                        fail_group(hearing, group, hearing->gpus[i].reason);
        }
}

void hearing_update(struct hearing *hearing, bool is_news, uint64_t now_ms)
{
        fail_unregistered(hearing);
        if (hearing->known->is_open && !hearing->is_hearing_all && hearing->register_at_ms <= now_ms &&
                needs_registering(hearing, is_news))
                register_gpus(hearing);
}

static void hearing_on_registered(const struct listener_gpu *gpus, size_t n_gpus, void *data)
{
        struct hearing *hearing = data;
        struct gpu_known *known = hearing->known;

        free(hearing->gpus);
        hearing->gpus = xcalloc(n_gpus, sizeof(*gpus));
        hearing->n_gpus = n_gpus;
        hearing->is_registering = hearing->is_hearing_all = false;
        for (size_t i = 0; i < n_gpus; i++)
                hearing->gpus[i] = gpus[i];
        fail_unregistered(hearing);
        if (known->inventory && needs_registering(hearing, false))
                hearing->must_register = true; /* all were registered before it was known which there are */
        known->report_news(known, false);
        known->turn(known);
}

static void on_hearing_lost(const char *reason UNUSED, const struct call_info *call, bool has_crashed, void *data)
{
        struct hearing *hearing = data;
        struct gpu_known *known = hearing->known;

        hearing->is_registering = hearing->is_hearing_all = false;
        hearing->must_register = true;
        hearing->register_at_ms = MAX(gpu_call_now_ms(), hearing->registered_ms + REGISTER_AGAIN_MS);
        if (call) {
                const struct hang *hang;

                gpu_known_note_call(known, call, has_crashed);
                hang = hangs_find(&known->hangs, call->subject, call->index, call->gpu);
                if (hang && call->subject != CALL_ON_GPU)
                        hearing->register_at_ms = hang->at_ms; /* others are left out, and need not wait */
        } else if (known->is_open) {
                gpu_known_reopen(known); /* NVML cannot be opened: the reading says why */
        }
        known->turn(known);
}

static void on_hearing_event(const struct listener_event *event, void *data)
{
        const struct hearing *hearing = data;

        hearing->options.on_event(event, hearing->options.data);
}

bool hearing_find_problem(struct hearing *hearing, const char *uuid, bool is_forced, const char **ret)
{
        const struct listener_gpu *gpu = find_registered(hearing, uuid);

        *ret = NULL;
        if (gpu && hearing->events_lost && gpu->state == EVENTS_ARRIVE) {
                *ret = hearing->problem;
        } else if (!is_forced) {
                if ((!gpu || gpu->state == EVENTS_FAIL) && !hearing->is_registering)
                        hearing->must_register = true;
                if (!gpu)
                        return false;
                if (gpu->state == EVENTS_FAIL)
                        *ret = gpu->reason;
        }
        return true;
}

bool hearing_is_registering(const struct hearing *hearing)
{
        return hearing->is_registering;
}

/* ---- waits that fail ---- */

static void report_problem(struct hearing *hearing, const char *reason)
{
        const struct gpu_monitor_options *to = hearing->known->options;

        if (to->on_unheard && !hearing->known->is_closing)
                to->on_unheard(reason, to->data);
}

static void hearing_on_recovered(void *data)
{
        struct hearing *hearing = data;
        struct gpu_known *known = hearing->known;
        const bool was_reported = *hearing->problem;
        struct hang *hang = find_hanging_wait(hearing);

        if (hang)
                gpu_known_end_hang(known, hang);
        hearing->failing_since_ms = 0;
        hearing->events_lost = false;
        hearing->problem[0] = '\0';
        if (was_reported)
                report_problem(hearing, NULL);
        known->turn(known);
}

/*
 * Each GPU was probed and none is the cause, but the waits still fail: in the end, this counts as a failed registration
 * of all.
 */
static void note_failing(struct hearing *hearing, const char *reason, uint64_t lasted_ms)
{
        const struct gpu_known *known = hearing->known;
        const bool was_reported = *hearing->problem;

        if (lasted_ms < MIN(REPORT_MS, known->options->unheard_ms))
                return;
        snprintf(hearing->problem, sizeof(hearing->problem), "no health events arrive: %.*s",
                (int)sizeof(hearing->problem) - 32, reason);
        hearing->events_lost = lasted_ms >= known->options->unheard_ms && health_policy_has_checks(&known->policy);
        if (!was_reported)
                report_problem(hearing, hearing->problem);
        for (size_t i = 0; hearing->events_lost && i < known->units.n_groups; i++) {
                struct unit_group *group = &known->units.groups[i];
                const struct listener_gpu *gpu = find_registered(hearing, group->units[0].uuid);

                if (gpu && gpu->state == EVENTS_ARRIVE)
                        fail_group(hearing, group, hearing->problem);
        }
}

static void on_hearing_failed(const char *reason, bool is_fatal, void *data)
{
        struct hearing *hearing = data;
        struct gpu_known *known = hearing->known;
        const uint64_t now_ms = gpu_call_now_ms();

        if (is_fatal) {
                hearing->options.on_fatal(reason, hearing->options.data);
                return;
        }
        if (!hearing->failing_since_ms)
                hearing->failing_since_ms = now_ms;
        hearing->failed_waits++;
        note_failing(hearing, reason, now_ms - hearing->failing_since_ms);
        if (now_ms >= hearing->sweep_at_ms) {
                hearing->sweep_at_ms = now_ms + SWEEP_MS;
                hearing->must_sweep = hearing->must_register = true;
                known->refresh_at_ms = now_ms;
        }
        known->report_news(known, false);
        known->turn(known);
}

bool hearing_must_sweep(const struct hearing *hearing)
{
        return hearing->must_sweep;
}

void hearing_note_swept(struct hearing *hearing)
{
        hearing->must_sweep = false;
}

uint64_t hearing_failed_waits(const struct hearing *hearing)
{
        return hearing->failed_waits;
}

/* ---- what is due ---- */

uint64_t hearing_due_ms(const struct hearing *hearing)
{
        return hearing->must_register && !hearing->must_sweep ? hearing->register_at_ms : HEALTH_NEVER;
}

void hearing_begin_due(struct hearing *hearing, uint64_t now_ms)
{
        if (hearing_due_ms(hearing) <= now_ms)
                register_gpus(hearing);
}

/* ---- begin and end ---- */

void hearing_init(struct hearing *hearing, struct gpu_known *known, const struct hearing_options *options)
{
        const struct listener_options listener = {
                .loop = options->loop,
                .library = known->options->library,
                .driver_root = known->options->paths.driver_root,
                .wait_ms = known->options->wait_ms,
                .hang_ms = known->options->hang_ms,
                .on_registered = hearing_on_registered,
                .on_event = on_hearing_event,
                .on_failed = on_hearing_failed,
                .on_recovered = hearing_on_recovered,
                .on_lost = on_hearing_lost,
                .data = hearing,
        };

        *hearing =
                (struct hearing){.known = known, .options = *options, .is_registering = true, .is_hearing_all = true};
        hearing->listener = listener_new(&listener);
        listener_set_all(hearing->listener);
}

bool hearing_has_ended(const struct hearing *hearing)
{
        return listener_has_ended(hearing->listener);
}

void hearing_stop(struct hearing *hearing)
{
        listener_stop(hearing->listener);
        hearing->is_registering = hearing->is_hearing_all = false;
        hearing->n_gpus = 0;
}

void hearing_close(struct hearing *hearing)
{
        hearing->listener = listener_close(hearing->listener);
        free(TAKE_PTR(hearing->gpus));
        hearing->n_gpus = 0;
}
