// SPDX-License-Identifier: Apache-2.0
/*
 * The part of CUDA's driver interface that is used here, declared by ourselves: no CUDA header and no toolkit is needed
 * to build. Names, numbers and layouts: CUDA driver API reference manual, 12.x and 13.0.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef struct {
        char bytes[16];
} CUuuid;

/* CUexecAffinityParam: a type, and a union of which the number of SMs is the only member. */
typedef struct {
        int type;
        unsigned int sm_count;
} CUexecAffinityParam;
static_assert(sizeof(CUexecAffinityParam) == 8, "CUexecAffinityParam_v1");

enum {
        CUDA_SUCCESS = 0,
        CUDA_ERROR_INVALID_VALUE = 1,
        CUDA_ERROR_OUT_OF_MEMORY = 2,
        CUDA_ERROR_NOT_INITIALIZED = 3,
        CUDA_ERROR_STUB_LIBRARY = 34,
        CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
        CUDA_ERROR_NO_DEVICE = 100,
        CUDA_ERROR_INVALID_DEVICE = 101,
        CUDA_ERROR_INVALID_CONTEXT = 201,
        CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
        CUDA_ERROR_ECC_UNCORRECTABLE = 214,
        CUDA_ERROR_INVALID_PTX = 218,
        CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
        CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
        CUDA_ERROR_OPERATING_SYSTEM = 304,
        CUDA_ERROR_INVALID_HANDLE = 400,
        CUDA_ERROR_NOT_FOUND = 500,
        CUDA_ERROR_ILLEGAL_ADDRESS = 700,
        CUDA_ERROR_LAUNCH_FAILED = 719,
        CUDA_ERROR_NOT_PERMITTED = 800,
        CUDA_ERROR_NOT_SUPPORTED = 801,
        CUDA_ERROR_SYSTEM_NOT_READY = 802,
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
        CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
        CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
        CUDA_ERROR_MPS_RPC_FAILURE = 806,
        CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
        CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
        CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
        CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
        CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
        CUDA_ERROR_UNKNOWN = 999,
};

enum {
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
        CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133, /* from CUDA 12.0 on */
};

enum { CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0 };
enum { CU_CTX_SCHED_BLOCKING_SYNC = 4 }; /* who waits sleeps */
enum { CU_EVENT_BLOCKING_SYNC = 1 };

/*
 * The functions that we call: NEED or MAY, the member, its arguments, and the symbols that will do, best first. The _v2
 * names are those that cuda.h puts in the place of the plain ones: the plain symbols have 32-bit sizes.
 */
#define CUDA_FUNCTIONS(NEED, MAY)                                                                                      \
        NEED(init, (unsigned int flags), "cuInit")                                                                     \
        NEED(driver_get_version, (int *version), "cuDriverGetVersion")                                                 \
        NEED(device_get_count, (int *count), "cuDeviceGetCount")                                                       \
        NEED(device_get, (CUdevice * device, int ordinal), "cuDeviceGet")                                              \
        NEED(device_get_name, (char *name, int size, CUdevice device), "cuDeviceGetName")                              \
        MAY(device_get_uuid, (CUuuid * uuid, CUdevice device), "cuDeviceGetUuid_v2", "cuDeviceGetUuid")                \
        NEED(device_get_attribute, (int *value, int attribute, CUdevice device), "cuDeviceGetAttribute")               \
        NEED(device_total_mem, (size_t * bytes, CUdevice device), "cuDeviceTotalMem_v2")                               \
        NEED(ctx_create, (CUcontext * context, unsigned int flags, CUdevice device), "cuCtxCreate_v2")                 \
        NEED(ctx_destroy, (CUcontext context), "cuCtxDestroy_v2")                                                      \
        MAY(ctx_get_exec_affinity, (CUexecAffinityParam * affinity, int type), "cuCtxGetExecAffinity")                 \
        NEED(ctx_synchronize, (void), "cuCtxSynchronize")                                                              \
        NEED(mem_get_info, (size_t * available, size_t * total), "cuMemGetInfo_v2")                                    \
        NEED(mem_alloc, (CUdeviceptr * address, size_t size), "cuMemAlloc_v2")                                         \
        NEED(mem_free, (CUdeviceptr address), "cuMemFree_v2")                                                          \
        NEED(memset_d32, (CUdeviceptr address, unsigned int value, size_t count), "cuMemsetD32_v2")                    \
        NEED(memcpy_from, (void *to, CUdeviceptr from, size_t size), "cuMemcpyDtoH_v2")                                \
        NEED(module_load, (CUmodule * module, const void *image), "cuModuleLoadData")                                  \
        NEED(module_get_function, (CUfunction * function, CUmodule module, const char *name), "cuModuleGetFunction")   \
        NEED(launch,                                                                                                   \
                (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                   \
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,         \
                        CUstream stream, void **arguments, void **extra),                                              \
                "cuLaunchKernel")                                                                                      \
        NEED(event_create, (CUevent * event, unsigned int flags), "cuEventCreate")                                     \
        NEED(event_record, (CUevent event, CUstream stream), "cuEventRecord")                                          \
        NEED(event_synchronize, (CUevent event), "cuEventSynchronize")                                                 \
        NEED(event_elapsed, (float *milliseconds, CUevent begin, CUevent end), "cuEventElapsedTime")                   \
        NEED(event_destroy, (CUevent event), "cuEventDestroy_v2")                                                      \
        MAY(get_error_name, (CUresult code, const char **name), "cuGetErrorName")
