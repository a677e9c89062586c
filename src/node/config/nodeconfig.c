// SPDX-License-Identifier: Apache-2.0
#include "node/config/nodeconfig.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/io/filewatch.h"
#include "base/log.h"
#include "node/config/choice.h"
#include "node/config/outcome.h"
#include "node/config/version.h"
#include "node/config/source.h"
#include "node/status/watch.h"

/* Without a recorded configuration, an agent waits this long for the label; then it uses the default. */
#define PATIENCE_MS UINT64_C(3000)
#define BY_FILE "file"

struct agent_config {
        struct agent_config_options options;
        enum { BY_NOTHING, FROM_FILE, BY_NAME } kind;

        const char *path; /* of the file, "" without one */
        struct filewatch *file;

        const char *map; /* the ConfigMap, "" without one */
        struct config_rules rules;
        struct kube_client *client;
        struct config_source *source;
        struct node_label *label;
        enum {
                LABEL_UNASKED, /* the cluster is not connected yet */
                LABEL_AWAITED,
                LABEL_LATE,   /* the wait for its first value is over */
                LABEL_ABSENT, /* without an API server the node counts as one without the label */
        } label_state;
        uv_timer_t patience;
        bool is_settled; /* the wanted configuration is the one that the cluster wants */
        bool is_stuck;   /* |wanted| is an earlier one: none can be chosen now, or the chosen one cannot be read */

        struct config_version *wanted; /* NULL: none is */
        struct config_version *loaded; /* likewise */
        char tried[SHA256_HEX + 1];    /* hash of the configuration that the agent last had to load */
        struct config_outcome outcome;
};

/* ---- the choice ---- */

static void choice_wait(struct agent_config *config, const char *why, bool is_start)
{
        config->is_stuck = !is_start;
        config_outcome_wait(&config->outcome, config->wanted, why, is_start);
}

static void nodeconfig_set_wanted(struct agent_config *config, struct config_version *version)
{
        config_version_unref(config->wanted);
        config->wanted = version;
}

/* Makes |name| the wanted configuration. False: it cannot be read. |name| is one of |names|, "" for the empty one. */
static bool choice_want(struct agent_config *config, const char *name, const char *by)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        if (*name && config_source_read(config->source, name, &content, &err) < 0) {
                strbuf_done(&content);
                config->tried[0] = '\0';
                config->is_stuck = true;
                config_outcome_read(&config->outcome, &err);
                return false;
        }
        config_outcome_read(&config->outcome, NULL);
        config->is_stuck = false;
        nodeconfig_set_wanted(config, config_version_new(name, config_source_name(config->source), by, &content));
        return true;
}

/*
 * Used when a configuration is wanted already and the label is not known now: keeps the name and follows its content,
 * so that a changed folder has effect even without an API server. Not before the wait for the label is over, since the
 * label may name another one.
 */
static bool nodeconfig_choose_same(struct agent_config *config, const struct config_names *names)
{
        const char *name = config->wanted->name;
        _free_ char *why = NULL;

        if (config->label_state != LABEL_LATE)
                return false;
        for (size_t i = 0; *name && i < names->count; i++)
                if (strcmp(names->names[i], name) == 0) {
                        config_outcome_choose(&config->outcome, NULL);
                        return choice_want(config, name, config->wanted->by);
                }
        if (!*name)
                return false;
        why = xasprintf("%s has no '%s' any more, and the node's label cannot be read",
                config_source_name(config->source), name);
        choice_wait(config, why, false);
        return false;
}

static bool nodeconfig_choose(struct agent_config *config)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct config_known known = {.has_label = config->label_state == LABEL_ABSENT};
        struct config_choice choice;
        struct config_names names;
        struct error err;

        if (!config->source)
                return false;
        if (config_source_list(config->source, &names, &arena, &err) < 0) {
                choice_wait(config, err.text, err.kind == ERROR_UNAVAILABLE);
                return false;
        }
        known.has_names = true;
        known.names = names.names;
        known.n_names = names.count;
        if (config->label && node_label_is_known(config->label)) {
                known.has_label = true;
                known.label = node_label_value(config->label);
        }
        if (!known.has_label && config->wanted)
                return nodeconfig_choose_same(config, &names);
        choice = known.has_label || config->label_state != LABEL_LATE
                         ? config_choose(&config->rules, &known, &arena)
                         : config_choose_early(&config->rules, &known, &arena);
        if (choice.kind == CONFIG_CHOICE_NONE) {
                choice_wait(config, choice.why, !known.has_label);
                return false;
        }
        config_outcome_choose(&config->outcome, &choice);
        config->is_settled = known.has_label;
        return choice_want(config, choice.name ? choice.name : "", config_reason_name(choice.reason));
}

