#include "config/config.h"

#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "config/config_reading.h"
#include "config/node_taint.h"
#include "config/pod_labels.h"

/* The defaults of the keys; those of options are in their table. */
static const struct config config_initial = {
        .health.recover = true,
        .dra = {.whole = true,
                .mps = true,
                .slots = 4,
                .default_thread_percentage = 10,
                .default_clients = 1,
                .shares = 4},
};

/* ---- a Kubernetes manifest in the place of a configuration: people have a ConfigMap, and give its file ---- */

static const char *manifest_keys(struct arena *arena, json_t *data)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *key;
        json_t *value;

        json_object_foreach(data, key, value) strbuf_printf(&text, "%s%.60s", text.size ? ", " : "", key);
        return arena_strndup(arena, text.data, text.size < 200 ? text.size : 200);
}

/*
 * 1: |yaml| is a ConfigMap, and |ret| is the configuration in it: the one that |chosen| names, else the only one. 0: it
 * is not a manifest. -1: it has none, or several, or it is a manifest of something else.
 */
static int manifest_open(
        struct config_text *ret, const struct yaml *yaml, const char *chosen, struct arena *arena, struct error *err)
{
        const char *kind = json_string_value(json_object_get(yaml->root, "kind"));
        json_t *data = json_object_get(yaml->root, "data");
        const json_t *text;
        const char *key;

        if (!kind || !json_object_get(yaml->root, "apiVersion"))
                return 0;
        if (strcmp(kind, "ConfigMap") != 0)
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "kind"), err,
                        "kind: a manifest of a '%.60s'; a configuration is the file itself, or the ConfigMap that has it",
                        kind);
        if (!json_object_size(data))
                return yaml_fail(yaml, yaml_line(yaml, yaml->root), err, "data: the ConfigMap has no configuration");
        if (!*chosen && json_object_size(data) > 1)
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "data"), err,
                        "data: several configurations: %s; name one by --config-default", manifest_keys(arena, data));
        key = *chosen ? chosen : json_object_iter_key(json_object_iter(data));
        text = json_object_get(data, key);
        if (!json_is_string(text))
                return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "data"), err,
                        "data: no configuration '%.60s' among: %s", key, manifest_keys(arena, data));
        ret->text = arena_strndup(arena, json_string_value(text), json_string_length(text));
        ret->size = strlen(ret->text);
        ret->name = arena_printf(arena, "%.100s: %.40s", ret->name, key);
        return 1;
}

/* ---- the file ---- */

static void ignore_warning(const char *text UNUSED, void *data UNUSED)
{
}

