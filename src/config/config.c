#include "config/config.h"

#include <string.h>

#include "base/text.h"
#include "config/config_file.h"
#include "config/node_taint.h"
#include "config/pod_labels.h"
#include "config/option.h"
#include "config/word.h"

/* What counts for an option after the merge. */
struct merge {
        const struct option_set *options;
        const struct config_file *file;
};

static const char *merged(const struct merge *merge, const char *flag)
{
        size_t i = option_find(flag);

        if (merge->options->values[i])
                return merge->options->values[i];
        if (merge->file && merge->file->values[i])
                return merge->file->values[i];
        return option_table[i].fallback;
}

static bool is_default(const struct merge *merge, const char *flag)
{
        size_t i = option_find(flag);

        return !merge->options->values[i] && !(merge->file && merge->file->values[i]);
}

static bool merged_is(const struct merge *merge, const char *flag, const char *value)
{
        return strcmp(merged(merge, flag), value) == 0;
}

static const char *config_copy(const struct merge *merge, struct arena *arena, const char *flag)
{
        return arena_strdup(arena, merged(merge, flag));
}

/* A path of kubelet's: where nobody names it, the default, below the root that kubelet has. */
static const char *kubelet_path(const struct merge *merge, struct arena *arena, const char *flag)
{
        const char *path = merged(merge, flag);
        const char *root = merged(merge, "kubelet-root");
        size_t length = strlen(root);

        if (!is_default(merge, flag))
                return arena_strdup(arena, path);
        while (length > 1 && root[length - 1] == '/')
                length--;
        return arena_printf(arena, "%.*s%s", (int)length, root, path + strlen(CONFIG_KUBELET_ROOT));
}

static int check_kubelet_root(const struct merge *merge, struct error *err)
{
        const char *root = merged(merge, "kubelet-root");

        if (root[0] == '/' && root[1])
                return 0;
        return error_set(err, ERROR_INVALID,
                "kubelet-root: '%.200s' is not the absolute path of a folder, such as " CONFIG_KUBELET_ROOT, root);
}

static unsigned int choice(const struct merge *merge, const char *flag)
{
        return option_position(&option_table[option_find(flag)], merged(merge, flag));
}

/* The elements of a list option, NULL-terminated. */
static const char *const *elements(const struct merge *merge, struct arena *arena, const char *flag)
{
        char *list = arena_strdup(arena, merged(merge, flag));
        const char **words;
        size_t count = 0;

        words = ARENA_ARRAY(arena, const char *, strlen(list) / 2 + 2);
        for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
                words[count++] = word;
        return words;
}

static unsigned int device_lists(const struct merge *merge, struct arena *arena)
{
        const char *const *words = elements(merge, arena, "device-list-strategy");
        unsigned int set = 0;

        for (; *words; words++)
                for (unsigned int i = 0; device_list_words[i]; i++)
                        if (strcmp(*words, device_list_words[i]) == 0)
                                set |= 1U << i;
        return set;
}

static unsigned int extras(const struct merge *merge)
{
        return (merged_is(merge, "gdrcopy-enabled", "true") ? EXTRA_GDRCOPY : 0U) |
               (merged_is(merge, "gds-enabled", "true") ? EXTRA_GDS : 0U) |
               (merged_is(merge, "mofed-enabled", "true") ? EXTRA_MOFED : 0U);
}

static int set_dra(struct config *config, const struct merge *merge, struct arena *arena, struct error *err)
{
        struct config_dra *dra = &config->dra;

        *dra = merge->file->dra;
        dra->enabled = merged_is(merge, "dra", "true");
        dra->dynamic_mig = merged_is(merge, "dra-dynamic-mig", "true");
        dra->driver_name = config_copy(merge, arena, "dra-driver-name");
        dra->registry = kubelet_path(merge, arena, "kubelet-plugins-registry");
        dra->plugins = kubelet_path(merge, arena, "kubelet-plugins");
        dra->instance = merged_is(merge, "dra-instance", "") ? NULL : config_copy(merge, arena, "dra-instance");
        if (strlen(dra->driver_name) > CONFIG_MAX_DRIVER || !text_is_subdomain(dra->driver_name))
                return error_set(err, ERROR_INVALID,
                        "dra-driver-name: '%.100s' is not the name of a DRA driver: a DNS subdomain in lower case of at most "
                        "%zu characters, such as gpu.example.com",
                        dra->driver_name, CONFIG_MAX_DRIVER);
        return 0;
}

