// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/library.h"
#include "base/text.h"

#define LIBRARY "libnvidia-ml.so.1"

/* The same folders as NVIDIA's device plugin (k8s-device-plugin 0.20, internal/lookup). */
static const char *const folders[] = {
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/lib64",
        "/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
};

#define NEED(member, arguments, ...) LIBRARY_SYMBOL(struct nvml, functions.member, __VA_ARGS__),
#define MAY(member, arguments, ...) {offsetof(struct nvml, functions.member), {__VA_ARGS__}, true},
static const struct library_symbol symbols[] = {NVML_FUNCTIONS(NEED, MAY)};
#undef NEED
#undef MAY

char *nvml_locate(const char *library, const char *driver_root)
{
        char resolved[PATH_MAX];

        if (library && *library)
                return xstrdup(library);
        if (!driver_root || !*driver_root || strcmp(driver_root, "/") == 0)
                return xstrdup(LIBRARY);
        for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
                _free_ char *path = xasprintf("%s%s/" LIBRARY, driver_root, folders[i]);

                if (realpath(path, resolved))
                        return xstrdup(resolved);
        }
        return xstrdup(LIBRARY);
}

static int nvml_raise_not_loaded(const char *path, const char *reason, struct error *err)
{
        if (!reason)
                reason = "no reason given";
        /*
         * glibc's text is "<path>: cannot open shared object file: No such file or directory". If it begins with
         * another name, the library needs that one, and it is missing.
         */
        if (text_starts_with(reason, path) && strstr(reason, "No such file or directory"))
                return error_set(err, ERROR_NOT_FOUND,
                        "%s not found: is the NVIDIA driver installed on this node, and was this container started with "
                        "the NVIDIA runtime (or with the driver mounted at its driver root)?",
                        path);
        return error_set(err, ERROR_INVALID, "cannot load NVML: %s", reason);
}

static int nvml_resolve(struct nvml *nvml, const char *path, struct error *err)
{
        const char *missing = library_find(nvml->library, symbols, ARRAY_SIZE(symbols), nvml, nvml->names);

        if (missing)
                return error_set(
                        err, ERROR_INVALID, "%s is not NVIDIA's management library: it has no %s", path, missing);
        *(void **)(void *)&nvml->error_string = dlsym(nvml->library, "nvmlErrorString");
        return 0;
}

/* "GPU_IS_LOST"; NULL for a number that is none of the interface's. */
static const char *code_name(nvmlReturn_t code)
{
        switch (code) {
#define CODE(name)                                                                                                     \
        case NVML_ERROR_##name:                                                                                        \
                return #name;
        case NVML_SUCCESS:
                return "SUCCESS";
                CODE(UNINITIALIZED)
                CODE(INVALID_ARGUMENT)
                CODE(NOT_SUPPORTED)
                CODE(NO_PERMISSION)
                CODE(ALREADY_INITIALIZED)
                CODE(NOT_FOUND)
                CODE(INSUFFICIENT_SIZE)
                CODE(INSUFFICIENT_POWER)
                CODE(DRIVER_NOT_LOADED)
                CODE(TIMEOUT)
                CODE(IRQ_ISSUE)
                CODE(LIBRARY_NOT_FOUND)
                CODE(FUNCTION_NOT_FOUND)
                CODE(CORRUPTED_INFOROM)
                CODE(GPU_IS_LOST)
                CODE(RESET_REQUIRED)
                CODE(OPERATING_SYSTEM)
                CODE(LIB_RM_VERSION_MISMATCH)
                CODE(IN_USE)
                CODE(MEMORY)
                CODE(NO_DATA)
                CODE(VGPU_ECC_NOT_SUPPORTED)
                CODE(INSUFFICIENT_RESOURCES)
                CODE(FREQ_NOT_SUPPORTED)
                CODE(ARGUMENT_VERSION_MISMATCH)
                CODE(DEPRECATED)
                CODE(NOT_READY)
                CODE(GPU_NOT_FOUND)
                CODE(INVALID_STATE)
                CODE(RESET_TYPE_NOT_SUPPORTED)
                CODE(UNKNOWN)
#undef CODE
        }
        return NULL;
}