/* If the wanted configuration differs from the last one that the agent was given, makes the agent load it. */
static void nodeconfig_follow(struct agent_config *config)
{
        if (!nodeconfig_choose(config))
                return;
        if (strcmp(config->wanted->hash, config->tried) != 0) {
                log_info(config->loaded ? "the configuration changed" : "configuration chosen",
                        LOG_STR("config", config_version_name(config->wanted)),
                        LOG_STR("source", config->wanted->source), LOG_STR("by", config->wanted->by));
                config->options.changed(config->options.data);
                return;
        }
        if (!config_version_is_same(config->loaded, config->wanted))
                return; /* it was refused */
        /* The content is the same, but the name or the rule may differ. */
        config_version_set(&config->loaded, config->wanted);
        if (config_version_is_same(config->outcome.current, config->loaded))
                agent_config_in_force(config);
}

static void on_nodeconfig_source(void *data)
{
        nodeconfig_follow(data);
}

static void on_nodeconfig_label(void *data)
{
        struct agent_config *config = data;
        const char *value = node_label_value(config->label);

        log_info("the node's label", LOG_STR("value", *value ? value : NULL));
        nodeconfig_follow(config);
}

static void on_late(uv_timer_t *timer)
{
        struct agent_config *config = timer->data;

        config->label_state = LABEL_LATE;
        nodeconfig_follow(config);
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

static void on_nodeconfig_file_changed(void *data)
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
                .changed = on_nodeconfig_file_changed,
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
                .changed = on_nodeconfig_source,
                .trouble = on_map_trouble,
                .data = config,
        };

        return config_source_new(&config->source, &options, err);
}

/* Makes the last good configuration the wanted one, if there is a record and it can be loaded. */
static void begin_with_record(struct agent_config *config, const char *path)
{
        struct config_version *record;
        struct settings *settings = NULL;
        struct config_text text;
        uint64_t generation;
        struct error err;
        int rc = config_record_read(&record, &generation, path, &err);

        if (rc == CONFIG_RECORD_NONE)
                return;
        if (rc == 0) {
                nodeconfig_set_wanted(config, record);
                text = (struct config_text){record->name, record->content.data, record->content.size};
                rc = settings_new(&settings, config->options.options, &text, &err);
        }
        if (rc < 0) {
                config_version_set(&config->wanted, NULL);
                log_warn("the last good configuration cannot be used", LOG_ERR(&err));
                return;
        }
        settings_unref(settings);
        log_info("starting with the last good configuration", LOG_STR("config", config_version_name(record)),
                LOG_STR("source", record->source));
}

static int start_by_name(struct agent_config *config, const char *folder, const char *map, struct error *err)
{
        const struct option_set *options = config->options.options;
        char *record = xasprintf("%s/" CONFIG_RECORD_NAME, option_set_value(options, "mps-directory"));

        config->rules = config_rules_of(
                option_set_value(options, "config-default"), option_set_value(options, "config-fallback-strategies"));
        config_outcome_init(&config->outcome, record);
        if (!*folder && config_source_check_map(map, err) < 0)
                return error_prefix(err, "config-map");
        if (!*option_set_value(options, "config-label"))
                return error_set(err, ERROR_INVALID, "config-label: must not be empty");
        begin_with_record(config, record);
        if (!*folder)
                return 0; /* the API server is asked once there is a client */
        return start_source(config, folder, NULL, err);
}

/*
 * Returns the value of |flag|, one of three alternative sources, or "". If the command line names one of them, the
 * environment variables of the others are ignored.
 */
