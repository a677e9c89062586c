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
        mps_control_run(wanted->control, dialogue_v3_namespace_delete(wanted->arena, wanted->server, wanted->name),
                on_undone, wanted);
}

enum { STEP_CREATE, STEP_SET, STEP_LIMIT, STEP_THREADS, STEPS };

static const char *namespace_command(const struct mps_namespace *wanted)
{
        switch (wanted->step) {
        case STEP_CREATE:
                return dialogue_v3_namespace_create(wanted->arena, wanted->server, wanted->name);
        case STEP_SET:
                return dialogue_v3_namespace_set(
                        wanted->arena, wanted->server, wanted->name, wanted->threads_permille, wanted->limit_mib);
        case STEP_LIMIT:
                return dialogue_v3_namespace_get(wanted->arena, wanted->server, wanted->name, DIALOGUE_V3_LIMIT);
        default:
                return dialogue_v3_namespace_get(wanted->arena, wanted->server, wanted->name, DIALOGUE_V3_THREADS);
        }
}

static int namespace_check(const struct mps_namespace *wanted, const char *answer, struct error *err)
{
        if (wanted->step == STEP_LIMIT && wanted->limit_mib)
                return dialogue_v3_check_limit(answer, wanted->limit_mib, err);
        if (wanted->step == STEP_THREADS && wanted->threads_permille)
                return dialogue_v3_check_threads(answer, wanted->threads_permille, err);
        return 0;
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data);

static void namespace_ask(struct mps_namespace *wanted)
{
        mps_control_run(wanted->control, namespace_command(wanted), on_namespace_answer, wanted);
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_namespace *wanted = data;
        struct error problem;

        if (err && wanted->step == STEP_CREATE && err->kind == ERROR_UNAVAILABLE) {
                wanted->problem = *err; /* it may exist already; the next step finds out */
        } else if (err) {
                if (wanted->problem.kind == ERROR_NONE)
                        wanted->problem = *err;
                undo(wanted);
                return;
        } else if (namespace_check(wanted, answer, &problem) < 0) {
                error_raise_prefix(&problem, "MPS namespace '%s'", wanted->name);
                wanted->problem = problem;
                undo(wanted);
                return;
        }
        if (++wanted->step < STEPS)
                namespace_ask(wanted);
        else
                wanted->done(NULL, wanted->data);
}

void mps_namespace_make(struct mps_namespace *wanted)
{
        wanted->step = STEP_CREATE;
        wanted->problem.kind = ERROR_NONE;
        namespace_ask(wanted);
}
