// SPDX-License-Identifier: Apache-2.0
/*
 * A simulated libcuda.so.1 with one GPU, for programs that use the part of CUDA in gpu/cuda/abi.h. The file that
 * WARPSHARE_CUDA_SIM names describes the GPU (sim/cuda/scenario.h); without that file cuInit finds no device.
 *
 * PTX is not executed. A launch fills the buffers as the kernel of that name would (gpu/cuda/kernels.h has the kernels
 * and their arguments), and a call that waits for the kernel takes as long as it would take on the SMs that the process
 * may use. Limits are those that the simulated MPS server grants (sim/mps). If the scenario says that MPS is in use and
 * there is no server, the limits are the process's CUDA_MPS_* variables, with SMs rounded down to a multiple of two, as
 * the driver does. Small allocations have memory behind them, large ones are only counted. For programs with one
 * thread, such as the probe.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "gpu/cuda/abi.h"
#include "gpu/cuda/kernels.h"
#include "sim/cuda/scenario.h"
#include "sim/cuda/server.h"

#pragma GCC visibility push(default)
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int size, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuGetErrorName(CUresult code, const char **name);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, int type);
CUresult cuCtxSynchronize(void);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuMemGetInfo_v2(size_t *available, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream,
        void **arguments, void **extra);
#pragma GCC visibility pop

#define MIB (UINT64_C(1) << 20)
#define BACKED_MAX MIB
#define ALLOCATIONS_MAX 1024U
#define FIRST_ADDRESS UINT64_C(0x7f0000000000)

struct allocation {
        CUdeviceptr address; /* 0: this entry is free */
        size_t size;
        unsigned char *bytes; /* NULL: only counted */
};

struct CUevent_st {
        double when; /* at this time all work that was launched before is done */
};

struct CUctx_st {
        struct allocation allocations[ALLOCATIONS_MAX];
        uint64_t used;
        CUdeviceptr next;
        double busy_until; /* until then the launched work takes */
        CUresult broken;   /* what every call answers from now on */
};

struct CUfunc_st {
        const char *name;
};

static struct {
        struct scenario scenario;
        bool initialised;
        bool mps;
        struct server server;
        struct CUctx_st *context;
        unsigned int calls[SCENARIO_CALLS_MAX];
        struct CUfunc_st functions[4];
} gpu = {.functions = {{KERNEL_PLACE}, {KERNEL_COPY}, {KERNEL_WORK}, {KERNEL_FAULT}}};

/* ---- faults ---- */

static CUresult apply_call_fault(const char *name)
{
        for (size_t i = 0; i < gpu.scenario.n_calls; i++) {
                const struct scenario_call *call = &gpu.scenario.calls[i];

                if (strcmp(call->name, name) != 0 || gpu.calls[i]++ < call->after)
                        continue;
                if (call->crash)
                        raise(SIGKILL); /* not SIGSEGV, which sanitizers explain at length */
                while (call->hang)
                        pause();
                return (CUresult)call->error;
        }
        return CUDA_SUCCESS;
}

/* Once a context is broken, every call returns the first error. */
static bool is_broken(void)
{
        if (!gpu.context->broken)
                gpu.context->broken = server_poll_error(&gpu.server);
        return gpu.context->broken;
}

/* The beginning of every call: the scenario's fault, then the checks that the interface makes. */
#define ENTER(name, needs_context)                                                                                     \
        do {                                                                                                           \
                CUresult fault_;                                                                                       \
                if (!gpu.initialised)                                                                                  \
                        return CUDA_ERROR_NOT_INITIALIZED;                                                             \
                fault_ = apply_call_fault(name);                                                                       \
                if (fault_)                                                                                            \
                        return fault_;                                                                                 \
                if ((needs_context) && !gpu.context)                                                                   \
                        return CUDA_ERROR_INVALID_CONTEXT;                                                             \
                if ((needs_context) && is_broken())                                                                    \
                        return gpu.context->broken;                                                                    \
        } while (0)

/* ---- limits ---- */

