// SPDX-License-Identifier: Apache-2.0
/*
 * Compute modes. Where a scenario names a `computeModeDirectory`, there is a file for each GPU or MIG device whose mode
 * was set: the mode, and what the scenario said of it then. So a mode outlives the process that set it, and every
 * process sees it, as it is with a driver. With another mode in the scenario the file is void: the edit counts.
 */
#include "sim/nvml/calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sim/nvml/library.h"

#define FILE_MAX ((size_t)32)

static nvmlComputeMode_t mode_of_scenario(const struct call *call)
{
        return call->compute ? NVML_COMPUTEMODE_DEFAULT : call->gpu->config->compute_mode;
}

/* NULL: each process has its own. */
static char *path_of(const struct call *call)
{
        const char *folder = call->world->scenario->compute_mode_directory;
        const char *uuid = call->compute ? call->compute->uuid : call->gpu->uuid;
        char *path = folder ? xasprintf("%s/%s", folder, uuid) : NULL;

        for (char *at = path ? path + strlen(folder) + 1 : NULL; at && *at; at++)
                if (*at == '/')
                        *at = '-';
        return path;
}

static nvmlReturn_t read_mode(const struct call *call, const char *path, nvmlComputeMode_t *mode)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        unsigned int set;
        unsigned int before;
        struct error err;

        *mode = mode_of_scenario(call);
        if (file_read(path, FILE_MAX, &text, &err) < 0)
                return err.kind == ERROR_NOT_FOUND ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
        if (sscanf(text.data, "%u %u", &set, &before) != 2)
                return NVML_ERROR_UNKNOWN;
        if (before == (unsigned int)*mode)
                *mode = (nvmlComputeMode_t)set;
        return NVML_SUCCESS;
}

static nvmlReturn_t write_mode(const struct call *call, const char *path, nvmlComputeMode_t mode)
{
        char text[FILE_MAX];
        struct error err;

        snprintf(text, sizeof(text), "%u %u\n", mode, mode_of_scenario(call));
        return file_write(path, text, strlen(text), &err) == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        _free_ char *path = NULL;

        if (call.result)
                return call.result;
        if (!mode)
                return NVML_ERROR_INVALID_ARGUMENT;
        path = path_of(&call);
        if (path)
                return read_mode(&call, path, mode);
        *mode = call.compute ? call.compute->compute_mode : call.gpu->compute_mode;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        _free_ char *path = NULL;

        if (call.result)
                return call.result;
        if (mode != NVML_COMPUTEMODE_DEFAULT && mode != NVML_COMPUTEMODE_PROHIBITED &&
                mode != NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
                return NVML_ERROR_INVALID_ARGUMENT;
        path = path_of(&call);
        if (path)
                return write_mode(&call, path, mode);
        if (call.compute)
                call.compute->compute_mode = mode;
        else
                call.gpu->compute_mode = mode;
        return NVML_SUCCESS;
}
