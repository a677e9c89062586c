#include "cmd/agent_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cmd/command_line.h"
#include "cmd/config_choice.h"
#include "cmd/config_record.h"
#include "cmd/config_report.h"
#include "cmd/config_source.h"
#include "cmd/node_events.h"
#include "cmd/node_label.h"
#include "cmd/report.h"
#include "io/filewatch.h"

/* Who has nothing to begin with waits so long for the label before the default has to do. */
#define PATIENCE_MS UINT64_C(3000)
#define BY_FILE "file"
#define BY_RECORD "last good"

/* One configuration as it was read. */
struct version {
        char *name; /* NULL: none. "" : the empty one */
        char *source;
        const char *by;
        char hash[SHA256_HEX + 1];
        struct strbuf content;
};

struct agent_config {
        struct agent_config_options options;
        enum { BY_NOTHING, FROM_FILE, BY_NAME } kind;

        const char *path; /* of the file, "" without one */
        const char *map;  /* the ConfigMap, "" without one */
        struct filewatch *file;

        struct config_rules rules;
        char *record; /* path */
        struct kube_client *client;
        bool is_connected;
        struct config_source *source;
        struct node_label *label;
        uv_timer_t patience;
        bool is_late; /* the label could not be had in time */
        bool is_settled;

        struct version wanted;
        struct version loaded;
        struct version current;  /* without its content, and so is: */
        struct version recorded; /* what lies on disk */
        uint64_t generation;
        char tried[SHA256_HEX + 1]; /* hash of what was told to be wanted last */
        enum config_verdict verdict;
        char *why;

        struct config_report *report;
        struct node_events *events;
        struct complaint waiting;
        struct complaint misled;
        struct complaint unread;
        struct complaint unrecorded;
};

/* ---- versions ---- */

static void drop_version(struct version *version)
{
        free(version->name);
        free(version->source);
        strbuf_done(&version->content);
        *version = (struct version){.content = STRBUF_INIT};
}

/* Takes the content. */
static void set_version(
        struct version *version, const char *name, const char *source, const char *by, struct strbuf *content)
{
        struct version next = {.name = xstrdup(name), .source = xstrdup(source), .by = by, .content = *content};

        *content = (struct strbuf)STRBUF_INIT;
        sha256_hex(next.content.data, next.content.size, next.hash);
        drop_version(version);
        *version = next;
}

static void copy_version(struct version *to, const struct version *from, bool with_content)
{
        struct strbuf content = STRBUF_INIT;
        char hash[SHA256_HEX + 1];

        if (with_content)
                strbuf_append(&content, from->content.data, from->content.size);
        memcpy(hash, from->hash, sizeof(hash));
        set_version(to, from->name, from->source, from->by, &content);
        memcpy(to->hash, hash, sizeof(hash));
}

static bool is_same_version(const struct version *a, const struct version *b)
{
        return a->name && b->name && strcmp(a->name, b->name) == 0 && strcmp(a->hash, b->hash) == 0;
}

/* ---- what is told ---- */

static const char *shown_name(const struct version *version)
{
        return *version->name ? version->name : "(empty)";
}

bool agent_config_status(const struct agent_config *config, struct config_status *ret)
{
        if (!config || config->kind == BY_NOTHING)
                return false;
        *ret = (struct config_status){.verdict = config->verdict, .why = config->why};
        if (!config->current.name)
                return true;
        memcpy(ret->hash, config->current.hash, CONFIG_HASH);
        ret->name = shown_name(&config->current);
        ret->source = config->current.source;
        ret->by = config->current.by;
        ret->generation = config->generation;
        return true;
}

static void tell(struct agent_config *config, enum config_verdict verdict, const char *why)
{
        struct config_status status;

        if (config->why != why) {
                free(config->why);
                config->why = why ? xstrdup(why) : NULL;
        }
        config->verdict = verdict;
        if (config->report && agent_config_status(config, &status))
                config_report_tell(config->report, &status);
}