static const char *pick(const struct option_set *options, const char *flag)
{
        static const char *const flags[] = {"config-file", "config-dir", "config-map"};
        const char *value = option_set_value(options, flag);

        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
                if (options->sources[option_find(flag)] == OPTION_ENVIRONMENT && *option_set_value(options, flags[i]) &&
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
                        "config-file, config-dir and config-map exclude each other: a file is one configuration for "
                        "the node, the others hold several, of which the node's label selects one");
        config = xcalloc(1, sizeof(*config));
        config->options = *options;
        uv_timer_init(options->loop, &config->patience);
        config->patience.data = config;
        config->path = path;
        config->map = map;
        config_outcome_init(&config->outcome, NULL);
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

static void watch_label(struct agent_config *config, struct node_watch *watch)
{
        const struct node_label_options options = {
                .watch = watch,
                .key = option_set_value(config->options.options, "config-label"),
                .changed = on_nodeconfig_label,
                .trouble = on_label_trouble,
                .data = config,
        };

        config->label = node_label_new(&options);
        uv_timer_start(&config->patience, on_late, PATIENCE_MS, 0);
}

int agent_config_connect(struct agent_config *config, const struct agent_config_cluster *cluster, struct error *err)
{
        const char *map = config->map;
        struct agent_config_cluster reported = *cluster;

        reported.has_annotations = cluster->has_annotations && config->kind != BY_NOTHING;
        config_outcome_connect(&config->outcome, &reported);
        config->client = cluster->client;
        config->label_state = cluster->client ? LABEL_AWAITED : LABEL_ABSENT;
        if (config->kind != BY_NAME)
                return 0;
        if (config->client) {
                watch_label(config, cluster->watch);
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
        nodeconfig_follow(config);
        return 0;
}

/* ---- called by the agent ---- */

bool agent_config_is_waiting(const struct agent_config *config)
{
        return config->kind == BY_NAME && !config->loaded;
}

bool agent_config_is_settled(const struct agent_config *config)
{
        return config->is_settled && !agent_config_is_waiting(config);
}

void agent_config_refresh(struct agent_config *config)
{
        config_outcome_forget_complaints(&config->outcome);
        if (config->kind == BY_NAME)
                nodeconfig_choose(config);
}

static int nodeconfig_read_file(struct agent_config *config, struct error *err)
{
        struct strbuf content = STRBUF_INIT;

        filewatch_accept(config->file); /* first, so that the watch reports later changes */
        if (file_read(config->path, CONFIG_FILE_LIMIT, &content, err) < 0) {
                strbuf_done(&content);
                return error_prefix(err, "config");
        }
        nodeconfig_set_wanted(config, config_version_new(config->path, "file", BY_FILE, &content));
        return 0;
}

static int nodeconfig_load(struct agent_config *config, struct settings **ret, struct error *err)
{
        const struct config_version *wanted;
        struct config_text text = {.name = "", .text = ""};

        config->tried[0] = '\0';
        if (config->kind == FROM_FILE && nodeconfig_read_file(config, err) < 0)
                return -1;
        wanted = config->wanted;
        if (wanted) {
                text.name = config_version_name(wanted);
                text.text = wanted->content.data;
                text.size = wanted->content.size;
                memcpy(config->tried, wanted->hash, sizeof(config->tried));
        }
        return settings_new(ret, config->options.options, &text, err);
}

int agent_config_load(struct agent_config *config, struct settings **ret, struct error *err)
{
        if (nodeconfig_load(config, ret, err) < 0) {
                agent_config_refuse(config, err);
                return -1;
        }
        if (config->wanted)
                config_version_set(&config->loaded, config->wanted);
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

void agent_config_refuse(struct agent_config *config, const struct error *err)
{
        if (config->kind != BY_NOTHING)
                config_outcome_refuse(&config->outcome, err->text);
}

void agent_config_in_force(struct agent_config *config)
{
        /* If the wanted configuration could not be loaded, it is still wanted and refused. */
        if (config->loaded)
                config_outcome_accept(&config->outcome, config->loaded,
                        !config->is_stuck && strcmp(config->tried, config->loaded->hash) == 0);
}

void agent_config_serve(struct agent_config *config, bool is_serving)
{
        if (is_serving)
                config_outcome_serve(
                        &config->outcome, config->loaded, config->wanted, config->is_stuck || !config->loaded);
        else
                config_outcome_stop(&config->outcome);
}

bool agent_config_status(const struct agent_config *config, struct config_status *ret)
{
        if (!config || config->kind == BY_NOTHING)
                return false;
        *ret = config_outcome_status(&config->outcome);
        return true;
}

static void free_config(uv_handle_t *handle)
{
        struct agent_config *config = handle->data;

        config_version_unref(config->wanted);
        config_version_unref(config->loaded);
        free(config);
}

struct agent_config *agent_config_close(struct agent_config *config)
{
        if (!config)
                return NULL;
        filewatch_close(config->file);
        config_source_close(config->source);
        node_label_close(config->label);
        config_outcome_done(&config->outcome);
        uv_close((uv_handle_t *)&config->patience, free_config);
        return NULL;
}
