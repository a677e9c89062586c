// SPDX-License-Identifier: Apache-2.0
#include "node/config/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/events/node_events.h"

#define PREFIX "warpshare.dev/config"

void config_outcome_init(struct config_outcome *outcome, char *record)
{
        *outcome = (struct config_outcome){.record = record};
}

void config_outcome_done(struct config_outcome *outcome)
{
        config_outcome_stop(outcome);
        config_version_unref(outcome->current);
        config_version_unref(outcome->recorded);
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

static void report_put(json_t *annotations, const char *key, char *value)
{
        text_clean(value);
        json_object_set_new(annotations, key, json_string(value));
        free(value);
}

json_t *config_report_node(const char *node, const struct config_status *status)
{
        json_t *object = object_node(node);
        json_t *annotations = object_make(object, "metadata", "annotations", NULL);

        if (status->name) {
                report_put(annotations, PREFIX, xstrdup(status->name));
                report_put(annotations, PREFIX "-source", xasprintf("%s, by %s", status->source, status->by));
                report_put(annotations, PREFIX "-generation", xasprintf("%" PRIu64, status->generation));
                report_put(annotations, PREFIX "-hash", xstrdup(status->hash));
        }
        report_put(annotations, PREFIX "-status",
                status->state == CONFIG_ACCEPTED ? xstrdup(config_state_name(status->state))
                                                 : xasprintf("%s: %s", config_state_name(status->state), status->why));
        return object;
}

struct config_status config_outcome_status(const struct config_outcome *outcome)
{
        struct config_status status = {.state = outcome->state, .why = outcome->why};

        if (!outcome->is_serving && status.state == CONFIG_ACCEPTED) {
                status.state = CONFIG_WAITING;
                status.why = "another agent serves";
        }
        if (!outcome->current)
                return status;
        memcpy(status.hash, outcome->current->hash, CONFIG_HASH);
        status.name = config_version_name(outcome->current);
        status.source = outcome->current->source;
        status.by = outcome->current->by;
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
                wanted ? "no configuration can be chosen, the one in force stays" : "waiting for a configuration", why);
        if (!outcome->current || outcome->state != CONFIG_REFUSED)
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
        struct config_version *record;
        struct error ignored;
        uint64_t generation;

        if (!outcome->record || config_record_read(&record, &generation, outcome->record, &ignored) != 0)
                return;
        outcome->generation = MAX(outcome->generation, generation);
        config_version_unref(outcome->recorded);
        outcome->recorded = record;
}

static void outcome_write_record(struct config_outcome *outcome, struct config_version *loaded)
{
        struct error err;

        if (config_version_is_same(outcome->recorded, loaded) && strcmp(outcome->recorded->name, loaded->name) == 0)
                return;
        if (outcome->record && config_record_write(loaded, outcome->generation, outcome->record, &err) < 0) {
                complain(&outcome->unrecorded,
                        "the configuration in force cannot be recorded: an agent that starts without the API server will wait",
                        &err);
                return;
        }
        config_version_set(&outcome->recorded, loaded);
        complaint_settle(&outcome->unrecorded);
}

/* ---- a configuration in force ---- */

/* |had_one|: this serving agent has accepted another configuration before. */
static void outcome_note_change(struct config_outcome *outcome, bool had_one)
{
        const struct config_version *current = outcome->current;
        const bool is_on_record = config_version_is_same(outcome->recorded, current);

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

void config_outcome_accept(struct config_outcome *outcome, struct config_version *loaded, bool is_newest)
{
        const bool had_one = outcome->current;
        const bool is_same = config_version_is_same(outcome->current, loaded);

        config_version_set(&outcome->current, loaded);
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

void config_outcome_serve(struct config_outcome *outcome, struct config_version *loaded,
        const struct config_version *wanted, bool is_refused)
{
        outcome->is_serving = true;
        outcome_read_record(outcome);
        if (outcome->current)
                outcome_note_change(outcome, false);
        if (config_version_is_same(outcome->current, loaded))
                outcome_write_record(outcome, loaded);
        if (outcome->cluster.has_annotations)
                outcome_begin_report(outcome);
        if (outcome->state == CONFIG_ACCEPTED || outcome->why)
                outcome_annotate(outcome);
        /* Until now nothing was reported to the cluster. */
        if (outcome->state == CONFIG_REFUSED && is_refused)
                node_events_report(
                        outcome->cluster.events, NODE_EVENT_CONFIG_REFUSED, "configuration refused: %s", outcome->why);
        if (outcome->misled.text[0] && wanted)
                report_misled(outcome, outcome->misled.text, wanted->name, wanted->by);
}

void config_outcome_stop(struct config_outcome *outcome)
{
        outcome->is_serving = false;
        outcome->report = node_reconcile_close(outcome->report);
}
