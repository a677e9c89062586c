#include "config/config.h"

#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "config/config_manifest.h"
#include "config/config_reading.h"
#include "config/node_taint.h"
#include "config/pod_labels.h"

/* What counts where the file is silent, except options, whose defaults are in their table. */
static const struct config config_initial = {
        .recover = true,
        .dra = {.whole = true,
                .mps = true,
                .slots = 4,
                .default_thread_percentage = 10,
                .default_clients = 1,
                .shares = 4},
};

/* ---- the file ---- */

static int read_text(struct config_reading *reading, const struct config_text *text, struct error *err);

/* 1: it was a ConfigMap, and the configuration in it was read. Lines are counted within that. */
static int read_manifest(
        struct config_reading *reading, const struct yaml *yaml, const struct config_text *text, struct error *err)
{
        const char *found;
        const char *name;
        const int rc = config_manifest_open(
                yaml, option_set_value(reading->options, "config-default"), reading->arena, &found, &name, err);

        if (rc <= 0)
                return rc;
        const struct config_text inner = {.name = arena_printf(reading->arena, "%.100s: %.40s", text->name, name),
                .text = found,
                .size = strlen(found)};

        return read_text(reading, &inner, err) < 0 ? -1 : 1;
}

static void ignore_warning(const char *text UNUSED, void *data UNUSED)
{
}

static int read_text(struct config_reading *reading, const struct config_text *text, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(reading->arena, "config '%.150s'", text->name);
        struct tree tree = {.arena = reading->arena,
                .warn = reading->warn ? reading->warn : ignore_warning,
                .warn_data = reading->warn_data};
        struct tree_node root = {.path = "", .fold = true};
        struct sharing_defaults defaults = {.drop_in = reading->options->drop_in};
        int rc;

        if (yaml_load(&yaml, name, text->text, text->size, tree.warn, tree.warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        rc = read_manifest(reading, yaml, text, err);
        if (rc)
                return MIN(rc, 0);
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
static int read_file(
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
        return read_text(reading, text, err);
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

        if (*config->mps_root || (!section && !(config->dra.enabled && config->dra.mps)))
                return 0;
        if (reading->options->is_read_only) {
                config->mps_root = "/run/nvidia/mps";
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

        if (*config->node_condition && node_condition_check(config->node_condition, err) < 0)
                return error_prefix(err, "--node-condition");
        if (*config->node_taint && node_taint_parse(&taint, arena, config->node_taint, err) < 0)
                return error_prefix(err, "--node-taint");
        return 0;
}

static int check_tls(const struct config *config, struct error *err)
{
        if (!*config->metrics_tls_certificate != !*config->metrics_tls_key)
                return error_set(err, ERROR_INVALID,
                        "--metrics-tls-certificate and --metrics-tls-key belong together: give both, or neither and one is made");
        if (*config->metrics_tls_certificate && !config->metrics_tls)
                return error_set(err, ERROR_INVALID, "--metrics-tls-certificate is for --metrics-tls");
        return 0;
}

static int name_pod_labels(struct config *config, struct arena *arena, struct error *err)
{
        if (pod_labels_name(&config->metrics_pod_label_names, arena, config->metrics_pod_labels, err) < 0)
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
        if (read_file(&reading, text, path, err) < 0 || config_options_store(&reading, err) < 0)
                return -1;
        config->path = arena_strdup(arena, text ? text->name : path);
        config->device_lists_are_default = !config_option_set(&reading, "device-list-strategy") && !options->drop_in;
        if (!*config->dev_root)
                config->dev_root = config->driver_root;
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
                if (config->device_lists_are_default && sections[i] &&
                        (sections[i]->scope == SCOPE_INDIVIDUAL || sections[i]->provisioning == PROVISIONING_DECLARED))
                        return true;
        return false;
}
