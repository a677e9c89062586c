// SPDX-License-Identifier: Apache-2.0
/* Where GPUs are: NUMA, PCIe, NVLink, fabric. */
#include "sim/nvml/calls.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"

/*
 * On Grace the memory of each GPU is a NUMA node of the host, after those of the sockets; on other hosts GPUs are no
 * NUMA nodes.
 */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!node)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.config->model->coherent)
                return NVML_ERROR_NOT_SUPPORTED;
        *node = 2 + 8 * call.gpu->position;
        return NVML_SUCCESS;
}

#define BITS (8 * (unsigned int)sizeof(unsigned long))

static void set_bits(unsigned long *set, unsigned int size, unsigned int from, unsigned int count)
{
        for (unsigned int bit = from; bit < from + count && bit / BITS < size; bit++)
                set[bit / BITS] |= 1UL << bit % BITS;
}

static nvmlReturn_t cpu_affinity(const char *name, nvmlDevice_t device, unsigned int size, unsigned long *set)
{
        _cleanup_(call_end) struct call call = call_gpu(name, device);
        unsigned int cpus;

        if (call.result)
                return call.result;
        if (!set || !size)
                return NVML_ERROR_INVALID_ARGUMENT;
        memset(set, 0, size * sizeof(*set));
        cpus = call.world->scenario->cpus_per_numa_node;
        set_bits(set, size, call.config->numa > 0 ? (unsigned int)call.config->numa * cpus : 0, cpus);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long *set)
{
        return cpu_affinity(__func__, device, size, set);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(
        nvmlDevice_t device, unsigned int size, unsigned long *set, nvmlAffinityScope_t scope UNUSED)
{
        return cpu_affinity(__func__, device, size, set);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(
        nvmlDevice_t device, unsigned int size, unsigned long *set, nvmlAffinityScope_t scope UNUSED)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!set || !size)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (call.config->numa < 0)
                return NVML_ERROR_NOT_SUPPORTED;
        memset(set, 0, size * sizeof(*set));
        set_bits(set, size, (unsigned int)call.config->numa, 1);
        return NVML_SUCCESS;
}

static const struct scenario_pair *find_pair(
        const struct scenario_pair *pairs, size_t count, unsigned int a, unsigned int b)
{
        for (size_t i = 0; i < count; i++) {
                if ((pairs[i].a == a && pairs[i].b == b) || (pairs[i].a == b && pairs[i].b == a))
                        return &pairs[i];
        }
        return NULL;
}

static unsigned int common_ancestor(const struct scenario *scenario, unsigned int a, unsigned int b)
{
        const struct scenario_pair *pair = find_pair(scenario->topology, scenario->n_topology, a, b);

        if (pair)
                return pair->value;
        return scenario->gpus[a].numa == scenario->gpus[b].numa ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

/* The second device of a call that takes two; the first one is in |call|. */
static nvmlReturn_t other_gpu(struct call *call, nvmlDevice_t handle, struct gpu **other)
{
        struct nvmlDevice_st *device = world_device(call->world, handle);

        if (!device || device->compute)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!gpu_is_present(device->gpu) || device->gpu->config->lost)
                return NVML_ERROR_GPU_IS_LOST;
        *other = device->gpu;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, a);
        struct gpu *other;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = other_gpu(&call, b, &other);
        if (result)
                return result;
        if (!level || other == call.gpu)
                return NVML_ERROR_INVALID_ARGUMENT;
        *level = (nvmlGpuTopologyLevel_t)common_ancestor(call.world->scenario, call.gpu->position, other->position);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(
        nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count, nvmlDevice_t *devices)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        unsigned int capacity;

        if (call.result)
                return call.result;
        if (!count || (*count && !devices))
                return NVML_ERROR_INVALID_ARGUMENT;
        capacity = *count;
        *count = 0;
        for (unsigned int i = 0; i < world_count(call.world); i++) {
                struct gpu *other = world_gpu_by_index(call.world, i);

                if (other == call.gpu || !gpu_is_present(other) ||
                        common_ancestor(call.world->scenario, call.gpu->position, other->position) !=
                                (unsigned int)level)
                        continue;
                if (*count < capacity)
                        devices[*count] = &other->handle;
                ++*count;
        }
        return capacity && *count > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, a);
        struct gpu *other;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = other_gpu(&call, b, &other);
        if (result)
                return result;
        if (!same)
                return NVML_ERROR_INVALID_ARGUMENT;
        *same = other == call.gpu ||
                common_ancestor(call.world->scenario, call.gpu->position, other->position) == NVML_TOPOLOGY_INTERNAL;
        return NVML_SUCCESS;
}

