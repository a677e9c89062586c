// SPDX-License-Identifier: Apache-2.0
#include "mig/run.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/io/child.h"
#include "base/io/filewatch.h"

#define FILE_MAX ((size_t)1024 * 1024)
#define ARGUMENTS_MAX ((size_t)32)
#define EXIT_NEEDS_REBOOT 3

struct mig_run {
        struct mig_run_options options;
        char *record;
        struct mig_manager manager;
        struct mig_handover handover;
        struct mig_handover next; /* of the plan that was just made */
        struct child *child;
        uv_timer_t timer;
        struct filewatch *filewatch; /* NULL: the file does not exist, or cannot be watched */
        size_t most_gpus;            /* that were ever seen */
        size_t n_gpus;               /* when last counted, by the owner or a plan; SIZE_MAX: never */
        uint64_t steps;              /* so far: a callback may have taken further ones */
        const char *mode_change;     /* of the next apply */
        char why_reboot[MIG_REASON_SIZE];
};

static void run_step(struct mig_run *run, enum mig_event event);

/* ---- the record ---- */

static void run_read_record(struct mig_run *run)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read_private(run->record, MIG_HANDOVER_TEXT_MAX, &text, &err) == 0 &&
                mig_handover_read(&run->handover, text.data, &err) == 0)
                return;
        if (err.kind != ERROR_NOT_FOUND)
                log_warn("the record of a MIG change cannot be read", LOG_STR("file", run->record), LOG_ERR(&err));
}

static int run_write_record(const struct mig_run *run, struct error *err)
{
        const char *text = run->handover.text;

        if (file_make_folder(run->options.state_directory, err) < 0)
                return -1;
        return file_write_durable(run->record, text, strlen(text), err);
}

/* ---- children ---- */

/* The last line, without its end. */
static const char *last_line(struct arena *arena, const char *output)
{
        size_t length = strlen(output);
        size_t start;

        while (length > 0 && output[length - 1] == '\n')
                length--;
        for (start = length; start > 0 && output[start - 1] != '\n'; start--)
                ;
        return arena_printf(arena, "%.*s", (int)MIN(length - start, MIG_REASON_SIZE), output + start);
}

/* Why it failed, in its own words. */
static void take_reason(struct mig_run *run, const char *what, const struct child_result *result)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *said = last_line(&arena, result->output);

        if (result->timed_out)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "'mig %s' did not end in time and was killed", what);
        else if (result->status < 0)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "'mig %s' was ended by signal %d", what, result->signal);
        else if (*said)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", said);
        else
                snprintf(run->manager.reason, MIG_REASON_SIZE, "'mig %s' ended with status %d", what, result->status);
}

/* Takes the reason for a reboot: why a reset failed, or why none was tried. */
static void take_why_reboot(struct mig_run *run, const char *output)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *json = json_loads(last_line(&arena, output), 0, NULL);
        const char *why = json_string_value(json_object_get(json, "why"));

        snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", why ? why : run->why_reboot);
        json_decref(json);
}

/* True if NVML shows all GPUs that were ever seen to the plan that was read. */
static bool has_all_gpus(struct mig_run *run)
{
        size_t n_seen = run->next.n_seen;

        (void)mig_run_note_gpus(run, n_seen);
        if (n_seen == run->most_gpus)
                return true;
        snprintf(run->manager.reason, MIG_REASON_SIZE,
                "NVML shows %zu GPUs, and the node had %zu: an index of the configuration may mean another GPU. It is "
                "planned again when they are back; if one was taken out for good, restart this pod",
                n_seen, run->most_gpus);
        return false;
}

static void on_planned(const struct child_result *result, void *data)
{
        struct mig_run *run = data;
        bool is_read;
        struct error err;

        run->child = NULL;
        mig_handover_done(&run->next);
        is_read = mig_handover_read(&run->next, result->output, &err) == 0;
        if (result->status == 0 && is_read && run->next.fits) {
                run_step(run, !has_all_gpus(run) ? MIG_EVENT_FAILED
                              : run->next.n_gpus ? MIG_EVENT_CHANGES
                                                 : MIG_EVENT_SAME);
                return;
        }
        if (result->status == 0 && !is_read)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", err.text);
        else if (is_read && *run->next.reason)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", run->next.reason);
        else
                take_reason(run, "plan", result);
        run_step(run, MIG_EVENT_FAILED);
}