/* Like complain(), of what is no failure of ours. */
static void note(struct complaint *complaint, enum log_level level, const char *what, const char *why)
{
        if (strncmp(complaint->text, why, sizeof(complaint->text) - 1) == 0)
                return;
        snprintf(complaint->text, sizeof(complaint->text), "%s", why);
        LOG_AT(level, what, LOG_STR("reason", why));
}

/* Nothing can be chosen: what is in force stays, and a refusal stays told. At the start that is only for a moment. */
static void tell_waiting(struct agent_config *config, const char *why, bool is_start)
{
        note(&config->waiting, is_start ? LOG_INFO : LOG_WARN,
                config->wanted.name ? "no configuration can be chosen, the one in force stays"
                                    : "waiting for a configuration",
                why);
        if (!config->current.name || config->verdict != CONFIG_REFUSED)
                tell(config, CONFIG_WAITING, why);
}

/* ---- the record ---- */

static void begin_with_record(struct agent_config *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct strbuf content = STRBUF_INIT;
        struct config_record record;
        struct settings *settings;
        struct config_text text;
        struct error err;
        int rc = config_record_read(&record, config->record, &arena, &err);

        if (rc == CONFIG_RECORD_NONE)
                return;
        if (rc == 0) {
                config->generation = record.generation;
                text = (struct config_text){.name = record.name, .text = record.content, .size = record.size};
                rc = settings_new(&settings, config->options.options, &text, &err);
        }
        if (rc < 0) {
                log_warn("the last good configuration cannot be used", LOG_ERR(&err));
                return;
        }
        settings_unref(settings);
        strbuf_append(&content, record.content, record.size);
        set_version(&config->wanted, record.name, record.source, BY_RECORD, &content);
        copy_version(&config->recorded, &config->wanted, false);
        log_info("beginning with the last good configuration", LOG_STR("config", shown_name(&config->wanted)),
                LOG_STR("source", record.source));
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

        if (config->kind != BY_NAME || is_same_version(&config->recorded, &config->loaded))
                return;
        if (config_record_write(&record, config->record, &err) < 0) {
                complain(&config->unrecorded,
                        "the configuration in force cannot be recorded: an agent that starts without the API server will wait",
                        &err);
                return;
        }
        copy_version(&config->recorded, &config->loaded, false);
        complaint_settle(&config->unrecorded);
}

/* ---- the choice ---- */

static void note_fallback(struct agent_config *config, const struct config_choice *choice)
{
        if (!choice->misled) {
                complaint_settle(&config->misled);
                return;
        }
        if (strcmp(config->misled.text, choice->misled) != 0)
                node_events_tell(config->events, NODE_EVENT_CONFIG_FALLBACK, "%s; using '%s', by %s", choice->misled,
                        choice->name ? choice->name : "(empty)", config_reason_name(choice->reason));
        note(&config->misled, LOG_WARN, "falling back to another configuration", choice->misled);
}

/* What cannot be loaded is told to the cluster by who asked for it (cmd/node_report.h); what cannot even be read, here. */
static void refuse(struct agent_config *config, const struct error *err)
{
        if (strcmp(config->unread.text, err->text) != 0)
                node_events_tell(config->events, NODE_EVENT_CONFIG_REFUSED,
                        "configuration refused, the one in force stays: %s", err->text);
        complain(&config->unread, "configuration refused, the one in force stays", err);
        config->tried[0] = '\0';
        tell(config, CONFIG_REFUSED, err->text);
}

/* True: |wanted| is there, changed or not. */
static bool want(struct agent_config *config, const struct config_choice *choice)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        if (choice->name && config_source_read(config->source, choice->name, &content, &err) < 0) {
                strbuf_done(&content);
                refuse(config, &err);
                return false;
        }
        complaint_settle(&config->unread);
        set_version(&config->wanted, choice->name ? choice->name : "", config_source_name(config->source),
                config_reason_name(choice->reason), &content);
        return true;
}

