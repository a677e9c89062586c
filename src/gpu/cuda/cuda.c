#include "gpu/cuda/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "gpu/cuda/trouble.h"

struct symbol {
        size_t offset; /* of the member in struct cuda */
        bool needed;
        const char *names[2]; /* best first */
};

#define NEED(member, arguments, ...) {offsetof(struct cuda, member), true, {__VA_ARGS__}},
#define MAY(member, arguments, ...) {offsetof(struct cuda, member), false, {__VA_ARGS__}},
static const struct symbol symbols[] = {CUDA_FUNCTIONS(NEED, MAY)};
#undef NEED
#undef MAY

static int cuda_raise_not_loaded(const char *path, struct error *err)
{
        const char *reason = dlerror();

        if (reason && text_starts_with(reason, path) && strstr(reason, "No such file or directory"))
                return error_set(err, ERROR_NOT_FOUND,
                        "%s not found: was this container started with the NVIDIA runtime, does the pod request a GPU, and "
                        "does NVIDIA_DRIVER_CAPABILITIES include 'compute'?",
                        path);
        return error_set(err, ERROR_INVALID, "cannot load CUDA: %s", reason ? reason : path);
}

int cuda_open(struct cuda *ret, const char *library, struct error *err)
{
        const char *path = library && *library ? library : CUDA_LIBRARY;
        struct cuda cuda = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

        if (!cuda.library)
                return cuda_raise_not_loaded(path, err);
        for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
                void *address = NULL;

                for (size_t n = 0; n < ARRAY_SIZE(symbols[i].names) && symbols[i].names[n] && !address; n++)
                        address = dlsym(cuda.library, symbols[i].names[n]);
                if (!address && symbols[i].needed) {
                        error_raise(err, ERROR_INVALID, "%s is not CUDA's library, or too old: it has no %s", path,
                                symbols[i].names[0]);
                        dlclose(cuda.library);
                        return -1;
                }
                memcpy((char *)&cuda + symbols[i].offset, &address, sizeof(address));
        }
        *ret = cuda;
        return 0;
}

int cuda_check(struct cuda *cuda, CUresult code, const char *call, struct error *err)
{
        const struct cuda_trouble *trouble = cuda_trouble(code);
        const char *name = NULL;

        if (code == CUDA_SUCCESS)
                return 0;
        cuda->failed = code;
        cuda->failed_call = call;
        if (trouble)
                return error_set(err, ERROR_UNAVAILABLE, "%s: error %d, %s: %s; %s", call, code, trouble->name,
                        trouble->meaning, trouble->remedy);
        if (cuda->get_error_name && cuda->get_error_name(code, &name) == CUDA_SUCCESS && name)
                return error_set(err, ERROR_UNAVAILABLE, "%s: error %d, %s", call, code, name);
        return error_set(err, ERROR_UNAVAILABLE, "%s: error %d", call, code);
}
