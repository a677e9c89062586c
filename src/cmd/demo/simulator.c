#include "cmd/demo/simulator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define SCENARIO "WARPSHARE_SIM_SCENARIO"

/* Where each file is, relative to the folder of this program: installed, or in a build folder. */
static const struct {
        const char *places[2];
        const char *missing;
} files[] = {
        [SIMULATOR_NVML] = {{"../lib/warpshare/libwarpshare-nvml-sim.so", "../../sim/lib/libnvidia-ml.so.1"},
                "the simulated NVML library is not in ../lib/warpshare; name it with --nvml-library"},
        [SIMULATOR_CUDA] = {{"../lib/warpshare/libwarpshare-cuda-sim.so", "../../sim/cuda/libcuda.so.1"},
                "the simulated CUDA library is not in ../lib/warpshare; name it with --cuda-library"},
        [SIMULATOR_MPS] = {{"../lib/warpshare/mps-sim", "../../sim/mps/bin"},
                "the simulated MPS programs are not in ../lib/warpshare/mps-sim; name their folder with --mps-programs"},
        [SIMULATOR_DEMO] = {{"../lib/warpshare/warpshare-demo", "../../sim/demo/warpshare-demo"},
                "the demonstration is not in ../lib/warpshare"},
};

/* The models of sim/hardware/models.c, which is in the library; a test compares the two. */
const char *const simulator_models[] = {"V100-32GB", "T4", "A30", "A100-40GB", "A100-80GB", "L40S", "H100-80GB", "H200",
        "GB200", "RTX-PRO-6000", "V100-16GB", "A2", "A10", "A10G", "A16", "A40", "A6000", "A800-80GB", "L4", "L40",
        "RTX-4090", "H100-NVL", "H20", "GH200", "B200", "B300", "GB300", "RTX-5090", "GB10", "Thor", NULL};

char *simulator_find(enum simulator_file file, struct error *err)
{
        _free_ char *program = realpath("/proc/self/exe", NULL);
        _free_ char *folder = NULL;

        if (!program) {
                error_raise_errno(err, errno, "find this program");
                return NULL;
        }
        folder = file_folder(program);
        for (size_t i = 0; i < ARRAY_SIZE(files[file].places); i++) {
                _free_ char *path = xasprintf("%s/%s", folder, files[file].places[i]);

                if (access(path, R_OK) == 0)
                        return realpath(path, NULL);
        }
        error_raise(err, ERROR_NOT_FOUND, "%s, seen from '%s'", files[file].missing, folder);
        return NULL;
}

void simulator_set_scenario(const char *path)
{
        setenv(SCENARIO, path, 1);
}

/* The file has no name, and vanishes with the process. */
int simulator_set_node(const struct simulator_node *node, struct error *err)
{
        _free_ char *name = node->name ? xasprintf(", name: \"%s\"", node->name) : xstrdup("");
        _free_ char *memory =
                node->memory_mib ? xasprintf(", memory: %lluMiB", (unsigned long long)node->memory_mib) : xstrdup("");
        _free_ char *sms = node->sms ? xasprintf(", sms: %llu", (unsigned long long)node->sms) : xstrdup("");
        _free_ char *text = xasprintf("driverVersion: \"%s\"\ngpus:\n- {model: %s, count: %u%s%s%s}\n",
                node->driver_version, node->model, node->gpus, name, memory, sms);
        _free_ char *path = NULL;
        int fd = memfd_create("scenario", MFD_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "make a file for the simulated node");
        if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
                close(fd);
                return error_errno(err, errno, "write down the simulated node");
        }
        path = xasprintf("/proc/self/fd/%d", fd);
        simulator_set_scenario(path);
        return 0;
}
