// SPDX-License-Identifier: Apache-2.0
/* The identity of a device: names, addresses, modes. */
#include "sim/nvml/calls.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        const struct mig_profile *profile;
        char mig[NVML_DEVICE_NAME_V2_BUFFER_SIZE];

        if (call.result)
                return call.result;
        if (!call.compute)
                return copy_text(name, length, call.config->name);
        profile = call.compute->instance->place->profile;
        if (call.compute->place->slices == profile->slices)
                snprintf(mig, sizeof(mig), "%s MIG %s", call.config->name, profile->name);
        else
                snprintf(mig, sizeof(mig), "%s MIG %uc.%s", call.config->name, call.compute->place->slices,
                        profile->name);
        return copy_text(name, length, mig);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);

        if (call.result)
                return call.result;
        return copy_text(uuid, length, call.compute ? call.compute->uuid : call.gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);

        if (call.result)
                return call.result;
        if (!index)
                return NVML_ERROR_INVALID_ARGUMENT;
        *index = call.compute ? call.compute->mig_index : call.gpu->index;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        return call.result ? call.result : copy_text(serial, length, call.config->serial);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        char text[NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE];

        if (call.result)
                return call.result;
        snprintf(text, sizeof(text), "%02X.00.%02X.00.01", call.config->model->architecture * 16 & 0xff,
                call.config->model->pci_device & 0xff);
        return copy_text(version, length, text);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
        RETURN_GPU_VALUE(device, brand, (nvmlBrandType_t)call.config->model->brand);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
        RETURN_GPU_VALUE(device, minor, call.config->minor);
}

nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned int *module)
{
        RETURN_GPU_VALUE(device, module, call.gpu->position + 1);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board)
{
        RETURN_GPU_VALUE(device, board, call.config->bus << 8);
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multi)
{
        RETURN_GPU_VALUE(device, multi, 0);
}

/*
 * The first two versions of the struct are the third one's beginning, up to |pciSubSystemId|; a reserved part follows,
 * and no |busId|.
 */
static nvmlReturn_t pci_info(const char *name, nvmlDevice_t device, nvmlPciInfo_t *pci, size_t size)
{
        _cleanup_(call_end) struct call call = call_gpu(name, device);
        nvmlPciInfo_t info;

        if (call.result)
                return call.result;
        if (!pci)
                return NVML_ERROR_INVALID_ARGUMENT;
        info = (nvmlPciInfo_t){.domain = call.config->domain,
                .bus = call.config->bus,
                .device = call.config->device,
                .pciDeviceId = call.config->model->pci_device << 16 | 0x10de,
                .pciSubSystemId = call.config->model->pci_subsystem << 16 | 0x10de};
        snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "%04X:%02X:%02X.0", info.domain & 0xffff, info.bus & 0xff,
                info.device & 0xff);
        snprintf(info.busId, sizeof(info.busId), "%08X:%02X:%02X.0", info.domain, info.bus, info.device);
        memcpy(pci, &info, size);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
        return pci_info(__func__, device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
        return pci_info(__func__, device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
        return pci_info(__func__, device, pci, sizeof(*pci));
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
        nvmlPciInfo_t info;
        nvmlReturn_t result = pci_info(__func__, device, &info, sizeof(info));

        if (result)
                return result;
        if (!pci)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (pci->version != NVML_PCI_INFO_EXT_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        *pci = (nvmlPciInfoExt_v1_t){.version = NVML_PCI_INFO_EXT_V1,
                .domain = info.domain,
                .bus = info.bus,
                .device = info.device,
                .pciDeviceId = info.pciDeviceId,
                .pciSubSystemId = info.pciSubSystemId,
                .baseClass = 3, /* display controller */
                .subClass = 2}; /* 3D */
        memcpy(pci->busId, info.busId, sizeof(pci->busId));
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);

        if (call.result)
                return call.result;
        if (!major || !minor)
                return NVML_ERROR_INVALID_ARGUMENT;
        *major = call.config->model->compute_major;
        *minor = call.config->model->compute_minor;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture)
{
        RETURN_GPU_VALUE(device, architecture, call.config->model->architecture);
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
        RETURN_GPU_VALUE(device, cores, call.config->multiprocessors * call.config->model->cores);
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t *mode)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!mode)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (mode->version != NVML_DEVICE_ADDRESSING_MODE_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        mode->value = call.config->model->coherent ? NVML_DEVICE_ADDRESSING_MODE_ATS : NVML_DEVICE_ADDRESSING_MODE_NONE;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, unsigned int *type)
{
        RETURN_GPU_VALUE(device, type, 2); /* PCIe */
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode)
{
        RETURN_GPU_VALUE(device, mode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display)
{
        RETURN_GPU_VALUE(device, display, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *active)
{
        RETURN_GPU_VALUE(device, active, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
        RETURN_GPU_VALUE(device, mode, call.gpu->persistence ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        call.gpu->persistence = mode == NVML_FEATURE_ENABLED;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
        RETURN_GPU_VALUE(device, generation, call.config->model->pcie_generation);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
        RETURN_GPU_VALUE(device, generation, call.config->model->pcie_generation);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
        RETURN_GPU_VALUE(device, width, 16);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
        RETURN_GPU_VALUE(device, width, 16);
}
