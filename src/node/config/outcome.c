#include "node/config/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "node/config/report.h"
#include "node/events/node_events.h"

void config_outcome_init(struct config_outcome *outcome, char *record)
{
        *outcome = (struct config_outcome){.record = record};
        config_version_drop(&outcome->current);
        config_version_drop(&outcome->recorded);
}

void config_outcome_done(struct config_outcome *outcome)
{
        config_outcome_stop(outcome);
        config_version_drop(&outcome->current);
        config_version_drop(&outcome->recorded);
        free(outcome->record);
        free(outcome->node);
        free(outcome->why);
}

void config_outcome_connect(struct config_outcome *outcome, const struct agent_config_cluster *cluster)
{
        outcome->cluster = *cluster;
        outcome->node = xstrdup(cluster->node);
}

/* ---- reporting ---- */

struct config_status config_outcome_status(const struct config_outcome *outcome)
{
        struct config_status status = {.state = outcome->state, .why = outcome->why};

        if (!outcome->is_serving && status.state == CONFIG_ACCEPTED) {
                status.state = CONFIG_WAITING;
                status.why = "another agent serves";
        }
        if (!outcome->current.name)
                return status;
        memcpy(status.hash, outcome->current.hash, CONFIG_HASH);
        status.name = config_version_name(&outcome->current);
        status.source = outcome->current.source;
        status.by = outcome->current.by;
        status.generation = outcome->generation;
        return status;
}

static void outcome_annotate(const struct config_outcome *outcome)
{
        const struct config_status status = config_outcome_status(outcome);

        if (outcome->report)
                node_reconcile_put(outcome->report, config_report_node(outcome->node, &status));
}

static void outcome_set_state(struct config_outcome *outcome, enum config_state state, const char *why)
{
        free(outcome->why);
        outcome->why = why ? xstrdup(why) : NULL;
        outcome->state = state;
        outcome_annotate(outcome);
}

/* Like complain(), at |level|, for an event that is not our failure. True: it is new. */
static bool outcome_note(struct complaint *complaint, enum log_level level, const char *what, const char *why)
{
        if (strncmp(complaint->text, why, sizeof(complaint->text) - 1) == 0)
                return false;
        snprintf(complaint->text, sizeof(complaint->text), "%s", why);
        LOG_AT(level, what, LOG_STR("reason", why));
        return true;
}

void config_outcome_wait(
        struct config_outcome *outcome, const struct config_version *wanted, const char *why, bool is_start)
{
        outcome_note(&outcome->waiting, is_start ? LOG_INFO : LOG_WARN,
                wanted->name ? "no configuration can be chosen, the one in force stays" : "waiting for a configuration",
                why);
        if (!outcome->current.name || outcome->state != CONFIG_REFUSED)
                outcome_set_state(outcome, CONFIG_WAITING, why);
}

static void report_misled(const struct config_outcome *outcome, const char *misled, const char *name, const char *by)
{
        node_events_report(outcome->cluster.events, NODE_EVENT_CONFIG_FALLBACK, "%s; using '%s', by %s", misled,
                *name ? name : "(empty)", by);
}

void config_outcome_choose(struct config_outcome *outcome, const struct config_choice *choice)
{
        complaint_settle(&outcome->waiting);
        if (!choice)
                return;
        if (!choice->misled)
                complaint_settle(&outcome->misled);
        else if (outcome_note(&outcome->misled, LOG_WARN, "falling back to another configuration", choice->misled))
                report_misled(
                        outcome, choice->misled, choice->name ? choice->name : "", config_reason_name(choice->reason));
}

void config_outcome_read(struct config_outcome *outcome, const struct error *err)
{
        if (!err) {
                complaint_settle(&outcome->unread);
                return;
        }
        if (strcmp(outcome->unread.text, err->text) != 0)
                node_events_report(outcome->cluster.events, NODE_EVENT_CONFIG_REFUSED,
                        "configuration refused, the one in force stays: %s", err->text);
        complain(&outcome->unread, "configuration refused, the one in force stays", err);
        outcome_set_state(outcome, CONFIG_REFUSED, err->text);
}

void config_outcome_refuse(struct config_outcome *outcome, const char *why)
{
        outcome_set_state(outcome, CONFIG_REFUSED, why);
}

void config_outcome_forget_complaints(struct config_outcome *outcome)
{
        complaint_settle(&outcome->waiting);
        complaint_settle(&outcome->misled);
        complaint_settle(&outcome->unread);
}

/* ---- the record ---- */

