// SPDX-License-Identifier: Apache-2.0
/*
 * A new process takes over from the old one when it has registered. An event of that moment is reported by both or by
 * only one of them. So the old process runs for a while longer, and an event that both report counts once.
 */
#include "gpu/hearing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PROCESS_NAME "gpu-events"
#define OVERLAP_MS UINT64_C(300)
#define SLOW_MS UINT64_C(500)    /* a call about one GPU holds up the registration of all */
#define LOOK_MS UINT64_C(250)    /* between two looks at what the registration is in */
#define SWEEP_MS UINT64_C(5000)  /* between two probes of all GPUs while waiting fails */
#define REPORT_MS UINT64_C(5000) /* how long waits must fail, without a single GPU as the cause, until it is reported */
#define REGISTER_AGAIN_MS UINT64_C(1000)

struct hearing_process {
        struct worker *worker;
        struct worker_request request;
        struct hearing *hearing;
        struct strbuf question;
        bool has_all;            /* it registers all GPUs of the driver, before it is known which there are */
        uint64_t look_at_ms;     /* when to see what it is in, if it has not registered by then */
        struct worker_call slow; /* the call in which it was left alone */
        struct list link;        /* then, in |slow| */
};

static const struct listener_gpu *find_registered(const struct hearing *hearing, const char *uuid)
{
        for (size_t i = 0; i < hearing->n_gpus; i++)
                if (strcmp(hearing->gpus[i].uuid, uuid) == 0)
                        return &hearing->gpus[i];
        return NULL;
}

static bool is_left_alone(const struct hearing *hearing, const char *uuid)
{
        LIST_FOR_EACH(link, &hearing->slow)
                if (strcmp(container_of(link, struct hearing_process, link)->slow.name, uuid) == 0)
                        return true;
        return false;
}

/* The wait for events hangs. */
static struct hang *find_hanging_wait(struct hearing *hearing)
{
        return hangs_find(&hearing->known->hangs, CALL_TO_WAIT, CALL_NO_INDEX, "");
}

/* ---- the processes ---- */

static struct hearing_process *process_close(struct hearing_process *process)
{
        if (process) {
                list_remove(&process->link);
                worker_close(process->worker);
                strbuf_done(&process->question);
                free(process);
        }
        return NULL;
}

static void end_overlap(struct hearing *hearing)
{
        hearing->old = process_close(hearing->old);
        hearing->n_seen = 0;
}

/* All but those that were left alone. */
static void end_processes(struct hearing *hearing)
{
        end_overlap(hearing);
        hearing->next = process_close(hearing->next);
        hearing->now = process_close(hearing->now);
        hearing->n_gpus = 0;
}

static void take_over(struct hearing *hearing, struct hearing_process *process)
{
        end_overlap(hearing);
        list_remove(&process->link);
        if (process == hearing->next) {
                hearing->next = NULL;
        } else if (hearing->next) { /* it does not have the slow GPU: both together come next */
                hearing->next = process_close(hearing->next);
                hearing->must_register = true;
        }
        hearing->old = hearing->now;
        hearing->now = process;
        hearing->overlap_until_ms = clock_now_ms() + OVERLAP_MS;
}

static void on_hearing_news(struct worker_request *request, const void *bytes, size_t size);
static void on_hearing_done(struct worker_request *request, const struct error *err, const void *bytes, size_t size);

/* |wanted->n_gpus| 0: all. */
static void hearing_begin_process(struct hearing *hearing, struct listener_wanted *wanted)
{
        struct hearing_process *process = xcalloc(1, sizeof(*process));
        struct pack pack;

        process_close(hearing->next);
        *process = (struct hearing_process){.hearing = hearing,
                .question = STRBUF_INIT,
                .has_all = wanted->n_gpus == 0,
                .look_at_ms = clock_now_ms() + SLOW_MS};
        list_init(&process->link);
        pack = pack_writer(&process->question);
        listener_pack(&pack, wanted);
        process->worker = worker_new(hearing->loop, PROCESS_NAME, listener_serve, hearing->known->options);
        process->request = (struct worker_request){.message = process->question.data,
                .size = process->question.size,
                .deadline_ms = hearing->known->options->hang_ms,
                .done = on_hearing_done,
                .news = on_hearing_news};
        hearing->next = process;
        worker_ask(process->worker, &process->request);
}