static bool choose(struct agent_config *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct config_known known = {.has_label = config->is_connected && !config->label};
        struct config_choice choice;
        struct config_names names;
        struct error err;

        if (!config->source)
                return false;
        if (config_source_list(config->source, &names, &arena, &err) < 0) {
                tell_waiting(config, err.text, err.kind == ERROR_UNAVAILABLE);
                return false;
        }
        known.has_names = true;
        known.names = names.names;
        known.n_names = names.count;
        if (config->label && node_label_is_known(config->label)) {
                known.has_label = true;
                known.label = node_label_value(config->label);
        }
        choice = known.has_label || !config->is_late ? config_choose(&config->rules, &known, &arena)
                                                     : config_choose_early(&config->rules, &known, &arena);
        if (!known.has_label && config->wanted.name)
                return false; /* something serves, or is about to */
        if (choice.kind == CONFIG_CHOICE_NONE) {
                tell_waiting(config, choice.why, !known.has_label);
                return false;
        }
        complaint_settle(&config->waiting);
        note_fallback(config, &choice);
        config->is_settled = known.has_label;
        return want(config, &choice);
}

/* Another one than was told last: the agent is to load it. */
static void follow(struct agent_config *config)
{
        if (!choose(config))
                return;
        if (strcmp(config->wanted.hash, config->tried) != 0) {
                log_info(config->loaded.name ? "the configuration changed" : "configuration chosen",
                        LOG_STR("config", shown_name(&config->wanted)), LOG_STR("source", config->wanted.source),
                        LOG_STR("by", config->wanted.by));
                config->options.changed(config->options.data);
                return;
        }
        if (strcmp(config->loaded.hash, config->wanted.hash) != 0)
                return; /* it was refused */
        /* The same content, perhaps by another name or another rule. */
        copy_version(&config->loaded, &config->wanted, true);
        if (config->current.name && strcmp(config->current.hash, config->loaded.hash) == 0)
                agent_config_in_force(config);
}

static void on_change(void *data)
{
        follow(data);
}

static void on_label(void *data)
{
        struct agent_config *config = data;
        const char *value = node_label_value(config->label);

        log_info("the node's label", LOG_STR("value", *value ? value : NULL));
        follow(config);
}

static void on_late(uv_timer_t *timer)
{
        struct agent_config *config = timer->data;

        config->is_late = true;
        follow(config);
}

static void on_label_trouble(const struct error *error, void *data)
{
        struct agent_config *config = data;

        log_warn("the node's label cannot be read, will try again", LOG_ERR(error));
        on_late(&config->patience);
}

static void on_map_trouble(const struct error *error, void *data UNUSED)
{
        log_warn("the ConfigMap cannot be read, will try again", LOG_ERR(error));
}

static void on_file_changed(void *data)
{
        struct agent_config *config = data;

        log_info("the configuration file changed", LOG_STR("file", config->path));
        config->options.changed(config->options.data);
}

/* ---- start ---- */

static int start_file(struct agent_config *config, struct error *err)
{
        const struct filewatch_options options = {
                .path = config->path,
                .limit = CONFIG_FILE_LIMIT,
                .changed = on_file_changed,
                .data = config,
        };

        config->is_settled = true;
        return filewatch_new(&config->file, config->options.loop, &options, err);
}

static int start_source(struct agent_config *config, const char *folder, const char *map, struct error *err)
{
        const struct config_source_options options = {
                .loop = config->options.loop,
                .folder = folder,
                .client = config->client,
                .map = map,
                .changed = on_change,
                .trouble = on_map_trouble,
                .data = config,
        };

        return config_source_new(&config->source, &options, err);
}

static int start_by_name(struct agent_config *config, const char *folder, const char *map, struct error *err)
{
        const struct option_set *options = config->options.options;

        config->rules = config_rules_of(
                command_line_get(options, "config-default"), command_line_get(options, "config-fallback-strategies"));
        config->record = xasprintf("%s/" CONFIG_RECORD_NAME, command_line_get(options, "mps-directory"));
        if (!*folder && config_source_check_map(map, err) < 0)
                return error_prefix(err, "config-map");
        if (!*command_line_get(options, "config-label"))
                return error_set(err, ERROR_INVALID, "config-label: must not be empty");
        begin_with_record(config);
        if (!*folder)
                return 0; /* the API server is asked when there is a client */
        return start_source(config, folder, NULL, err);
}

