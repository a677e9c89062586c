// SPDX-License-Identifier: Apache-2.0
#include "gpu/process_list.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/text.h"
#include "gpu/sample.h"

#define PID_MAX UINT32_C(4194304) /* of Linux: 2^22 */
#define INSTANCE_MAX 64U          /* of GPU and compute instances */

struct long_record {
        nvmlProcessInfo_t info;
        unsigned long long protected_memory;
};

static bool is_plausible(const nvmlProcessInfo_t *info)
{
        return info->pid > 0 && info->pid <= PID_MAX &&
               (info->gpuInstanceId == NVML_NO_INSTANCE || info->gpuInstanceId < INSTANCE_MAX) &&
               (info->computeInstanceId == NVML_NO_INSTANCE || info->computeInstanceId < INSTANCE_MAX);
}

static nvmlProcessInfo_t record_at(const struct long_record *room, size_t position, size_t size)
{
        nvmlProcessInfo_t info;

        memcpy(&info, (const char *)room + position * size, sizeof(info));
        return info;
}

static bool are_plausible(const struct long_record *room, unsigned int count, size_t size)
{
        for (unsigned int i = 0; i < count; i++) {
                const nvmlProcessInfo_t info = record_at(room, i, size);

                if (!is_plausible(&info))
                        return false;
        }
        return true;
}

static uint64_t known_memory(unsigned long long memory)
{
        return memory == NVML_VALUE_NOT_AVAILABLE_ULL ? UINT64_MAX : memory;
}

/* The present form, whose records may be longer than the header says. */
static nvmlReturn_t take_records(struct gpu_listed_process *ret, const struct long_record *room, unsigned int count)
{
        size_t size = sizeof(nvmlProcessInfo_t);

        if (!are_plausible(room, count, size))
                size = sizeof(struct long_record);
        if (!are_plausible(room, count, size))
                return NVML_ERROR_UNKNOWN;
        for (unsigned int i = 0; i < count; i++) {
                const nvmlProcessInfo_t info = record_at(room, i, size);

                ret[i] = (struct gpu_listed_process){info.pid, known_memory(info.usedGpuMemory)};
        }
        return NVML_SUCCESS;
}

static nvmlReturn_t call_list(
        const struct nvml *nvml, nvmlDevice_t device, unsigned int kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return NVML_CALL(nvml, device_get_processes, device, count, infos);
        case GPU_PROCESS_MPS:
                return NVML_CALL(nvml, device_get_mps_processes, device, count, infos);
        default:
                return NVML_CALL(nvml, device_get_graphics_processes, device, count, infos);
        }
}

static nvmlReturn_t call_old_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind, unsigned int *count,
        nvmlProcessInfo_v1_t *infos)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return NVML_CALL(nvml, device_get_processes_v1, device, count, infos);
        case GPU_PROCESS_MPS:
                return NVML_CALL(nvml, device_get_mps_processes_v1, device, count, infos);
        default:
                return NVML_ERROR_FUNCTION_NOT_FOUND;
        }
}

static nvmlReturn_t read_old_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind,
        struct gpu_listed_process *ret, unsigned int *count)
{
        _free_ nvmlProcessInfo_v1_t *infos = xcalloc(*count, sizeof(*infos));
        const unsigned int most = *count;
        const nvmlReturn_t code = call_old_list(nvml, device, kind, count, infos);

        if (code != NVML_SUCCESS)
                return code;
        *count = MIN(*count, most);
        for (unsigned int i = 0; i < *count; i++)
                ret[i] = (struct gpu_listed_process){infos[i].pid, known_memory(infos[i].usedGpuMemory)};
        return NVML_SUCCESS;
}

nvmlReturn_t gpu_process_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind,
        struct gpu_listed_process *ret, unsigned int *count)
{
        _free_ struct long_record *room = xcalloc(*count, sizeof(*room));
        const unsigned int most = *count;
        const nvmlReturn_t code = call_list(nvml, device, kind, count, (nvmlProcessInfo_t *)(void *)room);

        if (code == NVML_ERROR_FUNCTION_NOT_FOUND) {
                *count = most;
                return read_old_list(nvml, device, kind, ret, count);
        }
        if (code != NVML_SUCCESS)
                return code;
        *count = MIN(*count, most);
        return take_records(ret, room, *count);
}