static unsigned int granted_sms(void)
{
        const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        double percentage = text ? strtod(text, NULL) : 0;
        unsigned int sms;

        if (gpu.server.sms && !gpu.scenario.ignores_limits)
                return gpu.server.sms;
        if (!gpu.mps || gpu.scenario.ignores_limits || percentage <= 0 || percentage >= 100)
                return gpu.scenario.multiprocessors;
        sms = (unsigned int)(percentage / 100 * gpu.scenario.multiprocessors) & ~1U;
        return sms > 2 ? sms : 2;
}

static uint64_t granted_memory(void)
{
        const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        uint64_t whole =
                (uint64_t)(gpu.scenario.memory_mib - MIN(gpu.scenario.neighbour_mib, gpu.scenario.memory_mib)) * MIB;
        uint64_t limit;
        char *end;

        if (gpu.server.limit_mib && !gpu.scenario.ignores_limits)
                return MIN(gpu.server.limit_mib * MIB, whole);
        if (!gpu.mps || gpu.scenario.ignores_limits || !text)
                return whole;
        limit = strtoull(strchr(text, '=') ? strchr(text, '=') + 1 : text, &end, 10) * MIB * (*end == 'G' ? 1024 : 1);
        return MIN(limit, whole);
}

/* ---- the device ---- */

CUresult cuInit(unsigned int flags)
{
        const char *path = getenv("WARPSHARE_CUDA_SIM");
        struct error err;
        CUresult code;

        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (gpu.initialised)
                return CUDA_SUCCESS;
        if (!path || !*path) {
                fputs("warpshare-cuda-sim: WARPSHARE_CUDA_SIM names no scenario, so there is no GPU\n", stderr);
                return CUDA_ERROR_NO_DEVICE;
        }
        if (scenario_read(&gpu.scenario, path, &err) < 0) {
                fprintf(stderr, "warpshare-cuda-sim: %s\n", err.text);
                return CUDA_ERROR_UNKNOWN;
        }
        gpu.server = (struct server){.fd = -1};
        gpu.initialised = true;
        code = apply_call_fault("cuInit");
        if (code == CUDA_SUCCESS && gpu.scenario.mps == SCENARIO_MPS_AUTO)
                code = server_connect(&gpu.server);
        gpu.mps = gpu.scenario.mps == SCENARIO_MPS_ALWAYS || gpu.server.fd >= 0;
        return code;
}

