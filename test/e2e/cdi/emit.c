// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the CDI specifications of a made-up node whose files are below ROOT, as the agent does: GPU 0 shared by MPS in
 * two replicas, GPU 1 with a MIG device, and GDRCopy. The host sees the node's files where this program does, so that a
 * runtime finds them.
 *
 * usage: cdi-emit ROOT
 */
#include <stdio.h>

#include "node/cdi/cdi.h"

static void warn(const char *text, void *data UNUSED)
{
        fprintf(stderr, "warning: %s\n", text);
}

int main(int argc, char **argv)
{
        static const struct mig_device mig = {
                .uuid = "MIG-1", .profile = "1g.5gb", .gpu_instance_cap = 10, .compute_instance_cap = 11};
        struct gpu gpus[] = {{.uuid = "GPU-0"}, {.uuid = "GPU-1",
                                                        .index = 1,
                                                        .minor = 1,
                                                        .mig_enabled = true,
                                                        .mig_devices = &mig,
                                                        .n_mig_devices = 1}};
        const struct sharing_section section = {.provisioning = PROVISIONING_WEIGHTED};
        const struct shared_resource shared = {.section = &section};
        const struct unit units[] = {{.uuid = "GPU-0",
                                             .index = "0",
                                             .gpu = &gpus[0],
                                             .shared = &shared,
                                             .memory = UINT64_C(24) << 30,
                                             .replicas = 2},
                {.uuid = "MIG-1", .gpu = &gpus[1], .mig = &mig}};
        struct inventory inventory = {.driver_version = "580.105.08", .gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};
        struct resource resource = {.name = "nvidia.com/gpu",
                .strategy = SHARING_MPS,
                .provisioning = PROVISIONING_WEIGHTED,
                .units = units,
                .n_units = ARRAY_SIZE(units)};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct config config = {.devices.lists = DEVICE_LIST_CDI_CRI,
                .devices.extras = EXTRA_GDRCOPY,
                .system_root = "",
                .cdi.hook_path = "/usr/bin/nvidia-cdi-hook"};
        struct plan plan = {.config = &config, .inventory = &inventory, .resources = &resource, .n_resources = 1};
        struct error err;

        if (argc != 2) {
                fprintf(stderr, "usage: cdi-emit ROOT\n");
                return 2;
        }
        config.system_root = config.driver.root = config.driver.mounted_root = config.driver.dev_root = argv[1];
        config.cdi.root = arena_printf(&arena, "%s/cdi", argv[1]);
        if (cdi_publish(&plan, NULL, warn, NULL, &err) < 0) {
                fprintf(stderr, "cdi-emit: %s\n", err.text);
                return 1;
        }
        return plan.cdi_extras == EXTRA_GDRCOPY && plan.cdi_limits ? 0 : 1;
}
