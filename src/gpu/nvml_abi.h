// SPDX-License-Identifier: Apache-2.0
/*
 * The binary interface of libnvidia-ml.so.1, as far as this project uses it: types, constants and layouts, no
 * functions.
 *
 * NVIDIA's header is not needed to build and is not redistributed here. Names, numbers and layouts are facts of the
 * interface (nvml.h of NVML 13.3.29, and the symbols of drivers 418 to 550); the static_asserts hold them, for x86_64
 * and arm64 alike (both LP64 with the same alignment). Callers use gpu/nvml.h; the implementation in sim/nvml/ includes
 * this file, too.
 *
 * Three rules of the interface:
 *
 * - The library exports versioned symbols. The unsuffixed name, where there is one, is the oldest ABI: spell the
 *   suffix.
 * - A struct that begins with |version| needs its NVML_STRUCT_VERSION() there, or the call returns
 *   ARGUMENT_VERSION_MISMATCH.
 * - A list call takes the capacity and returns the count. If the capacity is too small, it returns INSUFFICIENT_SIZE
 *   and the count needed.
 */
#pragma once

#include <assert.h>
#include <stddef.h>

typedef struct nvmlDevice_st *nvmlDevice_t; /* a GPU or a MIG device */
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

typedef enum {
        NVML_SUCCESS = 0,
        NVML_ERROR_UNINITIALIZED = 1,
        NVML_ERROR_INVALID_ARGUMENT = 2,
        NVML_ERROR_NOT_SUPPORTED = 3,
        NVML_ERROR_NO_PERMISSION = 4,
        NVML_ERROR_ALREADY_INITIALIZED = 5,
        NVML_ERROR_NOT_FOUND = 6,
        NVML_ERROR_INSUFFICIENT_SIZE = 7,
        NVML_ERROR_INSUFFICIENT_POWER = 8,
        NVML_ERROR_DRIVER_NOT_LOADED = 9,
        NVML_ERROR_TIMEOUT = 10,
        NVML_ERROR_IRQ_ISSUE = 11,
        NVML_ERROR_LIBRARY_NOT_FOUND = 12,
        NVML_ERROR_FUNCTION_NOT_FOUND = 13,
        NVML_ERROR_CORRUPTED_INFOROM = 14,
        NVML_ERROR_GPU_IS_LOST = 15,
        NVML_ERROR_RESET_REQUIRED = 16,
        NVML_ERROR_OPERATING_SYSTEM = 17,
        NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
        NVML_ERROR_IN_USE = 19,
        NVML_ERROR_MEMORY = 20,
        NVML_ERROR_NO_DATA = 21,
        NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
        NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
        NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
        NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
        NVML_ERROR_DEPRECATED = 26,
        NVML_ERROR_NOT_READY = 27,
        NVML_ERROR_GPU_NOT_FOUND = 28,
        NVML_ERROR_INVALID_STATE = 29,
        NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
        NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;

/* nvmlInitWithFlags */
#define NVML_INIT_FLAG_NO_GPUS 1u /* zero GPUs is not an error */

#define NVML_DEVICE_UUID_V2_BUFFER_SIZE 96
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
#define NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE 32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE 32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE 16
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80

#define NVML_STRUCT_VERSION(type, number) ((unsigned int)(sizeof(type) | ((unsigned int)(number) << 24)))

#define NVML_VALUE_NOT_AVAILABLE_ULL 0xffffffffffffffffULL /* usedGpuMemory of another user's process, for one */
#define NVML_NO_INSTANCE 0xffffffffu                       /* gpuInstanceId, computeInstanceId: not on a MIG device */

#define NVML_ABI_ASSERT(type, bytes) static_assert(sizeof(type) == (bytes), #type " has another size in nvml.h")
#define NVML_ABI_OFFSET(type, member, bytes)                                                                           \
        static_assert(offsetof(type, member) == (bytes), #type "." #member " is elsewhere in nvml.h")

/* ---- identity ---- */

typedef enum {
        NVML_BRAND_UNKNOWN = 0,
        NVML_BRAND_QUADRO = 1,
        NVML_BRAND_TESLA = 2,
        NVML_BRAND_NVS = 3,
        NVML_BRAND_GRID = 4,
        NVML_BRAND_GEFORCE = 5,
        NVML_BRAND_TITAN = 6,
        NVML_BRAND_QUADRO_RTX = 12,
        NVML_BRAND_NVIDIA_RTX = 13,
        NVML_BRAND_NVIDIA = 14,
        NVML_BRAND_GEFORCE_RTX = 15,
        NVML_BRAND_TITAN_RTX = 16,
} nvmlBrandType_t;

typedef unsigned int nvmlDeviceArchitecture_t;
#define NVML_DEVICE_ARCH_VOLTA 5u
#define NVML_DEVICE_ARCH_TURING 6u
#define NVML_DEVICE_ARCH_AMPERE 7u
#define NVML_DEVICE_ARCH_ADA 8u
#define NVML_DEVICE_ARCH_HOPPER 9u
#define NVML_DEVICE_ARCH_BLACKWELL 10u
#define NVML_DEVICE_ARCH_UNKNOWN 0xffffffffu

typedef struct {
        char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE]; /* "0000:3B:00.0" */
        unsigned int domain;
        unsigned int bus;
        unsigned int device;
        unsigned int pciDeviceId; /* device << 16 | vendor */
        unsigned int pciSubSystemId;
        char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]; /* "00000000:3B:00.0" */
} nvmlPciInfo_t;
NVML_ABI_ASSERT(nvmlPciInfo_t, 68);
NVML_ABI_OFFSET(nvmlPciInfo_t, domain, 16);
NVML_ABI_OFFSET(nvmlPciInfo_t, pciDeviceId, 28);
NVML_ABI_OFFSET(nvmlPciInfo_t, busId, 36);

