// SPDX-License-Identifier: Apache-2.0
#include "agent/rollout.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/plans.h"
#include "base/file.h"
#include "base/io/record_file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "node/events/node_events.h"
#include "node/ledger/ledger.h"

/*
 * While a change waits, kubelet is asked this often: first every second, for a minute, then less often, because a
 * change may wait for days.
 */
#define REVIEW_MS UINT64_C(1000)
#define REVIEWS 60U
#define REVIEW_LATER_MS UINT64_C(10000)

struct agent_rollout {
        struct agent *agent;
        char *directory; /* of MPS */
        char *record;
        char *recorded; /* the content of the file; NULL: unknown */
        struct record_file file;
        bool was_unchecked; /* the log already says that a change took effect without kubelet's list */
        uv_timer_t timer;   /* runs while a change waits */
        unsigned int reviews;
        struct closing closing;

        /* The plan that was promised last. */
        struct arena arena;
        struct sharing_policy_list policies;
        const char *const *names;
        size_t n_names;
        bool is_known;
        bool is_reported; /* kubelet has reported once what containers hold */

        struct arena reported_arena; /* of the pending changes that were reported, to find out what is new */
        struct rollout_pending *reported;
        size_t n_reported;
};

/* ---- the record ---- */

static void read_record(struct agent_rollout *rollout)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        arena_done(&rollout->arena);
        rollout->policies = (struct sharing_policy_list){0};
        rollout->names = NULL;
        rollout->n_names = 0;
        rollout->is_known = false;
        free(TAKE_PTR(rollout->recorded));
        if (file_read_private(rollout->record, SHARING_POLICY_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the record of sharing policies cannot be read", LOG_STR("file", rollout->record),
                                LOG_ERR(&err));
                return;
        }
        if (sharing_policy_read(&rollout->policies, &rollout->names, &rollout->n_names, &rollout->arena, text.data,
                    text.size, &err) < 0) {
                log_warn("the record of sharing policies is ignored", LOG_STR("file", rollout->record), LOG_ERR(&err));
                return;
        }
        rollout->is_known = true;
        rollout->recorded = xstrdup(text.data);
}

/* Written before any pod is served by the plan. A node without the MPS directory needs no record: it has no MPS. */
static void rollout_write_record(void *data)
{
        struct agent_rollout *rollout = data;
        _free_ char *text = sharing_policy_write(&rollout->policies, rollout->names, rollout->n_names);
        struct error ignored; /* logged, and tried again, by the record file */

        if ((rollout->recorded && strcmp(rollout->recorded, text) == 0) ||
                (rollout->policies.count == 0 && access(rollout->directory, F_OK) < 0))
                return;
        if (record_file_write(&rollout->file, text, &ignored) < 0)
                return;
        free(rollout->recorded);
        rollout->recorded = TAKE_PTR(text);
}

static void rollout_note_promised(struct agent_rollout *rollout, const struct rollout *next)
{
        const struct plan *plan = next->plan;
        struct arena arena = ARENA_INIT;
        struct sharing_policy_list served;
        const char **names = ARENA_ARRAY(&arena, const char *, plan->n_resources);

        for (size_t i = 0; i < plan->n_resources; i++)
                names[i] = arena_strdup(&arena, plan->resources[i].name);
        sharing_policy_of(&served, &arena, plan);
        sharing_policy_join(&rollout->policies, &arena, &served, &next->absent);
        rollout->names = names;
        rollout->n_names = plan->n_resources;
        rollout->is_known = true;
        arena_done(&rollout->arena);
        rollout->arena = arena;
        rollout_write_record(rollout);
}

/* ---- reports of pending changes ---- */

static struct rollout_pending *rollout_find_reported(
        const struct agent_rollout *rollout, const struct rollout_pending *pending)
{
        for (size_t i = 0; i < rollout->n_reported; i++) {
                struct rollout_pending *reported = &rollout->reported[i];

                if (strcmp(reported->resource, pending->resource) == 0 && strcmp(reported->unit, pending->unit) == 0 &&
                        strcmp(reported->to, pending->to) == 0)
                        return reported;
        }
        return NULL;
}

static void report_pending(const struct agent_rollout *rollout, const struct rollout_pending *pending)
{
        log_info("change pending", LOG_STR("event", "ChangePending"), LOG_STR("resource", pending->resource),
                LOG_STR("unit", pending->unit), LOG_STR("from", pending->from), LOG_STR("to", pending->to),
                LOG_UINT("devices", pending->n_devices), LOG_STR("holders", pending->holders));
        node_events_report(rollout->agent->events, NODE_EVENT_CHANGE_PENDING,
                "%s: %s stays \"%s\" and becomes \"%s\" when its containers have ended: %s", pending->resource,
                pending->unit, pending->from, pending->to, pending->holders);
}

/* The wanted plan may have changed since, even back. */
static void report_over(
        const struct agent_rollout *rollout, const struct rollout_pending *reported, const struct plan *plan)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *to = rollout_say(&arena, plan, reported->resource, reported->unit);

        log_info(strcmp(to, reported->from) == 0 ? "change withdrawn" : "change carried out",
                LOG_STR("event", "ChangeCompleted"), LOG_STR("resource", reported->resource),
                LOG_STR("unit", reported->unit), LOG_STR("to", to));
        node_events_report(rollout->agent->events, NODE_EVENT_CHANGE_COMPLETED, "%s: %s is \"%s\" now",
                reported->resource, reported->unit, to);
}

