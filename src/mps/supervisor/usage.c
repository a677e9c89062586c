#include "mps/supervisor/usage.h"

#include <string.h>

#include "base/text.h"
#include "gpu/process_list.h"

#define PROCESSES_MAX 4096U

struct mps_usage *mps_usage_free(struct mps_usage *usage)
{
        if (usage) {
                arena_done(&usage->arena);
                free(usage);
        }
        return NULL;
}

static bool is_lost(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

/* A driver that cannot list processes may still have the GPU, so ask for its memory, which every driver can report. */
static nvmlReturn_t read_processes_of(
        const struct nvml *nvml, nvmlDevice_t device, unsigned int *count, struct gpu_listed_process *listed)
{
        const nvmlReturn_t code = gpu_process_list(nvml, device, GPU_PROCESS_MPS, listed, count);
        nvmlMemory_t memory;
        nvmlReturn_t other;

        if (code == NVML_SUCCESS || is_lost(code))
                return code;
        other = NVML_CALL(nvml, device_get_memory, device, &memory);
        return is_lost(other) ? other : code;
}

static void read_unit(struct mps_usage *usage, struct mps_usage_unit *unit, const struct nvml *nvml,
        struct gpu_listed_process *listed, bool *ret_reopen)
{
        nvmlDevice_t device;
        unsigned int count = PROCESSES_MAX;
        nvmlReturn_t code;
        struct error err;

        call_trace_ask(nvml->trace, CALL_ON_GPU, CALL_NO_INDEX, unit->uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, unit->uuid, &device);
        if (code == NVML_SUCCESS)
                code = read_processes_of(nvml, device, &count, listed);
        if (is_lost(code)) {
                nvml_fail(nvml, code, "NVML", &err);
                unit->lost = arena_strdup(&usage->arena, err.text);
                *ret_reopen = true;
        }
        if (code != NVML_SUCCESS)
                return;
        unit->processes = ARENA_ARRAY(&usage->arena, struct mps_usage_process, count);
        for (unsigned int i = 0; i < count; i++)
                unit->processes[i] = (struct mps_usage_process){(pid_t)listed[i].pid, listed[i].memory};
        unit->n_processes = count;
}

void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, bool *ret_reopen)
{
        _free_ struct gpu_listed_process *listed = xcalloc(PROCESSES_MAX, sizeof(*listed));

        for (size_t i = 0; i < usage->n_units; i++)
                read_unit(usage, &usage->units[i], nvml, listed, ret_reopen);
}

static bool unit_is_same(const struct mps_usage_unit *a, const struct mps_usage_unit *b)
{
        if (strcmp(a->uuid, b->uuid) != 0 || !text_is_same(a->lost, b->lost) || a->n_processes != b->n_processes)
                return false;
        for (size_t i = 0; i < a->n_processes; i++)
                if (a->processes[i].pid != b->processes[i].pid || a->processes[i].memory != b->processes[i].memory)
                        return false;
        return true;
}

bool mps_usage_is_same(const struct mps_usage *a, const struct mps_usage *b)
{
        bool is_same = a->n_units == b->n_units;

        for (size_t i = 0; is_same && i < a->n_units; i++)
                is_same = unit_is_same(&a->units[i], &b->units[i]);
        return is_same;
}

static uint64_t memory_on(const struct mps_usage_unit *unit, pid_t pid)
{
        for (size_t i = 0; i < unit->n_processes; i++)
                if (unit->processes[i].pid == pid)
                        return unit->processes[i].memory;
        return UINT64_MAX;
}

uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, const char *uuid, pid_t pid)
{
        uint64_t memory = UINT64_MAX;

        for (size_t i = 0; mps_usage_is_fresh(usage, now) && i < usage->n_units && memory == UINT64_MAX; i++)
                if (!uuid || strcmp(usage->units[i].uuid, uuid) == 0)
                        memory = memory_on(&usage->units[i], pid);
        return memory;
}
