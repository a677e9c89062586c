#include "cmd/demo/simulator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#define SCENARIO "WARPSHARE_SIM_SCENARIO"

static const char *const program_places[] = {
        "../lib/warpshare/mps-sim",
        "../../sim/mps/bin",
};

static const char *const library_places[] = {
        "../lib/warpshare/libwarpshare-nvml-sim.so",
        "../../sim/lib/libnvidia-ml.so.1",
};

static const char *const cuda_places[] = {
        "../lib/warpshare/libwarpshare-cuda-sim.so",
        "../../sim/cuda/libcuda.so.1",
};

static const char *const demo_places[] = {
        "../lib/warpshare/warpshare-demo",
        "../../sim/demo/warpshare-demo",
};

/* The models of sim/hardware/models.c, which is in the library; a test compares the two. */
const char *const simulator_models[] = {"V100-32GB", "T4", "A30", "A100-40GB", "A100-80GB", "L40S", "H100-80GB", "H200",
        "GB200", "RTX-PRO-6000", "V100-16GB", "A2", "A10", "A10G", "A16", "A40", "A6000", "A800-80GB", "L4", "L40",
        "RTX-4090", "H100-NVL", "H20", "GH200", "B200", "B300", "GB300", "RTX-5090", "GB10", "Thor", NULL};

/* The first of |places| that exists, relative to the folder of this program. */
static char *demo_simulator_find(const char *const *places, size_t n_places, const char *what, struct error *err)
{
        char program[4096];
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
        char *slash;

        if (length < 0) {
                error_errno(err, errno, "find this program");
                return NULL;
        }
        program[length] = '\0';
        slash = strrchr(program, '/');
        *slash = '\0';
        for (size_t i = 0; i < n_places; i++) {
                _free_ char *path = xasprintf("%s/%s", program, places[i]);

                if (access(path, R_OK) == 0)
                        return realpath(path, NULL);
        }
        error_set(err, ERROR_NOT_FOUND, "%s, seen from '%s'", what, program);
        return NULL;
}

char *simulator_find(struct error *err)
{
        return demo_simulator_find(library_places, ARRAY_SIZE(library_places),
                "the simulated NVML library is not in ../lib/warpshare; name it with --nvml-library", err);
}

char *simulator_find_cuda(struct error *err)
{
        return demo_simulator_find(cuda_places, ARRAY_SIZE(cuda_places),
                "the simulated CUDA library is not in ../lib/warpshare; name it with --cuda-library", err);
}

char *simulator_find_mps(struct error *err)
{
        return demo_simulator_find(program_places, ARRAY_SIZE(program_places),
                "the simulated MPS programs are not in ../lib/warpshare/mps-sim; name their folder with --mps-programs",
                err);
}

char *simulator_find_demo(struct error *err)
{
        return demo_simulator_find(
                demo_places, ARRAY_SIZE(demo_places), "the demonstration is not in ../lib/warpshare", err);
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
