// SPDX-License-Identifier: Apache-2.0
/*
 * mps-control-daemon: the supervisor as a replacement of NVIDIA's component of that name. It reads the plugin's
 * configuration file and the GPUs, and so computes the wanted daemons itself; NVIDIA's plugin or ours then uses them.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <warpshare_commit.h>

#include "base/log.h"
#include "base/io/keeper.h"
#include "cmd/commands.h"
#include "cmd/mps/command.h"
#include "cmd/mps/own_plan.h"
#include "base/io/loop.h"

#define PROGRAM "mps-control-daemon"
#define GRACE_MS UINT64_C(20000)

static int mps_control_daemon_run(struct command_call *call, struct error *err)
{
        struct option_set *set = &call->set;
        const struct own_plan_options options = {
                .options = set,
                .process = {.supervisor = {.sets_compute_mode = true, .grace_ms = GRACE_MS},
                        .own_plan = PROGRAM " takes its daemons from its own configuration; only 'warpshare mps' takes "
                                            "them from the agent"},
        };
        int status;

        /* Only the plugin needs the host's MPS root, to mount it; NVIDIA's charts do not pass it to this program. */
        set->values[option_find("mps-root")] = option_set_value(set, "mps-directory");
        command_setup_log(set, "klog");
        init_if_first();
        log_info("Starting MPS Control Daemon.", LOG_STR("version", "Warpshare " WARPSHARE_VERSION));
        status = own_plan_run(&options, err);
        if (status < 0) {
                log_error("cannot start", LOG_ERR(err));
                _exit(EXIT_FAILED); /* daemons on record keep running */
        }
        return status;
}

/* ---- the command line ---- */

static const char *const shared[] = {"config-file", "mig-strategy", "mps-directory", "mps-control",
        "driver-root-ctr-path", "nvml-library", "system-root", "log-level", "log-format", NULL};

static const char help[] =
        "usage: mps-control-daemon [OPTION...]\n"
        "       mps-control-daemon mount-shm        mount the shared memory of MPS, once, as root\n"
        "\n"
        "Warpshare as a drop-in for the MPS control daemon of NVIDIA's k8s-device-plugin: starts the control\n"
        "daemons that the configuration file asks for, one for each resource unless daemonScope is gpu, and\n"
        "supervises them. Each has <MPS directory>/<resource>/pipe, log and .started; .ready is in the MPS\n"
        "directory while all of them are ready. SIGHUP reads the file and the GPUs again, and so does a change of\n"
        "the file: only daemons that differ are touched. SIGTERM ends it. Log lines have klog's format; at level\n"
        "debug they also have what the daemons write into their control.log.\n"
        "\n";

/*
 * NVIDIA's charts let the config manager signal the process whose first argument is "/usr/bin/mps-control-daemon", but
 * start it by its bare name, so it is never found. Ours sets its first argument to that path.
 */
static void take_full_name(char **argv)
{
        static char name[] = "/usr/bin/" PROGRAM;
        char *bare = argv[0];

        if (strchr(bare, '/') || strcmp(bare, PROGRAM) != 0)
                return;
        argv[0] = name;
        execv("/proc/self/exe", argv);
        argv[0] = bare; /* then it keeps its present name */
}

static const struct command *const below[] = {&mps_command_drop_in_mount_shm, NULL};

static int mps_control_daemon_begin(int argc, char **argv)
{
        signal(SIGPIPE, SIG_IGN); /* writing to a socket that the peer has closed returns an error then */
        if (argc < 2 || !command_find(below, argv[1])) {
                signals_hold(); /* for the program that it becomes as well */
                take_full_name(argv);
        }
        return -1;
}

const struct command command_mps_control_daemon = {
        .name = "mps-control-daemon",
        .summary = "the MPS supervisor as a drop-in for NVIDIA's MPS control daemon",
        .run = mps_control_daemon_run,
        .begin = mps_control_daemon_begin,
        .below = below,
        .is_service = true,
        .shared = shared,
        .program = PROGRAM,
        .help = help,
        .version = "MPS Control Daemon version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_drop_in = true,
};
