/* The processes on one unit: what NVML's lists and samples say of them, and whose they are. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/text.h"
#include "gpu/sample.h"
#include "io/cgroup.h"

#define PID_MAX UINT32_C(4194304) /* of Linux: 2^22 */
#define INSTANCE_MAX 64U          /* of GPU and compute instances */

/* The record of some drivers of 535 has a field more. */
struct long_record {
        nvmlProcessInfo_t info;
        unsigned long long protected_memory;
};

/* Room for the longer records. */
union records {
        nvmlProcessInfo_t first[GPU_SAMPLE_PROCESSES_MAX];
        nvmlProcessInfo_v1_t old[GPU_SAMPLE_PROCESSES_MAX];
        struct long_record room[GPU_SAMPLE_PROCESSES_MAX];
};

struct reading {
        struct arena *arena;
        struct gpu_process *processes;
        size_t count;
        size_t capacity;
        bool has_failed; /* a list could not be read */
};

/* ---- lists ---- */

static bool is_plausible(const nvmlProcessInfo_t *info)
{
        return info->pid > 0 && info->pid <= PID_MAX &&
               (info->gpuInstanceId == NVML_NO_INSTANCE || info->gpuInstanceId < INSTANCE_MAX) &&
               (info->computeInstanceId == NVML_NO_INSTANCE || info->computeInstanceId < INSTANCE_MAX);
}

static bool are_plausible(const union records *records, size_t count, size_t size)
{
        for (size_t i = 0; i < count; i++) {
                nvmlProcessInfo_t info;

                memcpy(&info, (const char *)records + i * size, sizeof(info));
                if (!is_plausible(&info))
                        return false;
        }
        return true;
}

static void add_process(struct reading *reading, unsigned int pid, unsigned long long memory, unsigned int kind)
{
        const uint64_t bytes = memory == NVML_VALUE_NOT_AVAILABLE_ULL ? GPU_VALUE_UNKNOWN : memory;

        for (size_t i = 0; i < reading->count; i++) {
                struct gpu_process *process = &reading->processes[i];

                if (process->pid != (pid_t)pid)
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
        reading->processes[reading->count++] = (struct gpu_process){.pid = (pid_t)pid,
                .kinds = kind,
                .memory = bytes,
                .sm_percent = GPU_PERCENT_UNKNOWN,
                .memory_percent = GPU_PERCENT_UNKNOWN};
}

static void add_records(struct reading *reading, const union records *records, unsigned int count, unsigned int kind)
{
        size_t size = sizeof(nvmlProcessInfo_t);

        if (!are_plausible(records, count, size)) {
                size = sizeof(struct long_record);
                if (!are_plausible(records, count, size)) {
                        reading->has_failed = true;
                        return;
                }
        }
        for (size_t i = 0; i < count; i++) {
                nvmlProcessInfo_t info;

                memcpy(&info, (const char *)records + i * size, sizeof(info));
                add_process(reading, info.pid, info.usedGpuMemory, kind);
        }
}

static void add_old_records(
        struct reading *reading, const union records *records, unsigned int count, unsigned int kind)
{
        for (size_t i = 0; i < count; i++)
                add_process(reading, records->old[i].pid, records->old[i].usedGpuMemory, kind);
}

/* A board or driver without the list has no such processes that could be seen. */
static void read_lists(struct reading *reading, const struct nvml *nvml, nvmlDevice_t device, union records *records)
{
        static const unsigned int kinds[] = {GPU_PROCESS_COMPUTE, GPU_PROCESS_MPS, GPU_PROCESS_GRAPHICS};
        bool has_one = false;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                unsigned int count = GPU_SAMPLE_PROCESSES_MAX;
                nvmlReturn_t code;
                bool is_old = false;

                if (kinds[i] == GPU_PROCESS_COMPUTE)
                        code = NVML_CALL(nvml, device_get_processes, device, &count, records->first);
                else if (kinds[i] == GPU_PROCESS_MPS)
                        code = NVML_CALL(nvml, device_get_mps_processes, device, &count, records->first);
                else
                        code = NVML_CALL(nvml, device_get_graphics_processes, device, &count, records->first);
                if (code == NVML_ERROR_FUNCTION_NOT_FOUND && kinds[i] != GPU_PROCESS_GRAPHICS) {
                        is_old = true;
                        code = kinds[i] == GPU_PROCESS_COMPUTE
                                       ? NVML_CALL(nvml, device_get_processes_v1, device, &count, records->old)
                                       : NVML_CALL(nvml, device_get_mps_processes_v1, device, &count, records->old);
                }
                count = MIN(count, GPU_SAMPLE_PROCESSES_MAX);
                has_one |= code == NVML_SUCCESS;
                reading->has_failed |= code != NVML_SUCCESS && !nvml_is_unknown(code);
                if (code != NVML_SUCCESS)
                        continue;
                if (is_old)
                        add_old_records(reading, records, count, kinds[i]);
                else
                        add_records(reading, records, count, kinds[i]);
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
        unsigned long long since;
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        since = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000 - since_ms * 1000;
        if (!read_new_samples(reading, nvml, device, since, seen) && !read_samples(reading, nvml, device, since, seen))
                return;
        for (size_t i = 0; i < reading->count; i++)
                if (!(reading->processes[i].kinds & GPU_PROCESS_MPS) && seen[i] == 0)
                        reading->processes[i].sm_percent = reading->processes[i].memory_percent = 0;
}

/* ---- owners ---- */

/* False: there is no such process here. */
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

static void find_owners(const struct reading *reading, const char *root)
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
        _free_ union records *records = xcalloc(1, sizeof(*records));
        struct reading reading = {.arena = arena, .capacity = GPU_SAMPLE_PROCESSES_MAX};
        _free_ struct gpu_process *processes = xcalloc(GPU_SAMPLE_PROCESSES_MAX, sizeof(*processes));

        reading.processes = processes;
        read_lists(&reading, nvml, device, records);
        if (reading.has_failed)
                return;
        if (reading.count) {
                read_activity(&reading, nvml, device, since_ms);
                find_owners(&reading, root);
        }
        sample->has_processes = true;
        sample->n_processes = reading.count;
        sample->processes = ARENA_ARRAY(arena, struct gpu_process, reading.count);
        if (reading.count)
                memcpy((void *)(uintptr_t)sample->processes, processes, reading.count * sizeof(*processes));
}