static bool lists_peer(const struct scenario_gpu *gpu, unsigned int peer)
{
        for (size_t i = 0; i < gpu->n_nvlink_peers; i++) {
                if (gpu->nvlink_peers[i] == peer)
                        return true;
        }
        return false;
}

/* Directly or through switches. */
static bool is_linked(const struct scenario *scenario, unsigned int a, unsigned int b)
{
        const struct scenario_gpu *x = &scenario->gpus[a];
        const struct scenario_gpu *y = &scenario->gpus[b];

        return (x->nvlink_switch && y->nvlink_switch) || (x->nvlink_all && y->nvlink_all) || lists_peer(x, b) ||
               lists_peer(y, a);
}

nvmlReturn_t nvmlDeviceGetP2PStatus(
        nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, a);
        const struct scenario_pair *pair;
        const struct scenario *scenario;
        struct gpu *other;
        nvmlReturn_t result;
        bool linked;

        if (call.result)
                return call.result;
        result = other_gpu(&call, b, &other);
        if (result)
                return result;
        if (!status || index > NVML_P2P_CAPS_INDEX_PROP || other == call.gpu)
                return NVML_ERROR_INVALID_ARGUMENT;
        scenario = call.world->scenario;
        pair = find_pair(scenario->p2p, scenario->n_p2p, call.gpu->position, other->position);
        linked = is_linked(scenario, call.gpu->position, other->position);
        if (pair)
                *status = (nvmlGpuP2PStatus_t)pair->value;
        else if (call.gpu->mig_current || other->mig_current)
                *status = NVML_P2P_STATUS_NOT_SUPPORTED;
        else if (linked)
                *status = NVML_P2P_STATUS_OK;
        else if (index == NVML_P2P_CAPS_INDEX_NVLINK)
                *status = NVML_P2P_STATUS_NOT_SUPPORTED;
        else if (common_ancestor(scenario, call.gpu->position, other->position) < NVML_TOPOLOGY_SYSTEM)
                *status = NVML_P2P_STATUS_OK;
        else
                *status = NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
        return NVML_SUCCESS;
}

/* Position of the GPU at the other end of |link|; links are dealt to the peers in turn. -1: the link is down. */
static int peer_of_link(const struct scenario *scenario, unsigned int position, unsigned int link)
{
        unsigned int peers[SCENARIO_MAX_GPUS];
        unsigned int count = 0;

        for (unsigned int i = 0; i < scenario->n_gpus; i++) {
                if (i != position && scenario->gpus[i].present && is_linked(scenario, position, i))
                        peers[count++] = i;
        }
        return count ? (int)peers[link % count] : -1;
}

static bool is_link_up(const struct call *call, unsigned int link)
{
        return call->config->nvlink_switch || peer_of_link(call->world->scenario, call->gpu->position, link) >= 0;
}

/* Begins a call on one link. */
static struct call call_link(const char *name, nvmlDevice_t device, unsigned int link)
{
        struct call call = call_gpu(name, device);

        if (call.result)
                return call;
        if (!call.config->model->nvlinks)
                call.result = NVML_ERROR_NOT_SUPPORTED;
        else if (link >= call.config->model->nvlinks)
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        return call;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
        _cleanup_(call_end) struct call call = call_link(__func__, device, link);

        if (call.result)
                return call.result;
        if (!active)
                return NVML_ERROR_INVALID_ARGUMENT;
        *active = is_link_up(&call, link) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
        _cleanup_(call_end) struct call call = call_link(__func__, device, link);