/* What the environment says about one of the three does not count where the command line names another. "" : not this one. */
static const char *pick(const struct option_set *options, const char *flag)
{
        static const char *const flags[] = {"config-file", "config-dir", "config-map"};
        const char *value = command_line_get(options, flag);

        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
                if (options->sources[option_find(flag)] == OPTION_ENVIRONMENT && *command_line_get(options, flags[i]) &&
                        options->sources[option_find(flags[i])] == OPTION_FLAG)
                        return "";
        return value;
}

int agent_config_new(struct agent_config **ret, const struct agent_config_options *options, struct error *err)
{
        const char *path = pick(options->options, "config-file");
        const char *folder = pick(options->options, "config-dir");
        const char *map = pick(options->options, "config-map");
        struct agent_config *config;
        int rc = 0;

        if ((*path != 0) + (*folder != 0) + (*map != 0) > 1)
                return error_set(err, ERROR_INVALID,
                        "config-file, config-dir and config-map exclude each other: a file is one configuration for the node, the "
                        "others hold several, of which the node's label names one");
        config = xcalloc(1, sizeof(*config));
        config->options = *options;
        uv_timer_init(options->loop, &config->patience);
        config->patience.data = config;
        config->path = path;
        config->map = map;
        drop_version(&config->wanted);
        drop_version(&config->loaded);
        drop_version(&config->current);
        drop_version(&config->recorded);
        config->kind = *path ? FROM_FILE : *folder || *map ? BY_NAME : BY_NOTHING;
        config->is_settled = config->kind != BY_NAME;
        if (config->kind == FROM_FILE)
                rc = start_file(config, err);
        else if (config->kind == BY_NAME)
                rc = start_by_name(config, folder, map, err);
        if (rc < 0) {
                agent_config_close(config);
                return -1;
        }
        *ret = config;
        return 0;
}

static void watch_label(struct agent_config *config, const char *node)
{
        const struct node_label_options options = {
                .client = config->client,
                .node = node,
                .key = command_line_get(config->options.options, "config-label"),
                .changed = on_label,
                .trouble = on_label_trouble,
                .data = config,
        };

        config->label = node_label_new(&options);
        uv_timer_start(&config->patience, on_late, PATIENCE_MS, 0);
}

int agent_config_connect(struct agent_config *config, struct kube_client *client, const char *node,
        struct node_events *events, struct error *err)
{
        const char *map = config->map;

        config->events = events;
        config->is_connected = true;
        if (client && *node) {
                config->client = client;
                config->report = config->kind == BY_NOTHING ? NULL : config_report_new(client, node);
        }
        if (config->verdict == CONFIG_ACCEPTED || config->why)
                tell(config, config->verdict, config->why);
        if (config->verdict == CONFIG_REFUSED)
                node_events_tell(events, NODE_EVENT_CONFIG_REFUSED, "configuration refused: %s", config->why);
        if (config->kind != BY_NAME)
                return 0;
        if (config->client) {
                watch_label(config, node);
        } else if (*map) {
                log_error(
                        "the ConfigMap cannot be read: there are no credentials for the API server, or the node has no name",
                        LOG_STR("config_map", map));
                return 0;
        } else {
                log_warn(
                        "the node's label cannot be read: there are no credentials for the API server, or the node has no name; "
                        "it counts as a node without the label");
        }
        if (*map && start_source(config, "", map, err) < 0)
                return -1;
        follow(config);
        return 0;
}

/* ---- what the agent asks and says ---- */

bool agent_config_is_waiting(const struct agent_config *config)
{
        return config->kind == BY_NAME && !config->loaded.name;
}

bool agent_config_is_settled(const struct agent_config *config)
{
        return config->is_settled && !agent_config_is_waiting(config);
}

void agent_config_refresh(struct agent_config *config)
{
        complaint_settle(&config->waiting);
        complaint_settle(&config->misled);
        complaint_settle(&config->unread);
        if (config->kind == BY_NAME)
                choose(config);
}

