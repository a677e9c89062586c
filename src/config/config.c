#include "config/config.h"

#include <string.h>

#include "base/text.h"
#include "config/config_file.h"
#include "config/node_taint.h"
#include "config/pod_labels.h"
#include "config/option.h"
#include "config/word.h"

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

/* ---- options ---- */

/* The value set on command line, in the environment or in the file; NULL: the default counts. */
static const char *set_value(const struct config_reading *reading, size_t position)
{
        return reading->options->values[position] ? reading->options->values[position] : reading->values[position];
}

/* The elements of a list that is joined by commas, NULL-terminated. */
static const char *const *split_words(struct arena *arena, const char *value)
{
        char *list = arena_strdup(arena, value);
        const char **words = ARENA_ARRAY(arena, const char *, strlen(list) / 2 + 2);
        size_t count = 0;

        for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
                words[count++] = word;
        return words;
}

static void store_option(const struct config_reading *reading, const struct option *option, const char *value)
{
        void *member = (char *)reading->config + option->offset;
        const bool is_on = *value && strcmp(value, "false") != 0;
        unsigned int position;

        switch (option->member) {
        case OPTION_APART:
                break;
        case OPTION_TO_TEXT:
                *(const char **)member = arena_strdup(reading->arena, value);
                break;
        case OPTION_TO_BOOL:
                *(bool *)member = is_on;
                break;
        case OPTION_TO_BIT:
                *(unsigned int *)member |= is_on ? option->bit : 0;
                break;
        case OPTION_TO_NUMBER:
                position = option_position(option, value);
                *(unsigned int *)member = option->values ? option->values[position] : position;
                break;
        case OPTION_TO_SET:
                for (const char *const *word = split_words(reading->arena, value); *word; word++)
                        *(unsigned int *)member |= 1U << option_position(option, *word);
                break;
        case OPTION_TO_WORDS:
                *(const char *const **)member = split_words(reading->arena, value);
                break;
        }
}

static int store_options(const struct config_reading *reading, struct error *err)
{
        const size_t root_position = option_find("kubelet-root");
        const char *set_root = set_value(reading, root_position);
        const char *root = set_root ? set_root : option_table[root_position].fallback;
        size_t length = strlen(root);

        if (root[0] != '/' || !root[1])
                return error_set(err, ERROR_INVALID,
                        "kubelet-root: '%.200s' is not the absolute path of a folder, such as " CONFIG_KUBELET_ROOT,
                        root);
        while (length > 1 && root[length - 1] == '/')
                length--;
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char *value = set_value(reading, i);

                /* Where nobody names a path of kubelet's, it is the default, below the root that kubelet has. */
                if (!value && option->is_below_kubelet)
                        value = arena_printf(reading->arena, "%.*s%s", (int)length, root,
                                option->fallback + strlen(CONFIG_KUBELET_ROOT));
                store_option(reading, option, value ? value : option->fallback);
        }
        return 0;
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
        const size_t lists = option_find("device-list-strategy");
        const char *path = option_set_value(options, "config-file");
        struct config_reading reading = {.options = options,
                .arena = arena,
                .warn = warn,
                .warn_data = warn_data,
                .config = config,
                .values = ARENA_ARRAY(arena, const char *, option_count)};

        *config = config_initial;
        if (text ? config_file_parse(&reading, text, err) < 0 : config_file_read(&reading, path, err) < 0)
                return -1;
        if (store_options(&reading, err) < 0)
                return -1;
        config->path = arena_strdup(arena, text ? text->name : path);
        config->device_lists_are_default = !set_value(&reading, lists) && !options->drop_in;
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

const char *sharing_strategy_name(enum sharing_strategy strategy)
{
        return sharing_strategy_words[strategy];
}

const char *provisioning_name(enum provisioning provisioning)
{
        return provisioning_words[provisioning];
}

const char *placement_name(enum placement placement)
{
        return placement_words[placement];
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

const char *daemon_scope_name(enum daemon_scope scope)
{
        return daemon_scope_words[scope];
}

const char *mps_tier_name(enum mps_tier tier)
{
        return mps_tier_words[tier];
}

const char *mps_tier_promise(enum mps_tier tier, bool limits_memory)
{
        static const char *const unlimited[] = {
                [MPS_TIER_DEFAULT] = "default-no-memory-limit",
                [MPS_TIER_VERIFIED] = "verified-no-memory-limit",
                [MPS_TIER_PARTITION] = "partition-no-memory-limit",
                [MPS_TIER_NAMESPACE] = "namespace-no-memory-limit",
        };

        return limits_memory ? mps_tier_name(tier) : unlimited[tier];
}

const char *mig_strategy_name(enum mig_strategy strategy)
{
        return mig_strategy_words[strategy];
}
