// SPDX-License-Identifier: Apache-2.0
/*
 * Every NVML function that is simulated: one table, from which the prototypes are made and the names that a scenario
 * may use. The other functions of the real library return NOT_SUPPORTED (absent.h).
 *
 * Where a function exists with and without _v2, the name without suffix is the older ABI, as in the real library.
 */
#pragma once

#include "gpu/nvml_abi.h"

/* Layouts that no program of this project uses; so they are not in gpu/nvml_abi.h. */
typedef struct {
        unsigned int environment;
        unsigned int ccFeature;
        unsigned int devToolsMode;
} nvmlConfComputeSystemState_t;

#define NVML_CALLS(CALL)                                                                                               \
        /* library and system */                                                                                       \
        CALL(nvmlInit, (void))                                                                                         \
        CALL(nvmlInit_v2, (void))                                                                                      \
        CALL(nvmlInitWithFlags, (unsigned int flags))                                                                  \
        CALL(nvmlShutdown, (void))                                                                                     \
        CALL(nvmlSystemGetDriverVersion, (char *version, unsigned int length))                                         \
        CALL(nvmlSystemGetNVMLVersion, (char *version, unsigned int length))                                           \
        CALL(nvmlSystemGetCudaDriverVersion, (int *version))                                                           \
        CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version))                                                        \
        CALL(nvmlSystemGetProcessName, (unsigned int pid, char *name, unsigned int length))                            \
        CALL(nvmlSystemGetDriverBranch, (nvmlSystemDriverBranchInfo_v1_t * info, unsigned int length))                 \
        CALL(nvmlSystemGetConfComputeState, (nvmlConfComputeSystemState_t * state))                                    \
        CALL(nvmlUnitGetCount, (unsigned int *count))                                                                  \
        CALL(nvmlGetExcludedDeviceCount, (unsigned int *count))                                                        \
        CALL(nvmlGetBlacklistDeviceCount, (unsigned int *count))                                                       \
        CALL(nvmlInternalGetExportTable, (const void **table, const void *id))                                         \
        /* finding devices */                                                                                          \
        CALL(nvmlDeviceGetCount, (unsigned int *count))                                                                \
        CALL(nvmlDeviceGetCount_v2, (unsigned int *count))                                                             \
        CALL(nvmlDeviceGetHandleByIndex, (unsigned int index, nvmlDevice_t *device))                                   \
        CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device))                                \
        CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))                                      \
        CALL(nvmlDeviceGetHandleByUUIDV, (const nvmlUUID_v1_t *uuid, nvmlDevice_t *device))                            \
        CALL(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *device))                                  \
        CALL(nvmlDeviceGetHandleByPciBusId, (const char *bus, nvmlDevice_t *device))                                   \
        CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvmlDevice_t *device))                                \
        /* what a device is */                                                                                         \
        CALL(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int length))                                \
        CALL(nvmlDeviceGetBrand, (nvmlDevice_t device, nvmlBrandType_t * brand))                                       \
        CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index))                                           \
        CALL(nvmlDeviceGetSerial, (nvmlDevice_t device, char *serial, unsigned int length))                            \
        CALL(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned int length))                                \
        CALL(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned int *minor))                                     \
        CALL(nvmlDeviceGetModuleId, (nvmlDevice_t device, unsigned int *module))                                       \
        CALL(nvmlDeviceGetBoardId, (nvmlDevice_t device, unsigned int *board))                                         \
        CALL(nvmlDeviceGetMultiGpuBoard, (nvmlDevice_t device, unsigned int *multi))                                   \
        CALL(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char *version, unsigned int length))                     \
        CALL(nvmlDeviceGetPciInfo, (nvmlDevice_t device, nvmlPciInfo_t * pci))                                         \
        CALL(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t * pci))                                      \
        CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * pci))                                      \
        CALL(nvmlDeviceGetPciInfoExt, (nvmlDevice_t device, nvmlPciInfoExt_v1_t * pci))                                \
        CALL(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor))                        \
        CALL(nvmlDeviceGetArchitecture, (nvmlDevice_t device, nvmlDeviceArchitecture_t * architecture))                \
        CALL(nvmlDeviceGetNumGpuCores, (nvmlDevice_t device, unsigned int *cores))                                     \
        CALL(nvmlDeviceGetAddressingMode, (nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t * mode))                 \
        CALL(nvmlDeviceGetBusType, (nvmlDevice_t device, unsigned int *type))                                          \
        CALL(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t device, nvmlGpuVirtualizationMode_t * mode))               \
        CALL(nvmlDeviceGetDisplayMode, (nvmlDevice_t device, nvmlEnableState_t * display))                             \
        CALL(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, nvmlEnableState_t * active))                            \
        CALL(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t * mode))                            \
        CALL(nvmlDeviceSetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t mode))                              \
        CALL(nvmlDeviceGetComputeMode, (nvmlDevice_t device, nvmlComputeMode_t * mode))                                \
        CALL(nvmlDeviceSetComputeMode, (nvmlDevice_t device, nvmlComputeMode_t mode))                                  \
        CALL(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned int *generation))                      \
        CALL(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned int *generation))                     \
        CALL(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned int *width))                                \
        CALL(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned int *width))                               \
        /* memory and load */                                                                                          \
        CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                                    \
        CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t * memory))                              \
        CALL(nvmlDeviceGetMemoryLimits_v1, (nvmlDevice_t device, nvmlGetMemoryLimits_v1_t * limits))                   \
        CALL(nvmlDeviceSetMemoryLimits_v1, (nvmlDevice_t device, nvmlSetMemoryLimits_v1_t * limits))                   \
        CALL(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t * memory))                            \
        CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * rates))                          \
        CALL(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us))   \
        CALL(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us))   \
        CALL(nvmlDeviceGetJpgUtilization, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us))       \
        CALL(nvmlDeviceGetOfaUtilization, (nvmlDevice_t device, unsigned int *percent, unsigned int *period_us))       \
        CALL(nvmlDeviceGetTemperature, (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius))  \
        CALL(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_v1_t * temperature))                     \
        CALL(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, unsigned int kind, unsigned int *celsius))       \
        CALL(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned int *milliwatts))                                 \
        CALL(nvmlDeviceGetPowerManagementMode, (nvmlDevice_t device, nvmlEnableState_t * mode))                        \
        CALL(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned int *milliwatts))                       \
        CALL(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned int *milliwatts))                \
        CALL(nvmlDeviceGetPowerManagementLimitConstraints,                                                             \
                (nvmlDevice_t device, unsigned int *least, unsigned int *most))                                        \
        CALL(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned int *milliwatts))                         \
        CALL(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *millijoules))              \
        CALL(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, unsigned int *state))                                \
        CALL(nvmlDeviceGetPowerState, (nvmlDevice_t device, unsigned int *state))                                      \
        CALL(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz))                   \
        CALL(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz))                \
        CALL(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, unsigned long long *reasons))               \
        CALL(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *reasons))            \
        CALL(nvmlDeviceGetSupportedClocksEventReasons, (nvmlDevice_t device, unsigned long long *reasons))             \
        CALL(nvmlDeviceGetSupportedClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *reasons))          \
        CALL(nvmlDeviceGetViolationStatus,                                                                             \
                (nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t * time))                        \
        CALL(nvmlDeviceGetPcieThroughput,                                                                              \
                (nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *kilobytes))                         \
        CALL(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned int *count))                               \
        /* health */                                                                                                   \
        CALL(nvmlDeviceGetEccMode, (nvmlDevice_t device, nvmlEnableState_t * current, nvmlEnableState_t * pending))    \
        CALL(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, nvmlMemoryErrorType_t error,                           \
                                                  nvmlEccCounterType_t counter, unsigned long long *count))            \
        CALL(nvmlDeviceGetMemoryErrorCounter,                                                                          \
                (nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,                       \
                        nvmlMemoryLocation_t location, unsigned long long *count))                                     \
        CALL(nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t device, nvmlEnableState_t * pending))               \
        CALL(nvmlDeviceGetRemappedRows, (nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,      \
                                                unsigned int *pending, unsigned int *failure))                         \
        CALL(nvmlDeviceGetRowRemapperHistogram, (nvmlDevice_t device, nvmlRowRemapperHistogramValues_t * values))      \
        CALL(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values))                     \
        CALL(nvmlEventSetCreate, (nvmlEventSet_t * set))                                                               \
        CALL(nvmlEventSetFree, (nvmlEventSet_t set))                                                                   \
        CALL(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_v1_t * data, unsigned int timeout_ms))               \
        CALL(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * data, unsigned int timeout_ms))               \
        CALL(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *types))                       \
        CALL(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))            \
        /* processes */                                                                                                \
        CALL(nvmlDeviceGetComputeRunningProcesses,                                                                     \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos))                               \
        CALL(nvmlDeviceGetComputeRunningProcesses_v2,                                                                  \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetComputeRunningProcesses_v3,                                                                  \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetGraphicsRunningProcesses,                                                                    \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos))                               \
        CALL(nvmlDeviceGetGraphicsRunningProcesses_v2,                                                                 \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                                 \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetMPSComputeRunningProcesses,                                                                  \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos))                               \
        CALL(nvmlDeviceGetMPSComputeRunningProcesses_v2,                                                               \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                                               \
                (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos))                                  \
        CALL(nvmlDeviceGetRunningProcessDetailList, (nvmlDevice_t device, nvmlProcessDetailList_v1_t * list))          \
        CALL(nvmlDeviceGetProcessUtilization, (nvmlDevice_t device, nvmlProcessUtilizationSample_t * samples,          \
                                                      unsigned int *count, unsigned long long since))                  \
        CALL(nvmlDeviceGetProcessesUtilizationInfo, (nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t * info))   \
        CALL(nvmlDeviceGetAccountingMode, (nvmlDevice_t device, nvmlEnableState_t * mode))                             \
        /* where a device is */                                                                                        \
        CALL(nvmlDeviceGetNumaNodeId, (nvmlDevice_t device, unsigned int *node))                                       \
        CALL(nvmlDeviceGetCpuAffinity, (nvmlDevice_t device, unsigned int size, unsigned long *set))                   \
        CALL(nvmlDeviceGetCpuAffinityWithinScope,                                                                      \
                (nvmlDevice_t device, unsigned int size, unsigned long *set, nvmlAffinityScope_t scope))               \
        CALL(nvmlDeviceGetMemoryAffinity,                                                                              \
                (nvmlDevice_t device, unsigned int size, unsigned long *set, nvmlAffinityScope_t scope))               \
        CALL(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t * level))    \
        CALL(nvmlDeviceGetTopologyNearestGpus,                                                                         \
                (nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count, nvmlDevice_t *devices))       \
        CALL(nvmlDeviceGetP2PStatus,                                                                                   \
                (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t * status))            \
        CALL(nvmlDeviceOnSameBoard, (nvmlDevice_t a, nvmlDevice_t b, int *same))                                       \
        CALL(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active))            \
        CALL(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned int link, unsigned int *version))              \
        CALL(nvmlDeviceGetNvLinkCapability,                                                                            \
                (nvmlDevice_t device, unsigned int link, nvmlNvLinkCapability_t capability, unsigned int *result))     \
        CALL(nvmlDeviceGetNvLinkRemotePciInfo, (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci))           \
        CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci))        \
        CALL(nvmlDeviceGetNvLinkRemoteDeviceType,                                                                      \
                (nvmlDevice_t device, unsigned int link, nvmlIntNvLinkDeviceType_t *type))                             \
        CALL(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t device, nvmlGpuFabricInfo_t * info))                            \
        CALL(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfo_v2_t * info))                        \
        /* MIG */                                                                                                      \
        CALL(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned int *current, unsigned int *pending))                \
        CALL(nvmlDeviceSetMigMode, (nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation))                 \
        CALL(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned int *is_mig))                                 \
        CALL(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned int *count))                               \
        CALL(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig_device)) \
        CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig_device, nvmlDevice_t * device))           \
        CALL(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t device, unsigned int *id))                                      \
        CALL(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t device, unsigned int *id))                                  \
        CALL(nvmlDeviceGetAttributes_v2, (nvmlDevice_t device, nvmlDeviceAttributes_t * attributes))                   \
        CALL(nvmlDeviceGetGpuInstanceProfileInfo,                                                                      \
                (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info))                       \
        CALL(nvmlDeviceGetGpuInstanceProfileInfoV,                                                                     \
                (nvmlDevice_t device, unsigned int profile, nvmlGpuInstanceProfileInfo_v2_t *info))                    \
        CALL(nvmlDeviceGetGpuInstanceProfileInfoByIdV,                                                                 \
                (nvmlDevice_t device, unsigned int id, nvmlGpuInstanceProfileInfo_v2_t *info))                         \
        CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2,                                                            \
                (nvmlDevice_t device, unsigned int id, nvmlGpuInstancePlacement_t *placements, unsigned int *count))   \
        CALL(nvmlDeviceGetGpuInstanceRemainingCapacity, (nvmlDevice_t device, unsigned int id, unsigned int *count))   \
        CALL(nvmlDeviceGetGpuInstances,                                                                                \
                (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instances, unsigned int *count))             \
        CALL(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance))        \
        CALL(nvmlDeviceCreateGpuInstance, (nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance))         \
        CALL(nvmlDeviceCreateGpuInstanceWithPlacement,                                                                 \
                (nvmlDevice_t device, unsigned int id, const nvmlGpuInstancePlacement_t *placement,                    \
                        nvmlGpuInstance_t *instance))                                                                  \
        CALL(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t instance))                                                     \
        CALL(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t * info))                       \
        CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo,                                                             \
                (nvmlGpuInstance_t instance, unsigned int profile, unsigned int engines,                               \
                        nvmlComputeInstanceProfileInfo_t *info))                                                       \
        CALL(nvmlGpuInstanceGetComputeInstanceProfileInfoV,                                                            \
                (nvmlGpuInstance_t instance, unsigned int profile, unsigned int engines,                               \
                        nvmlComputeInstanceProfileInfo_v2_t *info))                                                    \
        CALL(nvmlGpuInstanceGetComputeInstancePossiblePlacements,                                                      \
                (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstancePlacement_t *placements,              \
                        unsigned int *count))                                                                          \
        CALL(nvmlGpuInstanceGetComputeInstanceRemainingCapacity,                                                       \
                (nvmlGpuInstance_t instance, unsigned int id, unsigned int *count))                                    \
        CALL(nvmlGpuInstanceGetComputeInstances,                                                                       \
                (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *computes, unsigned int *count))   \
        CALL(nvmlGpuInstanceGetComputeInstanceById,                                                                    \
                (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute))                         \
        CALL(nvmlGpuInstanceCreateComputeInstance,                                                                     \
                (nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute))                         \
        CALL(nvmlGpuInstanceCreateComputeInstanceWithPlacement,                                                        \
                (nvmlGpuInstance_t instance, unsigned int id, const nvmlComputeInstancePlacement_t *placement,         \
                        nvmlComputeInstance_t *compute))                                                               \
        CALL(nvmlComputeInstanceDestroy, (nvmlComputeInstance_t compute))                                              \
        CALL(nvmlComputeInstanceGetInfo_v2, (nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t * info))

#define EXPORTED __attribute__((visibility("default")))

#define NVML_PROTOTYPE(name, arguments) EXPORTED nvmlReturn_t name arguments;
NVML_CALLS(NVML_PROTOTYPE)
#undef NVML_PROTOTYPE

EXPORTED const char *nvmlErrorString(nvmlReturn_t result);