static int read_file(struct agent_config *config, struct error *err)
{
        struct strbuf content = STRBUF_INIT;

        filewatch_accept(config->file); /* first: what changes from here on is told by the watch */
        if (file_read(config->path, CONFIG_FILE_LIMIT, &content, err) < 0) {
                strbuf_done(&content);
                return error_prefix(err, "config");
        }
        set_version(&config->wanted, config->path, "file", BY_FILE, &content);
        return 0;
}

static int load(struct agent_config *config, struct settings **ret, struct error *err)
{
        const struct version *wanted = &config->wanted;
        struct config_text text = {.name = "", .text = ""};

        config->tried[0] = '\0';
        if (config->kind == FROM_FILE && read_file(config, err) < 0)
                return -1;
        if (wanted->name) {
                text.name = shown_name(wanted);
                text.text = wanted->content.data;
                text.size = wanted->content.size;
                memcpy(config->tried, wanted->hash, sizeof(config->tried));
        }
        return settings_new(ret, config->options.options, &text, err);
}

void agent_config_refuse(struct agent_config *config, const struct error *err)
{
        if (config->kind != BY_NOTHING)
                tell(config, CONFIG_REFUSED, err->text);
}

int agent_config_load(struct agent_config *config, struct settings **ret, struct error *err)
{
        if (load(config, ret, err) < 0) {
                agent_config_refuse(config, err);
                return -1;
        }
        if (config->wanted.name)
                copy_version(&config->loaded, &config->wanted, true);
        return 0;
}

int agent_config_begin(struct agent_config *config, struct settings **ret, struct error *err)
{
        const struct config_text nothing = {.name = "", .text = ""};

        if (agent_config_load(config, ret, err) == 0)
                return 0;
        if (config->kind != BY_NAME)
                return -1;
        log_error("configuration refused, waiting for another one", LOG_ERR(err));
        return settings_new(ret, config->options.options, &nothing, err);
}

static void note_change(struct agent_config *config)
{
        bool is_on_record = strcmp(config->recorded.hash, config->loaded.hash) == 0;
        bool had_one = config->current.name;

        config->generation += had_one || !is_on_record ? 1 : 0;
        copy_version(&config->current, &config->loaded, false);
        if (config->kind == BY_NAME || had_one)
                log_info("configuration in force", LOG_STR("config", shown_name(&config->current)),
                        LOG_STR("source", config->current.source), LOG_STR("by", config->current.by),
                        LOG_UINT("generation", config->generation));
        if (had_one || (config->kind == BY_NAME && !is_on_record))
                node_events_tell(config->events, NODE_EVENT_CONFIG_APPLIED,
                        "configuration '%s' of %s, by %s, is in force; generation %" PRIu64 ", sha256 %.*s",
                        shown_name(&config->current), config->current.source, config->current.by, config->generation,
                        (int)CONFIG_HASH, config->current.hash);
}

void agent_config_in_force(struct agent_config *config)
{
        if (!config->loaded.name)
                return;
        if (!config->current.name || strcmp(config->current.hash, config->loaded.hash) != 0)
                note_change(config);
        else
                copy_version(&config->current, &config->loaded, false);
        record(config);
        /* One that was refused before it could be loaded is still wanted. */
        if (strcmp(config->tried, config->loaded.hash) == 0)
                tell(config, CONFIG_ACCEPTED, NULL);
}

static void free_config(uv_handle_t *handle)
{
        struct agent_config *config = handle->data;

        drop_version(&config->wanted);
        drop_version(&config->loaded);
        drop_version(&config->current);
        drop_version(&config->recorded);
        free(config->record);
        free(config->why);
        free(config);
}

struct agent_config *agent_config_close(struct agent_config *config)
{
        if (!config)
                return NULL;
        filewatch_close(config->file);
        config_source_close(config->source);
        node_label_close(config->label);
        config_report_close(config->report);
        uv_close((uv_handle_t *)&config->patience, free_config);
        return NULL;
}