/* `mig apply` has ended, or `mig apply --resume`. */
static void on_applied(const struct child_result *result, void *data)
{
        struct mig_run *run = data;
        const bool resumes = run->manager.phase == MIG_RESUMING;

        run->child = NULL;
        if (result->status == EXIT_NEEDS_REBOOT && !resumes)
                take_why_reboot(run, result->output);
        else if (result->status != 0)
                take_reason(run, resumes ? "apply --resume" : "apply", result);
        if (result->status == 0)
                run_step(run, resumes ? MIG_EVENT_RESUMED : MIG_EVENT_APPLIED);
        else if (result->status == EXIT_NEEDS_REBOOT)
                run_step(run, MIG_EVENT_NEEDS_REBOOT);
        else
                run_step(run, resumes || result->status == 1 ? MIG_EVENT_FAILED : MIG_EVENT_BROKEN);
}

const char *const *mig_run_reading(struct arena *arena, const char *driver_root, const char *library)
{
        const char **reading = ARENA_ARRAY(arena, const char *, 3);
        size_t count = 0;

        if (*driver_root)
                reading[count++] = arena_printf(arena, "--driver-root-ctr-path=%s", driver_root);
        if (*library)
                reading[count++] = arena_printf(arena, "--nvml-library=%s", library);
        reading[count] = NULL;
        return reading;
}

static void begin_child(struct mig_run *run, const char *const *arguments, uint64_t timeout_ms,
        void (*on_end)(const struct child_result *result, void *data))
{
        const char *argv[ARGUMENTS_MAX] = {run->options.program, "mig"};
        size_t count = 2;
        const struct child_options options = {
                .argv = argv,
                .environment = (const char *const *)environ,
                .output_limit = MIG_HANDOVER_TEXT_MAX,
                .timeout_ms = timeout_ms,
                .on_end = on_end,
                .data = run,
        };
        struct error err;

        for (size_t i = 0; arguments[i]; i++)
                argv[count++] = arguments[i];
        for (size_t i = 0; run->options.reading[i] && count < ARGUMENTS_MAX - 1; i++)
                argv[count++] = run->options.reading[i];
        if (child_run(&run->child, run->options.loop, &options, &err) < 0)
                mig_run_event(run, MIG_EVENT_FAILED, err.text);
}

static const char *name_gpus(const struct mig_run *run, struct arena *arena)
{
        const char *text = "";

        for (size_t i = 0; i < run->handover.n_gpus; i++)
                text = arena_printf(arena, "%s%s%s", text, i ? "," : "", run->handover.gpus[i].uuid);
        return text;
}

static const char *const *name_configuration(const struct mig_run *run, struct arena *arena, const char *what)
{
        const char **ret = ARENA_ARRAY(arena, const char *, ARGUMENTS_MAX);
        size_t count = 0;

        ret[count++] = what;
        ret[count++] = "--config";
        ret[count++] = run->manager.config;
        ret[count++] = "--output";
        ret[count++] = "json";
        if (*run->options.file) {
                ret[count++] = "--file";
                ret[count++] = run->options.file;
        }
        if (strcmp(what, "apply") == 0) {
                ret[count++] = "--only";
                ret[count++] = name_gpus(run, arena);
                ret[count++] = "--mode-change";
                ret[count++] = run->mode_change;
                ret[count++] = "--state-directory";
                ret[count++] = run->options.state_directory;
        }
        ret[count] = NULL;
        return ret;
}

static void begin_apply(struct mig_run *run)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct error err;

        if (run_write_record(run, &err) < 0) {
                mig_run_event(run, MIG_EVENT_FAILED, err.text);
                return;
        }
        begin_child(run, name_configuration(run, &arena, "apply"), MIG_APPLY_TIMEOUT_MS, on_applied);
}

/* ---- phases ---- */

static void on_run_timer(uv_timer_t *timer)
{
        run_step(timer->data, MIG_EVENT_TIMEOUT);
}

/* Attempts of several nodes do not come in step. */
static void run_arm(struct mig_run *run)
{
        uint64_t wait = run->manager.timeout_ms;
        bool is_retry = run->manager.phase == MIG_FAILED || run->manager.phase == MIG_RESUMING;

        uv_timer_stop(&run->timer);
        if (wait)
                uv_timer_start(&run->timer, on_run_timer, is_retry ? wait - uv_hrtime() % (wait / 2) : wait, 0);
}

static void begin_phase(struct mig_run *run)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *const resume[] = {"apply", "--resume", "--mode-change", run->options.mode_change,
                "--state-directory", run->options.state_directory, NULL};

        switch (run->manager.phase) {
        case MIG_RESUMING:
                begin_child(run, resume, MIG_APPLY_TIMEOUT_MS, on_applied);
                return;
        case MIG_PLANNING:
                begin_child(run, name_configuration(run, &arena, "plan"), MIG_PLAN_TIMEOUT_MS, on_planned);
                return;
        case MIG_APPLYING:
                begin_apply(run);
                return;
        default:
                return;
        }
}

