/*
 * What the supervisor asks NVML: to restore compute modes, for the memory of clients, and whether units still exist.
 * Each unit has requests of its own, so that one that does not answer delays no other.
 */
#include "mps/supervisor/parts.h"

#include <string.h>

#include "base/log.h"
#include "mps/supervisor/compute_mode.h"

#define POLLS_BETWEEN_LIMITS 15U /* containers' limits are checked once in so many polls */
#define POLLS_BETWEEN_MODES 5U   /* those that NVML did not answer about are tried again once in so many polls */
#define POLLS_WITHOUT_CLIENTS 5U /* without clients NVML is asked once in so many polls */

/* ---- compute modes ---- */

static struct mps_record_mode *find_mode(const struct mps_supervisor *supervisor, const char *uuid)
{
        for (size_t i = 0; i < supervisor->n_modes; i++)
                if (strcmp(supervisor->modes[i].uuid, uuid) == 0)
                        return &supervisor->modes[i];
        return NULL;
}

void supervisor_add_mode(struct mps_supervisor *supervisor, const char *uuid, nvmlComputeMode_t before)
{
        supervisor->modes = xrealloc(supervisor->modes, (supervisor->n_modes + 1) * sizeof(*supervisor->modes));
        supervisor->modes[supervisor->n_modes++] =
                (struct mps_record_mode){.uuid = arena_strdup(&supervisor->modes_arena, uuid), .before = before};
}

static void remove_mode(struct mps_supervisor *supervisor, const char *uuid)
{
        struct mps_record_mode *mode = find_mode(supervisor, uuid);

        if (mode)
                *mode = supervisor->modes[--supervisor->n_modes];
}

/* Modes in memory are also on file; one that could not be written is forgotten. */
int supervisor_mode_before(const char *uuid, nvmlComputeMode_t before, void *data, struct error *err)
{
        struct mps_supervisor *supervisor = data;

        if (find_mode(supervisor, uuid))
                return 0;
        supervisor_add_mode(supervisor, uuid, before);
        if (supervisor_write_record(supervisor, err) == 0)
                return 0;
        remove_mode(supervisor, uuid);
        return error_prefix(err, "the previous mode cannot be recorded");
}

static bool is_mode_needed(const struct mps_supervisor *supervisor, const char *uuid)
{
        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (!mps_run_is_gone(supervisor->runs[i]) &&
                        mps_daemon_unit(mps_run_settings(supervisor->runs[i]), uuid))
                        return true;
        return false;
}

struct mode_job {
        struct nvml_request request;
        struct mps_supervisor *supervisor;
        nvmlComputeMode_t before;
        char *uuid;
};

/* Not NVML's answer, but that there was none. */
static bool is_unanswered(const struct nvml_request *request, const struct error *err)
{
        return err && (err->kind == ERROR_TIMEOUT || err->kind == ERROR_EXHAUSTED || *request->lost.call);
}

