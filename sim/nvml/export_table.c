// SPDX-License-Identifier: Apache-2.0
/*
 * The private interface that nvidia-smi uses: a table of functions that NVIDIA does not document, found by a GUID.
 *
 * Its entries are known from NVIDIA's own mock (k8s-test-infra, pkg/gpu/mocknvml/bridge/internal.go, 2026) and from the
 * arguments with which nvidia-smi 535 calls them: the first entry is the table's size in bytes, entry 23 compares the
 * places of two PCI addresses, entry 81 finds a GPU by index, entries 213 to 215 list processes. Any other entry that
 * nvidia-smi calls for a device may return NOT_SUPPORTED, and nvidia-smi prints N/A; calls without a device must
 * succeed.
 */
#include "sim/nvml/calls.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"

#define SLOTS 512
#define SLOT_COMMON_ANCESTOR 23U
#define SLOT_GPU_BY_INDEX 81U
#define SLOT_PROCESSES_FIRST 213U
#define SLOT_PROCESSES_LAST 215U

/* It has the name in it: nvidia-smi leaves out rows without a name. */
struct private_process {
        nvmlProcessDetail_v1_t detail;
        char name[4096];
};
static_assert(sizeof(struct private_process) == 4128, "the stride that nvidia-smi reads with");

typedef nvmlReturn_t slot_fn(void *, void *, void *);

static nvmlReturn_t list_processes(struct call *call, unsigned int *count, struct private_process *list)
{
        unsigned int capacity = *count;
        unsigned int n = 0;

        for (size_t i = 0; i < call->config->n_processes && n < capacity; i++) {
                const struct scenario_process *process = &call->config->processes[i];

                if (call->compute &&
                        (process->gi != call->compute->instance->place->id || process->ci != call->compute->place->id))
                        continue;
                if (!call->compute && call->gpu->mig_current)
                        continue; /* they are listed with their MIG devices */
                list[n].detail = (nvmlProcessDetail_v1_t){.pid = process->pid,
                        .usedGpuMemory = process->memory,
                        .gpuInstanceId = process->gi,
                        .computeInstanceId = process->ci};
                snprintf(list[n].name, sizeof(list[n].name), "%s", process->name);
                n++;
        }
        *count = n;
        return NVML_SUCCESS;
}

/* Counts the levels of nvmlGpuTopologyLevel_t from 0 on: PIX, PXB, PHB, NODE, SYS. */
static nvmlReturn_t common_ancestor(const char *bus, const char *other_bus, unsigned int *place)
{
        nvmlDevice_t device;
        nvmlDevice_t other;
        nvmlGpuTopologyLevel_t level;
        nvmlReturn_t result = nvmlDeviceGetHandleByPciBusId_v2(bus, &device);

        if (!result)
                result = nvmlDeviceGetHandleByPciBusId_v2(other_bus, &other);
        if (!result)
                result = nvmlDeviceGetTopologyCommonAncestor(device, other, &level);
        if (!result)
                *place = level ? (unsigned int)level / 10 - 1 : 0;
        return result;
}

static nvmlReturn_t slot_call(unsigned int slot, void *first, void *second, void *third)
{
        struct call call;
        nvmlReturn_t result;
        bool is_device;

        if (slot == SLOT_GPU_BY_INDEX)
                return nvmlDeviceGetHandleByIndex_v2((unsigned int)(uintptr_t)first, second);
        if (slot == SLOT_COMMON_ANCESTOR)
                return common_ancestor(first, second, third);
        call = call_any("nvmlInternalGetExportTable");
        is_device = !call.result && world_device(call.world, first);
        call_end(&call);
        if (call.result || !is_device)
                return call.result;
        call = call_device("nvmlInternalGetExportTable", first);
        result = call.result ? call.result : NVML_ERROR_NOT_SUPPORTED;
        if (!call.result && slot >= SLOT_PROCESSES_FIRST && slot <= SLOT_PROCESSES_LAST && second && third)
                result = list_processes(&call, second, third);
        call_end(&call);
        return result;
}

/*
 * Each entry has a function of its own, because only the function that is called shows which entry nvidia-smi used. The
 * macros count in octal; function 0 is entry 1, because entry 0 is the size.
 */
#define EIGHT(M, high) M(high##0) M(high##1) M(high##2) M(high##3) M(high##4) M(high##5) M(high##6) M(high##7)
#define SIXTY_FOUR(M, high)                                                                                            \
        EIGHT(M, high##0)                                                                                              \
        EIGHT(M, high##1)                                                                                              \
        EIGHT(M, high##2) EIGHT(M, high##3) EIGHT(M, high##4) EIGHT(M, high##5) EIGHT(M, high##6) EIGHT(M, high##7)
#define ALL(M)                                                                                                         \
        SIXTY_FOUR(M, 00)                                                                                              \
        SIXTY_FOUR(M, 01)                                                                                              \
        SIXTY_FOUR(M, 02) SIXTY_FOUR(M, 03) SIXTY_FOUR(M, 04) SIXTY_FOUR(M, 05) SIXTY_FOUR(M, 06) SIXTY_FOUR(M, 07)

#define SLOT_FUNCTION(octal)                                                                                           \
        static nvmlReturn_t slot_##octal(void *first, void *second, void *third)                                       \
        {                                                                                                              \
                return slot_call(octal + 1, first, second, third);                                                     \
        }
#define SLOT_ENTRY(octal) slot_##octal,

ALL(SLOT_FUNCTION)

static const struct {
        size_t size;
        slot_fn *functions[SLOTS];
} export_table = {sizeof(export_table), {ALL(SLOT_ENTRY)}};

nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
        static const unsigned char known[16] = {
                0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

        if (!table || !id)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (memcmp(id, known, sizeof(known)) != 0)
                return NVML_ERROR_NOT_SUPPORTED;
        *table = &export_table;
        return NVML_SUCCESS;
}
