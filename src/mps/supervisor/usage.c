#include "mps/supervisor/usage.h"

#include "base/text.h"
#include "gpu/call.h"
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

static void take_processes(struct mps_usage *usage, const struct gpu_listed_process *listed, size_t count)
{
        struct mps_usage_process *processes = ARENA_ARRAY(&usage->arena, struct mps_usage_process, count);

        for (size_t i = 0; i < count; i++) {
                processes[i].pid = (pid_t)listed[i].pid;
                processes[i].memory = listed[i].memory;
        }
        usage->processes = processes;
        usage->n_processes = count;
}

void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, const char *uuid)
{
        _free_ struct gpu_listed_process *listed = xcalloc(PROCESSES_MAX, sizeof(*listed));
        unsigned int count = PROCESSES_MAX;
        nvmlDevice_t device;
        nvmlReturn_t code;
        struct error err;

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);
        if (code == NVML_SUCCESS)
                code = read_processes_of(nvml, device, &count, listed);
        if (is_lost(code)) {
                nvml_fail(nvml, code, "NVML", &err);
                usage->lost = arena_strdup(&usage->arena, err.text);
        }
        if (code == NVML_SUCCESS)
                take_processes(usage, listed, count);
}

void mps_usage_pack(struct pack *pack, struct mps_usage *usage)
{
        pack_text(pack, &usage->lost);
        PACK(pack, usage->n_processes);
        PACK_ARRAY(pack, usage->processes, usage->n_processes);
}

bool mps_usage_is_same(const struct mps_usage *a, const struct mps_usage *b)
{
        if (!text_is_same(a->lost, b->lost) || a->n_processes != b->n_processes)
                return false;
        for (size_t i = 0; i < a->n_processes; i++)
                if (a->processes[i].pid != b->processes[i].pid || a->processes[i].memory != b->processes[i].memory)
                        return false;
        return true;
}

uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, pid_t pid)
{
        for (size_t i = 0; mps_usage_is_fresh(usage, now) && i < usage->n_processes; i++)
                if (usage->processes[i].pid == pid)
                        return usage->processes[i].memory;
        return UINT64_MAX;
}
