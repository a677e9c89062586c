// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_read.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "gpu/mig_read.h"
#include "gpu/platform.h"

/* ---- multiprocessors ---- */

/* FP32 cores of one SM: CUDA programming guide, "Compute capabilities", arithmetic throughput. 0: none that we know. */
static unsigned int cores_of_one(int compute_major, int compute_minor)
{
        static const struct {
                int major;
                int minor;
                unsigned int cores;
        } table[] = {
                {3, 0, 192},
                {3, 2, 192},
                {3, 5, 192},
                {3, 7, 192},
                {5, 0, 128},
                {5, 2, 128},
                {5, 3, 128},
                {6, 0, 64}, /* P100; other Pascal GPUs have twice as many */
                {6, 1, 128},
                {6, 2, 128},
                {7, 0, 64},
                {7, 2, 64},
                {7, 5, 64},
                {8, 0, 64}, /* A100, A30; other Ampere GPUs have twice as many */
                {8, 6, 128},
                {8, 7, 128},
                {8, 9, 128},
                {9, 0, 128},
                {10, 0, 128},
                {10, 1, 128},
                {10, 3, 128},
                {11, 0, 128},
                {12, 0, 128},
                {12, 1, 128},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (table[i].major == compute_major && table[i].minor == compute_minor)
                        return table[i].cores;
        return 0;
}

unsigned int multiprocessors_of(unsigned int cores, int compute_major, int compute_minor)
{
        unsigned int each = cores_of_one(compute_major, compute_minor);

        return each && cores % each == 0 ? cores / each : 0;
}

/* ---- nvml links ---- */

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

/*
 * Fills gpus[].links. |devices| are the handles, in the same order; NULL if there is none. A link that cannot be read
 * is unknown (level -1), not an error. A link between two GPUs is found by the PCI address at its other end; a link to
 * an NVSwitch counts for every peer with which P2P over NVLink works.
 */
static void nvml_read_links(struct inventory *inventory, const struct nvml *nvml, const nvmlDevice_t *devices)
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

/* State that the functions of one reading share. */
struct reader {
        const struct nvml *nvml;
        const struct gpu_paths *paths;
        const struct skips *skips;
        struct inventory *inventory;
};

void nvml_bus_to_sysfs(const char *bus, char *text, size_t size)
{
        /* The kernel prints PCI domains with "%04x", NVML with "%08X". */
        for (size_t digits = strcspn(bus, ":"); digits > 4 && *bus == '0'; digits--)
                bus++;
        snprintf(text, size, "%s", bus);
        for (char *c = text; *c; c++)
                *c = (char)tolower((unsigned char)*c);
}

/* If sysfs has the file, its value counts: -1 means that the machine has no NUMA. */
static int read_numa_node(const struct reader *reader, nvmlDevice_t device, const char *bus)
{
        unsigned long nodes[16] = {0};

        if (bus) {
                _free_ char *path = xasprintf("%s/sys/bus/pci/devices/%s/numa_node", reader->paths->system_root, bus);
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                struct error ignored;

                if (file_read(path, 64, &text, &ignored) == 0) {
                        uint64_t node;

                        while (text.size && isspace((unsigned char)text.data[text.size - 1]))
                                text.data[--text.size] = '\0';
                        return text_to_uint(text.data, INT16_MAX, &node) ? (int)node : GPU_UNKNOWN_INT;
                }
        }
        if (NVML_CALL(reader->nvml, device_get_memory_affinity, device, ARRAY_SIZE(nodes), nodes,
                    NVML_AFFINITY_SCOPE_NODE) != NVML_SUCCESS)
                return GPU_UNKNOWN_INT;
        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
                if (nodes[i])
                        return (int)(i * 64) + __builtin_ctzl(nodes[i]);
        return GPU_UNKNOWN_INT;
}

/*
 * "../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0" → "pci0000:3a"; NULL: not below a root complex, or not
 * readable.
 */
static const char *read_pcie_root(const struct reader *reader, const char *bus)
{
        _free_ char *path = xasprintf("%s/sys/bus/pci/devices/%s", reader->paths->system_root, bus);
        char link[512];
        ssize_t length = readlink(path, link, sizeof(link) - 1);
        char *root;

        if (length < 0)
                return NULL;
        link[length] = '\0';
        root = strstr(link, "devices/pci");
        if (!root)
                return NULL;
        root += strlen("devices/");
        return nvml_text(&reader->inventory->arena, root, strcspn(root, "/") + 1);
}

/* The file contains "0x030200". */
static unsigned int read_pci_class(const struct reader *reader, const char *bus)
{
        _free_ char *path = xasprintf("%s/sys/bus/pci/devices/%s/class", reader->paths->system_root, bus);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        unsigned int class = 0;

        if (file_read(path, 64, &text, &ignored) < 0 || sscanf(text.data, "0x%6x", &class) != 1)
                return 0;
        return class;
}

/* One of two calls: older drivers have the first, and newer drivers may remove it. */
static bool ask_fabric(const struct nvml *nvml, nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
        nvmlGpuFabricInfo_v2_t second = {.version = NVML_GPU_FABRIC_INFO_V2};

        if (NVML_CALL(nvml, device_get_fabric, device, info) == NVML_SUCCESS)
                return true;
        if (NVML_CALL(nvml, device_get_fabric_v, device, &second) != NVML_SUCCESS)
                return false;
        *info = (nvmlGpuFabricInfo_t){.status = second.status, .cliqueId = second.cliqueId, .state = second.state};
        memcpy(info->clusterUuid, second.clusterUuid, sizeof(info->clusterUuid));
        return true;
}

static const char *print_uuid(struct arena *arena, const unsigned char uuid[NVML_GPU_FABRIC_UUID_LEN])
{
        struct strbuf text = STRBUF_INIT;
        char *printed;

        for (size_t i = 0; i < NVML_GPU_FABRIC_UUID_LEN; i++)
                strbuf_printf(&text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
        printed = arena_strdup(arena, text.data);
        strbuf_done(&text);
        return printed;
}

static void read_fabric(struct reader *reader, nvmlDevice_t device, struct gpu *gpu)
{
        static const unsigned char no_cluster[NVML_GPU_FABRIC_UUID_LEN];
        nvmlGpuFabricInfo_t info = {0};

        if (!ask_fabric(reader->nvml, device, &info))
                return;
        if (info.state == NVML_GPU_FABRIC_STATE_NOT_STARTED || info.state == NVML_GPU_FABRIC_STATE_IN_PROGRESS)
                gpu->fabric.state = GPU_FABRIC_PENDING;
        if (info.state != NVML_GPU_FABRIC_STATE_COMPLETED || info.status != NVML_SUCCESS ||
                memcmp(info.clusterUuid, no_cluster, sizeof(no_cluster)) == 0)
                return;
        gpu->fabric.state = GPU_FABRIC_ATTACHED;
        gpu->fabric.cluster = print_uuid(&reader->inventory->arena, info.clusterUuid);
        gpu->fabric.clique = info.cliqueId;
}

static int nvml_read_read_identity(struct reader *reader, nvmlDevice_t device, struct gpu *gpu, struct error *err)
{
        const struct nvml *nvml = reader->nvml;
        char bus[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
        nvmlBrandType_t brand = NVML_BRAND_UNKNOWN; /* in case a driver returns success but writes nothing */
        nvmlPciInfo_t pci = {0};
        unsigned int minor = 0;
        int known;

        known = NVML_ASK(nvml, err, device_get_pci, device, &pci);
        if (known < 0)
                return -1;
        pci.busId[sizeof(pci.busId) - 1] = '\0';
        if (known && pci.busId[0]) {
                nvml_bus_to_sysfs(pci.busId, bus, sizeof(bus));
                gpu->bus = nvml_text(&reader->inventory->arena, bus, sizeof(bus));
        }
        gpu->numa_node = read_numa_node(reader, device, gpu->bus);
        gpu->pcie_root = gpu->bus ? read_pcie_root(reader, gpu->bus) : NULL;
        gpu->pci_class = gpu->bus ? read_pci_class(reader, gpu->bus) : 0;

        known = NVML_ASK(nvml, err, device_get_minor, device, &minor);
        if (known < 0)
                return -1;
        if (known && minor <= INT32_MAX)
                gpu->minor = (int)minor;

        if (NVML_CALL(nvml, device_get_brand, device, &brand) == NVML_SUCCESS)
                gpu->brand = (int)brand;
        return 0;
}

static enum gpu_architecture architecture_of(nvmlDeviceArchitecture_t value)
{
        /*
         * A generation that this list does not have is stored as its number: it only matters that it is newer than all
         * of them.
         */
        return value == NVML_DEVICE_ARCH_UNKNOWN || value > INT32_MAX ? GPU_ARCHITECTURE_UNKNOWN
                                                                      : (enum gpu_architecture)value;
}

static int nvml_read_read_capability(struct reader *reader, nvmlDevice_t device, struct gpu *gpu, struct error *err)
{
        const struct nvml *nvml = reader->nvml;
        nvmlDeviceArchitecture_t architecture = NVML_DEVICE_ARCH_UNKNOWN;
        nvmlDeviceAddressingMode_v1_t addressing = {.version = NVML_DEVICE_ADDRESSING_MODE_V1};
        nvmlMemory_t memory = {0};
        nvmlMemory_v2_t parts = {.version = NVML_MEMORY_V2};
        unsigned int cores = 0;
        int known;
        int major = GPU_UNKNOWN_INT;
        int minor = GPU_UNKNOWN_INT;

        known = NVML_ASK(nvml, err, device_get_memory, device, &memory);
        if (known < 0)
                return -1;
        if (known)
                gpu->memory = memory.total;
        if (NVML_CALL(nvml, device_get_memory_v2, device, &parts) == NVML_SUCCESS && parts.reserved < gpu->memory)
                gpu->memory_reserved = parts.reserved;

        known = NVML_ASK(nvml, err, device_get_compute_capability, device, &major, &minor);
        if (known < 0)
                return -1;
        if (known) {
                gpu->compute_major = major;
                gpu->compute_minor = minor;
        }

        if (NVML_CALL(nvml, device_get_cores, device, &cores) == NVML_SUCCESS)
                gpu->multiprocessors = multiprocessors_of(cores, major, minor);
        if (NVML_CALL(nvml, device_get_architecture, device, &architecture) == NVML_SUCCESS)
                gpu->architecture = architecture_of(architecture);
        if (NVML_CALL(nvml, device_get_addressing_mode, device, &addressing) == NVML_SUCCESS)
                gpu->coherent = addressing.value == NVML_DEVICE_ADDRESSING_MODE_ATS;
        read_fabric(reader, device, gpu);
        return 0;
}

static bool is_display(const char *name)
{
        return strcmp(name, "DGX Display") == 0 || strcmp(name, "NVIDIA DGX Display") == 0;
}

static int nvml_read_read_gpu(struct reader *reader, nvmlDevice_t device, struct gpu *gpu, struct error *err)
{
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
        nvmlReturn_t code = NVML_CALL(reader->nvml, device_get_name, device, name, sizeof(name));

        if (code != NVML_SUCCESS)
                return nvml_fail(reader->nvml, code, "nvmlDeviceGetName", err);
        gpu->name = nvml_text(&reader->inventory->arena, name, sizeof(name));
        if (is_display(gpu->name))
                return 0;
        if (nvml_read_read_identity(reader, device, gpu, err) < 0 ||
                nvml_read_read_capability(reader, device, gpu, err) < 0)
                return -1;
        return mig_read(reader->inventory, reader->nvml, device, gpu, err);
}

static void add_unnamed(struct inventory *inventory, unsigned int index, const char *text)
{
        inventory->unnamed_failures[inventory->n_unnamed_failures++] =
                arena_printf(&inventory->arena, "GPU %u: %s", index, text);
}

/* Gets the handle and the UUID. A GPU without a UUID, or with that of another GPU, cannot be in the list. */
static int nvml_read_name_gpu(
        struct reader *reader, unsigned int index, nvmlDevice_t *ret_device, const char **ret_uuid, struct error *err)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        const struct gpu *other;

        if (NVML_TRY(reader->nvml, err, device_get_by_index, index, ret_device) < 0 ||
                NVML_TRY(reader->nvml, err, device_get_uuid, *ret_device, uuid, sizeof(uuid)) < 0)
                return -1;
        if (!*uuid)
                return error_set(err, ERROR_UNAVAILABLE, "nvmlDeviceGetUUID: the UUID is empty");
        *ret_uuid = nvml_text(&reader->inventory->arena, uuid, sizeof(uuid));
        other = inventory_find(reader->inventory, *ret_uuid);
        if (other)
                return error_set(err, ERROR_INVALID, "it has the UUID of GPU %u, %s", other->index, *ret_uuid);
        return 0;
}

static void add_skipped(struct inventory *inventory, const struct skipped_gpu *skipped)
{
        struct gpu *gpu = &inventory->gpus[inventory->n_gpus];

        if (!skipped->uuid[0]) {
                add_unnamed(inventory, skipped->index, skipped->reason);
                return;
        }
        *gpu = inventory_unknown_gpu(arena_strdup(&inventory->arena, skipped->uuid));
        gpu->index = skipped->index;
        gpu->failure = arena_strdup(&inventory->arena, skipped->reason);
        inventory->n_gpus++;
}

static void nvml_read_add_gpu(struct reader *reader, unsigned int index, nvmlDevice_t *ret_device)
{
        struct inventory *inventory = reader->inventory;
        struct gpu *gpu = &inventory->gpus[inventory->n_gpus];
        nvmlDevice_t device = NULL;
        const char *uuid = NULL;
        struct error err;

        gpu_call_about(CALL_ON_GPU, index, NULL);
        if (nvml_read_name_gpu(reader, index, &device, &uuid, &err) < 0) {
                add_unnamed(inventory, index, err.text);
                return;
        }
        gpu_call_about(CALL_ON_GPU, index, uuid);
        *gpu = inventory_unknown_gpu(uuid);
        gpu->index = index;
        if (nvml_read_read_gpu(reader, device, gpu, &err) < 0)
                gpu->failure = arena_strdup(&inventory->arena, err.text);
        if (is_display(gpu->name))
                return;
        *ret_device = gpu->failure ? NULL : device;
        inventory->n_gpus++;
}

static void nvml_read_read_gpus(struct reader *reader, unsigned int count)
{
        struct inventory *inventory = reader->inventory;
        nvmlDevice_t *devices = ARENA_ARRAY(&inventory->arena, nvmlDevice_t, count);
        nvmlDevice_t *no_devices = ARENA_ARRAY(&inventory->arena, nvmlDevice_t, count);

        inventory->gpus = ARENA_ARRAY(&inventory->arena, struct gpu, count);
        inventory->unnamed_failures = ARENA_ARRAY(&inventory->arena, const char *, count + 1);
        for (unsigned int i = 0; i < count; i++) {
                const struct skipped_gpu *skipped = skips_at(reader->skips, i);

                if (reader->skips && reader->skips->has_only && reader->skips->only != i)
                        continue;
                if (skipped)
                        add_skipped(inventory, skipped);
                else
                        nvml_read_add_gpu(reader, i, &devices[inventory->n_gpus]);
        }
        inventory->links_unread = reader->skips && reader->skips->pairs;
        gpu_call_about(CALL_ON_PAIR, 0, NULL);
        nvml_read_links(inventory, reader->nvml, inventory->links_unread ? no_devices : devices);
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
}

static void read_versions(struct reader *reader)
{
        struct inventory *inventory = reader->inventory;
        const struct nvml *nvml = reader->nvml;
        char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
        int cuda = 0;

        inventory->driver_version = inventory->nvml_version = "";
        if (NVML_CALL(nvml, system_get_driver_version, text, sizeof(text)) == NVML_SUCCESS)
                inventory->driver_version = nvml_text(&reader->inventory->arena, text, sizeof(text));
        if (NVML_CALL(nvml, system_get_nvml_version, text, sizeof(text)) == NVML_SUCCESS)
                inventory->nvml_version = nvml_text(&reader->inventory->arena, text, sizeof(text));
        if (NVML_CALL(nvml, system_get_cuda_version, &cuda) == NVML_SUCCESS) {
                inventory->cuda_major = cuda / 1000;
                inventory->cuda_minor = cuda % 1000 / 10;
        }
}

int nvml_read(struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths, const struct skips *skips,
        struct error *err)
{
        struct reader reader = {.nvml = nvml, .paths = paths, .skips = skips};
        unsigned int count = 0;

        if (NVML_TRY(nvml, err, device_get_count, &count) < 0)
                return -1;
        reader.inventory = inventory_new();
        read_versions(&reader);
        reader.inventory->nodes = nodes_find(paths);
        nvml_read_read_gpus(&reader, MIN(count, NVML_READ_MAX_GPUS));
        mig_caps_read(reader.inventory, paths->system_root);
        if (count > NVML_READ_MAX_GPUS)
                add_unnamed(
                        reader.inventory, NVML_READ_MAX_GPUS, "this and later ones are more than this program reads");
        *ret = reader.inventory;
        return 0;
}
