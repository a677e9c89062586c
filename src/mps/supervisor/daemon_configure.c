/*
 * Sends one command after the other. Every setting is read back, since the program exits 0 and may print nothing when
 * it refuses. A new process is probed for its capabilities first.
 */
#include "mps/supervisor/daemon_parts.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"

/* A daemon with the v3 interface supports all of these. */
#define V3_CAN (MPS_CAN_SERVER_STATUS | MPS_CAN_TERMINATE)

struct step {
        const char *command;          /* or */
        const char *const *arguments; /* of the v3 interface */
        enum { STEP_SET, STEP_LIMIT, STEP_THREADS } kind;
        bool may_fail;     /* the namespace may exist already */
        uint64_t expected; /* MiB, permille */
        const char *unit;  /* a check of a limit */
};

/* Two steps per unit and two for threads; with v3, which has one unit: five. */
struct configure {
        struct arena arena;
        struct mps_run *run;
        struct step *steps;
        size_t count;
        size_t at;
        struct dialogue_probe probe;
        bool is_probing;
};

static void free_configure(struct configure *configure)
{
        struct arena arena = configure->arena;

        arena_done(&arena);
}

void run_stop_configuring(struct mps_run *run)
{
        if (run->configure)
                free_configure(TAKE_PTR(run->configure));
}

/* ---- the list ---- */

static const char *keep(struct configure *configure, struct strbuf *text)
{
        const char *copy = arena_strdup(&configure->arena, text->data);

        strbuf_done(text);
        return copy;
}

static void daemon_configure_add(struct configure *configure, struct step step)
{
        configure->steps[configure->count++] = step;
}

/*
 * Limits are set by ordinal, because old programs read a UUID as device 0. The ordinals are the positions in the
 * daemon's CUDA_VISIBLE_DEVICES.
 */
static void add_limit(struct configure *configure, size_t ordinal, const struct mps_unit *unit)
{
        char device[24];
        struct strbuf text = STRBUF_INIT;

        snprintf(device, sizeof(device), "%zu", ordinal);
        dialogue_put_default_limit(&text, device, unit->limit_mib);
        daemon_configure_add(configure, (struct step){.command = keep(configure, &text), .kind = STEP_SET});
        text = (struct strbuf)STRBUF_INIT;
        strbuf_printf(&text, "get_default_device_pinned_mem_limit %s", device);
        daemon_configure_add(configure, (struct step){.command = keep(configure, &text),
                                                .kind = STEP_LIMIT,
                                                .expected = unit->limit_mib,
                                                .unit = unit->uuid});
}

static void add_threads(struct configure *configure, unsigned int permille)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "set_default_active_thread_percentage ");
        dialogue_put_percentage(&text, permille);
        daemon_configure_add(configure, (struct step){.command = keep(configure, &text), .kind = STEP_SET});
        daemon_configure_add(configure,
                (struct step){
                        .command = "get_default_active_thread_percentage", .kind = STEP_THREADS, .expected = permille});
}

/*
 * The server for clients that name no server. A container without a namespace gets the limits of the largest share
 * there, as with a daemon of the older interface.
 */
static void add_server(struct configure *configure, const struct mps_daemon_wanted *settings)
{
        struct arena *arena = &configure->arena;
        const struct mps_unit *unit = &settings->units[0];
        const char *server = dialogue_v3_own_server(arena, geteuid());

        daemon_configure_add(
                configure, (struct step){.arguments = dialogue_v3_server_create(arena, server, geteuid(), unit->uuid),
                                   .kind = STEP_SET,
                                   .may_fail = true});
        daemon_configure_add(configure, (struct step){.arguments = dialogue_v3_server_set(arena, server,
                                                              settings->threads_permille, unit->limit_mib),
                                                .kind = STEP_SET});
        if (unit->limit_mib)
                daemon_configure_add(configure, (struct step){.arguments = dialogue_v3_namespace_get(
                                                                      arena, server, "default", DIALOGUE_V3_LIMIT),
                                                        .kind = STEP_LIMIT,
                                                        .expected = unit->limit_mib,
                                                        .unit = unit->uuid});
        daemon_configure_add(configure,
                (struct step){.arguments = dialogue_v3_namespace_get(arena, server, "default", DIALOGUE_V3_THREADS),
                        .kind = STEP_THREADS,
                        .expected = settings->threads_permille});
        /* This value is polled later. */
        daemon_configure_add(configure, (struct step){.arguments = dialogue_v3_client_list(arena), .kind = STEP_SET});
}

/* ---- checking the answers ---- */