/* ---- registering ---- */

/* One lost GPU makes each wait fail. The probe that finds it again has it registered. */
static bool can_be_registered(const struct hearing *hearing, size_t position)
{
        const struct unit_group *group = &hearing->known->units.groups[position];
        const struct gpu *gpu = &hearing->known->inventory->gpus[position];

        return !gpu->failure && !is_left_alone(hearing, gpu->uuid) &&
               !(group->fails && group->units[0].health.unhealthy) && !gpu_known_find_hang(hearing->known, gpu);
}

static void register_gpus(struct hearing *hearing)
{
        const struct inventory *inventory = hearing->known->inventory;
        struct listener_wanted wanted = {.has_failed = hearing->failing_since_ms || find_hanging_wait(hearing)};

        /* A process that waits and can neither return nor be ended: another one would be left behind as well. */
        if (worker_find_left(CALL_TO_WAIT, "", NULL)) {
                hearing->must_register = true;
                hearing->register_at_ms = clock_now_ms() + REGISTER_AGAIN_MS;
                return;
        }
        wanted.gpus = xcalloc(inventory->n_gpus, sizeof(*wanted.gpus));
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (!can_be_registered(hearing, i))
                        continue;
                wanted.gpus[wanted.n_gpus].index = gpu->index;
                snprintf(wanted.gpus[wanted.n_gpus++].uuid, sizeof(wanted.gpus->uuid), "%s", gpu->uuid);
        }
        hearing->must_register = false;
        hearing->registered_ms = clock_now_ms();
        if (wanted.n_gpus)
                hearing_begin_process(hearing, &wanted);
        else
                end_processes(hearing);
        free(wanted.gpus);
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

static bool can_others_be_registered(const struct hearing *hearing, const char *uuid)
{
        for (size_t i = 0; i < hearing->known->inventory->n_gpus; i++)
                if (strcmp(hearing->known->inventory->gpus[i].uuid, uuid) != 0 && can_be_registered(hearing, i))
                        return true;
        return false;
}

/*
 * A GPU that holds up the registration keeps its process, in which it may answer yet. One that the process in use has
 * registered holds up nothing: that process gets its events and those of the others meanwhile.
 */
static void leave_slow(struct hearing *hearing, uint64_t now_ms)
{
        struct worker_call call = worker_current_call(hearing->next->worker);

        hearing->next->look_at_ms = now_ms + LOOK_MS;
        hang_name_gpu(&call, hearing->known->inventory);
        if (!*call.call || call.subject != CALL_ON_GPU || call.since_ms + SLOW_MS > now_ms ||
                (hearing->now && find_registered(hearing, call.name)) || !can_others_be_registered(hearing, call.name))
                return;
        hearing->next->slow = call;
        list_append(&hearing->slow, &TAKE_PTR(hearing->next)->link);
        register_gpus(hearing);
}

/* No event of this GPU would arrive. */
static void fail_group(struct hearing *hearing, struct unit_group *group, const char *reason)
{
        if (!health_policy_has_checks(&hearing->known->policy))
                return;
        for (size_t i = 0; i < group->n_units; i++)
                if (!group->units[i].health.unhealthy && health_fail(&group->units[i].health, reason, clock_now_ms()))
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
        if (hearing->known->is_open && !(hearing->next && hearing->next->has_all) &&
                hearing->register_at_ms <= now_ms && needs_registering(hearing, is_news))
                register_gpus(hearing);
}

