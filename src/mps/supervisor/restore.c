/* What runs already: by the record, and without. */
#include "mps/supervisor/parts.h"

#include <string.h>

#include "base/log.h"
#include "mps/supervisor/guess.h"
#include "mps/supervisor/identity.h"

/* ---- daemons that nobody has on record ---- */

struct left {
        struct mps_supervisor *supervisor;
        const struct mps_wanted *wanted;
};

static void adopt_one_left(const struct identity_found *found, void *data)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct left *left = data;
        struct mps_record_daemon process = {.pid = found->pid, .start_time = found->start_time};
        struct mps_run *run = supervisor_find(left->supervisor, found->name);
        struct mps_record_daemon known;
        struct error err;

        if (!mps_guess(&process.settings, &arena, found->name, found->units))
                return;
        if (run && (mps_run_record(run, &known) || !left->supervisor->is_restoring)) /* else it looks itself */
                return;
        if (!run && supervisor_add_run(left->supervisor, found->name, &process, &run, &err) < 0) {
                log_warn("an MPS daemon that is not on record is not taken over", LOG_INT("pid", found->pid),
                        LOG_ERR(&err));
                return;
        }
        mps_run_adopt(run, mps_wanted_find(left->wanted, found->name));
}

void supervisor_adopt_left(struct mps_supervisor *supervisor, const struct mps_wanted *wanted)
{
        const struct mps_run_context *context = &supervisor->context;
        struct left left = {supervisor, wanted};
        _free_ char *program = NULL;
        struct error err;

        if (mps_control_find(&program, context->program, context->path, context->driver_root, &err) == 0)
                identity_find_daemons(supervisor->root, program, adopt_one_left, &left);
}

/* ---- daemons on record ---- */

/*
 * What runs with other settings than are wanted, or is not wanted any more, still has its units: nothing may start on
 * these before it has ended.
 */
static void adopt_what_ends(struct mps_supervisor *supervisor, const struct mps_record *record)
{
        for (size_t i = 0; i < record->n_daemons; i++) {
                const struct mps_daemon_wanted *settings = &record->daemons[i].settings;
                const struct mps_daemon_wanted *wanted = mps_wanted_find(&record->wanted, settings->name);
                struct mps_run *run = supervisor_find(supervisor, settings->name);

                if (run && !(wanted && mps_daemon_serves(settings, wanted)))
                        mps_run_adopt(run, wanted);
        }
}

void supervisor_restore(struct mps_supervisor *supervisor)
{
        struct mps_record record;
        struct mps_run *run;
        struct error err;

        if (mps_record_read(&record, supervisor->record_path, &err) < 0) {
                log_warn("the record of MPS daemons cannot be read: those that run are found when it is known what is "
                         "wanted",
                        LOG_ERR(&err));
                return;
        }
        for (size_t i = 0; i < record.n_modes; i++)
                supervisor_add_mode(supervisor, record.modes[i].uuid, record.modes[i].before);
        supervisor->is_restoring = true;
        supervisor_allocations_read_record(supervisor, &record);
        mps_memory_limits_restore(&supervisor->limits, record.limits, record.n_limits);
        supervisor_keep_wanted(supervisor, &record.wanted);
        supervisor->generation = record.generation;
        for (size_t i = 0; i < record.n_daemons; i++)
                if (supervisor_add_run(supervisor, record.daemons[i].settings.name, &record.daemons[i], &run, &err) < 0)
                        log_warn("an MPS daemon on record is not taken over", LOG_ERR(&err));
        adopt_what_ends(supervisor, &record);
        if (record.wanted.n_daemons)
                supervisor_adopt_left(supervisor, &record.wanted);
        for (size_t i = 0; i < record.wanted.n_daemons; i++) {
                const struct mps_daemon_wanted *wanted = &record.wanted.daemons[i];

                run = supervisor_find(supervisor, wanted->name);
                if (!run && supervisor_add_run(supervisor, wanted->name, NULL, &run, &err) < 0)
                        log_warn("an MPS daemon on record is not taken over", LOG_ERR(&err));
                else
                        mps_run_want(run, wanted);
        }
        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (!mps_wanted_find(&record.wanted, mps_run_name(supervisor->runs[i])))
                        mps_run_drop(supervisor->runs[i]);
        mps_record_done(&record);
        supervisor->is_restoring = false;
        supervisor_note(supervisor, true);
}