/* Continues the count of earlier agents, perhaps of one that served in between. */
static void outcome_read_record(struct config_outcome *outcome)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct strbuf content = STRBUF_INIT;
        struct config_record record;
        struct error ignored;

        if (!outcome->record || config_record_read(&record, outcome->record, &arena, &ignored) != 0)
                return;
        outcome->generation = MAX(outcome->generation, record.generation);
        strbuf_append(&content, record.content, record.size);
        config_version_set(&outcome->recorded, record.name, record.source, CONFIG_RECORD_BY, &content);
        strbuf_done(&outcome->recorded.content);
}

static void outcome_write_record(struct config_outcome *outcome, const struct config_version *loaded)
{
        const struct config_record record = {
                .generation = outcome->generation,
                .name = loaded->name,
                .source = loaded->source,
                .content = loaded->content.data,
                .size = loaded->content.size,
        };
        struct error err;

        if (config_version_is_same(&outcome->recorded, loaded))
                return;
        if (outcome->record && config_record_write(&record, outcome->record, &err) < 0) {
                complain(&outcome->unrecorded,
                        "the configuration in force cannot be recorded: an agent that starts without the API server will wait",
                        &err);
                return;
        }
        config_version_copy(&outcome->recorded, loaded, false);
        complaint_settle(&outcome->unrecorded);
}

/* ---- a configuration in force ---- */

/* |had_one|: this serving agent has accepted another configuration before. */
static void outcome_note_change(struct config_outcome *outcome, bool had_one)
{
        const struct config_version *current = &outcome->current;
        const bool is_on_record = strcmp(outcome->recorded.hash, current->hash) == 0;

        outcome->generation += had_one || !is_on_record ? 1 : 0;
        if (outcome->record || had_one)
                log_info("configuration in force", LOG_STR("config", config_version_name(current)),
                        LOG_STR("source", current->source), LOG_STR("by", current->by),
                        LOG_UINT("generation", outcome->generation));
        if (had_one || (outcome->record && !is_on_record))
                node_events_report(outcome->cluster.events, NODE_EVENT_CONFIG_APPLIED,
                        "configuration '%s' of %s, by %s, is in force; generation %" PRIu64 ", sha256 %.*s",
                        config_version_name(current), current->source, current->by, outcome->generation,
                        (int)CONFIG_HASH, current->hash);
}

bool config_outcome_has(const struct config_outcome *outcome, const struct config_version *version)
{
        return outcome->current.name && strcmp(outcome->current.hash, version->hash) == 0;
}

void config_outcome_accept(struct config_outcome *outcome, const struct config_version *loaded, bool is_newest)
{
        const bool had_one = outcome->current.name;
        const bool is_same = config_outcome_has(outcome, loaded);

        config_version_copy(&outcome->current, loaded, false);
        if (outcome->is_serving && !is_same)
                outcome_note_change(outcome, had_one);
        if (outcome->is_serving)
                outcome_write_record(outcome, loaded);
        if (is_newest)
                outcome_set_state(outcome, CONFIG_ACCEPTED, NULL);
}

static void outcome_begin_report(struct config_outcome *outcome)
{
        const struct node_reconcile_options options = {
                .loop = kube_client_loop(outcome->cluster.client),
                .watch = outcome->cluster.watch,
                .retry_ms = NODE_RECONCILE_RETRY_MS,
                .retry_limit_ms = NODE_RECONCILE_RETRY_MAX_MS,
                .what = "annotations",
                .failed = "the node's annotations cannot be written, will try again",
                .succeeded = "the node's annotations are written",
                .manager = CONFIG_REPORT_MANAGER,
                .client = outcome->cluster.client,
                .node = outcome->node,
        };

        outcome->report = node_reconcile_new(&options);
        node_reconcile_serve(outcome->report, true);
}

void config_outcome_serve(struct config_outcome *outcome, const struct config_version *loaded,
        const struct config_version *wanted, bool is_refused)
{
        outcome->is_serving = true;
        outcome_read_record(outcome);
        if (outcome->current.name)
                outcome_note_change(outcome, false);
        if (config_outcome_has(outcome, loaded))
                outcome_write_record(outcome, loaded);
        if (outcome->cluster.has_annotations)
                outcome_begin_report(outcome);
        if (outcome->state == CONFIG_ACCEPTED || outcome->why)
                outcome_annotate(outcome);
        /* Until now nothing was reported to the cluster. */
        if (outcome->state == CONFIG_REFUSED && is_refused)
                node_events_report(
                        outcome->cluster.events, NODE_EVENT_CONFIG_REFUSED, "configuration refused: %s", outcome->why);
        if (outcome->misled.text[0] && wanted->name)
                report_misled(outcome, outcome->misled.text, wanted->name, wanted->by);
}

void config_outcome_stop(struct config_outcome *outcome)
{
        outcome->is_serving = false;
        outcome->report = node_reconcile_close(outcome->report);
}
