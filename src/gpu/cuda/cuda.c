// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/cuda.h"

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"
#include "base/macro.h"
#include "base/text.h"

#define NEED(member, arguments, ...) LIBRARY_SYMBOL(struct cuda, member, __VA_ARGS__),
#define MAY(member, arguments, ...) {offsetof(struct cuda, member), {__VA_ARGS__}, true},
static const struct library_symbol symbols[] = {CUDA_FUNCTIONS(NEED, MAY)};
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
        const char *missing;

        if (!cuda.library)
                return cuda_raise_not_loaded(path, err);
        missing = library_find(cuda.library, symbols, ARRAY_SIZE(symbols), &cuda, NULL);
        if (missing) {
                dlclose(cuda.library);
                return error_set(
                        err, ERROR_INVALID, "%s is not CUDA's library, or too old: it has no %s", path, missing);
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

/* ---- trouble ---- */

#define TROUBLE(name, meaning, remedy)                                                                                 \
        {                                                                                                              \
                CUDA_ERROR_##name, "CUDA_ERROR_" #name, (meaning), (remedy)                                            \
        }

static const struct cuda_trouble table[] = {
        TROUBLE(OUT_OF_MEMORY, "there is not enough memory even for the start",
                "the limit is below what a CUDA context needs, or neighbours hold all memory: ask for more replicas, or "
                "see who holds what with nvidia-smi on the node"),
        TROUBLE(NOT_INITIALIZED, "the driver is not initialised, or is shutting down", "start the program again"),
        TROUBLE(STUB_LIBRARY, "the libcuda.so.1 that was found is the toolkit's stub, which is for linking only",
                "take the folder 'stubs' out of LD_LIBRARY_PATH, and start the container with the NVIDIA runtime"),
        TROUBLE(DEVICE_UNAVAILABLE, "the GPU is held exclusively, and this process did not come through MPS",
                "the compute mode is EXCLUSIVE_PROCESS or PROHIBITED: is CUDA_MPS_PIPE_DIRECTORY set to the mounted "
                "pipe directory, and does its control daemon run ('warpshare mps status' on the node)?"),
        TROUBLE(NO_DEVICE, "CUDA sees no GPU",
                "does the pod request one, and is CUDA_VISIBLE_DEVICES right? Under MPS it must name the GPU by its UUID, "
                "since indices count anew in the daemon"),
        TROUBLE(INVALID_DEVICE, "there is no GPU of that number", "choose with --device among those that are visible"),
        TROUBLE(NO_BINARY_FOR_GPU, "the program has no code for this GPU", "Volta and newer GPUs are supported"),
        TROUBLE(ECC_UNCORRECTABLE, "the GPU's memory has an error that could not be corrected",
                "the GPU needs a reset: drain the node"),
        TROUBLE(INVALID_PTX, "the driver's compiler refuses the program",
                "this is a fault of warpshare: please report it with the driver's version"),
        TROUBLE(JIT_COMPILER_NOT_FOUND, "the driver's compiler is missing in this container",
                "libnvidia-ptxjitcompiler.so.1 must be mounted: NVIDIA_DRIVER_CAPABILITIES has to include 'compute'"),
        TROUBLE(UNSUPPORTED_PTX_VERSION, "the driver is too old for the program",
                "a driver of 2017 or later is needed"),
        TROUBLE(OPERATING_SYSTEM, "a call of the operating system failed",
                "often this container does not have the /dev/shm of the MPS daemon, or too few descriptors are "
                "allowed"),
        TROUBLE(ILLEGAL_ADDRESS, "a kernel touched memory that is not its own",
                "if this program did not cause it: under MPS a neighbour's fault reaches every client of the GPU. "
                "Start the program again"),
        TROUBLE(LAUNCH_FAILED, "a kernel failed on the GPU",
                "if this program did not cause it: under MPS a neighbour's fault reaches every client of the GPU. "
                "Start the program again"),
        TROUBLE(NOT_PERMITTED, "the driver does not permit it",
                "on GPUs before Volta MPS serves one user only; else look at the container's security profile"),
        TROUBLE(NOT_SUPPORTED, "this GPU or driver cannot do it", "see the driver's release notes"),
        TROUBLE(SYSTEM_NOT_READY, "the machine's NVSwitch fabric is not ready",
                "does nvidia-fabricmanager run on the node, in the driver's version?"),
        TROUBLE(SYSTEM_DRIVER_MISMATCH, "the CUDA library and the kernel driver are of different versions",
                "the driver of the node was upgraded: restart the container"),
        TROUBLE(COMPAT_NOT_SUPPORTED_ON_DEVICE,
                "the image's own libcuda (package cuda-compat) does not support this GPU",
                "remove cuda-compat from the image or from LD_LIBRARY_PATH"),
        TROUBLE(MPS_CONNECTION_FAILED, "the MPS control daemon answered, but the connection to its server failed",
                "the server could not start or is of another driver version: see control.log and server.log on the node. "
                "Is the daemon's /dev/shm mounted here?"),
        TROUBLE(MPS_RPC_FAILURE, "the MPS server was lost during a call",
                "it ended, or is ending, because of a fault or a restart: start the program again"),
        TROUBLE(MPS_SERVER_NOT_READY, "the MPS server does not take clients at present",
                "it is starting, recovers from a fault (until every client that was hit has ended), or serves another user "
                "id: try again in some seconds"),
        TROUBLE(MPS_MAX_CLIENTS_REACHED, "the MPS server has as many clients as it can take",
                "48 a GPU from Volta on, 60 from driver 590 on, less on MIG devices: use fewer processes or replicas"),
        TROUBLE(MPS_MAX_CONNECTIONS_REACHED, "the GPU has no more hardware connections for MPS clients",
                "lower CUDA_DEVICE_MAX_CONNECTIONS (2 under MPS) in the containers, or use fewer processes"),
        TROUBLE(MPS_CLIENT_TERMINATED, "this client was terminated through the MPS control daemon",
                "the limit monitor or an admin did so: see the events of the pod"),
        TROUBLE(INVALID_RESOURCE_CONFIGURATION, "the SMs asked for cannot be given",
                "under static partitioning each client needs CUDA_MPS_SM_PARTITION with a partition that exists"),
        TROUBLE(UNKNOWN, "the driver does not say why", "the kernel's log (dmesg, lines with NVRM) may"),
};

const struct cuda_trouble *cuda_trouble(CUresult code)
{
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (table[i].code == code)
                        return &table[i];
        return NULL;
}
