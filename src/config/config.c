#include "config/config.h"

#include <string.h>

#include "config/config_file.h"
#include "config/option.h"

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

static bool merged_is(const struct merge *merge, const char *flag, const char *value)
{
        return strcmp(merged(merge, flag), value) == 0;
}

static const char *copy(const struct merge *merge, struct arena *arena, const char *flag)
{
        return arena_strdup(arena, merged(merge, flag));
}

/* MPS cannot be described to a container without the place where it is on the host. */
static int check_mps_root(const struct config *config, struct error *err)
{
        if (!config->sharing.mps || *config->mps_root)
                return 0;
        return error_set(err, ERROR_INVALID,
                "config '%.150s' line %d: sharing.mps: needs the directory of MPS on the host, and none is set: use "
                "--mps-root, MPS_ROOT or flags.mpsRoot, for example /run/nvidia/mps",
                config->path, config->sharing.mps->line);
}

int config_build(const struct option_set *options, struct arena *arena, const struct config **ret, config_warn_fn *warn,
        void *warn_data, struct error *err)
{
        struct config *config = ARENA_NEW(arena, struct config);
        struct config_file file;
        struct merge merge = {.options = options};

        config->path = copy(&merge, arena, "config-file");
        if (config_file_read(&file, config->path, options, arena, warn, warn_data, err) < 0)
                return -1;
        merge.file = &file;
        config->fail_on_init_error = merged_is(&merge, "fail-on-init-error", "true");
        config->mig_strategy = MIG_STRATEGY_NONE;
        config->driver_root = copy(&merge, arena, "driver-root");
        config->dev_root = config->driver_root;
        config->driver_root_ctr = copy(&merge, arena, "driver-root-ctr-path");
        config->mps_root = copy(&merge, arena, "mps-root");
        config->id_strategy = merged_is(&merge, "device-id-strategy", "index") ? ID_STRATEGY_INDEX : ID_STRATEGY_UUID;
        config->device_lists = DEVICE_LIST_ENVVAR;
        config->recover = true;
        config->placement = merged_is(&merge, "shared-devices-allocation-policy", "packed") ? PLACEMENT_PACKED
                                                                                            : PLACEMENT_DISTRIBUTED;
        config->system_root = "";
        config->cdi_root = "/var/run/cdi";
        config->kubelet_socket = copy(&merge, arena, "kubelet-socket");
        config->nvml_library = copy(&merge, arena, "nvml-library");
        config->log_level = copy(&merge, arena, "log-level");
        config->log_format = copy(&merge, arena, "log-format");
        config->sharing = file.sharing;
        if (check_mps_root(config, err) < 0)
                return -1;
        *ret = config;
        return 0;
}

const char *sharing_strategy_name(enum sharing_strategy strategy)
{
        static const char *const names[] = {
                [SHARING_NONE] = "none", [SHARING_TIME_SLICING] = "time-slicing", [SHARING_MPS] = "mps"};

        return names[strategy];
}

const char *provisioning_name(enum provisioning provisioning)
{
        static const char *const names[] = {
                [PROVISIONING_UNIFORM] = "uniform", [PROVISIONING_HALF] = "half", [PROVISIONING_WEIGHTED] = "weighted"};

        return names[provisioning];
}

const char *placement_name(enum placement placement)
{
        static const char *const names[] = {[PLACEMENT_DISTRIBUTED] = "distributed",
                [PLACEMENT_PACKED] = "packed",
                [PLACEMENT_DISTINCT] = "distinct",
                [PLACEMENT_SAME_GPU] = "same-gpu"};

        return names[placement];
}

const char *mig_strategy_name(enum mig_strategy strategy)
{
        static const char *const names[] = {
                [MIG_STRATEGY_NONE] = "none", [MIG_STRATEGY_SINGLE] = "single", [MIG_STRATEGY_MIXED] = "mixed"};

        return names[strategy];
}
