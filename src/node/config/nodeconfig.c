#include "node/config/parts.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "config/option.h"
#include "node/config/record.h"

/* Without a recorded configuration, an agent waits this long for the label; then it uses the default. */
#define PATIENCE_MS UINT64_C(3000)
#define BY_FILE "file"

/* ---- the choice ---- */

/* Makes |name| the wanted configuration. False: it cannot be read. |name| is one of |names|, "" for the empty one. */
static bool want(struct agent_config *config, const char *name, const char *by)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        if (*name && config_source_read(config->source, name, &content, &err) < 0) {
                strbuf_done(&content);
                agent_config_report_unread(config, &err);
                return false;
        }
        complaint_settle(&config->unread);
        config->is_stuck = false;
        config_version_set(&config->wanted, name, config_source_name(config->source), by, &content);
        return true;
}

/*
 * Used when a configuration is wanted already and the label is not known now: keeps the name and follows its content,
 * so that a changed folder has effect even without an API server. Not before the wait for the label is over, since the
 * label may name another one.
 */
static bool choose_same(struct agent_config *config, const struct config_names *names)
{
        const char *name = config->wanted.name;
        _free_ char *why = NULL;

        if (!config->is_late)
                return false;
        for (size_t i = 0; *name && i < names->count; i++)
                if (strcmp(names->names[i], name) == 0) {
                        complaint_settle(&config->waiting);
                        return want(config, name, config->wanted.by);
                }
        if (!*name)
                return false;
        why = xasprintf("%s has no '%s' any more, and the node's label cannot be read",
                config_source_name(config->source), name);
        agent_config_report_waiting(config, why, false);
        return false;
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
                agent_config_report_waiting(config, err.text, err.kind == ERROR_UNAVAILABLE);
                return false;
        }
        known.has_names = true;
        known.names = names.names;
        known.n_names = names.count;
        if (config->label && node_label_is_known(config->label)) {
                known.has_label = true;
                known.label = node_label_value(config->label);
        }
        if (!known.has_label && config->wanted.name)
                return choose_same(config, &names);
        choice = known.has_label || !config->is_late ? config_choose(&config->rules, &known, &arena)
                                                     : config_choose_early(&config->rules, &known, &arena);
        if (choice.kind == CONFIG_CHOICE_NONE) {
                agent_config_report_waiting(config, choice.why, !known.has_label);
                return false;
        }
        complaint_settle(&config->waiting);
        agent_config_report_fallback(config, &choice);
        config->is_settled = known.has_label;
        return want(config, choice.name ? choice.name : "", config_reason_name(choice.reason));
}

/* If the wanted configuration differs from the last one that the agent was given, makes the agent load it. */
static void nodeconfig_follow(struct agent_config *config)
{
        if (!choose(config))
                return;
        if (strcmp(config->wanted.hash, config->tried) != 0) {
                log_info(config->loaded.name ? "the configuration changed" : "configuration chosen",
                        LOG_STR("config", config_version_name(&config->wanted)),
                        LOG_STR("source", config->wanted.source), LOG_STR("by", config->wanted.by));
                config->options.changed(config->options.data);
                return;
        }
        if (strcmp(config->loaded.hash, config->wanted.hash) != 0)
                return; /* it was refused */
        /* The content is the same, but the name or the rule may differ. */
        config_version_copy(&config->loaded, &config->wanted, true);
        if (config->current.name && strcmp(config->current.hash, config->loaded.hash) == 0)
                agent_config_in_force(config);
}

static void on_change(void *data)
{
        nodeconfig_follow(data);
}

static void on_label(void *data)
{
        struct agent_config *config = data;
        const char *value = node_label_value(config->label);

        log_info("the node's label", LOG_STR("value", *value ? value : NULL));
        nodeconfig_follow(config);
}

static void on_late(uv_timer_t *timer)
{
        struct agent_config *config = timer->data;

        config->is_late = true;
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
                option_set_value(options, "config-default"), option_set_value(options, "config-fallback-strategies"));
        config->record = xasprintf("%s/" CONFIG_RECORD_NAME, option_set_value(options, "mps-directory"));
        if (!*folder && config_source_check_map(map, err) < 0)
                return error_prefix(err, "config-map");
        if (!*option_set_value(options, "config-label"))
                return error_set(err, ERROR_INVALID, "config-label: must not be empty");
        agent_config_begin_with_record(config);
        if (!*folder)
                return 0; /* the API server is asked once there is a client */
        return start_source(config, folder, NULL, err);
}

/*
 * Of the three sources the command line may name one; then environment variables for the others do not count. "": not
 * this one.
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
        config_version_drop(&config->wanted);
        config_version_drop(&config->loaded);
        config_version_drop(&config->current);
        config_version_drop(&config->recorded);
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
                .changed = on_label,
                .trouble = on_label_trouble,
                .data = config,
        };

        config->label = node_label_new(&options);
        uv_timer_start(&config->patience, on_late, PATIENCE_MS, 0);
}

int agent_config_connect(struct agent_config *config, const struct agent_config_cluster *cluster, struct error *err)
{
        const char *map = config->map;

        config->events = cluster->events;
        config->is_connected = true;
        config->client = cluster->client;
        config->watch = cluster->watch;
        config->has_annotations = cluster->has_annotations;
        config->node = xstrdup(cluster->node);
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

        filewatch_accept(config->file); /* first, so that the watch reports later changes */
        if (file_read(config->path, CONFIG_FILE_LIMIT, &content, err) < 0) {
                strbuf_done(&content);
                return error_prefix(err, "config");
        }
        config_version_set(&config->wanted, config->path, "file", BY_FILE, &content);
        return 0;
}

static int nodeconfig_load(struct agent_config *config, struct settings **ret, struct error *err)
{
        const struct config_version *wanted = &config->wanted;
        struct config_text text = {.name = "", .text = ""};

        config->tried[0] = '\0';
        if (config->kind == FROM_FILE && read_file(config, err) < 0)
                return -1;
        if (wanted->name) {
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
        if (config->wanted.name)
                config_version_copy(&config->loaded, &config->wanted, true);
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

static void free_config(uv_handle_t *handle)
{
        struct agent_config *config = handle->data;

        config_version_drop(&config->wanted);
        config_version_drop(&config->loaded);
        config_version_drop(&config->current);
        config_version_drop(&config->recorded);
        free(config->record);
        free(config->node);
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
        node_apply_close(config->report);
        uv_close((uv_handle_t *)&config->patience, free_config);
        return NULL;
}
