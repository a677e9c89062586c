#include "mps/control/namespace.h"

#include "mps/control/dialogue_v3.h"

static void on_undone(const struct error *err UNUSED, const char *answer UNUSED, void *data)
{
        const struct mps_namespace *wanted = data;

        wanted->done(&wanted->problem, wanted->data);
}

/* It is deleted only if it has no clients; if it has some, it existed before and is in use. */
static void undo(struct mps_namespace *wanted)
{
        mps_control_run(wanted->control,
                dialogue_v3_namespace_delete(wanted->arena, wanted->server, wanted->name, false), on_undone, wanted);
}

/* The steps: the command, and the expected answer. */

static const char *const *say_create(const struct mps_namespace *wanted)
{
        return dialogue_v3_namespace_create(wanted->arena, wanted->server, wanted->name);
}

static const char *const *say_set(const struct mps_namespace *wanted)
{
        return dialogue_v3_namespace_set(
                wanted->arena, wanted->server, wanted->name, wanted->threads_permille, wanted->limit_mib);
}

static const char *const *say_get_limit(const struct mps_namespace *wanted)
{
        return dialogue_v3_namespace_get(wanted->arena, wanted->server, wanted->name, DIALOGUE_V3_LIMIT);
}

static const char *const *say_get_threads(const struct mps_namespace *wanted)
{
        return dialogue_v3_namespace_get(wanted->arena, wanted->server, wanted->name, DIALOGUE_V3_THREADS);
}

static int check_limit(const struct mps_namespace *wanted, const char *answer, struct error *err)
{
        return wanted->limit_mib ? dialogue_v3_check_limit(answer, wanted->limit_mib, err) : 0;
}

static int check_threads(const struct mps_namespace *wanted, const char *answer, struct error *err)
{
        return wanted->threads_permille ? dialogue_v3_check_threads(answer, wanted->threads_permille, err) : 0;
}

static const struct {
        const char *const *(*say)(const struct mps_namespace *wanted);
        int (*check)(const struct mps_namespace *wanted, const char *answer, struct error *err);
} steps[] = {
        {say_create, NULL},
        {say_set, NULL},
        {say_get_limit, check_limit},
        {say_get_threads, check_threads},
};

static void on_namespace_answer(const struct error *err, const char *answer, void *data);

static void namespace_ask(struct mps_namespace *wanted)
{
        mps_control_run(wanted->control, steps[wanted->step].say(wanted), on_namespace_answer, wanted);
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_namespace *wanted = data;
        struct error problem;

        if (err && wanted->step == 0 && err->kind == ERROR_UNAVAILABLE) {
                wanted->problem = *err; /* it may exist already; the next step finds out */
        } else if (err) {
                if (wanted->problem.kind == ERROR_NONE)
                        wanted->problem = *err;
                undo(wanted);
                return;
        } else if (steps[wanted->step].check && steps[wanted->step].check(wanted, answer, &problem) < 0) {
                error_raise_prefix(&problem, "MPS namespace '%s'", wanted->name);
                wanted->problem = problem;
                undo(wanted);
                return;
        }
        if (++wanted->step < ARRAY_SIZE(steps))
                namespace_ask(wanted);
        else
                wanted->done(NULL, wanted->data);
}

void mps_namespace_make(struct mps_namespace *wanted)
{
        wanted->step = 0;
        wanted->problem.kind = ERROR_NONE;
        namespace_ask(wanted);
}
