#include "gpu/nvml_links.h"

#include <string.h>

#include "gpu/nvml_read.h"

/* Position of the GPU at PCI address |bus|; n_gpus if it is not one of them, but a switch or a CPU. */
static size_t find_by_bus(const struct inventory *inventory, const char *bus)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].bus && strcmp(inventory->gpus[i].bus, bus) == 0)
                        return i;
        return inventory->n_gpus;
}

/* Adds the active NVLinks of one GPU to |links|; returns how many end at something other than a GPU. */
static unsigned int count_nvlinks(
        const struct inventory *inventory, const struct nvml *nvml, nvmlDevice_t device, struct gpu_link *links)
{
        unsigned int elsewhere = 0;

        for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
                nvmlEnableState_t active = NVML_FEATURE_DISABLED;
                nvmlPciInfo_t pci = {0};
                char bus[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
                nvmlReturn_t code = NVML_CALL(nvml, device_get_nvlink_state, device, link, &active);
                size_t peer;

                /*
                 * Single links can be unsupported. INVALID_ARGUMENT ends the list of links. A lost GPU does not answer
                 * any more.
                 */
                if (code == NVML_ERROR_NOT_SUPPORTED)
                        continue;
                if (code != NVML_SUCCESS)
                        break;
                if (active != NVML_FEATURE_ENABLED ||
                        NVML_CALL(nvml, device_get_nvlink_remote, device, link, &pci) != NVML_SUCCESS)
                        continue;
                pci.busId[sizeof(pci.busId) - 1] = '\0';
                nvml_bus_to_sysfs(pci.busId, bus, sizeof(bus));
                peer = find_by_bus(inventory, bus);
                if (peer < inventory->n_gpus)
                        links[peer].nvlinks++;
                else
                        elsewhere++;
        }
        return elsewhere;
}

static bool p2p_is_ok(const struct nvml *nvml, nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t caps)
{
        nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;

        return NVML_CALL(nvml, device_get_p2p_status, a, b, caps, &status) == NVML_SUCCESS &&
               status == NVML_P2P_STATUS_OK;
}

/* PCIe levels and peer reads are the same in both directions, so each pair is asked about once. */
static void read_pair(
        const struct nvml *nvml, nvmlDevice_t a, nvmlDevice_t b, struct gpu_link *there, struct gpu_link *back)
{
        nvmlGpuTopologyLevel_t level;

        if (!a || !b)
                return;
        if (NVML_CALL(nvml, device_get_common_ancestor, a, b, &level) == NVML_SUCCESS)
                there->level = back->level = (int)level;
        there->p2p = back->p2p = p2p_is_ok(nvml, a, b, NVML_P2P_CAPS_INDEX_READ);
}

void nvml_read_links(struct inventory *inventory, const struct nvml *nvml, const nvmlDevice_t *devices)
{
        size_t n = inventory->n_gpus;
        struct gpu_link *links = ARENA_ARRAY(&inventory->arena, struct gpu_link, n * n);
        unsigned int *switched = ARENA_ARRAY(&inventory->arena, unsigned int, n);

        for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < n; j++)
                        if (i != j)
                                links[i * n + j].level = GPU_UNKNOWN_INT;
                inventory->gpus[i].links = &links[i * n];
        }
        if (n < 2)
                return;
        for (size_t i = 0; i < n; i++)
                if (devices[i])
                        switched[i] = count_nvlinks(inventory, nvml, devices[i], &links[i * n]);
        for (size_t i = 0; i < n; i++) {
                for (size_t j = i + 1; j < n; j++) {
                        struct gpu_link *there = &links[i * n + j];
                        struct gpu_link *back = &links[j * n + i];

                        read_pair(nvml, devices[i], devices[j], there, back);
                        if (switched[i] && switched[j] && !there->nvlinks && !back->nvlinks &&
                                p2p_is_ok(nvml, devices[i], devices[j], NVML_P2P_CAPS_INDEX_NVLINK)) {
                                there->nvlinks = switched[i];
                                back->nvlinks = switched[j];
                        }
                }
        }
}
