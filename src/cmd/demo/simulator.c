// SPDX-License-Identifier: Apache-2.0
#include "cmd/demo/simulator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/commands.h"

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
        _free_ char *mig = node->mig ? xasprintf(", mig: %s", node->mig) : xstrdup("");
        _free_ char *text = xasprintf("driverVersion: \"%s\"\ngpus:\n- {model: %s, count: %u%s%s%s%s}\n",
                node->driver_version, node->model, node->gpus, name, memory, sms, mig);
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

/* ---- the command ---- */

#define PAUSE_MAX 3600U /* seconds */

enum { ALL, KEEP, LOG, COLOR, PAUSE, NVML_LIBRARY, CUDA_LIBRARY, MPS_PROGRAMS };

static const char *const colours[] = {"auto", "always", "never", NULL};

static const struct option own[] = {
        [ALL] = COMMAND_FLAG(
                "all", "show all screens: equal shares, a resource for each GPU, declared shares, DRA and MIG, too"),
        [KEEP] = COMMAND_FLAG("keep", "stay up until Ctrl-C, and print where the files are"),
        [LOG] = COMMAND_FLAG("log", "show the agent's log at the end"),
        [COLOR] = {.flag = "color",
                .type = OPTION_CHOICE,
                .choices = colours,
                .fallback = "auto",
                .argument = "WHEN",
                .help = "colours: always, never, or auto: on a terminal, unless NO_COLOR is set"},
        [PAUSE] = COMMAND_TEXT("pause", "20", "SECONDS",
                "on a terminal: how long a screen stays unless Enter shows the next; 0: all at once"),
        [NVML_LIBRARY] =
                COMMAND_TEXT("nvml-library", "", "PATH", "the simulated NVML library; empty: found beside the program"),
        [CUDA_LIBRARY] =
                COMMAND_TEXT("cuda-library", "", "PATH", "the simulated CUDA library; empty: found beside the program"),
        [MPS_PROGRAMS] = COMMAND_TEXT(
                "mps-programs", "", "PATH", "folder with the simulated MPS programs; empty: found beside the program"),
};

static bool wants_colour(const char *when)
{
        return strcmp(when, "auto") == 0 ? command_wants_colours() : strcmp(when, "always") == 0;
}

/* The path that is named, or that of the file beside this program; for the caller to free, or NULL. */
static char *find_file(const char *named, enum simulator_file file, struct error *err)
{
        return *named ? xstrdup(named) : simulator_find(file, err);
}

/* Returns only after a failure. */
static void become_demo(const char *const *values, struct error *err)
{
        _free_ char *program = realpath("/proc/self/exe", NULL);
        _free_ char *demo = simulator_find(SIMULATOR_DEMO, err);
        _free_ char *programs = demo ? find_file(values[MPS_PROGRAMS], SIMULATOR_MPS, err) : NULL;
        _free_ char *library = programs ? find_file(values[NVML_LIBRARY], SIMULATOR_NVML, err) : NULL;
        _free_ char *cuda = library ? find_file(values[CUDA_LIBRARY], SIMULATOR_CUDA, err) : NULL;

        if (!cuda)
                return;
        execl(demo, demo, program, library, cuda, programs, wants_colour(values[COLOR]) ? "true" : "false",
                isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? values[PAUSE] : "0", values[KEEP], values[LOG],
                values[ALL], NULL);
        error_raise_errno(err, errno, "start '%s'", demo);
}

static int demo_run(struct command_call *call, struct error *err)
{
        uint64_t pause;

        if (command_number(call, PAUSE, " of seconds", 0, PAUSE_MAX, &pause, err) < 0)
                return COMMAND_REFUSED;
        become_demo(call->values, err);
        return COMMAND_FAILED;
}

const struct command command_demo = {
        .name = "demo",
        .summary = "show all of it on simulated GPUs, without a GPU and without a cluster",
        .run = demo_run,
        .shared = command_none,
        COMMAND_OWN(own),
        .program = "warpshare demo",
        .help = "usage: warpshare demo [OPTION...]\n"
                "\n"
                "Starts a simulated node with 4 V100-32GB, a kubelet stand-in, the real agent and warpshare mps.\n"
                "Five screens: shares of any size; what 'warpshare probe' measures in one of them; an MPS daemon\n"
                "that is killed; a GPU that fails and comes back; who uses what. It takes some ten seconds; on a\n"
                "terminal one screen waits for Enter after the other, and q ends it. --all shows the other ways\n"
                "to share a GPU, too: eleven screens in half a minute.\n"
                "Ends with status 0 if all was as it should be.\n"
                "\n",
};