static int initialise(const struct nvml *nvml, struct error *err)
{
        nvmlReturn_t code = NVML_CALL(nvml, init);

        switch (code) {
        case NVML_SUCCESS:
                return 0;
        case NVML_ERROR_DRIVER_NOT_LOADED:
                return error_set(err, ERROR_UNAVAILABLE,
                        "the NVIDIA driver is not loaded: is there a GPU in this node, and does 'nvidia-smi' work on it?");
        case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
                return error_set(err, ERROR_UNAVAILABLE,
                        "the NVIDIA library and the loaded kernel driver have different versions: after a driver upgrade, "
                        "reload the kernel modules or reboot the node, then restart this container");
        case NVML_ERROR_NO_PERMISSION:
        case NVML_ERROR_OPERATING_SYSTEM:
                return error_set(err, ERROR_DENIED,
                        "the NVIDIA driver denies access (%s): may this container open /dev/nvidiactl and /dev/nvidia*? "
                        "Run it privileged or with the NVIDIA runtime",
                        code_name(code));
        default:
                return nvml_fail(nvml, code, "nvmlInit", err);
        }
}

int nvml_open(struct nvml **ret, const char *library, const char *driver_root, struct error *err)
{
        _free_ char *path = nvml_locate(library, driver_root);
        _free_ struct nvml *nvml = xcalloc(1, sizeof(*nvml));

        gpu_call_about(CALL_TO_OPEN, 0, NULL);
        /*
         * Lazy binding, as in NVIDIA's programs: NVIDIA's mock library lacks functions that its other functions call.
         */
        gpu_call_begin("dlopen", 0);
        nvml->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        gpu_call_end();
        if (!nvml->library)
                return nvml_raise_not_loaded(path, dlerror(), err);
        if (nvml_resolve(nvml, path, err) < 0 || initialise(nvml, err) < 0) {
                dlclose(nvml->library);
                return -1;
        }
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
        *ret = TAKE_PTR(nvml);
        return 0;
}

struct nvml *nvml_close(struct nvml *nvml)
{
        if (nvml) {
                gpu_call_about(CALL_TO_OPEN, 0, NULL);
                (void)NVML_CALL(nvml, shutdown);
                dlclose(nvml->library);
                free(nvml);
        }
        return NULL;
}

static enum error_kind nvml_kind_of(nvmlReturn_t code)
{
        switch (code) {
        case NVML_ERROR_NO_PERMISSION:
        case NVML_ERROR_OPERATING_SYSTEM:
                return ERROR_DENIED;
        case NVML_ERROR_NOT_FOUND:
        case NVML_ERROR_GPU_NOT_FOUND:
                return ERROR_NOT_FOUND;
        case NVML_ERROR_NOT_SUPPORTED:
        case NVML_ERROR_FUNCTION_NOT_FOUND:
                return ERROR_UNSUPPORTED;
        default:
                return ERROR_UNAVAILABLE;
        }
}

int nvml_fail(const struct nvml *nvml, nvmlReturn_t code, const char *call, struct error *err)
{
        const char *name = code_name(code);
        const char *words = nvml && nvml->error_string ? nvml->error_string(code) : NULL;

        if (!name && !words)
                return error_set(err, nvml_kind_of(code), "%s: error %d", call, (int)code);
        if (!name)
                return error_set(err, nvml_kind_of(code), "%s: %s (%d)", call, words, (int)code);
        if (!words)
                return error_set(err, nvml_kind_of(code), "%s: %s", call, name);
        return error_set(err, nvml_kind_of(code), "%s: %s (%s)", call, words, name);
}

struct nvml_name nvml_name_of(const struct nvml *nvml, enum nvml_function function)
{
        const char *symbol = nvml->names[function];
        const char *version = strstr(symbol, "_v");
        struct nvml_name name;

        snprintf(name.text, sizeof(name.text), "%.*s", (int)(version ? (size_t)(version - symbol) : strlen(symbol)),
                symbol);
        return name;
}

int nvml_check(const struct nvml *nvml, nvmlReturn_t code, enum nvml_function function, struct error *err)
{
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, nvml_name_of(nvml, function).text, err);
}

int nvml_ask(const struct nvml *nvml, nvmlReturn_t code, enum nvml_function function, struct error *err)
{
        if (nvml_is_unknown(code))
                return 0;
        return nvml_check(nvml, code, function, err) < 0 ? -1 : 1;
}

bool nvml_is_unknown(nvmlReturn_t code)
{
        return code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND ||
               code == NVML_ERROR_NO_DATA || code == NVML_ERROR_NO_PERMISSION || code == NVML_ERROR_DEPRECATED;
}

int nvml_outcome(const struct nvml *nvml, nvmlReturn_t code, const char *call, struct error *err)
{
        if (code == NVML_SUCCESS)
                return 1;
        if (nvml_is_unknown(code))
                return 0;
        return nvml_fail(nvml, code, call, err);
}

const char *nvml_text(struct arena *arena, char *text, size_t size)
{
        text[size - 1] = '\0';
        text_clean(text);
        return arena_strdup(arena, text);
}