static bool is_pending_still(const struct rollout_pending *reported, const struct rollout *next)
{
        for (size_t i = 0; i < next->n_pending; i++)
                if (strcmp(reported->resource, next->pending[i].resource) == 0 &&
                        strcmp(reported->unit, next->pending[i].unit) == 0)
                        return true;
        return false;
}

static void rollout_forget_reported(struct agent_rollout *rollout)
{
        arena_done(&rollout->reported_arena);
        rollout->n_reported = 0;
}

void agent_rollout_report(struct agent_rollout *rollout, const struct rollout *current)
{
        for (size_t i = 0; i < rollout->n_reported; i++)
                if (!is_pending_still(&rollout->reported[i], current))
                        report_over(rollout, &rollout->reported[i], current->plan);
        for (size_t i = 0; i < current->n_pending; i++)
                if (!rollout_find_reported(rollout, &current->pending[i]))
                        report_pending(rollout, &current->pending[i]);
        rollout_forget_reported(rollout);
        rollout->reported = ARENA_ARRAY(&rollout->reported_arena, struct rollout_pending, current->n_pending);
        for (size_t i = 0; i < current->n_pending; i++)
                rollout->reported[rollout->n_reported++] = (struct rollout_pending){
                        .resource = arena_strdup(&rollout->reported_arena, current->pending[i].resource),
                        .unit = arena_strdup(&rollout->reported_arena, current->pending[i].unit),
                        .from = arena_strdup(&rollout->reported_arena, current->pending[i].from),
                        .to = arena_strdup(&rollout->reported_arena, current->pending[i].to)};
}

/* ---- what can be served now ---- */

/*
 * Without kubelet's pod-resources list, only kubelet's checkpoint says what containers hold, and it is updated only
 * when kubelet allocates. While nothing is advertised, kubelet allocates nothing: a change that waits for the
 * checkpoint could wait for ever. So the change takes effect without a check, as with NVIDIA's plugin. MPS daemons
 * still let their clients finish.
 */
static struct rollout *rollout_without_kubelet_list(
        struct agent_rollout *rollout, const struct plan *wanted, const struct rollout_previous *previous)
{
        const char *folder = ledger_list_folder(rollout->agent->ledger);

        if (!rollout->was_unchecked)
                log_warn("the change takes effect at once, also on units that pods still hold: without kubelet's "
                         "pod-resources list the agent cannot tell which pods have ended; mount its folder into this "
                         "container event=ChangeUnchecked",
                        LOG_STR("folder", folder ? folder : "(--pod-resources-socket is empty)"));
        rollout->was_unchecked = true;
        return rollout_new(wanted, previous, NULL, 0);
}

struct rollout *agent_rollout_make(struct agent_rollout *rollout, const struct plan *wanted)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct rollout_held *held;
        size_t n_held;
        enum ledger_word word = ledger_held(rollout->agent->ledger, &scratch, &held, &n_held);
        struct rollout_previous previous;
        struct rollout *made;

        rollout->is_reported |= word != LEDGER_UNKNOWN;
        previous = (struct rollout_previous){
                .policies = &rollout->policies,
                .names = rollout->names,
                .n_names = rollout->n_names,
                .is_known = rollout->is_known,
                .all_is_held = !rollout->is_reported,
        };
        made = rollout_new(wanted, &previous, held, n_held);
        if (word != LEDGER_STALE) {
                rollout->was_unchecked = false;
                return made;
        }
        if (!made->own)
                return made;
        rollout_free(made);
        return rollout_without_kubelet_list(rollout, wanted, &previous);
}

static void on_review(uv_timer_t *timer)
{
        struct agent_rollout *rollout = timer->data;

        if (++rollout->reviews == REVIEWS)
                uv_timer_set_repeat(timer, REVIEW_LATER_MS);
        ledger_ask(rollout->agent->ledger);
}

void agent_rollout_follow(struct agent_rollout *rollout, const struct rollout *next)
{
        rollout_note_promised(rollout, next);
        if (!next->own) {
                agent_rollout_report(rollout, next);
                uv_timer_stop(&rollout->timer);
        } else {
                rollout->reviews = 0;
                uv_timer_start(&rollout->timer, on_review, 0, REVIEW_MS);
        }
}

void agent_rollout_serve(struct agent_rollout *rollout, bool is_serving)
{
        if (is_serving) {
                read_record(rollout);
        } else {
                uv_timer_stop(&rollout->timer);
                rollout_forget_reported(rollout);
        }
}

/* ---- start and end ---- */

struct agent_rollout *agent_rollout_new(struct agent *agent)
{
        struct agent_rollout *rollout = xcalloc(1, sizeof(*rollout));

        rollout->agent = agent;
        rollout->directory = xstrdup(agent_plans_config(agent->plans)->mps.directory);
        rollout->record = xasprintf("%s/" SHARING_POLICY_FILE, rollout->directory);
        record_file_init(&rollout->file, &agent->loop,
                &(struct record_file_options){.path = rollout->record,
                        .failure = "the record of sharing policies cannot be written, will try again",
                        .write_again = rollout_write_record,
                        .data = rollout});
        uv_timer_init(&agent->loop, &rollout->timer);
        rollout->timer.data = rollout;
        return rollout;
}

static void free_rollout(void *data)
{
        struct agent_rollout *rollout = data;

        rollout_forget_reported(rollout);
        arena_done(&rollout->arena);
        free(rollout->directory);
        free(rollout->record);
        free(rollout->recorded);
        free(rollout);
}

void agent_rollout_close(struct agent_rollout *rollout)
{
        if (!rollout)
                return;
        record_file_close(&rollout->file, &rollout->closing);
        closing_close(&rollout->closing, &rollout->timer);
        closing_end(&rollout->closing, free_rollout, rollout);
}
