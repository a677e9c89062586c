/*
 * warpshare demo: executes the demonstration, a program of its own (sim/demo), since it contains a simulated kubelet.
 * All that it needs is installed beside it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmd/commands.h"
#include "cmd/demo/simulator.h"

#define PAUSE_MAX 3600U /* seconds */

enum { KEEP, LOG, COLOR, PAUSE, NVML_LIBRARY, CUDA_LIBRARY, MPS_PROGRAMS };

static const char *const colours[] = {"auto", "always", "never", NULL};

static const struct option own[] = {
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
                isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? values[PAUSE] : "0", values[KEEP], values[LOG], NULL);
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
                "Shares the GPUs in 80 equal parts, then as one resource for each GPU, then by what containers\n"
                "declare, then in parts of any size; measures a share with 'warpshare probe', kills an MPS\n"
                "daemon, and makes a GPU fail and come back; then shares a GPU by DRA and by MIG, and shows who\n"
                "uses what. It takes half a minute; on a terminal one screen waits for Enter after the other.\n"
                "Ends with status 0 if all was as it should be.\n"
                "\n",
};