const char *gpu_process_list_call(unsigned int kind)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return "nvmlDeviceGetComputeRunningProcesses";
        case GPU_PROCESS_MPS:
                return "nvmlDeviceGetMPSComputeRunningProcesses";
        default:
                return "nvmlDeviceGetGraphicsRunningProcesses";
        }
}

/* ---- sample processes ---- */

/* The processes on one unit: what NVML's lists and samples say of them, and whose they are. */

struct reading {
        struct arena *arena;
        struct gpu_process *processes;
        size_t count;
        size_t capacity;
        bool has_failed; /* a list could not be read */
};

/* ---- lists ---- */

static_assert(GPU_VALUE_UNKNOWN == UINT64_MAX, "memory that is not known is the same in both");

static void sample_processes_add_process(struct reading *reading, pid_t pid, uint64_t bytes, unsigned int kind)
{
        for (size_t i = 0; i < reading->count; i++) {
                struct gpu_process *process = &reading->processes[i];

                if (process->pid != pid)
                        continue;
                process->kinds |= kind;
                if (process->memory == GPU_VALUE_UNKNOWN)
                        process->memory = bytes;
                else if (bytes != GPU_VALUE_UNKNOWN)
                        process->memory = MAX(process->memory, bytes);
                return;
        }
        if (reading->count == reading->capacity) {
                reading->has_failed = true;
                return;
        }
        reading->processes[reading->count++] = (struct gpu_process){.pid = pid,
                .kinds = kind,
                .memory = bytes,
                .sm_percent = GPU_PERCENT_UNKNOWN,
                .memory_percent = GPU_PERCENT_UNKNOWN};
}

/* A board or driver without the list has no such processes that could be seen. */
static void sample_processes_read_lists(struct reading *reading, const struct nvml *nvml, nvmlDevice_t device)
{
        static const unsigned int kinds[] = {GPU_PROCESS_COMPUTE, GPU_PROCESS_MPS, GPU_PROCESS_GRAPHICS};
        _free_ struct gpu_listed_process *listed = xcalloc(GPU_SAMPLE_PROCESSES_MAX, sizeof(*listed));
        bool has_one = false;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                unsigned int count = GPU_SAMPLE_PROCESSES_MAX;
                const nvmlReturn_t code = gpu_process_list(nvml, device, kinds[i], listed, &count);

                has_one |= code == NVML_SUCCESS;
                reading->has_failed |= code != NVML_SUCCESS && !nvml_is_unknown(code);
                for (unsigned int j = 0; code == NVML_SUCCESS && j < count; j++)
                        sample_processes_add_process(reading, (pid_t)listed[j].pid, listed[j].memory, kinds[i]);
        }
        reading->has_failed |= !has_one;
}

/* ---- activity ---- */

/* The newest of each process: |seen| has the time of it. */
static void apply(const struct reading *reading, unsigned long long *seen, unsigned long long since, unsigned int pid,
        unsigned long long time, unsigned int sm, unsigned int memory)
{
        for (size_t i = 0; i < reading->count; i++) {
                struct gpu_process *process = &reading->processes[i];

                if (process->pid != (pid_t)pid || time <= MAX(since, seen[i]) || sm > 100 || memory > 100)
                        continue;
                seen[i] = time;
                process->sm_percent = sm;
                process->memory_percent = memory;
        }
}

/* True if the driver samples processes of this device. */
static bool read_new_samples(const struct reading *reading, const struct nvml *nvml, nvmlDevice_t device,
        unsigned long long since, unsigned long long *seen)
{
        _free_ nvmlProcessUtilizationInfo_v1_t *samples = xcalloc(GPU_SAMPLE_PROCESSES_MAX, sizeof(*samples));
        nvmlProcessesUtilizationInfo_v1_t info = {.version = NVML_PROCESSES_UTILIZATION_INFO_V1,
                .processSamplesCount = GPU_SAMPLE_PROCESSES_MAX,
                .lastSeenTimeStamp = since,
                .procUtilArray = samples};
        nvmlReturn_t code = NVML_CALL(nvml, device_get_processes_utilization, device, &info);

        if (code == NVML_ERROR_NOT_FOUND)
                return true; /* nothing ran */
        if (code != NVML_SUCCESS)
                return false;
        for (size_t i = 0; i < MIN(info.processSamplesCount, GPU_SAMPLE_PROCESSES_MAX); i++)
                apply(reading, seen, since, samples[i].pid, samples[i].timeStamp, samples[i].smUtil,
                        samples[i].memUtil);
        return true;
}

