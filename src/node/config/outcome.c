/* Reports whether a configuration was accepted: in annotations, log and events, and in the record on disk. */
#include "node/config/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "node/config/record.h"

#define BY_RECORD "last good"

/* ---- reporting ---- */

bool agent_config_status(const struct agent_config *config, struct config_status *ret)
{
        if (!config || config->kind == BY_NOTHING)
                return false;
        *ret = (struct config_status){.verdict = config->verdict, .why = config->why};
        if (!config->is_serving && ret->verdict == CONFIG_ACCEPTED) {
                ret->verdict = CONFIG_WAITING;
                ret->why = "another agent serves";
        }
        if (!config->current.name)
                return true;
        memcpy(ret->hash, config->current.hash, CONFIG_HASH);
        ret->name = config_version_name(&config->current);
        ret->source = config->current.source;
        ret->by = config->current.by;
        ret->generation = config->generation;
        return true;
}

/* |why|, or NULL, is copied. */
static void outcome_report(struct agent_config *config, enum config_verdict verdict, const char *why)
{
        struct config_status status;

        if (config->why != why) {
                free(config->why);
                config->why = why ? xstrdup(why) : NULL;
        }
        config->verdict = verdict;
        if (config->report && agent_config_status(config, &status))
                node_apply_put(config->report, config_report_node(config->node, &status));
}

/* Like complain(), for something that is not our failure. True: it is new. */
static bool outcome_note(struct complaint *complaint, enum log_level level, const char *what, const char *why)
{
        if (strncmp(complaint->text, why, sizeof(complaint->text) - 1) == 0)
                return false;
        snprintf(complaint->text, sizeof(complaint->text), "%s", why);
        LOG_AT(level, what, LOG_STR("reason", why));
        return true;
}

void agent_config_report_waiting(struct agent_config *config, const char *why, bool is_start)
{
        config->is_stuck = !is_start;
        outcome_note(&config->waiting, is_start ? LOG_INFO : LOG_WARN,
                config->wanted.name ? "no configuration can be chosen, the one in force stays"
                                    : "waiting for a configuration",
                why);
        if (!config->current.name || config->verdict != CONFIG_REFUSED)
                outcome_report(config, CONFIG_WAITING, why);
}

static void report_misled(const struct agent_config *config, const char *misled, const char *name, const char *by)
{
        node_events_report(config->events, NODE_EVENT_CONFIG_FALLBACK, "%s; using '%s', by %s", misled,
                *name ? name : "(empty)", by);
}

void agent_config_report_fallback(struct agent_config *config, const struct config_choice *choice)
{
        if (!choice->misled) {
                complaint_settle(&config->misled);
                return;
        }
        if (outcome_note(&config->misled, LOG_WARN, "falling back to another configuration", choice->misled))
                report_misled(
                        config, choice->misled, choice->name ? choice->name : "", config_reason_name(choice->reason));
}

void agent_config_report_unread(struct agent_config *config, const struct error *err)
{
        if (strcmp(config->unread.text, err->text) != 0)
                node_events_report(config->events, NODE_EVENT_CONFIG_REFUSED,
                        "configuration refused, the one in force stays: %s", err->text);
        complain(&config->unread, "configuration refused, the one in force stays", err);
        config->tried[0] = '\0';
        config->is_stuck = true;
        outcome_report(config, CONFIG_REFUSED, err->text);
}

/* ---- the record ---- */

void agent_config_begin_with_record(struct agent_config *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct strbuf content = STRBUF_INIT;
        struct config_record record;
        struct settings *settings = NULL;
        struct config_text text;
        struct error err;
        int rc = config_record_read(&record, config->record, &arena, &err);

        if (rc == CONFIG_RECORD_NONE)
                return;
        if (rc == 0) {
                text = (struct config_text){.name = record.name, .text = record.content, .size = record.size};
                rc = settings_new(&settings, config->options.options, &text, &err);
        }
        if (rc < 0) {
                log_warn("the last good configuration cannot be used", LOG_ERR(&err));
                return;
        }
        settings_unref(settings);
        strbuf_append(&content, record.content, record.size);
        config_version_set(&config->wanted, record.name, record.source, BY_RECORD, &content);
        log_info("starting with the last good configuration", LOG_STR("config", config_version_name(&config->wanted)),
                LOG_STR("source", record.source));
}