static void set_mig(struct config *config, const struct merge *merge, struct arena *arena)
{
        config->mig = (struct config_mig){
                .manager = merged_is(merge, "mig-manager", "true"),
                .file = config_copy(merge, arena, "mig-config-file"),
                .fallback = config_copy(merge, arena, "mig-default"),
                .state_directory = config_copy(merge, arena, "mig-state-directory"),
                .program = config_copy(merge, arena, "mig-program"),
        };
}

/* MPS cannot be described to a container without the place where it is on the host. */
static int check_mps_root(const struct option_set *options, struct config *config, struct arena *arena,
        config_warn_fn *warn, void *warn_data, struct error *err)
{
        const bool is_dra = config->dra.enabled && config->dra.mps;
        const char *who = "dra.mps";

        if ((!config->sharing.mps && !is_dra) || *config->mps_root)
                return 0;
        if (config->sharing.mps)
                who = "sharing.mps";
        if (options->is_read_only) {
                config->mps_root = "/run/nvidia/mps";
                if (warn)
                        warn(arena_printf(arena,
                                     "%s: no mpsRoot is set, so /run/nvidia/mps is assumed; an agent needs --mps-root, "
                                     "MPS_ROOT or flags.mpsRoot, which the Helm chart sets",
                                     who),
                                warn_data);
                return 0;
        }
        if (config->sharing.mps)
                who = arena_printf(
                        arena, "config '%.150s' line %d: sharing.mps", config->path, config->sharing.mps->line);
        return error_set(err, ERROR_INVALID,
                "%s: needs the directory of MPS on the host, and none is set: use --mps-root, MPS_ROOT or flags.mpsRoot, "
                "for example /run/nvidia/mps%s",
                who, config->sharing.mps ? "" : "; or dra.mps: false offers no shares");
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

/* In the order of usage_words. */
static const unsigned int usage_seconds[] = {0, 1, 5, 15, 30, 60};

static void set_paths(struct config *config, const struct merge *merge, struct arena *arena)
{
        config->driver_root = config_copy(merge, arena, "driver-root");
        config->dev_root = config_copy(merge, arena, "dev-root");
        if (!*config->dev_root)
                config->dev_root = config->driver_root;
        config->driver_root_ctr = config_copy(merge, arena, "driver-root-ctr-path");
        config->mps_root = config_copy(merge, arena, "mps-root");
        config->mps_directory = config_copy(merge, arena, "mps-directory");
        config->mps_pipes_writable = merged_is(merge, "mps-pipes-writable", "true");
        config->mps_control = config_copy(merge, arena, "mps-control");
        config->pod_resources = kubelet_path(merge, arena, "pod-resources-socket");
        config->cdi_annotation_prefix = config_copy(merge, arena, "cdi-annotation-prefix");
        config->cdi_hook_path = config_copy(merge, arena, "nvidia-cdi-hook-path");
        config->cdi_feature_flags = elements(merge, arena, "cdi-feature-flags");
        config->cdi_disable_hooks = elements(merge, arena, "cdi-disable-hooks");
        config->cdi_root = config_copy(merge, arena, "cdi-root");
        config->kubelet_socket = config_copy(merge, arena, "kubelet-socket");
        config->nvml_library = config_copy(merge, arena, "nvml-library");
        config->system_root = config_copy(merge, arena, "system-root");
        config->metrics_address = config_copy(merge, arena, "metrics-address");
        config->metrics_dcgm = merged_is(merge, "metrics-dcgm", "true");
        config->metrics_tls = merged_is(merge, "metrics-tls", "true");
        config->metrics_tls_certificate = config_copy(merge, arena, "metrics-tls-certificate");
        config->metrics_tls_key = config_copy(merge, arena, "metrics-tls-key");
        config->metrics_authorization = (enum metrics_asked)choice(merge, "metrics-authorization");
        config->metrics_node_page = (enum node_page_reader)choice(merge, "metrics-node-page");
        config->metrics_pod_labels = elements(merge, arena, "metrics-pod-labels");
        config->usage_seconds = usage_seconds[choice(merge, "usage-interval")];
        config->node_name = config_copy(merge, arena, "node-name");
        config->kubeconfig = config_copy(merge, arena, "kubeconfig");
        config->node_condition = config_copy(merge, arena, "node-condition");
        config->node_taint = config_copy(merge, arena, "node-taint");
        config->pod_name = config_copy(merge, arena, "pod-name");
        config->labels_output = (enum labels_output)choice(merge, "labels-output");
        config->events = (enum events_about)choice(merge, "events");
        config->config_annotations = merged_is(merge, "config-annotations", "true");
        config->labels_file = config_copy(merge, arena, "labels-file");
        config->log_level = config_copy(merge, arena, "log-level");
        config->log_format = config_copy(merge, arena, "log-format");
}

static void set_policy(struct config *config, const struct merge *merge, struct arena *arena)
{
        config->fail_on_init_error = merged_is(merge, "fail-on-init-error", "true");
        config->mig_strategy = (enum mig_strategy)choice(merge, "mig-strategy");
        config->discovery = (enum discovery_strategy)choice(merge, "device-discovery-strategy");
        config->id_strategy = (enum id_strategy)choice(merge, "device-id-strategy");
        config->placement = (enum placement)choice(merge, "shared-devices-allocation-policy");
        config->device_lists = device_lists(merge, arena);
        config->device_lists_are_default = is_default(merge, "device-list-strategy") && !merge->options->drop_in;
        config->pass_device_specs = merged_is(merge, "pass-device-specs", "true");
        config->extras = extras(merge);
        config->has_imex_channel = merged_is(merge, "imex-channel-ids", "0");
        config->imex_required = merged_is(merge, "imex-required", "true");
}

static void set_sections(struct config *config, const struct config_file *file)
{
        config->sharing = file->sharing;
        config->gpu_patterns = file->gpu_patterns;
        config->n_gpu_patterns = file->n_gpu_patterns;
        config->mig_patterns = file->mig_patterns;
        config->n_mig_patterns = file->n_mig_patterns;
        config->xid_rules = file->xids.rules;
        config->n_xid_rules = file->xids.count;
        config->recover = file->recover;
        config->counts_remaps = file->counts_remaps;
        config->discovery_flags = file->discovery;
}

int config_build_text(const struct option_set *options, const struct config_text *text, struct arena *arena,
        const struct config **ret, config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct config *config = ARENA_NEW(arena, struct config);
        struct config_file file;
        struct merge merge = {.options = options};

        config->path = text ? arena_strdup(arena, text->name) : config_copy(&merge, arena, "config-file");
        if (text ? config_file_parse(&file, text, options, arena, warn, warn_data, err) < 0
                 : config_file_read(&file, config->path, options, arena, warn, warn_data, err) < 0)
                return -1;
        merge.file = &file;
        if (check_kubelet_root(&merge, err) < 0)
                return -1;
        set_paths(config, &merge, arena);
        set_policy(config, &merge, arena);
        set_sections(config, &file);
        set_mig(config, &merge, arena);
        if (set_dra(config, &merge, arena, err) < 0)
                return -1;
        if (check_mps_root(options, config, arena, warn, warn_data, err) < 0 ||
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

const char *sharing_scope_name(enum sharing_scope scope)
{
        return sharing_scope_words[scope];
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

const char *guard_mode_name(enum guard_mode mode)
{
        return guard_mode_words[mode];
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
