/* The supervisor's NVML calls: restoring compute modes, memory of clients, and whether units still exist. */
#include "mps/supervisor/parts.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "mps/supervisor/compute_mode.h"

#define POLLS_BETWEEN_LIMITS 15U /* containers' limits are checked once in so many polls */
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
        struct nvml_job job;
        struct mps_supervisor *supervisor;
        nvmlComputeMode_t before;
        struct error err;
        char uuid[128];
};

static void work_mode(struct nvml_job *job, const struct nvml *nvml, const struct error *err)
{
        struct mode_job *mode = container_of(job, struct mode_job, job);

        mode->err = *err;
        if (nvml && compute_mode_set(nvml, mode->uuid, mode->before, &mode->err) == 0)
                mode->err.kind = ERROR_NONE;
}

static void on_mode(struct nvml_job *job)
{
        struct mode_job *mode = container_of(job, struct mode_job, job);
        struct mps_supervisor *supervisor = mode->supervisor;

        if (!job->has_worked) {
                log_warn("the compute mode is not put back: the next start does it", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)));
                free(mode);
                return;
        }
        if (mode->err.kind != ERROR_NONE)
                log_warn("the compute mode is not restored", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)), LOG_ERR(&mode->err));
        else
                log_info("compute mode restored", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)));
        /* A unit that is wanted again keeps its recorded mode. */
        if (is_mode_needed(supervisor, mode->uuid) && find_mode(supervisor, mode->uuid))
                find_mode(supervisor, mode->uuid)->is_going_back = false;
        else
                remove_mode(supervisor, mode->uuid);
        supervisor->mode_jobs--;
        free(mode);
        supervisor_note(supervisor, true);
        supervisor_check_end(supervisor);
}

/*
 * The unit may be wanted again before NVML restores the mode. Then its mode is read and set again after that, since
 * jobs run in order.
 */
void supervisor_restore_modes(struct mps_supervisor *supervisor)
{
        for (size_t i = 0; i < supervisor->n_modes; i++) {
                struct mps_record_mode *recorded = &supervisor->modes[i];
                struct mode_job *mode;

                if (recorded->is_going_back || is_mode_needed(supervisor, recorded->uuid))
                        continue;
                mode = xcalloc(1, sizeof(*mode));
                mode->job.work = work_mode;
                mode->job.done = on_mode;
                mode->supervisor = supervisor;
                mode->before = recorded->before;
                snprintf(mode->uuid, sizeof(mode->uuid), "%s", recorded->uuid);
                recorded->is_going_back = true;
                supervisor->mode_jobs++;
                nvml_queue_add(supervisor->nvml, &mode->job);
        }
}

/* ---- memory ---- */

struct usage_job {
        struct nvml_job job;
        struct mps_supervisor *supervisor;
        struct mps_usage *usage;
        bool has_nvml;
};

static void work_usage(struct nvml_job *job, const struct nvml *nvml, const struct error *err UNUSED)
{
        struct usage_job *usage = container_of(job, struct usage_job, job);

        usage->has_nvml = nvml != NULL;
        if (nvml)
                mps_usage_read(usage->usage, nvml, &job->reopen);
}

static int64_t now_ms(void)
{
        return (int64_t)(uv_hrtime() / 1000000);
}

static void report_lost_units(struct mps_supervisor *supervisor)
{
        const struct mps_usage *usage = supervisor->usage;

        for (size_t i = 0; i < usage->n_units; i++)
                for (size_t j = 0; usage->units[i].lost && j < supervisor->n_runs; j++)
                        if (mps_run_holds(supervisor->runs[j], usage->units[i].uuid)) {
                                _free_ char *reason = xasprintf(
                                        "its unit %s is lost: %s", usage->units[i].uuid, usage->units[i].lost);

                                mps_run_lose(supervisor->runs[j], reason);
                        }
}

static void on_usage(struct nvml_job *job)
{
        struct usage_job *usage = container_of(job, struct usage_job, job);
        struct mps_supervisor *supervisor = usage->supervisor;
        /* Figures that were too old were reported as unknown. */
        const bool is_new =
                !mps_usage_is_fresh(supervisor->usage, now_ms()) || !mps_usage_is_same(supervisor->usage, usage->usage);

        supervisor->usage_job = NULL;
        mps_usage_free(supervisor->usage);
        supervisor->usage = usage->usage;
        if (usage->has_nvml)
                report_lost_units(supervisor);
        free(usage);
        if (is_new)
                supervisor_note(supervisor, false);
        supervisor_check_end(supervisor);
}

static void add_units(struct mps_usage *usage, const struct mps_daemon_wanted *settings)
{
        for (size_t i = 0; i < settings->n_units; i++)
                usage->units[usage->n_units++].uuid = arena_strdup(&usage->arena, settings->units[i].uuid);
}

/* Without a client there is no memory to ask for; only check that the unit still exists. */
void supervisor_on_poll(uv_timer_t *timer)
{
        struct mps_supervisor *supervisor = timer->data;
        const int64_t now = now_ms();
        struct usage_job *job;
        struct mps_record_daemon process;
        size_t units = 0;
        bool has_clients = false;

        uv_timer_start(timer, supervisor_on_poll, mps_run_pause(&supervisor->context), 0);
        if (supervisor->polls % POLLS_BETWEEN_LIMITS == 0)
                supervisor_check_limits(supervisor);
        supervisor->polls++;
        supervisor_poll_shm(supervisor);
        if (supervisor->usage_job && supervisor->usage && !mps_usage_is_fresh(supervisor->usage, now))
                supervisor_note(supervisor, false); /* NVML hangs: do not report old figures */
        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (mps_run_record(supervisor->runs[i], &process)) {
                        units += process.settings.n_units;
                        has_clients |= mps_run_has_clients(supervisor->runs[i]);
                }
        if (supervisor->usage_job || supervisor->is_closing || !units ||
                (!has_clients && supervisor->polls % POLLS_WITHOUT_CLIENTS != 1))
                return;
        job = xcalloc(1, sizeof(*job));
        job->job.work = work_usage;
        job->job.done = on_usage;
        job->supervisor = supervisor;
        job->usage = xcalloc(1, sizeof(*job->usage));
        job->usage->asked_at = now;
        job->usage->units = ARENA_ARRAY(&job->usage->arena, struct mps_usage_unit, units);
        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (mps_run_record(supervisor->runs[i], &process))
                        add_units(job->usage, &process.settings);
        supervisor->usage_job = job;
        nvml_queue_add(supervisor->nvml, &job->job);
}
