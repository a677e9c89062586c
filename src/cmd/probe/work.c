/* The work of warpshare probe on the GPU, step by step, in a process of its own. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "cmd/probe/probe.h"
#include "gpu/hangs.h"
#include "gpu/nvml_read.h"
#include "gpu/nvml.h"

/* Without a limit, at most this much is taken, since it is missing for others during the measurement. */
#define CAREFUL_MIB UINT64_C(1024)

struct probe {
        const struct probe_options *options;
        struct probe_result *result;
        struct cuda cuda;
        struct measure measure;
};

const char *const probe_step_names[PROBE_STEPS] = {
        [PROBE_STEP_LIBRARY] = "loading libcuda.so.1",
        [PROBE_STEP_INIT] = "cuInit",
        [PROBE_STEP_CONTEXT] = "cuCtxCreate",
        [PROBE_STEP_PROGRAM] = "compiling the program for this GPU",
        [PROBE_STEP_SMS] = "counting SMs",
        [PROBE_STEP_MEMORY] = "trying memory",
        [PROBE_STEP_BANDWIDTH] = "measuring bandwidth",
        [PROBE_STEP_WORK] = "working",
        [PROBE_STEP_FAULT] = "the fault",
        [PROBE_STEP_END] = "cuCtxDestroy",
        [PROBE_STEP_NVML] = "NVML",
};

static void work_begin(const struct probe *probe, enum probe_step step)
{
        gpu_call_about(CALL_ON_DRIVER, step, NULL);
        gpu_call_begin(probe_step_names[step], step == PROBE_STEP_WORK ? probe->options->work_ms : 0);
}

static const char *from_environment(const char *name, void *data UNUSED)
{
        return getenv(name);
}

/* The directory in which CUDA searches for a control daemon. */
static bool has_socket(const struct granted *granted)
{
        _free_ char *path = xasprintf("%s/control", *granted->pipe ? granted->pipe : "/tmp/nvidia-mps");
        struct stat status;

        return stat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static int work_start(struct probe *probe, struct error *err)
{
        struct probe_result *result = probe->result;

        work_begin(probe, PROBE_STEP_LIBRARY);
        if (cuda_open(&probe->cuda, probe->options->cuda_library, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_INIT);
        if (measure_init(&probe->measure, &probe->cuda, (int)probe->options->device, &result->facts, err) < 0)
                return -1;
        if (granted_read(&result->granted, from_environment, NULL, (int)probe->options->device, result->facts.uuid,
                    err) < 0) {
                result->promise_is_unclear = true;
                return -1;
        }
        result->socket = has_socket(&result->granted);
        work_begin(probe, PROBE_STEP_CONTEXT);
        if (measure_create_context(&probe->measure, &result->facts, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_PROGRAM);
        return measure_load(&probe->measure, err);
}

static uint64_t memory_ceiling(const struct probe *probe)
{
        uint64_t granted = granted_memory_ceiling(&probe->result->granted);

        switch (probe->options->memory) {
        case PROBE_MEMORY_CEILING:
                return (uint64_t)probe->options->memory_mib << 20;
        case PROBE_MEMORY_ALL:
                return probe->result->facts.memory;
        default:
                return granted ? granted : CAREFUL_MIB << 20;
        }
}

static int measure_all(struct probe *probe, struct error *err)
{
        struct probe_result *result = probe->result;

        work_begin(probe, PROBE_STEP_SMS);
        if (measure_find_places(&probe->measure, &result->places, err) < 0)
                return -1;
        if (probe->options->memory != PROBE_MEMORY_NONE) {
                work_begin(probe, PROBE_STEP_MEMORY);
                if (measure_try_memory(&probe->measure, memory_ceiling(probe), &result->memory, err) < 0)
                        return -1;
                result->has_memory = true;
        }
        work_begin(probe, PROBE_STEP_BANDWIDTH);
        return measure_bandwidth(&probe->measure, &result->bandwidth, err);
}

static int work_run(struct probe *probe, struct error *err)
{
        const struct probe_options *options = probe->options;
        struct error fault;

        if (work_start(probe, err) < 0)
                return -1;
        if (options->kind == PROBE_FAULT) {
                work_begin(probe, PROBE_STEP_FAULT);
                /* A broken context is the expected result here, and cannot be destroyed any more. */
                if (measure_fault(&probe->measure, &fault) < 0)
                        snprintf(probe->result->fault, sizeof(probe->result->fault), "%s", fault.text);
                return 0;
        }
        if (options->kind == PROBE_ALL && measure_all(probe, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_WORK);
        if (options->kind == PROBE_SWEEP) {
                if (measure_sweep(&probe->measure, options->seconds, options->begin_at, &probe->result->sweep, err) < 0)
                        return -1;
        } else if (measure_work(&probe->measure, options->seconds, options->window, options->begin_at,
                           &probe->result->rate, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_END);
        return measure_destroy_context(&probe->measure, err);
}

/* SMs of the whole unit. CUDA reports a UUID, but not whether it is a GPU's or a MIG device's. */
static unsigned int work_read_unit(const struct nvml *nvml, const char *uuid)
{
        _free_ char *gpu = xasprintf("GPU-%s", uuid);
        _free_ char *mig = xasprintf("MIG-%s", uuid);
        nvmlDeviceAttributes_t attributes = {0};
        unsigned int cores = 0;
        nvmlDevice_t device;
        int major = 0;
        int minor = 0;

        if (NVML_CALL(nvml, device_get_by_uuid, mig, &device) == NVML_SUCCESS)
                return NVML_CALL(nvml, device_get_attributes, device, &attributes) == NVML_SUCCESS
                               ? attributes.multiprocessorCount
                               : 0;
        if (NVML_CALL(nvml, device_get_by_uuid, gpu, &device) != NVML_SUCCESS ||
                NVML_CALL(nvml, device_get_cores, device, &cores) != NVML_SUCCESS ||
                NVML_CALL(nvml, device_get_compute_capability, device, &major, &minor) != NVML_SUCCESS)
                return 0;
        return multiprocessors_of(cores, major, minor);
}

void probe_work(const struct probe_options *options, struct probe_result *result)
{
        struct probe probe = {.options = options, .result = result};
        struct nvml *nvml = NULL;
        struct error ignored;

        if (work_run(&probe, &result->error) < 0) {
                result->code = probe.cuda.failed;
                snprintf(
                        result->call, sizeof(result->call), "%s", probe.cuda.failed_call ? probe.cuda.failed_call : "");
                result->failed = true;
                return;
        }
        result->complete = true;
        if (probe.options->kind != PROBE_ALL)
                return;
        work_begin(&probe, PROBE_STEP_NVML);
        if (nvml_open(&nvml, probe.options->nvml_library, NULL, &ignored) == 0) {
                result->unit_sms = work_read_unit(nvml, result->facts.uuid);
                nvml_close(nvml);
        }
}