bool hearing_find_problem(struct hearing *hearing, const char *uuid, bool is_forced, const char **ret)
{
        const struct listener_gpu *gpu = find_registered(hearing, uuid);

        *ret = NULL;
        if (gpu && hearing->events_lost && gpu->state == EVENTS_ARRIVE) {
                *ret = hearing->problem;
        } else if (!is_forced) {
                if ((!gpu || gpu->state == EVENTS_FAIL) && !hearing->next && !is_left_alone(hearing, uuid))
                        hearing->must_register = true;
                if (!gpu)
                        return false;
                if (gpu->state == EVENTS_FAIL)
                        *ret = gpu->reason;
        }
        return true;
}

static void note_registered(struct hearing *hearing, const struct listener_gpu *gpus, size_t n_gpus)
{
        struct gpu_known *known = hearing->known;

        free(hearing->gpus);
        hearing->gpus = xcalloc(n_gpus, sizeof(*gpus));
        hearing->n_gpus = n_gpus;
        for (size_t i = 0; i < n_gpus; i++)
                hearing->gpus[i] = gpus[i];
        fail_unregistered(hearing);
        if (known->inventory && needs_registering(hearing, false))
                hearing->must_register = true; /* others were registered than there are */
        known->report_news(known, false);
        known->turn(known);
}

/* ---- waits that fail ---- */

static void report_problem(struct hearing *hearing, const char *reason)
{
        const struct gpu_monitor_options *to = hearing->known->options;

        if (to->on_unheard && !hearing->known->is_closing)
                to->on_unheard(reason, to->data);
}