        if (call.result)
                return call.result;
        if (!version)
                return NVML_ERROR_INVALID_ARGUMENT;
        *version = call.config->model->nvlink_version;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(
        nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability, unsigned int *result)
{
        _cleanup_(call_end) struct call call = call_link(__func__, device, link);

        if (call.result)
                return call.result;
        if (!result || capability > NVML_NVLINK_CAP_VALID)
                return NVML_ERROR_INVALID_ARGUMENT;
        *result = is_link_up(&call, link) && capability != NVML_NVLINK_CAP_SLI_BRIDGE;
        return NVML_SUCCESS;
}

/*
 * Begins a call about the far end of a link. A link that the GPU does not have counts as one that is down: `nvidia-smi
 * topo -m` depends on it.
 */
static struct call call_far_end(const char *name, nvmlDevice_t device, unsigned int link)
{
        struct call call = call_link(name, device, link);

        if (call.result == NVML_ERROR_INVALID_ARGUMENT && call.config && link < NVML_NVLINK_MAX_LINKS)
                call.result = NVML_ERROR_NOT_SUPPORTED;
        return call;
}

static nvmlReturn_t remote_pci(
        const char *name, nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci, size_t size)
{
        _cleanup_(call_end) struct call call = call_far_end(name, device, link);
        nvmlPciInfo_t info = {.pciDeviceId = 0x22a310de}; /* an NVSwitch of Hopper */
        int peer;

        if (call.result)
                return call.result;
        if (!pci)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!is_link_up(&call, link))
                return NVML_ERROR_NOT_SUPPORTED;
        if (call.config->nvlink_switch) {
                info.bus = 0xc4 + link % 4;
        } else {
                peer = peer_of_link(call.world->scenario, call.gpu->position, link);
                info.domain = call.world->scenario->gpus[peer].domain;
                info.bus = call.world->scenario->gpus[peer].bus;
                info.device = call.world->scenario->gpus[peer].device;
                info.pciDeviceId = call.world->scenario->gpus[peer].model->pci_device << 16 | 0x10de;
        }
        snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "%04X:%02X:%02X.0", info.domain & 0xffff, info.bus & 0xff,
                info.device & 0xff);
        snprintf(info.busId, sizeof(info.busId), "%08X:%02X:%02X.0", info.domain, info.bus, info.device);
        memcpy(pci, &info, size);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
        return remote_pci(__func__, device, link, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
        return remote_pci(__func__, device, link, pci, sizeof(*pci));
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(
        nvmlDevice_t device, unsigned int link, nvmlIntNvLinkDeviceType_t *type)
{
        _cleanup_(call_end) struct call call = call_far_end(__func__, device, link);

        if (call.result)
                return call.result;
        if (!type)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!is_link_up(&call, link))
                return NVML_ERROR_NOT_SUPPORTED;
        *type = call.config->nvlink_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!info)
                return NVML_ERROR_INVALID_ARGUMENT;
        *info = (nvmlGpuFabricInfo_t){.status = call.config->fabric_status,
                .cliqueId = call.config->fabric_clique,
                .state = (nvmlGpuFabricState_t)call.config->fabric_state};
        memcpy(info->clusterUuid, call.config->fabric_uuid, sizeof(info->clusterUuid));
        return NVML_SUCCESS;
}

/* Version 3 is version 2 with one field more. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!info)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (info->version != NVML_GPU_FABRIC_INFO_V2 && info->version != NVML_GPU_FABRIC_INFO_V3)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        memcpy(info->clusterUuid, call.config->fabric_uuid, sizeof(info->clusterUuid));
        info->status = call.config->fabric_status;
        info->cliqueId = call.config->fabric_clique;
        info->state = (nvmlGpuFabricState_t)call.config->fabric_state;
        info->healthMask = 0;
        if (info->version == NVML_GPU_FABRIC_INFO_V3) {
                nvmlGpuFabricInfo_v3_t *third = (nvmlGpuFabricInfo_v3_t *)(void *)info;

                third->healthSummary = call.config->fabric_state == NVML_GPU_FABRIC_STATE_COMPLETED ? 1 : 0;
        }
        return NVML_SUCCESS;
}