/* Continues the count of earlier agents, perhaps of one that served in between. */
static void read_record(struct agent_config *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct strbuf content = STRBUF_INIT;
        struct config_record record;
        struct error ignored;

        if (config->kind != BY_NAME || config_record_read(&record, config->record, &arena, &ignored) != 0)
                return;
        config->generation = MAX(config->generation, record.generation);
        strbuf_append(&content, record.content, record.size);
        config_version_set(&config->recorded, record.name, record.source, BY_RECORD, &content);
        strbuf_done(&config->recorded.content);
}

static void record(struct agent_config *config)
{
        const struct config_record record = {
                .generation = config->generation,
                .name = config->loaded.name,
                .source = config->loaded.source,
                .content = config->loaded.content.data,
                .size = config->loaded.content.size,
        };
        struct error err;

        if (config_version_is_same(&config->recorded, &config->loaded))
                return;
        if (config->kind == BY_NAME && config_record_write(&record, config->record, &err) < 0) {
                complain(&config->unrecorded,
                        "the configuration in force cannot be recorded: an agent that starts without the API server will wait",
                        &err);
                return;
        }
        config_version_copy(&config->recorded, &config->loaded, false);
        complaint_settle(&config->unrecorded);
}

/* ---- called by the agent ---- */

void agent_config_refuse(struct agent_config *config, const struct error *err)
{
        if (config->kind != BY_NOTHING)
                outcome_report(config, CONFIG_REFUSED, err->text);
}

/* |had_one|: this serving agent has accepted another configuration before. */
static void note_change(struct agent_config *config, bool had_one)
{
        bool is_on_record = strcmp(config->recorded.hash, config->current.hash) == 0;

        config->generation += had_one || !is_on_record ? 1 : 0;
        if (config->kind == BY_NAME || had_one)
                log_info("configuration in force", LOG_STR("config", config_version_name(&config->current)),
                        LOG_STR("source", config->current.source), LOG_STR("by", config->current.by),
                        LOG_UINT("generation", config->generation));
        if (had_one || (config->kind == BY_NAME && !is_on_record))
                node_events_report(config->events, NODE_EVENT_CONFIG_APPLIED,
                        "configuration '%s' of %s, by %s, is in force; generation %" PRIu64 ", sha256 %.*s",
                        config_version_name(&config->current), config->current.source, config->current.by,
                        config->generation, (int)CONFIG_HASH, config->current.hash);
}

void agent_config_in_force(struct agent_config *config)
{
        bool had_one = config->current.name;
        bool is_same = had_one && strcmp(config->current.hash, config->loaded.hash) == 0;

        if (!config->loaded.name)
                return;
        config_version_copy(&config->current, &config->loaded, false);
        if (config->is_serving && !is_same)
                note_change(config, had_one);
        if (config->is_serving)
                record(config);
        /* If the wanted configuration could not be loaded, it is still wanted and refused. */
        if (!config->is_stuck && strcmp(config->tried, config->loaded.hash) == 0)
                outcome_report(config, CONFIG_ACCEPTED, NULL);
}

/* ---- start and end of serving ---- */

static void take_over(struct agent_config *config)
{
        read_record(config);
        if (config->current.name)
                note_change(config, false);
        if (config->current.name && strcmp(config->current.hash, config->loaded.hash) == 0)
                record(config);
        if (config->has_annotations && config->kind != BY_NOTHING)
                config->report = node_apply_new(&(struct node_apply_options){.client = config->client,
                        .watch = config->watch,
                        .node = config->node,
                        .manager = CONFIG_REPORT_MANAGER,
                        .what = "annotations"});
        if (config->verdict == CONFIG_ACCEPTED || config->why)
                outcome_report(config, config->verdict, config->why);
        /* What could not be loaded, or built, is told by who asked for it: there was nobody at the start. */
        if (config->verdict == CONFIG_REFUSED && (config->is_stuck || !config->loaded.name))
                node_events_report(config->events, NODE_EVENT_CONFIG_REFUSED, "configuration refused: %s", config->why);
        if (config->misled.text[0] && config->wanted.name)
                report_misled(config, config->misled.text, config->wanted.name, config->wanted.by);
}

void agent_config_serve(struct agent_config *config, bool is_serving)
{
        config->is_serving = is_serving;
        if (is_serving)
                take_over(config);
        else
                config->report = node_apply_close(config->report);
}