static void note_recovered(struct hearing *hearing)
{
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

static void hearing_note_failure(struct hearing *hearing, const struct listener_failure *failure)
{
        struct gpu_known *known = hearing->known;
        const uint64_t now_ms = clock_now_ms();

        if (failure->is_fatal) {
                known->on_fatal(known, failure->reason);
                return;
        }
        if (!hearing->failing_since_ms)
                hearing->failing_since_ms = now_ms;
        hearing->failed_waits++;
        note_failing(hearing, failure->reason, now_ms - hearing->failing_since_ms);
        if (now_ms >= hearing->sweep_at_ms) {
                hearing->sweep_at_ms = now_ms + SWEEP_MS;
                hearing->must_sweep = hearing->must_register = true;
                known->refresh_at_ms = now_ms;
        }
        known->report_news(known, false);
        known->turn(known);
}

/* ---- news ---- */

static bool is_same_event(const struct listener_event *a, const struct listener_event *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && a->type == b->type && a->data == b->data &&
               a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance;
}

/*
 * True if the other of the two processes has reported the event already; else it is remembered as reported by this one.
 */
static bool is_duplicate(struct hearing *hearing, const struct listener_event *event, bool by_old)
{
        if (!hearing->old)
                return false;
        for (size_t i = 0; i < hearing->n_seen; i++) {
                if (hearing->seen[i].by_old == by_old || !is_same_event(&hearing->seen[i].event, event))
                        continue;
                hearing->seen[i] = hearing->seen[--hearing->n_seen];
                return true;
        }
        if (hearing->n_seen < HEARING_OVERLAP_EVENTS)
                hearing->seen[hearing->n_seen++] = (struct hearing_event){*event, by_old};
        return false;
}

static void on_hearing_news(struct worker_request *request, const void *bytes, size_t size)
{
        struct hearing_process *process = container_of(request, struct hearing_process, request);
        struct hearing *hearing = process->hearing;
        struct arena arena = ARENA_INIT;
        struct pack pack = pack_reader(bytes, size, &arena);
        struct listener_failure failure;
        struct listener_event event;
        struct listener_gpu *gpus = NULL;
        enum listener_news news;
        size_t n_gpus;

        PACK(&pack, news);
        switch (news) {
        case LISTENER_REGISTERED:
                take_over(hearing, process);
                n_gpus = pack.left / sizeof(*gpus);
                PACK_ARRAY(&pack, gpus, n_gpus);
                note_registered(hearing, gpus, n_gpus);
                break;
        case LISTENER_EVENT:
                PACK(&pack, event);
                if (!is_duplicate(hearing, &event, process == hearing->old))
                        hearing->known->on_event(hearing->known, &event);
                break;
        case LISTENER_FAILED:
                PACK(&pack, failure);
                if (process == hearing->now)
                        hearing_note_failure(hearing, &failure);
                break;
        case LISTENER_RECOVERED:
                if (process == hearing->now)
                        note_recovered(hearing);
                break;
        }
        arena_done(&arena);
}

/* The process that was in use, or that registered, is lost; another one has to register. */
static void register_later(struct hearing *hearing)
{
        hearing->must_register = true;
        hearing->register_at_ms = MAX(clock_now_ms(), hearing->registered_ms + REGISTER_AGAIN_MS);
}

static void on_hearing_done(
        struct worker_request *request, const struct error *err, const void *bytes UNUSED, size_t size)
{
        struct hearing_process *process = container_of(request, struct hearing_process, request);
        const struct worker_call call = request->lost;
        struct hearing *hearing = process->hearing;
        struct gpu_known *known = hearing->known;
        const bool is_needed = process == hearing->now || process == hearing->next;

        if (process == hearing->old) {
                end_overlap(hearing);
                return;
        }
        if (process == hearing->now)
                hearing->now = NULL;
        if (process == hearing->next)
                hearing->next = NULL;
        process_close(process);
        if (!err && size == 0)
                return; /* no GPU could be registered */
        if (is_needed)
                register_later(hearing);
        if (gpu_known_note_lost(known, &call, err)) {
                const struct hang *hang = hangs_find(&known->hangs, call.subject, call.index, call.name);

                if (is_needed && hang && call.subject != CALL_ON_GPU)
                        hearing->register_at_ms = hang->at_ms; /* others are left out, and need not wait */
        } else if (is_needed && known->is_open) {
                gpu_known_reopen(known); /* NVML cannot be opened: the reading says why */
        }
        known->turn(known);
}

/* ---- what is due ---- */

static bool is_registration_due(const struct hearing *hearing)
{
        return hearing->known->is_open && hearing->must_register && !hearing->must_sweep;
}

uint64_t hearing_due_ms(const struct hearing *hearing)
{
        uint64_t due_ms = is_registration_due(hearing) ? hearing->register_at_ms : HEALTH_NEVER;

        if (hearing->old)
                due_ms = MIN(due_ms, hearing->overlap_until_ms);
        return hearing->next && hearing->known->inventory ? MIN(due_ms, hearing->next->look_at_ms) : due_ms;
}

void hearing_begin_due(struct hearing *hearing, uint64_t now_ms)
{
        if (hearing->old && hearing->overlap_until_ms <= now_ms)
                end_overlap(hearing);
        if (is_registration_due(hearing) && hearing->register_at_ms <= now_ms)
                register_gpus(hearing);
        if (hearing->next && hearing->known->inventory && hearing->next->look_at_ms <= now_ms)
                leave_slow(hearing, now_ms);
}

/* ---- begin and end ---- */

void hearing_init(struct hearing *hearing, struct gpu_known *known, uv_loop_t *loop)
{
        *hearing = (struct hearing){.known = known, .loop = loop};
        list_init(&hearing->slow);
        hearing_begin_process(hearing, &(struct listener_wanted){.n_gpus = 0});
}

bool hearing_has_ended(const struct hearing *hearing)
{
        return !hearing->now && !hearing->next && !hearing->old && list_is_empty(&hearing->slow) &&
               !worker_is_one_ending(PROCESS_NAME);
}

void hearing_stop(struct hearing *hearing)
{
        end_processes(hearing);
        while (!list_is_empty(&hearing->slow))
                process_close(container_of(hearing->slow.next, struct hearing_process, link));
        free(TAKE_PTR(hearing->gpus));
}
