// SPDX-License-Identifier: Apache-2.0
/*
 * Memory limits of cgroups: one file for each GPU in the folder of the cgroup. So a limit ends with its folder,
 * outlives the process that set it, and every simulated program sees it, as it is with a kernel. sim/mps enforces the
 * limits. They cannot be set in a folder of the real cgroup file system, which takes no such file.
 */
#include "sim/nvml/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sim/nvml/library.h"

#define FIRST_DRIVER 615
#define FILE_MAX ((size_t)128)

/* A driver before 615 has no such symbol; MIG devices have no limits. */
static struct call begin(const char *name, nvmlDevice_t device, const void *limits, const char *name_space)
{
        struct call call = call_device(name, device);

        if (call.result)
                return call;
        if (strtoul(call.world->versions.driver, NULL, 10) < FIRST_DRIVER)
                call.result = NVML_ERROR_FUNCTION_NOT_FOUND;
        else if (!limits || !name_space || name_space[0] != '/')
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        else if (call.compute)
                call.result = NVML_ERROR_NOT_SUPPORTED;
        else if (access(name_space, F_OK) < 0)
                call.result = NVML_ERROR_NOT_FOUND;
        return call;
}

static char *path_of(const struct call *call, const char *name_space)
{
        return xasprintf("%s/warpshare-sim-limit.%s", name_space, call->gpu->uuid);
}

/* Only sim/mps knows how much memory is in use: |currentUsed| stays 0. */
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
        _cleanup_(call_end) struct call call = begin(__func__, device, limits, limits ? limits->nameSpace : NULL);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = NULL;
        struct error err;
        char *rest;

        if (call.result)
                return call.result;
        path = path_of(&call, limits->nameSpace);
        limits->softLimit = limits->currentUsed = 0;
        limits->hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX;
        if (file_read(path, FILE_MAX, &text, &err) < 0)
                return err.kind == ERROR_NOT_FOUND ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
        limits->softLimit = strtoull(text.data, &rest, 10);
        limits->hardLimit = strtoull(rest, NULL, 10);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)
{
        _cleanup_(call_end) struct call call = begin(__func__, device, limits, limits ? limits->nameSpace : NULL);
        _free_ char *path = NULL;
        struct error err;
        char text[FILE_MAX];

        if (call.result)
                return call.result;
        if (limits->softLimit > limits->hardLimit)
                return NVML_ERROR_INVALID_ARGUMENT;
        path = path_of(&call, limits->nameSpace);
        if (!limits->softLimit && limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX)
                return unlink(path) == 0 || errno == ENOENT ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
        snprintf(text, sizeof(text), "%llu %llu\n", limits->softLimit, limits->hardLimit);
        return file_write(path, text, strlen(text), &err) == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}
