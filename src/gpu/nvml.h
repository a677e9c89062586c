// SPDX-License-Identifier: Apache-2.0
/*
 * Loads libnvidia-ml.so.1 at run time: one table of functions, and errors that say what to do.
 *
 * Nothing is linked against NVML, so that the program starts, and says what is missing, on a machine without a driver.
 * Each function is looked up by name, so a driver that is too old for one function lacks only that one. A call may hang
 * or crash, so only processes that may be killed make calls (gpu/nvml_pool.h); gpu/hangs.h shows which call a process
 * is in.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/hangs.h"
#include "gpu/nvml_abi.h"

/*
 * The functions that are called: NEED or MAY, the member, its arguments, and the possible symbols, best first. A
 * library that lacks a NEED function is not NVML. If a MAY function is missing, the member is NULL and NVML_CALL
 * returns FUNCTION_NOT_FOUND. All symbols of one line have the same signature; if only the record differs (process
 * lists, event, compute instance), the caller's buffer is large enough for all of them.
 */
#define NVML_FUNCTIONS(NEED, MAY)                                                                                      \
        NEED(init, (void), "nvmlInit_v2", "nvmlInit")                                                                  \
        NEED(shutdown, (void), "nvmlShutdown")                                                                         \
        MAY(system_get_driver_version, (char *text, unsigned int size), "nvmlSystemGetDriverVersion")                  \
        MAY(system_get_nvml_version, (char *text, unsigned int size), "nvmlSystemGetNVMLVersion")                      \
        MAY(system_get_cuda_version, (int *version), "nvmlSystemGetCudaDriverVersion_v2",                              \
                "nvmlSystemGetCudaDriverVersion")                                                                      \
        NEED(device_get_count, (unsigned int *count), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")                   \
        NEED(device_get_by_index, (unsigned int index, nvmlDevice_t *device), "nvmlDeviceGetHandleByIndex_v2",         \
                "nvmlDeviceGetHandleByIndex")                                                                          \
        NEED(device_get_by_uuid, (const char *uuid, nvmlDevice_t *device), "nvmlDeviceGetHandleByUUID")                \
        NEED(device_get_uuid, (nvmlDevice_t device, char *uuid, unsigned int size), "nvmlDeviceGetUUID")               \
        NEED(device_get_name, (nvmlDevice_t device, char *name, unsigned int size), "nvmlDeviceGetName")               \
        MAY(device_get_brand, (nvmlDevice_t device, nvmlBrandType_t * brand), "nvmlDeviceGetBrand")                    \
        MAY(device_get_minor, (nvmlDevice_t device, unsigned int *minor), "nvmlDeviceGetMinorNumber")                  \
        MAY(device_get_pci, (nvmlDevice_t device, nvmlPciInfo_t * pci), "nvmlDeviceGetPciInfo_v3")                     \
        NEED(device_get_memory, (nvmlDevice_t device, nvmlMemory_t * memory), "nvmlDeviceGetMemoryInfo")               \
        MAY(device_get_memory_v2, (nvmlDevice_t device, nvmlMemory_v2_t * memory), "nvmlDeviceGetMemoryInfo_v2")       \
        MAY(device_get_compute_capability, (nvmlDevice_t device, int *major, int *minor),                              \
                "nvmlDeviceGetCudaComputeCapability")                                                                  \
        MAY(device_get_architecture, (nvmlDevice_t device, nvmlDeviceArchitecture_t * architecture),                   \
                "nvmlDeviceGetArchitecture")                                                                           \
        MAY(device_get_cores, (nvmlDevice_t device, unsigned int *cores), "nvmlDeviceGetNumGpuCores")                  \
        MAY(device_get_addressing_mode, (nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t * mode),                   \
                "nvmlDeviceGetAddressingMode")                                                                         \
        MAY(device_get_memory_affinity,                                                                                \
                (nvmlDevice_t device, unsigned int words, unsigned long *nodes, nvmlAffinityScope_t scope),            \
                "nvmlDeviceGetMemoryAffinity")                                                                         \
        MAY(device_get_mig_mode, (nvmlDevice_t device, unsigned int *current, unsigned int *pending),                  \
                "nvmlDeviceGetMigMode")                                                                                \
        MAY(device_set_mig_mode, (nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation),                   \
                "nvmlDeviceSetMigMode")                                                                                \
        MAY(device_get_mig_max, (nvmlDevice_t device, unsigned int *count), "nvmlDeviceGetMaxMigDeviceCount")          \
        MAY(device_get_mig_by_index, (nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig),                     \
                "nvmlDeviceGetMigDeviceHandleByIndex")                                                                 \
        MAY(device_get_gpu_instance, (nvmlDevice_t mig, unsigned int *id), "nvmlDeviceGetGpuInstanceId")               \
        MAY(device_get_compute_instance, (nvmlDevice_t mig, unsigned int *id), "nvmlDeviceGetComputeInstanceId")       \
        MAY(device_get_attributes, (nvmlDevice_t mig, nvmlDeviceAttributes_t * attributes),                            \
                "nvmlDeviceGetAttributes_v2")                                                                          \
        MAY(device_get_instance_profile,                                                                               \
                (nvmlDevice_t device, unsigned int index, nvmlGpuInstanceProfileInfo_t *info),                         \
                "nvmlDeviceGetGpuInstanceProfileInfo")                                                                 \
        MAY(device_get_instance_profile_v,                                                                             \
                (nvmlDevice_t device, unsigned int index, nvmlGpuInstanceProfileInfo_v2_t *info),                      \
                "nvmlDeviceGetGpuInstanceProfileInfoV")                                                                \
        MAY(device_get_placements,                                                                                     \
                (nvmlDevice_t device, unsigned int profile, nvmlGpuInstancePlacement_t *placements,                    \
                        unsigned int *count),                                                                          \
                "nvmlDeviceGetGpuInstancePossiblePlacements_v2")                                                       \
        MAY(device_get_instances,                                                                                      \
                (nvmlDevice_t device, unsigned int profile, nvmlGpuInstance_t *instances, unsigned int *count),        \
                "nvmlDeviceGetGpuInstances")                                                                           \
        MAY(device_create_instance,                                                                                    \
                (nvmlDevice_t device, unsigned int profile, const nvmlGpuInstancePlacement_t *placement,               \
                        nvmlGpuInstance_t *instance),                                                                  \
                "nvmlDeviceCreateGpuInstanceWithPlacement")                                                            \
        MAY(instance_destroy, (nvmlGpuInstance_t instance), "nvmlGpuInstanceDestroy")                                  \
        MAY(instance_get_computes,                                                                                     \
                (nvmlGpuInstance_t instance, unsigned int profile, nvmlComputeInstance_t *computes,                    \
                        unsigned int *count),                                                                          \
                "nvmlGpuInstanceGetComputeInstances")                                                                  \
        MAY(instance_create_compute,                                                                                   \
                (nvmlGpuInstance_t instance, unsigned int profile, nvmlComputeInstance_t *compute),                    \
                "nvmlGpuInstanceCreateComputeInstance")                                                                \
        MAY(compute_destroy, (nvmlComputeInstance_t compute), "nvmlComputeInstanceDestroy")                            \
        MAY(device_get_instance, (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance),                  \
                "nvmlDeviceGetGpuInstanceById")                                                                        \
        MAY(instance_get_info, (nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t * info), "nvmlGpuInstanceGetInfo")   \
        MAY(instance_get_compute_profile,                                                                              \
                (nvmlGpuInstance_t instance, unsigned int index, unsigned int engines,                                 \
                        nvmlComputeInstanceProfileInfo_t *info),                                                       \
                "nvmlGpuInstanceGetComputeInstanceProfileInfo")                                                        \
        MAY(instance_get_compute, (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute),       \
                "nvmlGpuInstanceGetComputeInstanceById")                                                               \
        MAY(compute_get_info, (nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t * info),                       \
                "nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo")                                         \
        MAY(device_get_common_ancestor, (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t * level),              \
                "nvmlDeviceGetTopologyCommonAncestor")                                                                 \
        MAY(device_get_p2p_status,                                                                                     \
                (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t caps, nvmlGpuP2PStatus_t * status),             \
                "nvmlDeviceGetP2PStatus")                                                                              \
        MAY(device_get_nvlink_state, (nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active),              \
                "nvmlDeviceGetNvLinkState")                                                                            \
        MAY(device_get_nvlink_remote, (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci),                    \
                "nvmlDeviceGetNvLinkRemotePciInfo_v2")                                                                 \
        MAY(device_get_fabric, (nvmlDevice_t device, nvmlGpuFabricInfo_t * info), "nvmlDeviceGetGpuFabricInfo")        \
        MAY(device_get_fabric_v, (nvmlDevice_t device, nvmlGpuFabricInfo_v2_t * info), "nvmlDeviceGetGpuFabricInfoV")  \
        MAY(device_get_field_values, (nvmlDevice_t device, int count, nvmlFieldValue_t *values),                       \
                "nvmlDeviceGetFieldValues")                                                                            \
        MAY(device_get_remapped_rows,                                                                                  \
                (nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending,       \
                        unsigned int *failure),                                                                        \
                "nvmlDeviceGetRemappedRows")                                                                           \
        MAY(device_get_retired_pending, (nvmlDevice_t device, nvmlEnableState_t * pending),                            \
                "nvmlDeviceGetRetiredPagesPendingStatus")                                                              \
        MAY(device_get_ecc_errors,                                                                                     \
                (nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,                       \
                        unsigned long long *count),                                                                    \
                "nvmlDeviceGetTotalEccErrors")                                                                         \
        MAY(device_get_processes, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes),            \
                "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")                  \
        MAY(device_get_processes_v1, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *processes),      \
                "nvmlDeviceGetComputeRunningProcesses")                                                                \
        MAY(device_get_graphics_processes, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes),   \
                "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")                \
        MAY(device_get_mps_processes, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes),        \
                "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")            \
        MAY(device_get_mps_processes_v1, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *processes),  \
                "nvmlDeviceGetMPSComputeRunningProcesses")                                                             \
        MAY(device_get_processes_utilization, (nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t * info),         \
                "nvmlDeviceGetProcessesUtilizationInfo")                                                               \
        MAY(device_get_process_utilization,                                                                            \
                (nvmlDevice_t device, nvmlProcessUtilizationSample_t * samples, unsigned int *count,                   \
                        unsigned long long since),                                                                     \
                "nvmlDeviceGetProcessUtilization")                                                                     \
        MAY(device_get_utilization, (nvmlDevice_t device, nvmlUtilization_t * rates), "nvmlDeviceGetUtilizationRates") \
        MAY(device_get_encoder, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us),                 \
                "nvmlDeviceGetEncoderUtilization")                                                                     \
        MAY(device_get_decoder, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us),                 \
                "nvmlDeviceGetDecoderUtilization")                                                                     \
        MAY(device_get_temperature, (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius),     \
                "nvmlDeviceGetTemperature")                                                                            \
        MAY(device_get_power, (nvmlDevice_t device, unsigned int *milliwatts), "nvmlDeviceGetPowerUsage")              \
        MAY(device_get_power_limit, (nvmlDevice_t device, unsigned int *milliwatts),                                   \
                "nvmlDeviceGetEnforcedPowerLimit")                                                                     \
        MAY(device_get_clock, (nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz),                          \
                "nvmlDeviceGetClockInfo")                                                                              \
        MAY(device_get_clock_reasons, (nvmlDevice_t device, unsigned long long *reasons),                              \
                "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")                 \
        MAY(device_get_violation, (nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t * time),      \
                "nvmlDeviceGetViolationStatus")                                                                        \
        MAY(device_get_compute_mode, (nvmlDevice_t device, nvmlComputeMode_t * mode), "nvmlDeviceGetComputeMode")      \
        MAY(device_set_compute_mode, (nvmlDevice_t device, nvmlComputeMode_t mode), "nvmlDeviceSetComputeMode")        \
        MAY(device_get_memory_limits, (nvmlDevice_t device, nvmlGetMemoryLimits_v1_t * limits),                        \
                "nvmlDeviceGetMemoryLimits_v1")                                                                        \
        MAY(device_set_memory_limits, (nvmlDevice_t device, nvmlSetMemoryLimits_v1_t * limits),                        \
                "nvmlDeviceSetMemoryLimits_v1")                                                                        \
        MAY(device_get_event_types, (nvmlDevice_t device, unsigned long long *types),                                  \
                "nvmlDeviceGetSupportedEventTypes")                                                                    \
        MAY(device_register_events, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set),               \
                "nvmlDeviceRegisterEvents")                                                                            \
        MAY(event_set_create, (nvmlEventSet_t * set), "nvmlEventSetCreate")                                            \
        MAY(event_set_wait, (nvmlEventSet_t set, nvmlEventData_t * event, unsigned int timeout_ms),                    \
                "nvmlEventSetWait_v2", "nvmlEventSetWait")                                                             \
        MAY(event_set_free, (nvmlEventSet_t set), "nvmlEventSetFree")

enum nvml_function {
#define NVML_INDEX(member, arguments, ...) NVML_INDEX_##member,
        NVML_FUNCTIONS(NVML_INDEX, NVML_INDEX)
#undef NVML_INDEX
                NVML_FUNCTION_COUNT,
};

struct nvml {
        void *library;
        const char *(*error_string)(nvmlReturn_t code); /* "nvmlErrorString", or NULL */
        const char *names[NVML_FUNCTION_COUNT];         /* the symbols that were found */
        struct {
#define NVML_MEMBER(member, arguments, ...) nvmlReturn_t(*member) arguments;
                NVML_FUNCTIONS(NVML_MEMBER, NVML_MEMBER)
#undef NVML_MEMBER
        } functions; /* for NVML_CALL only: a call that bypasses it is not noticed if it hangs */
};

static inline void nvml_begin(const struct nvml *nvml, enum nvml_function function, uint64_t extra_ms)
{
        gpu_call_begin(nvml->names[function], extra_ms);
}

static inline nvmlReturn_t nvml_end(nvmlReturn_t code)
{
        gpu_call_end();
        return code;
}

/* Calls an NVML function. FUNCTION_NOT_FOUND: the driver does not have it. */
#define NVML_CALL(nvml, member, ...) NVML_CALL_LASTING(nvml, 0, member, __VA_ARGS__)

/* A call that waits for up to |extra_ms| by design. */
#define NVML_CALL_LASTING(nvml, extra_ms, member, ...)                                                                 \
        (!(nvml)->functions.member ? NVML_ERROR_FUNCTION_NOT_FOUND                                                     \
                                   : (nvml_begin(nvml, NVML_INDEX_##member, extra_ms),                                 \
                                             nvml_end((nvml)->functions.member(__VA_ARGS__))))

/*
 * The file to load, for the caller to free: |library| if given. Otherwise libnvidia-ml.so.1 in one of the six folders
 * below |driver_root| where distributions put it, with symbolic links resolved. Otherwise the plain name, for the
 * dynamic linker to find (the NVIDIA runtime puts the library there). Both arguments may be "" or NULL; with a
 * |driver_root| of "/" the linker searches.
 */
char *nvml_locate(const char *library, const char *driver_root);

/*
 * Locates, loads and initialises NVML. NOT_FOUND: no library; UNAVAILABLE: no driver; INVALID: not NVML; DENIED: no
 * access.
 */
int nvml_open(struct nvml **ret, const char *library, const char *driver_root, struct error *err) MUST_USE;

struct nvml *nvml_close(struct nvml *nvml); /* accepts NULL, returns NULL */

static inline void nvml_closep(struct nvml **nvml)
{
        nvml_close(*nvml);
}

/* Raises "<call>: GPU is lost (GPU_IS_LOST)" in the library's own words where it has some. |nvml| may be NULL. */
int nvml_fail(const struct nvml *nvml, nvmlReturn_t code, const char *call, struct error *err);

/*
 * Calls an NVML function: 0, or -1 with an error that names the function, without the version in its symbol's name.
 * Code that decides by the result uses NVML_CALL.
 */
#define NVML_TRY(nvml, err, member, ...)                                                                               \
        nvml_check((nvml), NVML_CALL(nvml, member, __VA_ARGS__), NVML_INDEX_##member, (err))
/* The function's name, "nvmlDeviceGetCount": the symbol without its version. */
struct nvml_name {
        char text[WORKER_CALL_SIZE];
};
struct nvml_name nvml_name_of(const struct nvml *nvml, enum nvml_function function);
int nvml_check(const struct nvml *nvml, nvmlReturn_t code, enum nvml_function function, struct error *err) MUST_USE;

/* The same, but 1: the call returned a value; 0: the value is unknown (nvml_is_unknown()). */
#define NVML_ASK(nvml, err, member, ...)                                                                               \
        nvml_ask((nvml), NVML_CALL(nvml, member, __VA_ARGS__), NVML_INDEX_##member, (err))
int nvml_ask(const struct nvml *nvml, nvmlReturn_t code, enum nvml_function function, struct error *err) MUST_USE;

/* The value is not available on this board, with this driver or for this user: "unknown", not a failure. */
bool nvml_is_unknown(nvmlReturn_t code);

/* 1: the call returned a value; 0: the value is unknown; -1: any other result, raised as an error. */
int nvml_outcome(const struct nvml *nvml, nvmlReturn_t code, const char *call, struct error *err) MUST_USE;

/* Copies a text that the library wrote into |size| bytes: zero-terminated, valid UTF-8, in the arena. */
const char *nvml_text(struct arena *arena, char *text, size_t size);
