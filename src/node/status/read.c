// SPDX-License-Identifier: Apache-2.0
#include "node/status/read.h"

#include "gpu/nvml_read.h"
#include "gpu/platform.h"

enum platform_choice node_platform_choice(const struct config *config)
{
        static const enum platform_choice choices[] = {
                [DISCOVERY_AUTO] = PLATFORM_CHOICE_AUTO,
                [DISCOVERY_NVML] = PLATFORM_CHOICE_NVML,
                [DISCOVERY_TEGRA] = PLATFORM_CHOICE_TEGRA,
        };

        return choices[config->discovery];
}

int node_read(struct inventory **ret, const struct config *config, struct error *err)
{
        const struct gpu_paths paths = {.system_root = config->system_root, .driver_root = config->driver.mounted_root};
        enum platform_choice choice = node_platform_choice(config);
        enum platform platform = platform_detect(choice, &paths, config->driver.nvml_library, platform_can_load);
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        struct inventory *inventory;

        if (platform != PLATFORM_NVML) {
                *ret = platform_inventory(platform);
                return 0;
        }
        if (nvml_open(&nvml, config->driver.nvml_library, paths.driver_root, err) < 0 ||
                nvml_read(&inventory, nvml, &paths, NULL, err) < 0)
                return -1;
        if (choice != PLATFORM_CHOICE_NVML && platform_is_integrated(inventory)) {
                inventory_free(inventory);
                inventory = platform_inventory(PLATFORM_TEGRA);
        }
        *ret = inventory;
        return 0;
}