/* It stays on record. While we end it is not tried again. */
static void note_mode_stays(const struct mode_job *job, struct mps_record_mode *recorded, const struct error *err)
{
        const struct mps_supervisor *supervisor = job->supervisor;

        recorded->is_going_back = supervisor->is_closing;
        if (supervisor->is_closing)
                log_warn("the compute mode is not put back: the next start does it", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        else if (!recorded->is_late)
                log_warn("the compute mode is not put back yet", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        recorded->is_late = true;
}

static void note_mode_is_done(const struct mode_job *job, struct mps_record_mode *recorded, const struct error *err)
{
        struct mps_supervisor *supervisor = job->supervisor;

        if (err)
                log_warn("the compute mode is not restored", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        else
                log_info("compute mode restored", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)));
        /* A unit that is wanted again keeps its recorded mode. */
        if (is_mode_needed(supervisor, job->uuid))
                recorded->is_going_back = recorded->is_late = false;
        else
                remove_mode(supervisor, job->uuid);
        supervisor_note(supervisor, true);
}

static void on_mode(struct nvml_request *request, const struct error *err, struct pack *answer UNUSED)
{
        struct mode_job *job = container_of(request, struct mode_job, request);
        struct mps_supervisor *supervisor = job->supervisor;
        struct mps_record_mode *recorded = find_mode(supervisor, job->uuid); /* it stays as long as it is going back */

        supervisor->mode_jobs--;
        if (supervisor->is_ended || is_unanswered(request, err))
                note_mode_stays(job, recorded, err);
        else
                note_mode_is_done(job, recorded, err);
        free(job->uuid);
        free(job);
        supervisor_check_end(supervisor);
}

/*
 * The unit may be wanted again before NVML restores the mode. Then its mode is read and set again after that, since
 * requests about one unit are served in order.
 */
void supervisor_restore_modes(struct mps_supervisor *supervisor)
{
        for (size_t i = 0; i < supervisor->n_modes; i++) {
                struct mps_record_mode *recorded = &supervisor->modes[i];
                struct mode_job *job;

                if (recorded->is_going_back || is_mode_needed(supervisor, recorded->uuid))
                        continue;
                job = xcalloc(1, sizeof(*job));
                job->supervisor = supervisor;
                job->before = recorded->before;
                job->uuid = xstrdup(recorded->uuid);
                recorded->is_going_back = true;
                supervisor->mode_jobs++;
                compute_mode_ask_to_set(supervisor->nvml, &job->request, job->uuid, job->before, on_mode);
        }
}

bool supervisor_leaves_modes(const struct mps_supervisor *supervisor)
{
        for (size_t i = 0; i < supervisor->n_modes; i++)
                if (supervisor->modes[i].is_going_back)
                        return true;
        return false;
}

/* ---- hangs ---- */

/* About other units nobody asks any more, so that nobody would find out that they answer again. */
bool mps_supervisor_hang(const struct mps_supervisor *supervisor, struct call_info *ret)
{
        struct call_info hangs[NVML_POOL_MAX];
        const size_t n_hangs = nvml_pool_hangs(supervisor->nvml, hangs);

        for (size_t i = 0; i < n_hangs; i++)
                if (is_mode_needed(supervisor, hangs[i].gpu) || find_mode(supervisor, hangs[i].gpu)) {
                        *ret = hangs[i];
                        return true;
                }
        return false;
}

/* ---- memory ---- */

/* A unit of a daemon. */
struct usage_unit {
        struct nvml_request request;
        struct mps_supervisor *supervisor;
        char *uuid;
        struct mps_usage *usage; /* NULL: not known */
        int64_t asked_at;
        bool is_asked;
        bool is_held;     /* at the last poll, by a daemon that runs */
        bool has_crashed; /* the process that was asked last */
        struct list link;
};

static int serve_usage(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct mps_usage usage = {.arena = ARENA_INIT};
        const struct nvml *nvml;
        const char *uuid;

        pack_text(question, &uuid);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        mps_usage_read(&usage, nvml, uuid);
        serving->must_close = usage.lost != NULL;
        mps_usage_pack(answer, &usage);
        arena_done(&usage.arena);
        return 0;
}

static int64_t now_ms(void)
{
        return (int64_t)gpu_call_now_ms();
}

uint64_t supervisor_memory_of(const struct mps_supervisor *supervisor, const char *uuid, pid_t pid)
{
        const int64_t now = now_ms();
        uint64_t memory = UINT64_MAX;

        LIST_FOR_EACH(link, &supervisor->usages) {
                const struct usage_unit *unit = container_of(link, struct usage_unit, link);

                if (memory == UINT64_MAX && (!uuid || strcmp(unit->uuid, uuid) == 0))
                        memory = mps_usage_of(unit->usage, now, pid);
        }
        return memory;
}

static void report_if_lost(const struct usage_unit *unit)
{
        const struct mps_supervisor *supervisor = unit->supervisor;

        for (size_t i = 0; unit->usage->lost && i < supervisor->n_runs; i++)
                if (mps_run_holds(supervisor->runs[i], unit->uuid)) {
                        _free_ char *reason = xasprintf("its unit %s is lost: %s", unit->uuid, unit->usage->lost);

                        mps_run_lose(supervisor->runs[i], reason);
                }
}

static void take_usage(struct usage_unit *unit, struct pack *answer)
{
        struct mps_usage *usage = xcalloc(1, sizeof(*usage));
        bool is_new;

        answer->arena = &usage->arena;
        mps_usage_pack(answer, usage);
        usage->asked_at = unit->asked_at;
        /* Figures that were too old were reported as unknown. */
        is_new = !mps_usage_is_fresh(unit->usage, now_ms()) || !mps_usage_is_same(unit->usage, usage);
        mps_usage_free(unit->usage);
        unit->usage = usage;
        report_if_lost(unit);
        if (is_new)
                supervisor_note(unit->supervisor, false);
}

/* NVML does not answer: do not report old figures. */
static void forget_if_old(struct usage_unit *unit)
{
        if (!unit->usage || mps_usage_is_fresh(unit->usage, now_ms()))
                return;
        unit->usage = mps_usage_free(unit->usage);
        supervisor_note(unit->supervisor, false);
}

static bool is_any_asked(const struct mps_supervisor *supervisor)
{
        LIST_FOR_EACH(link, &supervisor->usages)
                if (container_of(link, struct usage_unit, link)->is_asked)
                        return true;
        return false;
}

static void on_usage(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct usage_unit *unit = container_of(request, struct usage_unit, request);
        struct mps_supervisor *supervisor = unit->supervisor;
        const bool has_crashed = err && err->kind != ERROR_TIMEOUT && *request->lost.call;

        unit->is_asked = false;
        if (supervisor->is_ended)
                return;
        if (has_crashed && !unit->has_crashed)
                log_warn("a process that asks NVML was ended by it: the memory of clients is not known",
                        LOG_STR("unit", unit->uuid), LOG_ERR(err));
        unit->has_crashed = has_crashed;
        if (err)
                forget_if_old(unit);
        else
                take_usage(unit, answer);
}

static void ask_usage(struct usage_unit *unit)
{
        const char *uuid = unit->uuid;
        struct pack question;

        nvml_request_init(&unit->request, serve_usage, uuid, on_usage);
        question = pack_writer(&unit->request.question);
        pack_text(&question, &uuid);
        unit->asked_at = now_ms();
        unit->is_asked = true;
        nvml_pool_ask(unit->supervisor->nvml, &unit->request);
}

static void free_usage(struct usage_unit *unit)
{
        list_remove(&unit->link);
        mps_usage_free(unit->usage);
        free(unit->uuid);
        free(unit);
}

void supervisor_usages_done(struct mps_supervisor *supervisor)
{
        while (!list_is_empty(&supervisor->usages))
                free_usage(container_of(supervisor->usages.next, struct usage_unit, link));
}

static struct usage_unit *find_usage(struct mps_supervisor *supervisor, const char *uuid)
{
        struct usage_unit *unit;

        LIST_FOR_EACH(link, &supervisor->usages) {
                unit = container_of(link, struct usage_unit, link);
                if (strcmp(unit->uuid, uuid) == 0)
                        return unit;
        }
        unit = xcalloc(1, sizeof(*unit));
        unit->supervisor = supervisor;
        unit->uuid = xstrdup(uuid);
        list_append(&supervisor->usages, &unit->link);
        return unit;
}

/* Those of daemons that run. */
static void find_held_units(struct mps_supervisor *supervisor)
{
        struct mps_record_daemon process;

        LIST_FOR_EACH(link, &supervisor->usages)
                container_of(link, struct usage_unit, link)->is_held = false;
        supervisor->has_clients = false;
        for (size_t i = 0; i < supervisor->n_runs; i++) {
                if (!mps_run_record(supervisor->runs[i], &process))
                        continue;
                supervisor->has_clients |= mps_run_has_clients(supervisor->runs[i]);
                for (size_t j = 0; j < process.settings.n_units; j++)
                        find_usage(supervisor, process.settings.units[j].uuid)->is_held = true;
        }
}

/* Without a client there is no memory to ask for; only check that the units still exist. */
static void poll_units(struct mps_supervisor *supervisor)
{
        struct list *next;
        bool is_due;

        find_held_units(supervisor);
        /* Without clients the next round is far, and a GPU that a process has opened cannot be reset. */
        if (!supervisor->has_clients && !is_any_asked(supervisor))
                nvml_pool_renew(supervisor->nvml);
        is_due = supervisor->has_clients || supervisor->polls % POLLS_WITHOUT_CLIENTS == 1;
        for (struct list *link = supervisor->usages.next; link != &supervisor->usages; link = next) {
                struct usage_unit *unit = container_of(link, struct usage_unit, link);

                next = link->next;
                if (unit->is_asked)
                        forget_if_old(unit);
                else if (!unit->is_held)
                        free_usage(unit);
                else if (is_due)
                        ask_usage(unit);
        }
}

void supervisor_on_poll(uv_timer_t *timer)
{
        struct mps_supervisor *supervisor = timer->data;

        uv_timer_start(timer, supervisor_on_poll, mps_run_pause(&supervisor->context), 0);
        if (supervisor->polls % POLLS_BETWEEN_LIMITS == 0)
                supervisor_check_limits(supervisor);
        if (supervisor->polls % POLLS_BETWEEN_MODES == 0)
                supervisor_restore_modes(supervisor);
        supervisor->polls++;
        supervisor_poll_shm(supervisor);
        poll_units(supervisor);
}