static void check_field(struct configure *configure, const struct step *step, const char *answer)
{
        struct mps_run *run = configure->run;
        struct error err;

        if (step->kind == STEP_LIMIT && dialogue_v3_check_limit(answer, step->expected, &err) < 0)
                run_report(run, MPS_EVENT_REFUSED, "%s", err.text);
        else if (step->kind == STEP_LIMIT)
                run->limit_mib = step->expected;
        else if (step->kind == STEP_THREADS &&
                 dialogue_v3_check_threads(answer, (unsigned int)step->expected, &err) < 0)
                run_report(run, MPS_EVENT_REFUSED, "%s", err.text);
        else if (step->kind == STEP_THREADS)
                run->threads_permille = dialogue_v3_threads_set((unsigned int)step->expected);
}

static void check_limit(struct configure *configure, const struct step *step, const char *answer)
{
        struct mps_run *run = configure->run;
        struct error err;
        uint64_t mib;

        if (dialogue_read_limit(answer, &mib, &err) < 0)
                run_report(run, MPS_EVENT_REFUSED, "memory limit of %s: %s", step->unit, err.text);
        else if (mib != dialogue_limit_shown(step->expected))
                run_report(run, MPS_EVENT_REFUSED,
                        "memory limit of %s: %" PRIu64 " MiB were set, its control daemon reports %" PRIu64 " MiB",
                        step->unit, step->expected, mib);
        else if (strcmp(step->unit, run->started.units[0].uuid) == 0)
                run->limit_mib = step->expected;
}

static void check_threads(struct configure *configure, const struct step *step, const char *answer)
{
        struct mps_run *run = configure->run;
        struct error err;
        unsigned int permille;

        if (dialogue_read_percentage(answer, &permille, &err) < 0)
                run_report(run, MPS_EVENT_REFUSED, "active thread percentage: %s", err.text);
        else if (permille != step->expected)
                run_report(run, MPS_EVENT_REFUSED,
                        "active thread percentage: %" PRIu64 ".%" PRIu64 " was set, its control daemon reports %u.%u",
                        step->expected / 10, step->expected % 10, permille / 10, permille % 10);
        else
                run->threads_permille = permille;
}

static void daemon_configure_check(struct configure *configure, const struct step *step, const char *answer)
{
        if (step->arguments) {
                check_field(configure, step, answer);
                return;
        }
        switch (step->kind) {
        case STEP_SET:
                break;
        case STEP_LIMIT:
                check_limit(configure, step, answer);
                break;
        case STEP_THREADS:
                check_threads(configure, step, answer);
                break;
        }
}

static void on_daemon_configure_answer(const struct error *err, const char *answer, void *data);

/* The next question; false: there is none. */
static bool ask_next(struct configure *configure)
{
        struct mps_run *run = configure->run;
        const char *command = configure->is_probing ? dialogue_probe_next(&configure->probe) : NULL;

        if (!command && configure->is_probing) {
                configure->is_probing = false;
                run->can = configure->probe.can | run->options;
                run_notify(run, true); /* for the record, so that the next supervisor does not probe again */
        }
        if (!command && configure->at == configure->count)
                return false;
        if (!command && configure->steps[configure->at].arguments) {
                mps_control_run(
                        run->control, configure->steps[configure->at].arguments, on_daemon_configure_answer, run);
                return true;
        }
        mps_control_ask(run->control, command ? command : configure->steps[configure->at].command,
                on_daemon_configure_answer, run);
        return true;
}

static bool is_there_already(const struct configure *configure, const struct error *err)
{
        return !configure->is_probing && configure->steps[configure->at].may_fail && err->kind == ERROR_UNAVAILABLE;
}

/* A report may end |configure|. */
static void on_daemon_configure_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_run *run = data;
        struct configure *configure = run->configure;

        if (err && !is_there_already(configure, err)) {
                if (run_is_silent(run, err))
                        ask_next(configure);
                return;
        }
        run->misses = 0;
        if (err)
                configure->at++;
        else if (configure->is_probing)
                dialogue_probe_answer(&configure->probe, answer);
        else
                daemon_configure_check(configure, &configure->steps[configure->at++], answer);
        if (run->configure != configure || ask_next(configure))
                return;
        run_stop_configuring(run);
        run_report(run, MPS_EVENT_CONFIGURED, NULL);
}

void run_configure(struct mps_run *run)
{
        const struct mps_daemon_wanted *settings = &run->started;
        struct arena arena = ARENA_INIT;
        struct configure *configure;
        struct error err;

        if (run_renew_control(run, &err) < 0) {
                run_report(run, MPS_EVENT_SILENT, "%s", err.text);
                return;
        }
        configure = ARENA_NEW(&arena, struct configure);
        configure->steps = ARENA_ARRAY(&arena, struct step, settings->n_units * 2 + 3);
        configure->arena = arena;
        configure->run = run;
        if (run_is_v3(run)) {
                run->can = V3_CAN | run->options;
                add_server(configure, settings);
        } else {
                configure->is_probing = run->can == 0; /* a process that was probed before keeps its capabilities */
                for (size_t i = 0; i < settings->n_units; i++)
                        add_limit(configure, i, &settings->units[i]);
                add_threads(configure, settings->threads_permille);
        }
        run->configure = configure;
        ask_next(configure);
}