static int config_read_text(struct config_reading *reading, const struct config_text *text, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(reading->arena, "config '%.150s'", text->name);
        struct tree tree = {.arena = reading->arena,
                .warn = reading->warn ? reading->warn : ignore_warning,
                .warn_data = reading->warn_data};
        struct tree_node root = {.path = "", .fold = true};
        struct sharing_defaults defaults = {.drop_in = reading->options->drop_in};
        struct config_text inner = {.name = text->name};
        int rc;

        if (yaml_load(&yaml, name, text->text, text->size, tree.warn, tree.warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        rc = manifest_open(&inner, yaml, option_set_value(reading->options, "config-default"), reading->arena, err);
        if (rc < 0)
                return -1;
        if (rc > 0)
                return config_read_text(reading, &inner, err); /* lines are counted within that text */
        tree.yaml = yaml;
        root.json = yaml->root;
        root.line = yaml_line(yaml, yaml->root);
        if (schema_read(&tree, &root, &schema_file, reading->config, err) < 0 ||
                config_options_read(reading, &tree, &root, err) < 0 ||
                config_dra_check(&reading->config->dra, &tree, &root, err) < 0)
                return -1;
        defaults.policy = config_option_set(reading, "shared-devices-allocation-policy");
        return config_sharing_build(&reading->config->sharing, &tree, &root, &defaults, err);
}

/* Reads |text|, or the file at |path| where it is NULL; "" is an empty file. */
static int config_read_file(
        struct config_reading *reading, const struct config_text *text, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct config_text file = {.name = path};

        if (!text) {
                if (*path && file_read(path, CONFIG_FILE_LIMIT, &content, err) < 0)
                        return error_prefix(err, "config");
                file.text = content.data;
                file.size = content.size;
                text = &file;
        }
        if (text->size > CONFIG_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "config '%.150s': %zu bytes are more than the limit of %zu",
                        text->name, text->size, CONFIG_FILE_LIMIT);
        return config_read_text(reading, text, err);
}

/* ---- options and keys together ---- */

static int check_driver_name(const char *name, struct error *err)
{
        if (strlen(name) <= CONFIG_MAX_DRIVER && text_is_subdomain(name))
                return 0;
        return error_set(err, ERROR_INVALID,
                "dra-driver-name: '%.100s' is not the name of a DRA driver: a DNS subdomain in lower case of at most "
                "%zu characters, such as gpu.example.com",
                name, CONFIG_MAX_DRIVER);
}

/* MPS cannot be described to a container without the place where it is on the host. */
static int check_mps_root(const struct config_reading *reading, struct error *err)
{
        struct config *config = reading->config;
        const struct sharing_section *section = config->sharing.mps;

        if (*config->mps.root || (!section && !(config->dra.enabled && config->dra.mps)))
                return 0;
        if (reading->options->is_read_only) {
                config->mps.root = "/run/nvidia/mps";
                if (reading->warn)
                        reading->warn(arena_printf(reading->arena,
                                              "%s: no mpsRoot is set, so /run/nvidia/mps is assumed; an agent needs "
                                              "--mps-root, MPS_ROOT or flags.mpsRoot, which the Helm chart sets",
                                              section ? "sharing.mps" : "dra.mps"),
                                reading->warn_data);
                return 0;
        }
        return error_set(err, ERROR_INVALID,
                "%s: needs the directory of MPS on the host, and none is set: use --mps-root, MPS_ROOT or flags.mpsRoot, "
                "for example /run/nvidia/mps%s",
                section ? arena_printf(
                                  reading->arena, "config '%.150s' line %d: sharing.mps", config->path, section->line)
                        : "dra.mps",
                section ? "" : "; or dra.mps: false offers no shares");
}

static int check_node_taint_and_condition(const struct config *config, struct arena *arena, struct error *err)
{
        struct node_taint taint;

        if (*config->node.condition && node_condition_check(config->node.condition, err) < 0)
                return error_prefix(err, "--node-condition");
        if (*config->node.taint && node_taint_parse(&taint, arena, config->node.taint, err) < 0)
                return error_prefix(err, "--node-taint");
        return 0;
}

static int check_tls(const struct config *config, struct error *err)
{
        if (!*config->metrics.tls_certificate != !*config->metrics.tls_key)
                return error_set(err, ERROR_INVALID,
                        "--metrics-tls-certificate and --metrics-tls-key belong together: give both, or neither and one is made");
        if (*config->metrics.tls_certificate && !config->metrics.tls)
                return error_set(err, ERROR_INVALID, "--metrics-tls-certificate is for --metrics-tls");
        return 0;
}

static int name_pod_labels(struct config *config, struct arena *arena, struct error *err)
{
        if (pod_labels_name(&config->metrics.pod_label_names, arena, config->metrics.pod_labels, err) < 0)
                return error_prefix(err, "--metrics-pod-labels");
        return 0;
}

int config_build_text(const struct option_set *options, const struct config_text *text, struct arena *arena,
        const struct config **ret, config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct config *config = ARENA_NEW(arena, struct config);
        const char *path = option_set_value(options, "config-file");
        struct config_reading reading = {.options = options,
                .arena = arena,
                .warn = warn,
                .warn_data = warn_data,
                .config = config,
                .values = ARENA_ARRAY(arena, const char *, option_count)};

        *config = config_initial;
        if (config_read_file(&reading, text, path, err) < 0 || config_options_store(&reading, err) < 0)
                return -1;
        config->path = arena_strdup(arena, text ? text->name : path);
        config->devices.lists_are_default = !config_option_set(&reading, "device-list-strategy") && !options->drop_in;
        if (!*config->driver.dev_root)
                config->driver.dev_root = config->driver.root;
        if (!*config->dra.instance)
                config->dra.instance = NULL;
        if (check_driver_name(config->dra.driver_name, err) < 0 || check_mps_root(&reading, err) < 0 ||
                check_node_taint_and_condition(config, arena, err) < 0 || name_pod_labels(config, arena, err) < 0 ||
                check_tls(config, err) < 0)
                return -1;
        *ret = config;
        return 0;
}

int config_build(const struct option_set *options, struct arena *arena, const struct config **ret, config_warn_fn *warn,
        void *warn_data, struct error *err)
{
        return config_build_text(options, NULL, arena, ret, warn, warn_data, err);
}

bool config_adds_cdi(const struct config *config)
{
        const struct sharing_section *sections[] = {config->sharing.mps, config->sharing.time_slicing};

        for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
                if (config->devices.lists_are_default && sections[i] &&
                        (sections[i]->scope == SCOPE_INDIVIDUAL || sections[i]->provisioning == PROVISIONING_DECLARED))
                        return true;
        return false;
}
