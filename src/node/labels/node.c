/*
 * Labels of the machine as a whole: versions, modes, capabilities, vGPU. Those of versions, machine, MIG, MPS and mode
 * are there only where GPUs are.
 */
#include <inttypes.h>
#include <string.h>

#include "node/labels/label_set.h"

#define NVIDIA LABELS_NVIDIA_PREFIX
#define UNKNOWN_VERSION "unknown.unknown.unknown" /* what NVIDIA's program says without NVML */

#define CLASS_VGA 0x030000U
#define CLASS_3D 0x030200U

static void put_driver_version(struct label_set *set, const char *version)
{
        const char *parts[3] = {"", "", ""};
        char *rest = arena_strdup(set->arena, version);
        size_t count = 0;

        for (char *part; (part = strsep(&rest, ".")); count++)
                if (count < ARRAY_SIZE(parts))
                        parts[count] = part;
        if (count < 2 || count > ARRAY_SIZE(parts)) {
                label_set_warn(
                        set, "no labels of the driver's version: '%.40s' is not of the form X.Y or X.Y.Z", version);
                return;
        }
        /* The first three are deprecated by NVIDIA, and selectors have them. */
        label_set_put(set, NVIDIA "cuda.driver.major", "%s", parts[0]);
        label_set_put(set, NVIDIA "cuda.driver.minor", "%s", parts[1]);
        label_set_put(set, NVIDIA "cuda.driver.rev", "%s", parts[2]);
        label_set_put(set, NVIDIA "cuda.driver-version.major", "%s", parts[0]);
        label_set_put(set, NVIDIA "cuda.driver-version.minor", "%s", parts[1]);
        label_set_put(set, NVIDIA "cuda.driver-version.revision", "%s", parts[2]);
        label_set_put(set, NVIDIA "cuda.driver-version.full", "%s", version);
}

static void put_cuda_version(struct label_set *set, int major, int minor)
{
        if (!major)
                return;
        label_set_put(set, NVIDIA "cuda.runtime.major", "%d", major);
        label_set_put(set, NVIDIA "cuda.runtime.minor", "%d", minor);
        label_set_put(set, NVIDIA "cuda.runtime-version.major", "%d", major);
        label_set_put(set, NVIDIA "cuda.runtime-version.minor", "%d", minor);
        label_set_put(set, NVIDIA "cuda.runtime-version.full", "%d.%d", major, minor);
}

static void put_machine(struct label_set *set)
{
        const char *machine = set->input->machine;
        char *line;

        if (!machine) {
                label_set_put(set, NVIDIA "gpu.machine", "unknown");
                return;
        }
        line = arena_strdup(set->arena, machine + strspn(machine, " \t\r\n"));
        line[strcspn(line, "\n")] = '\0';
        label_set_put(set, NVIDIA "gpu.machine", "%s", label_clean(set->arena, line));
}

static const char *mode_of(const struct inventory *inventory)
{
        unsigned int class = inventory->gpus[0].pci_class;

        for (size_t i = 1; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].pci_class != class)
                        return "unknown";
        return class == CLASS_VGA ? "graphics" : class == CLASS_3D ? "compute" : "unknown";
}

static void put_clique(struct label_set *set)
{
        const struct inventory *inventory = set->input->inventory;
        const struct gpu_fabric *first = NULL;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu_fabric *fabric = &inventory->gpus[i].fabric;

                if (fabric->state != GPU_FABRIC_ATTACHED)
                        continue;
                if (first && (fabric->clique != first->clique || strcmp(fabric->cluster, first->cluster) != 0)) {
                        label_set_warn(set, "no label gpu.clique: GPUs are in clique %s.%u and in %s.%u",
                                first->cluster, first->clique, fabric->cluster, fabric->clique);
                        return;
                }
                first = fabric;
        }
        if (first)
                label_set_put(set, NVIDIA "gpu.clique", "%s.%u", first->cluster, first->clique);
}

static bool has_mps_unit(const struct plan *plan)
{
        for (size_t i = 0; plan && i < plan->n_resources; i++)
                if (plan->resources[i].strategy == SHARING_MPS)
                        return true;
        return false;
}

/* With MIG the plan decides whether a unit is shared by MPS. NVIDIA's program does not run with both MPS and MIG. */
static bool is_mps_capable(const struct labels_input *input, bool has_mig)
{
        return input->config->sharing.mps && (!has_mig || has_mps_unit(input->plan));
}

static void put_capabilities(struct label_set *set)
{
        const struct labels_input *input = set->input;
        bool can_mig = false;
        bool has_mig = false;

        for (size_t i = 0; i < input->inventory->n_gpus; i++) {
                can_mig = can_mig || input->inventory->gpus[i].mig_capable;
                has_mig = has_mig || input->inventory->gpus[i].mig_enabled;
        }
        label_set_put(set, NVIDIA "mig.capable", "%s", can_mig ? "true" : "false");
        if (input->config->mig_strategy != MIG_STRATEGY_NONE)
                label_set_put(set, NVIDIA "mig.strategy", "%s", mig_strategy_name(input->config->mig_strategy));
        label_set_put(set, NVIDIA "mps.capable", "%s", is_mps_capable(input, has_mig) ? "true" : "false");
        label_set_put(set, NVIDIA "gpu.mode", "%s", mode_of(input->inventory));
}

static void put_vgpu(struct label_set *set)
{
        const struct vgpu *vgpu = &set->input->vgpu;

        if (vgpu->state == VGPU_UNKNOWN)
                return;
        label_set_put(set, NVIDIA "vgpu.present", "%s", vgpu->state == VGPU_PRESENT ? "true" : "false");
        if (!*vgpu->host_driver_version)
                return;
        label_set_put(set, NVIDIA "vgpu.host-driver-version", "%s", vgpu->host_driver_version);
        label_set_put(set, NVIDIA "vgpu.host-driver-branch", "%s", vgpu->host_driver_branch);
}

void labels_put_node(struct label_set *set)
{
        const struct labels_input *input = set->input;
        const struct inventory *inventory = input->inventory;

        if (input->timestamp)
                label_set_put(set, NVIDIA "gfd.timestamp", "%" PRId64, input->timestamp);
        put_vgpu(set);
        if (!labels_has_gpus(inventory))
                return;
        put_machine(set);
        put_driver_version(set, inventory->platform == PLATFORM_NVML ? inventory->driver_version : UNKNOWN_VERSION);
        put_cuda_version(set, inventory->cuda_major, inventory->cuda_minor);
        put_capabilities(set);
        put_clique(set);
}