typedef struct {
        unsigned int version;
        unsigned int domain;
        unsigned int bus;
        unsigned int device;
        unsigned int pciDeviceId;
        unsigned int pciSubSystemId;
        unsigned int baseClass;
        unsigned int subClass;
        char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfoExt_v1_t;
NVML_ABI_ASSERT(nvmlPciInfoExt_v1_t, 64);
NVML_ABI_OFFSET(nvmlPciInfoExt_v1_t, busId, 32);
#define NVML_PCI_INFO_EXT_V1 NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1)

#define NVML_UUID_TYPE_ASCII 1u
typedef struct {
        unsigned int version;
        unsigned int type;
        union {
                char str[41];
                unsigned char bytes[16];
        } value;
} nvmlUUID_v1_t;
NVML_ABI_ASSERT(nvmlUUID_v1_t, 52);
NVML_ABI_OFFSET(nvmlUUID_v1_t, value, 8);
#define NVML_UUID_V1 NVML_STRUCT_VERSION(nvmlUUID_v1_t, 1)

typedef struct {
        unsigned int version;
        char branch[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE]; /* "r575_00" */
} nvmlSystemDriverBranchInfo_v1_t;
NVML_ABI_ASSERT(nvmlSystemDriverBranchInfo_v1_t, 84);
#define NVML_SYSTEM_DRIVER_BRANCH_INFO_V1 NVML_STRUCT_VERSION(nvmlSystemDriverBranchInfo_v1_t, 1)

#define NVML_DEVICE_ADDRESSING_MODE_NONE 0u
#define NVML_DEVICE_ADDRESSING_MODE_ATS 2u
typedef struct {
        unsigned int version;
        unsigned int value;
} nvmlDeviceAddressingMode_v1_t;
NVML_ABI_ASSERT(nvmlDeviceAddressingMode_v1_t, 8);
#define NVML_DEVICE_ADDRESSING_MODE_V1 NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_v1_t, 1)

typedef enum {
        NVML_COMPUTEMODE_DEFAULT = 0,
        NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1, /* no longer accepted by any driver in use */
        NVML_COMPUTEMODE_PROHIBITED = 2,
        NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} nvmlComputeMode_t;

typedef enum {
        NVML_GPU_VIRTUALIZATION_MODE_NONE = 0,
} nvmlGpuVirtualizationMode_t;

/* ---- memory and load ---- */

typedef struct {
        unsigned long long total;
        unsigned long long free;
        unsigned long long used; /* including the driver's own reserve */
} nvmlMemory_t;
NVML_ABI_ASSERT(nvmlMemory_t, 24);

typedef struct {
        unsigned int version;
        unsigned long long total;
        unsigned long long reserved;
        unsigned long long free;
        unsigned long long used; /* without |reserved| */
} nvmlMemory_v2_t;
NVML_ABI_ASSERT(nvmlMemory_v2_t, 40);
NVML_ABI_OFFSET(nvmlMemory_v2_t, total, 8);
NVML_ABI_OFFSET(nvmlMemory_v2_t, used, 32);
#define NVML_MEMORY_V2 NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2)

typedef struct {
        unsigned long long bar1Total;
        unsigned long long bar1Free;
        unsigned long long bar1Used;
} nvmlBAR1Memory_t;
NVML_ABI_ASSERT(nvmlBAR1Memory_t, 24);

typedef struct {
        unsigned int gpu; /* percent */
        unsigned int memory;
} nvmlUtilization_t;
NVML_ABI_ASSERT(nvmlUtilization_t, 8);

typedef enum { NVML_TEMPERATURE_GPU = 0 } nvmlTemperatureSensors_t;

typedef struct {
        unsigned int version;
        nvmlTemperatureSensors_t sensorType;
        int temperature;
} nvmlTemperature_v1_t;
NVML_ABI_ASSERT(nvmlTemperature_v1_t, 12);
#define NVML_TEMPERATURE_V1 NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1)

typedef enum {
        NVML_CLOCK_SM = 1,
        NVML_CLOCK_MEM = 2,
        NVML_CLOCK_VIDEO = 3,
} nvmlClockType_t;

/* nvmlDeviceGetCurrentClocksEventReasons, a bit mask */
#define NVML_CLOCKS_EVENT_REASON_GPU_IDLE 0x1ull
#define NVML_CLOCKS_EVENT_REASON_APPLICATIONS_CLOCKS 0x2ull
#define NVML_CLOCKS_EVENT_REASON_SW_POWER_CAP 0x4ull
#define NVML_CLOCKS_EVENT_REASON_HW_SLOWDOWN 0x8ull
#define NVML_CLOCKS_EVENT_REASON_SYNC_BOOST 0x10ull
#define NVML_CLOCKS_EVENT_REASON_SW_THERMAL_SLOWDOWN 0x20ull
#define NVML_CLOCKS_EVENT_REASON_HW_THERMAL_SLOWDOWN 0x40ull
#define NVML_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN 0x80ull
#define NVML_CLOCKS_EVENT_REASON_DISPLAY_CLOCK_SETTING 0x100ull

typedef enum { NVML_PCIE_UTIL_TX_BYTES = 0, NVML_PCIE_UTIL_RX_BYTES = 1 } nvmlPcieUtilCounter_t;

typedef enum { NVML_PERF_POLICY_POWER = 0, NVML_PERF_POLICY_THERMAL = 1 } nvmlPerfPolicyType_t;

typedef struct {
        unsigned long long referenceTime; /* microseconds */
        unsigned long long violationTime; /* nanoseconds in all that the policy lowered the clocks */
} nvmlViolationTime_t;
NVML_ABI_ASSERT(nvmlViolationTime_t, 16);

/* ---- processes ---- */

typedef struct {
        unsigned int pid;
        unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;
NVML_ABI_ASSERT(nvmlProcessInfo_v1_t, 16);

/*
 * The record of both the _v2 and the _v3 symbols. Some early 535 drivers had a 32-byte record in _v3, with a field that
 * was withdrawn.
 */
typedef struct {
        unsigned int pid;
        unsigned long long usedGpuMemory;
        unsigned int gpuInstanceId;
        unsigned int computeInstanceId;
} nvmlProcessInfo_t;
NVML_ABI_ASSERT(nvmlProcessInfo_t, 24);
NVML_ABI_OFFSET(nvmlProcessInfo_t, gpuInstanceId, 16);

typedef struct {
        unsigned int pid;
        unsigned long long usedGpuMemory;
        unsigned int gpuInstanceId;
        unsigned int computeInstanceId;
        unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;
NVML_ABI_ASSERT(nvmlProcessDetail_v1_t, 32);

typedef struct {
        unsigned int version;
        unsigned int mode;
        unsigned int numProcArrayEntries;
        nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
NVML_ABI_ASSERT(nvmlProcessDetailList_v1_t, 24);
#define NVML_PROCESS_DETAIL_LIST_V1 NVML_STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1)

typedef struct {
        unsigned int pid;
        unsigned long long timeStamp; /* microseconds since 1970 */
        unsigned int smUtil;
        unsigned int memUtil;
        unsigned int encUtil;
        unsigned int decUtil;
} nvmlProcessUtilizationSample_t;
NVML_ABI_ASSERT(nvmlProcessUtilizationSample_t, 32);
NVML_ABI_OFFSET(nvmlProcessUtilizationSample_t, smUtil, 16);

typedef struct {
        unsigned long long timeStamp;
        unsigned int pid;
        unsigned int smUtil;
        unsigned int memUtil;
        unsigned int encUtil;
        unsigned int decUtil;
        unsigned int jpgUtil;
        unsigned int ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;
NVML_ABI_ASSERT(nvmlProcessUtilizationInfo_v1_t, 40);

typedef struct {
        unsigned int version;
        unsigned int processSamplesCount;
        unsigned long long lastSeenTimeStamp;
        nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;
NVML_ABI_ASSERT(nvmlProcessesUtilizationInfo_v1_t, 24);
#define NVML_PROCESSES_UTILIZATION_INFO_V1 NVML_STRUCT_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1)

/* ---- topology ---- */

typedef unsigned int nvmlAffinityScope_t;
#define NVML_AFFINITY_SCOPE_NODE 0u

typedef enum {
        NVML_TOPOLOGY_INTERNAL = 0,    /* the same board */
        NVML_TOPOLOGY_SINGLE = 10,     /* one PCIe switch (PIX) */
        NVML_TOPOLOGY_MULTIPLE = 20,   /* several PCIe switches (PXB) */
        NVML_TOPOLOGY_HOSTBRIDGE = 30, /* the host bridge (PHB) */
        NVML_TOPOLOGY_NODE = 40,       /* host bridges of one NUMA node (NODE) */
        NVML_TOPOLOGY_SYSTEM = 50,     /* between sockets (SYS) */
} nvmlGpuTopologyLevel_t;

typedef enum {
        NVML_P2P_STATUS_OK = 0,
        NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
        NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2,
        NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
        NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4,
        NVML_P2P_STATUS_NOT_SUPPORTED = 5,
        NVML_P2P_STATUS_UNKNOWN = 6,
} nvmlGpuP2PStatus_t;

typedef enum {
        NVML_P2P_CAPS_INDEX_READ = 0,
        NVML_P2P_CAPS_INDEX_NVLINK = 2,
        NVML_P2P_CAPS_INDEX_PROP = 4,
} nvmlGpuP2PCapsIndex_t;

#define NVML_NVLINK_MAX_LINKS 36 /* a loop bound only: stop at INVALID_ARGUMENT */

typedef enum {
        NVML_NVLINK_CAP_SLI_BRIDGE = 4,
        NVML_NVLINK_CAP_VALID = 5,
} nvmlNvLinkCapability_t;

typedef enum {
        NVML_NVLINK_DEVICE_TYPE_GPU = 0,
        NVML_NVLINK_DEVICE_TYPE_SWITCH = 2,
} nvmlIntNvLinkDeviceType_t;

typedef unsigned char nvmlGpuFabricState_t;
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED 0
#define NVML_GPU_FABRIC_STATE_NOT_STARTED 1
#define NVML_GPU_FABRIC_STATE_IN_PROGRESS 2
#define NVML_GPU_FABRIC_STATE_COMPLETED 3 /* |status| is only valid once this is COMPLETED */

#define NVML_GPU_FABRIC_UUID_LEN 16
typedef struct {
        unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
        nvmlReturn_t status;
        unsigned int cliqueId;
        nvmlGpuFabricState_t state;
} nvmlGpuFabricInfo_t;
NVML_ABI_ASSERT(nvmlGpuFabricInfo_t, 28);
NVML_ABI_OFFSET(nvmlGpuFabricInfo_t, state, 24);

typedef struct {
        unsigned int version;
        unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
        nvmlReturn_t status;
        unsigned int cliqueId;
        nvmlGpuFabricState_t state;
        unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;
NVML_ABI_ASSERT(nvmlGpuFabricInfo_v2_t, 36);
NVML_ABI_OFFSET(nvmlGpuFabricInfo_v2_t, healthMask, 32);
#define NVML_GPU_FABRIC_INFO_V2 NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2)

typedef struct {
        unsigned int version;
        unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
        nvmlReturn_t status;
        unsigned int cliqueId;
        nvmlGpuFabricState_t state;
        unsigned int healthMask;
        unsigned char healthSummary; /* 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity */
} nvmlGpuFabricInfo_v3_t;
NVML_ABI_ASSERT(nvmlGpuFabricInfo_v3_t, 40);
NVML_ABI_OFFSET(nvmlGpuFabricInfo_v3_t, healthSummary, 36);
#define NVML_GPU_FABRIC_INFO_V3 NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3)

/* ---- health ---- */

/* nvmlDeviceRegisterEvents, a bit mask */
#define NVML_EVENT_TYPE_SINGLE_BIT_ECC_ERROR 0x1ull
#define NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR 0x2ull
#define NVML_EVENT_TYPE_PSTATE 0x4ull
#define NVML_EVENT_TYPE_XID_CRITICAL_ERROR 0x8ull
#define NVML_EVENT_TYPE_CLOCK 0x10ull
#define NVML_EVENT_TYPE_MIG_CONFIG_CHANGE 0x100ull
#define NVML_EVENT_TYPE_DRAM_RETIREMENT_EVENT 0x400ull
#define NVML_EVENT_TYPE_DRAM_RETIREMENT_FAILURE 0x800ull
#define NVML_EVENT_TYPE_FATAL_POISON_ERROR 0x2000ull
#define NVML_EVENT_TYPE_GPU_UNAVAILABLE_ERROR 0x4000ull
#define NVML_EVENT_TYPE_GPU_RECOVERY_ACTION 0x8000ull

/* nvmlEventSetWait without suffix: the struct ends after |eventData|. */
typedef struct {
        nvmlDevice_t device; /* the GPU, never a MIG device */
        unsigned long long eventType;
        unsigned long long eventData;
} nvmlEventData_v1_t;
NVML_ABI_ASSERT(nvmlEventData_v1_t, 24);

typedef struct {
        nvmlDevice_t device;
        unsigned long long eventType;
        unsigned long long eventData; /* Xid number, 999 unknown */
        unsigned int gpuInstanceId;
        unsigned int computeInstanceId;
} nvmlEventData_t;
NVML_ABI_ASSERT(nvmlEventData_t, 32);
NVML_ABI_OFFSET(nvmlEventData_t, gpuInstanceId, 24);

typedef enum {
        NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
} nvmlMemoryErrorType_t;

typedef enum { NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1 } nvmlEccCounterType_t;

typedef enum {
        NVML_MEMORY_LOCATION_DRAM = 2,
        NVML_MEMORY_LOCATION_SRAM = 7,
} nvmlMemoryLocation_t;

typedef struct {
        unsigned int max;
        unsigned int high;
        unsigned int partial;
        unsigned int low;
        unsigned int none;
} nvmlRowRemapperHistogramValues_t;
NVML_ABI_ASSERT(nvmlRowRemapperHistogramValues_t, 20);

/* ---- field values ---- */

typedef enum {
        NVML_VALUE_TYPE_UNSIGNED_INT = 1,
        NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
        NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
} nvmlValueType_t;

typedef union {
        double dVal;
        int siVal;
        unsigned int uiVal;
        unsigned long ulVal;
        unsigned long long ullVal;
        signed long long sllVal;
        unsigned short usVal;
} nvmlValue_t;
NVML_ABI_ASSERT(nvmlValue_t, 8);

typedef struct {
        unsigned int fieldId;
        unsigned int scopeId;
        long long timestamp; /* microseconds since 1970 */
        long long latencyUsec;
        nvmlValueType_t valueType;
        nvmlReturn_t nvmlReturn; /* each value has its own result */
        nvmlValue_t value;
} nvmlFieldValue_t;
NVML_ABI_ASSERT(nvmlFieldValue_t, 40);
NVML_ABI_OFFSET(nvmlFieldValue_t, nvmlReturn, 28);
NVML_ABI_OFFSET(nvmlFieldValue_t, value, 32);

#define NVML_FI_DEV_RETIRED_SBE 29u
#define NVML_FI_DEV_RETIRED_DBE 30u
#define NVML_FI_DEV_RETIRED_PENDING 31u
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL 38u /* these four are sums over all links */
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL 45u
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL 52u
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL 59u
#define NVML_FI_DEV_MEMORY_TEMP 82u
#define NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION 83u /* millijoule */
#define NVML_FI_DEV_NVLINK_LINK_COUNT 91u
#define NVML_FI_DEV_PCIE_REPLAY_COUNTER 94u
#define NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX                                                                          \
        138u /* KiB since the driver was loaded; with the next, of scope NVML_SCOPE_ALL: of all links */
#define NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX 139u
#define NVML_SCOPE_ALL 0xffffffffu
#define NVML_FI_DEV_REMAPPED_COR 142u
#define NVML_FI_DEV_REMAPPED_UNC 143u
#define NVML_FI_DEV_REMAPPED_PENDING 144u
#define NVML_FI_DEV_REMAPPED_FAILURE 145u
#define NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT 147u
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL 160u
#define NVML_FI_DEV_C2C_LINK_COUNT 170u
#define NVML_FI_DEV_PCIE_COUNT_TX_BYTES 197u /* may wrap */
#define NVML_FI_DEV_PCIE_COUNT_RX_BYTES 198u
#define NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE 199u /* profiles can be read while MIG is off */
#define NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED 184u
#define NVML_FI_DEV_POWER_AVERAGE 185u /* milliwatt */
#define NVML_FI_DEV_POWER_INSTANT 186u
#define NVML_FI_DEV_GET_GPU_RECOVERY_ACTION 230u

#define NVML_GPU_RECOVERY_ACTION_NONE 0u
#define NVML_GPU_RECOVERY_ACTION_GPU_RESET 1u
#define NVML_GPU_RECOVERY_ACTION_NODE_REBOOT 2u
#define NVML_GPU_RECOVERY_ACTION_DRAIN_P2P 3u
#define NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET 4u
#define NVML_GPU_RECOVERY_ACTION_GPU_RESET_IMEX 5u

/* ---- MIG ---- */

#define NVML_DEVICE_MIG_DISABLE 0u
#define NVML_DEVICE_MIG_ENABLE 1u

typedef struct {
        unsigned int multiprocessorCount;
        unsigned int sharedCopyEngineCount;
        unsigned int sharedDecoderCount;
        unsigned int sharedEncoderCount;
        unsigned int sharedJpegCount;
        unsigned int sharedOfaCount;
        unsigned int gpuInstanceSliceCount;
        unsigned int computeInstanceSliceCount;
        unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;
NVML_ABI_ASSERT(nvmlDeviceAttributes_t, 40);
NVML_ABI_OFFSET(nvmlDeviceAttributes_t, gpuInstanceSliceCount, 24);
NVML_ABI_OFFSET(nvmlDeviceAttributes_t, memorySizeMB, 32);

/* The index with which to ask for a profile; calls that create instances need the |id| in the answer. */
enum {
        NVML_GPU_INSTANCE_PROFILE_1_SLICE = 0,
        NVML_GPU_INSTANCE_PROFILE_2_SLICE = 1,
        NVML_GPU_INSTANCE_PROFILE_3_SLICE = 2,
        NVML_GPU_INSTANCE_PROFILE_4_SLICE = 3,
        NVML_GPU_INSTANCE_PROFILE_7_SLICE = 4,
        NVML_GPU_INSTANCE_PROFILE_8_SLICE = 5,
        NVML_GPU_INSTANCE_PROFILE_6_SLICE = 6,
        NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 = 7, /* +me */
        NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 = 8, /* +me */
        NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 = 9, /* twice the memory */
        NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX = 10,
        NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX = 11,
        NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX = 12,
        NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME = 13,
        NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME = 14,
        NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME = 15,
        NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME = 16,
        NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX = 17,
        NVML_GPU_INSTANCE_PROFILE_COUNT = 18, /* of this release; stop at INVALID_ARGUMENT instead */
};

enum {
        NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE = 0,
        NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE = 1,
        NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE = 2,
        NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE = 3,
        NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE = 4,
        NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE = 5,
        NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE = 6,
        NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 7, /* of the 1g profile with twice the memory */
        NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL = 8,
        NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9,
};

#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED 0u
#define NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX 1u

typedef struct {
        unsigned int start; /* memory slice */
        unsigned int size;
} nvmlGpuInstancePlacement_t;
NVML_ABI_ASSERT(nvmlGpuInstancePlacement_t, 8);

typedef struct {
        unsigned int id;
        unsigned int isP2pSupported;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int copyEngineCount;
        unsigned int decoderCount;
        unsigned int encoderCount;
        unsigned int jpegCount;
        unsigned int ofaCount;
        unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
NVML_ABI_ASSERT(nvmlGpuInstanceProfileInfo_t, 48);

/* v3 has the same size but another layout: never mix the version numbers. */
typedef struct {
        unsigned int version;
        unsigned int id;
        unsigned int isP2pSupported;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int copyEngineCount;
        unsigned int decoderCount;
        unsigned int encoderCount;
        unsigned int jpegCount;
        unsigned int ofaCount;
        unsigned long long memorySizeMB;
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE]; /* "MIG 1g.5gb+me" */
} nvmlGpuInstanceProfileInfo_v2_t;
NVML_ABI_ASSERT(nvmlGpuInstanceProfileInfo_v2_t, 152);
NVML_ABI_OFFSET(nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB, 48);
NVML_ABI_OFFSET(nvmlGpuInstanceProfileInfo_v2_t, name, 56);
#define NVML_GPU_INSTANCE_PROFILE_INFO_V2 NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2)

#define NVML_GPU_INSTANCE_PROFILE_CAPS_GFX 2u
typedef struct {
        unsigned int version;
        unsigned int id;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int copyEngineCount;
        unsigned int decoderCount;
        unsigned int encoderCount;
        unsigned int jpegCount;
        unsigned int ofaCount;
        unsigned long long memorySizeMB;
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
        unsigned int capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;
NVML_ABI_ASSERT(nvmlGpuInstanceProfileInfo_v3_t, 152);
NVML_ABI_OFFSET(nvmlGpuInstanceProfileInfo_v3_t, memorySizeMB, 40);
NVML_ABI_OFFSET(nvmlGpuInstanceProfileInfo_v3_t, name, 48);
NVML_ABI_OFFSET(nvmlGpuInstanceProfileInfo_v3_t, capabilities, 144);
#define NVML_GPU_INSTANCE_PROFILE_INFO_V3 NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v3_t, 3)

typedef struct {
        nvmlDevice_t device;
        unsigned int id;
        unsigned int profileId;
        nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;
NVML_ABI_ASSERT(nvmlGpuInstanceInfo_t, 24);

typedef struct {
        unsigned int start; /* compute slice within the GPU instance */
        unsigned int size;
} nvmlComputeInstancePlacement_t;
NVML_ABI_ASSERT(nvmlComputeInstancePlacement_t, 8);

typedef struct {
        unsigned int id;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int sharedCopyEngineCount;
        unsigned int sharedDecoderCount;
        unsigned int sharedEncoderCount;
        unsigned int sharedJpegCount;
        unsigned int sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;
NVML_ABI_ASSERT(nvmlComputeInstanceProfileInfo_t, 36);

typedef struct {
        unsigned int version;
        unsigned int id;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int sharedCopyEngineCount;
        unsigned int sharedDecoderCount;
        unsigned int sharedEncoderCount;
        unsigned int sharedJpegCount;
        unsigned int sharedOfaCount;
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE]; /* "MIG 1c.3g.20gb" */
} nvmlComputeInstanceProfileInfo_v2_t;
NVML_ABI_ASSERT(nvmlComputeInstanceProfileInfo_v2_t, 136);
NVML_ABI_OFFSET(nvmlComputeInstanceProfileInfo_v2_t, name, 40);
#define NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2 NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2)

typedef struct {
        unsigned int version;
        unsigned int id;
        unsigned int sliceCount;
        unsigned int instanceCount;
        unsigned int multiprocessorCount;
        unsigned int sharedCopyEngineCount;
        unsigned int sharedDecoderCount;
        unsigned int sharedEncoderCount;
        unsigned int sharedJpegCount;
        unsigned int sharedOfaCount;
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
        unsigned int capabilities;
} nvmlComputeInstanceProfileInfo_v3_t;
NVML_ABI_ASSERT(nvmlComputeInstanceProfileInfo_v3_t, 140);
NVML_ABI_OFFSET(nvmlComputeInstanceProfileInfo_v3_t, capabilities, 136);
#define NVML_COMPUTE_INSTANCE_PROFILE_INFO_V3 NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v3_t, 3)

typedef struct {
        nvmlDevice_t device;
        nvmlGpuInstance_t gpuInstance;
        unsigned int id;
        unsigned int profileId;
        nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;
NVML_ABI_ASSERT(nvmlComputeInstanceInfo_t, 32);
NVML_ABI_OFFSET(nvmlComputeInstanceInfo_t, id, 16);

/*
 * Memory limits of a cgroup on one GPU, r615 and newer, without a version word. |nameSpace| is the whole path of the
 * cgroup's folder, as the caller's mounts have it. No limit: soft 0, hard NVML_DEVICE_MEMORY_LIMIT_MAX.
 */
#define NVML_DEVICE_MEMORY_LIMIT_MAX (~0ULL)
typedef struct {
        const char *nameSpace;
        unsigned long long softLimit; /* bytes that are reserved for it */
        unsigned long long hardLimit; /* bytes that it may use at most */
} nvmlSetMemoryLimits_v1_t;
NVML_ABI_ASSERT(nvmlSetMemoryLimits_v1_t, 24);

typedef struct {
        const char *nameSpace;
        unsigned long long softLimit;
        unsigned long long hardLimit;
        unsigned long long currentUsed;
} nvmlGetMemoryLimits_v1_t;
NVML_ABI_ASSERT(nvmlGetMemoryLimits_v1_t, 32);

/* The version numbers as in nvml.h: a wrong struct above would give other numbers. */
static_assert(NVML_PCI_INFO_EXT_V1 == 0x01000040, "nvmlPciInfoExt_v1");
static_assert(NVML_MEMORY_V2 == 0x02000028, "nvmlMemory_v2");
static_assert(NVML_UUID_V1 == 0x01000034, "nvmlUUID_v1");
static_assert(NVML_PROCESS_DETAIL_LIST_V1 == 0x01000018, "nvmlProcessDetailList_v1");
static_assert(NVML_GPU_FABRIC_INFO_V2 == 0x02000024, "nvmlGpuFabricInfo_v2");
static_assert(NVML_GPU_FABRIC_INFO_V3 == 0x03000028, "nvmlGpuFabricInfo_v3");
static_assert(NVML_GPU_INSTANCE_PROFILE_INFO_V2 == 0x02000098, "nvmlGpuInstanceProfileInfo_v2");
static_assert(NVML_GPU_INSTANCE_PROFILE_INFO_V3 == 0x03000098, "nvmlGpuInstanceProfileInfo_v3");
static_assert(NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2 == 0x02000088, "nvmlComputeInstanceProfileInfo_v2");
static_assert(NVML_COMPUTE_INSTANCE_PROFILE_INFO_V3 == 0x0300008c, "nvmlComputeInstanceProfileInfo_v3");