CUresult cuDriverGetVersion(int *version)
{
        ENTER("cuDriverGetVersion", false);
        *version = 12040;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
        ENTER("cuDeviceGetCount", false);
        *count = (int)gpu.scenario.devices;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
        ENTER("cuDeviceGet", false);
        if (ordinal < 0 || ordinal >= (int)gpu.scenario.devices)
                return CUDA_ERROR_INVALID_DEVICE;
        *device = ordinal;
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device UNUSED)
{
        ENTER("cuDeviceGetName", false);
        snprintf(name, (size_t)size, "%s", gpu.scenario.name);
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device UNUSED)
{
        const char *text;
        size_t count = 0;

        ENTER("cuDeviceGetUuid", false);
        text = gpu.scenario.uuid + (strlen(gpu.scenario.uuid) > 4 ? 4 : 0);
        *uuid = (CUuuid){{0}};
        for (; *text && count < 32; text++) {
                static const char digits[] = "0123456789abcdef";
                const char *digit = strchr(digits, *text);

                if (digit) {
                        uuid->bytes[count / 2] = (char)(uuid->bytes[count / 2] << 4 | (digit - digits));
                        count++;
                }
        }
        return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device UNUSED)
{
        ENTER("cuDeviceGetAttribute", false);
        switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
                *value = (int)granted_sms();
                return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
                *value = (int)gpu.scenario.compute_capability;
                return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
                *value = 0;
                return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
                if (gpu.scenario.mps == SCENARIO_MPS_UNTOLD)
                        return CUDA_ERROR_INVALID_VALUE;
                *value = gpu.mps;
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device UNUSED)
{
        ENTER("cuDeviceTotalMem", false);
        *bytes = gpu.scenario.memory_mib * MIB; /* all of it, even with a limit, as the driver reports it */
        return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
        static char text[32];

        snprintf(text, sizeof(text), "CUDA_ERROR_%d", code);
        *name = text;
        return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags UNUSED, CUdevice device UNUSED)
{
        ENTER("cuCtxCreate", false);
        if (gpu.context)
                return CUDA_ERROR_INVALID_VALUE; /* this simulator has only one */
        if (gpu.scenario.context_mib * MIB > granted_memory())
                return CUDA_ERROR_OUT_OF_MEMORY;
        gpu.context = xcalloc(1, sizeof(*gpu.context));
        gpu.context->used = gpu.scenario.context_mib * MIB;
        gpu.context->next = FIRST_ADDRESS;
        *context = gpu.context;
        return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
        ENTER("cuCtxDestroy", true);
        if (context != gpu.context)
                return CUDA_ERROR_INVALID_CONTEXT;
        for (size_t i = 0; i < ALLOCATIONS_MAX; i++)
                free(context->allocations[i].bytes);
        free(context);
        gpu.context = NULL;
        server_leave(&gpu.server);
        return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, int type)
{
        ENTER("cuCtxGetExecAffinity", true);
        if (!gpu.mps || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
                return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
        affinity->type = type;
        affinity->sm_count = granted_sms();
        return CUDA_SUCCESS;
}

/* ---- time ---- */

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void sleep_until(double when)
{
        struct timespec until = {.tv_sec = (time_t)when, .tv_nsec = (long)((when - (double)(time_t)when) * 1e9)};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
                ;
}

static void add_work(double seconds)
{
        double begin = now();

        /* With time-slicing, other programs have the GPU for a part of the time. */
        if (!gpu.mps)
                seconds *= 1 + gpu.scenario.neighbours;
        gpu.context->busy_until = (gpu.context->busy_until > begin ? gpu.context->busy_until : begin) + seconds;
}

CUresult cuCtxSynchronize(void)
{
        ENTER("cuCtxSynchronize", true);
        sleep_until(gpu.context->busy_until);
        return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags UNUSED)
{
        ENTER("cuEventCreate", true);
        *event = xcalloc(1, sizeof(**event));
        return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream UNUSED)
{
        double begin = now();

        ENTER("cuEventRecord", true);
        event->when = gpu.context->busy_until > begin ? gpu.context->busy_until : begin;
        return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
        ENTER("cuEventSynchronize", true);
        sleep_until(event->when);
        return is_broken() ? gpu.context->broken : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
        ENTER("cuEventElapsedTime", true);
        *milliseconds = (float)((end->when - begin->when) * 1e3);
        return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
        ENTER("cuEventDestroy", true);
        free(event);
        return CUDA_SUCCESS;
}

/* ---- memory ---- */

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
        ENTER("cuMemGetInfo", true);
        *total = gpu.scenario.memory_mib * MIB;
        *available = *total - MIN(*total, gpu.scenario.neighbour_mib * MIB + gpu.context->used);
        return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
        ENTER("cuMemAlloc", true);
        if (size == 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (size > granted_memory() - gpu.context->used)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < ALLOCATIONS_MAX; i++) {
                struct allocation *place = &gpu.context->allocations[i];

                if (place->address)
                        continue;
                *place = (struct allocation){.address = gpu.context->next, .size = size};
                if (size <= BACKED_MAX)
                        place->bytes = xcalloc(1, size);
                gpu.context->next += (size + MIB - 1) & ~(MIB - 1);
                gpu.context->used += size;
                *address = place->address;
                return CUDA_SUCCESS;
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
}

static struct allocation *find(CUdeviceptr address, size_t size)
{
        for (size_t i = 0; i < ALLOCATIONS_MAX; i++) {
                struct allocation *place = &gpu.context->allocations[i];

                if (place->address && address >= place->address && address - place->address < place->size &&
                        size <= place->size - (address - place->address))
                        return place;
        }
        return NULL;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
        struct allocation *place;

        ENTER("cuMemFree", true);
        place = find(address, 0);
        if (!place || place->address != address)
                return CUDA_ERROR_INVALID_VALUE;
        gpu.context->used -= place->size;
        free(place->bytes);
        *place = (struct allocation){0};
        return CUDA_SUCCESS;
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count)
{
        struct allocation *place;

        ENTER("cuMemsetD32", true);
        place = find(address, count * 4);
        if (!place)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; place->bytes && i < count; i++)
                memcpy(place->bytes + (address - place->address) + i * 4, &value, 4);
        return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
        struct allocation *place;

        ENTER("cuMemcpyDtoH", true);
        place = find(from, size);
        if (!place || !place->bytes)
                return CUDA_ERROR_INVALID_VALUE;
        sleep_until(gpu.context->busy_until);
        memcpy(to, place->bytes + (from - place->address), size);
        return CUDA_SUCCESS;
}

