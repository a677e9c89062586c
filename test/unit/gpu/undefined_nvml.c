// SPDX-License-Identifier: Apache-2.0
/*
 * What NVML needs to be, and a call to a function that no library has, as in NVIDIA's own mock. Loads only lazily.
 */
#include "gpu/nvml_abi.h"

#define SHOWN __attribute__((visibility("default")))

nvmlReturn_t nvmlSpareThatNobodyHas(void);
SHOWN nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(void);
SHOWN nvmlReturn_t nvmlInit_v2(void);
SHOWN nvmlReturn_t nvmlShutdown(void);
SHOWN nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
SHOWN nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
SHOWN nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
SHOWN nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size);
SHOWN nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size);
SHOWN nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(void)
{
        return nvmlSpareThatNobodyHas();
}

nvmlReturn_t nvmlInit_v2(void)
{
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
        *count = 0;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
        (void)index;
        *device = NULL;
        return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
        (void)uuid;
        *device = NULL;
        return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size)
{
        (void)device;
        if (size)
                *uuid = '\0';
        return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size)
{
        return nvmlDeviceGetUUID(device, name, size);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
        (void)device;
        memory->total = 0;
        return NVML_ERROR_INVALID_ARGUMENT;
}