static bool read_samples(const struct reading *reading, const struct nvml *nvml, nvmlDevice_t device,
        unsigned long long since, unsigned long long *seen)
{
        _free_ nvmlProcessUtilizationSample_t *samples = xcalloc(GPU_SAMPLE_PROCESSES_MAX, sizeof(*samples));
        unsigned int count = GPU_SAMPLE_PROCESSES_MAX;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_process_utilization, device, samples, &count, since);

        if (code == NVML_ERROR_NOT_FOUND)
                return true;
        if (code != NVML_SUCCESS)
                return false;
        for (size_t i = 0; i < MIN(count, GPU_SAMPLE_PROCESSES_MAX); i++)
                apply(reading, seen, since, samples[i].pid, samples[i].timeStamp, samples[i].smUtil,
                        samples[i].memUtil);
        return true;
}

/* The newer call first: with some drivers the older one says nothing on newer boards. */
static void read_activity(
        const struct reading *reading, const struct nvml *nvml, nvmlDevice_t device, uint64_t since_ms)
{
        _free_ unsigned long long *seen = xcalloc(reading->count, sizeof(*seen));
        const unsigned long long since = (unsigned long long)clock_unix_us() - since_ms * 1000;

        if (!read_new_samples(reading, nvml, device, since, seen) && !read_samples(reading, nvml, device, since, seen))
                return;
        for (size_t i = 0; i < reading->count; i++)
                if (!(reading->processes[i].kinds & GPU_PROCESS_MPS) && seen[i] == 0)
                        reading->processes[i].sm_percent = reading->processes[i].memory_percent = 0;
}

/* ---- owners ---- */

/* False: the process does not exist here. */
static bool read_owner(struct arena *arena, const char *root, const char *pid, struct cgroup_owner *ret)
{
        _free_ char *path = xasprintf("%s/proc/%s/cgroup", root, pid);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, CGROUP_FILE_MAX, &text, &ignored) < 0)
                return false;
        *ret = cgroup_parse(text.data, arena);
        return true;
}

static void sample_processes_find_owners(const struct reading *reading, const char *root)
{
        struct cgroup_owner self = {0};

        (void)!read_owner(reading->arena, root, "self", &self);
        for (size_t i = 0; i < reading->count; i++) {
                struct gpu_process *process = &reading->processes[i];
                struct cgroup_owner owner = {0};
                char pid[16];

                snprintf(pid, sizeof(pid), "%d", (int)process->pid);
                if (!read_owner(reading->arena, root, pid, &owner) ||
                        (self.container_id && text_is_same(owner.container_id, self.container_id)))
                        continue;
                process->is_visible = true;
                process->pod_uid = owner.pod_uid;
                process->container_id = owner.container_id;
        }
}

void gpu_sample_processes(struct gpu_sample *sample, struct arena *arena, const struct nvml *nvml, nvmlDevice_t device,
        const char *root, uint64_t since_ms)
{
        struct reading reading = {.arena = arena, .capacity = GPU_SAMPLE_PROCESSES_MAX};
        _free_ struct gpu_process *processes = xcalloc(GPU_SAMPLE_PROCESSES_MAX, sizeof(*processes));

        reading.processes = processes;
        sample_processes_read_lists(&reading, nvml, device);
        if (reading.has_failed)
                return;
        if (reading.count) {
                read_activity(&reading, nvml, device, since_ms);
                sample_processes_find_owners(&reading, root);
        }
        sample->has_processes = true;
        sample->n_processes = reading.count;
        sample->processes = ARENA_ARRAY(arena, struct gpu_process, reading.count);
        if (reading.count)
                memcpy((void *)(uintptr_t)sample->processes, processes, reading.count * sizeof(*processes));
}