/* ---- kernels ---- */

/* The module is the text itself. */
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
        ENTER("cuModuleLoadData", true);
        if (!text_starts_with(image, ".version "))
                return CUDA_ERROR_INVALID_PTX;
        *module = (CUmodule)(uintptr_t)image;
        return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
        char entry[64];

        ENTER("cuModuleGetFunction", true);
        snprintf(entry, sizeof(entry), ".entry %s(", name);
        if (!strstr((const char *)module, entry))
                return CUDA_ERROR_NOT_FOUND;
        for (size_t i = 0; i < ARRAY_SIZE(gpu.functions); i++) {
                if (strcmp(gpu.functions[i].name, name) == 0) {
                        *function = &gpu.functions[i];
                        return CUDA_SUCCESS;
                }
        }
        return CUDA_ERROR_NOT_FOUND;
}

/*
 * The first two blocks of each SM start at once, the others when one of those ends. SMs that neighbours hold are free
 * only then.
 */
static CUresult run_place(unsigned int blocks, void **arguments)
{
        CUdeviceptr records = *(CUdeviceptr *)arguments[0];
        struct allocation *place = find(records, blocks * sizeof(struct kernel_place));
        unsigned int sms = granted_sms();
        unsigned int at_first = sms - MIN(sms - 1, gpu.scenario.busy);

        if (!place || !place->bytes)
                return CUDA_ERROR_ILLEGAL_ADDRESS;
        for (unsigned int i = 0; i < blocks; i++) {
                bool first = i < 2 * at_first;
                struct kernel_place record = {.sm = i % (first ? at_first : sms), .left = first ? 0 : 1, .clock = i};

                memcpy(place->bytes + (records - place->address) + i * sizeof(record), &record, sizeof(record));
        }
        add_work(0.002);
        return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y UNUSED,
        unsigned int grid_z UNUSED, unsigned int block_x, unsigned int block_y UNUSED, unsigned int block_z UNUSED,
        unsigned int shared UNUSED, CUstream stream UNUSED, void **arguments, void **extra UNUSED)
{
        double sms;

        ENTER("cuLaunchKernel", true);
        if (!function || !grid_x || !block_x || block_x > 1024)
                return CUDA_ERROR_INVALID_VALUE;
        sms = granted_sms();
        if (strcmp(function->name, KERNEL_PLACE) == 0)
                return run_place(grid_x, arguments);
        if (strcmp(function->name, KERNEL_COPY) == 0)
                add_work((double)*(uint64_t *)arguments[2] * 32 / (gpu.scenario.bandwidth * 1e9));
        else if (strcmp(function->name, KERNEL_WORK) == 0)
                add_work((double)grid_x * block_x * *(uint32_t *)arguments[1] * KERNEL_WORK_FLOPS /
                         (sms * gpu.scenario.gflops * 1e9));
        else {
                server_report_fault(&gpu.server);
                gpu.context->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        return CUDA_SUCCESS;
}
