// SPDX-License-Identifier: Apache-2.0
/* warpshare mps: the supervisor of this node's MPS control daemons, and commands that query it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/io/keeper.h"
#include "cmd/commands.h"
#include "cmd/mps/command.h"
#include "cmd/mps/process.h"
#include "cmd/mps/own_plan.h"
#include "mps/supervisor/shm_mount.h"

/* ---- warpshare mps ---- */

enum { RUN_STANDALONE, RUN_GRACE, RUN_NO_COMPUTE_MODE, RUN_SHM, RUN_SHM_SIZE, RUN_METRICS, RUN_COUNT };

static const char *const shm_choices[] = {"daemon", "node", NULL};
#define SHM_MIB_MAX (UINT64_C(1) << 30)

static const struct option run_own[RUN_COUNT] = {
        [RUN_STANDALONE] = COMMAND_FLAG("standalone",
                "share the GPUs of a machine without Kubernetes: the daemons come from --config-file, or are one "
                "for each GPU, and 'warpshare run' starts programs in shares of them; --mps-directory is then " STANDALONE_ROOT
                " by default",
                .environment = {"WARPSHARE_MPS_STANDALONE"}),
        [RUN_GRACE] = COMMAND_TEXT("grace", "20", "SECONDS",
                "how long clients may continue after SIGTERM, before their daemon is ended; at most 86400"),
        [RUN_NO_COMPUTE_MODE] = COMMAND_FLAG("no-compute-mode",
                "leave the compute mode of GPUs as it is, instead of EXCLUSIVE_PROCESS while a daemon has them"),
        [RUN_SHM] = COMMAND_CHOICE("shared-memory", shm_choices, "daemon",
                "who shares one /dev/shm: daemon, the clients of one daemon (where this process may mount, and "
                "containers see the mount), or node, all clients of the node",
                .environment = {"WARPSHARE_MPS_SHARED_MEMORY"}),
        [RUN_SHM_SIZE] = COMMAND_TEXT("shared-memory-size", "0", "MIB",
                "the most that /dev/shm of one daemon and its clients may hold; 0: half of the memory of the "
                "machine, divided among the daemons by their GPUs",
                .environment = {"WARPSHARE_MPS_SHARED_MEMORY_SIZE"}),
        [RUN_METRICS] = COMMAND_TEXT("metrics-address", "", "ADDRESS",
                "where /metrics and /healthz are served, as 127.0.0.1:9401, [::1]:9401 or :9401; empty: nowhere",
                .environment = {"WARPSHARE_MPS_METRICS_ADDRESS"}),
};

static const char *const run_shared[] = {"config-file", "mig-strategy", "mps-directory", "mps-control",
        "driver-root-ctr-path", "system-root", "nvml-library", "restart-after-crash", "log-level", "log-format", NULL};

static const char run_help[] =
        "usage: warpshare mps [OPTION...]\n"
        "       warpshare mps --standalone [--config-file FILE]       on a machine without Kubernetes\n"
        "       warpshare mps status [--output table|json|metrics]    show its daemons; status 1 if one is not ready\n"
        "       warpshare mps ping                                    status 0 if the supervisor's loop answers\n"
        "       warpshare mps mount-shm                               mount the shared memory of MPS, once, as root\n"
        "       warpshare mps uninstall                               undo all of it, where no supervisor runs\n"
        "\n"
        "Supervises the MPS control daemons of this node: starts one for each GPU or MIG device that is shared by\n"
        "MPS, sets its limits and reads them back, polls it every two seconds, and restarts it when it does not\n"
        "respond. The agent requests daemons over <MPS directory>/warpshare.sock and receives their status there.\n"
        "\n"
        "MPS clients live as long as their daemon. So SIGTERM ends the daemons (after --grace), but a supervisor\n"
        "that is killed or crashes leaves them alive, and the next one takes them over; clients notice nothing.\n"
        "In a container a parent process starts it again at once (--restart-after-crash), since all daemons would\n"
        "end with the container. There it needs hostPID, as MPS itself does. The agent may restart at any time.\n"
        "\n"
        "SIGHUP writes the state of every daemon into the log. At --log-level debug the log also has what the\n"
        "daemons write into their control.log.\n"
        "\n";

/*
 * Returns 1 in the process that does the work; otherwise |*ret_status| is the exit status. |*is_kept|: a parent starts
 * it again.
 */
static int command_begin(const struct option_set *set, bool *is_kept, int *ret_status)
{
        struct keeper_crashes crashes = {0};
        struct error err;
        int rc;

        *is_kept = false;
        if (!keeper_is_wanted(option_set_value(set, "restart-after-crash"))) {
                init_if_first();
                return 1;
        }
        rc = keeper_run("the supervisor of MPS", &crashes, ret_status, &err);
        *is_kept = rc > 0;
        if (rc < 0)
                log_warn("nobody would start the supervisor again", LOG_ERR(&err));
        if (crashes.total)
                log_error("the supervisor was ended by a signal, and is started again",
                        LOG_STR("signal", strsignal(crashes.signal)), LOG_UINT("times", crashes.total),
                        LOG_INT("lived_ms", crashes.lived_ms));
        return rc != 0;
}