static void run_report(const struct mig_run *run)
{
        const struct mig_manager *manager = &run->manager;

        LOG_AT(manager->state == MIG_STATE_FAILED ? LOG_ERROR : LOG_INFO, "MIG configuration",
                LOG_STR("config", *manager->config ? manager->config : NULL),
                LOG_STR("phase", mig_phase_name(manager->phase)),
                LOG_STR("reason", *manager->reason ? manager->reason : NULL));
}

static void take_handover(struct mig_run *run, enum mig_event event)
{
        if (event == MIG_EVENT_CHANGES) {
                mig_handover_done(&run->handover);
                run->handover = run->next;
                run->next = (struct mig_handover){.config = "", .text = "", .reason = ""};
        } else if (event == MIG_EVENT_RETAKEN) {
                mig_handover_done(&run->handover);
                (void)unlink(run->record);
        }
}

static void run_step(struct mig_run *run, enum mig_event event)
{
        enum mig_phase phase = run->manager.phase;
        uint64_t step;

        if (!mig_manager_step(&run->manager, event)) {
                if (event != MIG_EVENT_FAILED || phase != MIG_RESUMING)
                        return;
                run_arm(run);
                run_report(run);
                run->options.changed(false, run->options.data);
                return;
        }
        step = ++run->steps;
        if (run->child)
                child_cancel(TAKE_PTR(run->child));
        take_handover(run, event);
        run_arm(run);
        run_report(run);
        run->options.changed(true, run->options.data);
        if (step == run->steps)
                begin_phase(run);
}

/* ---- public ---- */

void mig_run_want(struct mig_run *run, const char *name)
{
        if (mig_manager_want(&run->manager, name))
                run_step(run, MIG_EVENT_WANT);
}

void mig_run_set_first_state(struct mig_run *run, enum mig_state state)
{
        run->manager.has_rebooted = state == MIG_STATE_REBOOTING;
}

bool mig_run_note_gpus(struct mig_run *run, size_t n_gpus)
{
        const bool are_more = n_gpus > run->n_gpus;

        run->n_gpus = n_gpus;
        run->most_gpus = MAX(run->most_gpus, n_gpus);
        return are_more;
}

void mig_run_event(struct mig_run *run, enum mig_event event, const char *reason)
{
        if (reason)
                snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", reason);
        run_step(run, event);
}

void mig_run_explain(struct mig_run *run, const char *reason)
{
        if (strncmp(run->manager.reason, reason, MIG_REASON_SIZE - 1) == 0)
                return;
        snprintf(run->manager.reason, MIG_REASON_SIZE, "%s", reason);
        run_report(run);
        run->options.changed(false, run->options.data);
}

void mig_run_set_mode_change(struct mig_run *run, const char *mode_change, const char *why)
{
        run->mode_change = mode_change;
        snprintf(run->why_reboot, sizeof(run->why_reboot), "%s", why);
}

const struct mig_manager *mig_run_manager(const struct mig_run *run)
{
        return &run->manager;
}

const struct mig_handover *mig_run_handover(const struct mig_run *run)
{
        return &run->handover;
}

/* ---- life ---- */

static void on_file_changed(void *data)
{
        run_step(data, MIG_EVENT_AGAIN);
}

struct mig_run *mig_run_new(const struct mig_run_options *options)
{
        struct mig_run *run = xcalloc(1, sizeof(*run));

        run->options = *options;
        run->mode_change = run->options.mode_change;
        run->n_gpus = SIZE_MAX;
        run->record = xasprintf("%s/" MIG_RUN_RECORD_NAME, options->state_directory);
        run->manager.may_reboot = options->may_reboot;
        run->handover = run->next = (struct mig_handover){.config = "", .text = "", .reason = ""};
        uv_timer_init(options->loop, &run->timer);
        run->timer.data = run;
        run_read_record(run);
        return run;
}

void mig_run_begin(struct mig_run *run)
{
        const struct filewatch_options file = {
                .path = run->options.file, .limit = FILE_MAX, .changed = on_file_changed, .data = run};
        struct error err;

        if (*file.path && filewatch_new(&run->filewatch, run->options.loop, &file, &err) < 0)
                log_warn("the file of MIG configurations is read when something else changes", LOG_ERR(&err));
        mig_manager_begin(&run->manager, run->handover.n_gpus > 0);
        begin_phase(run);
}

static void free_run(uv_handle_t *handle)
{
        struct mig_run *run = handle->data;

        mig_handover_done(&run->handover);
        mig_handover_done(&run->next);
        free(run->record);
        free(run);
}

struct mig_run *mig_run_close(struct mig_run *run)
{
        if (!run)
                return NULL;
        if (run->child)
                child_cancel(run->child);
        run->filewatch = filewatch_close(run->filewatch);
        uv_close((uv_handle_t *)&run->timer, free_run);
        return NULL;
}
