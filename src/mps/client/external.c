// SPDX-License-Identifier: Apache-2.0
#include "mps/client/external.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mps/control/control.h"
#include "mps/control/dialogue.h"

/* A wanted daemon, and its last answer. */
struct target {
        const struct mps_daemon_wanted *daemon; /* the link's */
        bool answered;
        unsigned int threads_permille;
        char reason[sizeof(((struct error *)0)->text)];
        int64_t since;
};

struct mps_external {
        struct mps_external_options options;
        char *directory;
        char *program;
        struct target *targets;
        size_t n_targets;
        uint64_t generation;
        struct mps_control *control; /* NULL: no question is open */
        size_t asked;
        bool has_begun; /* a round, at |round_ms| */
        uint64_t round_ms;
};

/* ---- the status ---- */

/* A copy, since the receiver may apply other wanted daemons while it reads the status. */
static void describe_target(struct arena *arena, struct mps_daemon_status *ret, const struct target *target)
{
        const struct mps_daemon_wanted *daemon = target->daemon;
        const char **units = ARENA_ARRAY(arena, const char *, daemon->n_units);

        *ret = (struct mps_daemon_status){
                .name = arena_strdup(arena, daemon->name),
                .resource = arena_strdup(arena, daemon->resource),
                .units = units,
                .n_units = daemon->n_units,
                .state = target->answered ? MPS_READY : MPS_FAULT,
                .reason = target->answered ? NULL : arena_strdup(arena, target->reason),
                .since = target->since,
                .tier = MPS_TIER_DEFAULT,
                .threads_permille = target->threads_permille,
        };
        for (size_t i = 0; i < daemon->n_units; i++) {
                units[i] = arena_strdup(arena, daemon->units[i].uuid);
                ret->max_clients = MAX(ret->max_clients, daemon->units[i].clients);
        }
}

static struct mps_status *external_make_status(const struct mps_external *external)
{
        struct mps_status *status = mps_status_new();
        struct mps_daemon_status *daemons = ARENA_ARRAY(&status->arena, struct mps_daemon_status, external->n_targets);

        for (size_t i = 0; i < external->n_targets; i++)
                describe_target(&status->arena, &daemons[i], &external->targets[i]);
        status->generation = external->generation;
        status->daemons = daemons;
        status->n_daemons = external->n_targets;
        return status;
}

/* The receiver may close |external| in the callback. */
static void end_round(struct mps_external *external)
{
        bool is_any = false;

        for (size_t i = 0; i < external->n_targets; i++)
                is_any = is_any || external->targets[i].answered;
        external->options.on_round(is_any ? external_make_status(external) : NULL,
                is_any ? NULL : external->targets[0].reason, external->options.data);
}

/* ---- questions ---- */

static void ask_next(struct mps_external *external);

static void note_answer(struct target *target, const struct error *err, const char *text)
{
        bool before = target->answered;
        struct error why;

        target->answered = false;
        if (err)
                snprintf(target->reason, sizeof(target->reason), "%s", err->text);
        else if (dialogue_read_percentage(text, &target->threads_permille, &why) < 0)
                snprintf(target->reason, sizeof(target->reason), "%s", why.text);
        else
                target->answered = true;
        if (target->answered != before || target->since == 0)
                target->since = (int64_t)time(NULL);
}

static void on_external_answer(const struct error *err, const char *text, void *data)
{
        struct mps_external *external = data;

        mps_control_close(TAKE_PTR(external->control), NULL, NULL);
        note_answer(&external->targets[external->asked++], err, text);
        ask_next(external);
}

static int start_question(struct mps_external *external, const struct target *target, struct error *err)
{
        _free_ char *program = NULL;
        _free_ char *pipe = xasprintf("%s/%s/pipe", external->directory, target->daemon->name);
        _free_ char *log = xasprintf("%s/%s/log", external->directory, target->daemon->name);
        struct mps_control_options options = {
                .loop = external->options.loop, .pipe_directory = pipe, .log_directory = log};

        if (mps_control_find(&program, external->program, NULL, "", err) < 0)
                return -1;
        options.program = program;
        if (mps_control_new(&external->control, &options, err) < 0)
                return -1;
        mps_control_ask(external->control, "get_default_active_thread_percentage", on_external_answer, external);
        return 0;
}

static void ask_next(struct mps_external *external)
{
        struct error err;

        while (external->asked < external->n_targets &&
                start_question(external, &external->targets[external->asked], &err) < 0)
                note_answer(&external->targets[external->asked++], &err, NULL);
        if (external->asked == external->n_targets)
                end_round(external);
}

void mps_external_poll(struct mps_external *external)
{
        uint64_t now_ms = uv_now(external->options.loop);

        if (external->control || external->n_targets == 0 ||
                (external->has_begun && now_ms - external->round_ms < MPS_EXTERNAL_MS))
                return;
        external->has_begun = true;
        external->round_ms = now_ms;
        external->asked = 0;
        ask_next(external);
}

void mps_external_stop(struct mps_external *external)
{
        if (external->control)
                mps_control_close(TAKE_PTR(external->control), NULL, NULL);
        external->has_begun = false;
}

/* ---- the wanted daemons ---- */

void mps_external_want(struct mps_external *external, const struct mps_wanted *wanted, uint64_t generation)
{
        mps_external_stop(external);
        free(external->targets);
        external->targets = xcalloc(wanted->n_daemons, sizeof(*external->targets));
        external->n_targets = wanted->n_daemons;
        external->generation = generation;
        for (size_t i = 0; i < wanted->n_daemons; i++)
                external->targets[i].daemon = &wanted->daemons[i];
}

bool mps_external_wants_any(const struct mps_external *external)
{
        return external->n_targets > 0;
}

struct mps_external *mps_external_new(const struct mps_external_options *options)
{
        struct mps_external *external = xcalloc(1, sizeof(*external));

        external->options = *options;
        external->directory = xstrdup(options->directory);
        external->program = xstrdup(options->control);
        return external;
}

struct mps_external *mps_external_free(struct mps_external *external)
{
        mps_external_stop(external);
        free(external->targets);
        free(external->program);
        free(external->directory);
        free(external);
        return NULL;
}