static int run_supervisor(const struct command_call *call, struct error *err)
{
        const struct option_set *set = &call->set;
        struct mps_process_options options = {
                .supervisor = {.root = option_set_value(set, "mps-directory"),
                        .control = option_set_value(set, "mps-control"),
                        .driver_root = option_set_value(set, "driver-root-ctr-path"),
                        .system_root = option_set_value(set, "system-root"),
                        .nvml_library = option_set_value(set, "nvml-library"),
                        .enter_shm = command_has(call, RUN_SHM, "daemon") ? MPS_PROCESS_SHM : NULL,
                        .sets_compute_mode = !command_is_set(call, RUN_NO_COMPUTE_MODE)},
                .metrics_address = call->values[RUN_METRICS],
        };
        struct mps_process process;
        uint64_t grace = 0;
        uint64_t shm_mib = 0;
        int status = EXIT_FAILED;

        if (command_number(call, RUN_GRACE, " of seconds", 0, 86400, &grace, err) < 0 ||
                command_number(call, RUN_SHM_SIZE, " of MiB", 0, SHM_MIB_MAX, &shm_mib, err) < 0)
                return COMMAND_REFUSED;
        options.supervisor.grace_ms = grace * 1000;
        options.supervisor.shm_kib = shm_mib * 1024;
        command_setup_log(set, NULL);
        if (!command_begin(set, &options.is_kept, &status))
                return status;
        log_info("warpshare mps", LOG_STR("version", WARPSHARE_VERSION), LOG_STR("root", options.supervisor.root));
        if (command_is_set(call, RUN_STANDALONE))
                status = standalone_run(set, &options, err);
        else if (mps_process_start(&process, &options, err) < 0)
                status = -1;
        else
                status = mps_process_run(&process);
        if (status < 0) {
                log_error("cannot start", LOG_ERR(err));
                _exit(EXIT_FAILED); /* daemons on record keep running */
        }
        return status;
}

/*
 * Beside an agent, the daemons are what the agent wants. A variable of the environment may be meant for the agent in
 * the same pod; a flag is meant for this command.
 */
static int check_standalone_only(const struct option_set *set, struct error *err)
{
        static const char *const flags[] = {"config-file", "mig-strategy"};

        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
                if (set->sources[option_find(flags[i])] == OPTION_FLAG)
                        return command_refuse(err,
                                "--%s: only with --standalone; without it, the agent says which daemons there are",
                                flags[i]);
        return 0;
}

static int mps_run(struct command_call *call, struct error *err)
{
        if (command_is_set(call, RUN_STANDALONE))
                standalone_set_defaults(&call->set);
        else if (check_standalone_only(&call->set, err) < 0)
                return COMMAND_REFUSED;
        return run_supervisor(call, err);
}

/* ---- mount-shm ---- */

static const char *const shm_shared[] = {"mps-directory", NULL};

#define SHM_HELP(program)                                                                                              \
        "usage: " program " mount-shm [OPTION...]\n"                                                                   \
        "\n"                                                                                                           \
        "Mounts a tmpfs at <MPS directory>/shm, of half the machine's memory at most: the /dev/shm that MPS\n"         \
        "servers and their clients share. A tmpfs that is mounted there already stays, since clients may be\n"         \
        "using it. Needs a privileged container whose mount of the MPS directory is Bidirectional.\n"                  \
        "\n"

static int mount_shm_run(struct command_call *call, struct error *err)
{
        const char *root = option_set_value(&call->set, "mps-directory");
        bool mounted;

        if (mps_shm_mount(root, mps_shm_machine_kib(), &mounted, err) < 0) {
                fprintf(stderr, "%s\n", err->text);
                return EXIT_FAILED;
        }
        printf(mounted ? "mounted a tmpfs at '%s/shm'\n" : "a tmpfs is mounted at '%s/shm' already, and stays\n", root);
        return 0;
}

#define MOUNT_SHM(of)                                                                                                  \
        {                                                                                                              \
                .name = "mount-shm", .summary = "mount the shared memory of MPS, once", .run = mount_shm_run,          \
                .shared = shm_shared, .program = of " mount-shm", .help = SHM_HELP(of)                                 \
        }

static const struct command mps_command_mount_shm = MOUNT_SHM("warpshare mps");
const struct command mps_command_drop_in_mount_shm = MOUNT_SHM("mps-control-daemon");

/* ---- exec-in-shm ---- */

/*
 * Used by the supervisor only (mps/supervisor/supervisor.h): becomes a control daemon; errors go to that daemon's log.
 */
static int command_exec_in_shm(int argc, char **argv)
{
        struct error err;

        if (argc < 4)
                return EXIT_USAGE;
        if (mps_shm_enter(argv[1], argv[2], &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return EXIT_FAILED;
        }
        execv(argv[3], argv + 3);
        fprintf(stderr, "run '%s': %s\n", argv[3], strerror(errno));
        return EXIT_FAILED;
}

/* ---- the command ---- */

static const struct command *const below[] = {
        &mps_command_status, &mps_command_ping, &mps_command_mount_shm, &mps_command_uninstall, NULL};

static int mps_begin(int argc, char **argv)
{
        if (argc > 1 && strcmp(argv[1], MPS_EXEC_IN_SHM) == 0)
                return command_exec_in_shm(argc - 1, argv + 1);
        signal(SIGPIPE, SIG_IGN); /* writing to a socket that the peer has closed returns an error then */
        return -1;
}

const struct command command_mps = {
        .name = "mps",
        .summary = "supervise this node's MPS control daemons",
        .run = mps_run,
        .begin = mps_begin,
        .below = below,
        .is_service = true,
        .shared = run_shared,
        COMMAND_OWN(run_own),
        .program = "warpshare mps",
        .help = run_help,
};
