/* warpshare mps: the supervisor of this node's MPS control daemons, and commands that query it. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command_line.h"
#include "base/io/init.h"
#include "base/io/keeper.h"
#include "cmd/commands.h"
#include "cmd/mps/command.h"
#include "cmd/mps/process.h"
#include "cmd/mps/standalone.h"
#include "base/io/signals.h"
#include "mps/supervisor/shm_mount.h"

/* ---- warpshare mps ---- */

enum { RUN_STANDALONE, RUN_GRACE, RUN_NO_COMPUTE_MODE, RUN_SHM, RUN_SHM_SIZE, RUN_METRICS, RUN_COUNT };

static const char *const shm_choices[] = {"daemon", "node", NULL};
#define SHM_MIB_MAX (UINT64_C(1) << 30)

static const struct option run_own[RUN_COUNT] = {
        [RUN_STANDALONE] = {.flag = "standalone",
                .environment = {"WARPSHARE_MPS_STANDALONE"},
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "share the GPUs of a machine without Kubernetes: the daemons come from --config-file, or are one "
                        "for each GPU, and 'warpshare run' starts programs in shares of them; --mps-directory is then " STANDALONE_ROOT
                        " by default"},
        [RUN_GRACE] = {.flag = "grace",
                .type = OPTION_STRING,
                .fallback = "20",
                .argument = "SECONDS",
                .help = "how long clients may continue after SIGTERM, before their daemon is ended; at most 86400"},
        [RUN_NO_COMPUTE_MODE] = {.flag = "no-compute-mode",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "leave the compute mode of GPUs as it is, instead of EXCLUSIVE_PROCESS while a daemon has them"},
        [RUN_SHM] = {.flag = "shared-memory",
                .environment = {"WARPSHARE_MPS_SHARED_MEMORY"},
                .type = OPTION_CHOICE,
                .choices = shm_choices,
                .fallback = "daemon",
                .argument = "WORD",
                .help = "who shares one /dev/shm: daemon, the clients of one daemon (where this process may mount, and "
                        "containers see the mount), or node, all clients of the node"},
        [RUN_SHM_SIZE] = {.flag = "shared-memory-size",
                .environment = {"WARPSHARE_MPS_SHARED_MEMORY_SIZE"},
                .type = OPTION_STRING,
                .fallback = "0",
                .argument = "MIB",
                .help = "the most that /dev/shm of one daemon and its clients may hold; 0: half of the memory of the "
                        "machine, divided among the daemons by their GPUs"},
        [RUN_METRICS] = {.flag = "metrics-address",
                .environment = {"WARPSHARE_MPS_METRICS_ADDRESS"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "ADDRESS",
                .help = "where /metrics and /healthz are served, as 127.0.0.1:9401, [::1]:9401 or :9401; empty: nowhere"},
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

const struct command_line command_mps_line = {
        .shared = run_shared,
        .own = run_own,
        .n_own = RUN_COUNT,
        .program = "warpshare mps",
        .help = run_help,
};

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

static int run_supervisor(const struct option_set *set, const char *const *values)
{
        const bool is_standalone = strcmp(values[RUN_STANDALONE], "true") == 0;
        struct mps_process_options options = {
                .root = option_set_value(set, "mps-directory"),
                .control = option_set_value(set, "mps-control"),
                .driver_root = option_set_value(set, "driver-root-ctr-path"),
                .system_root = option_set_value(set, "system-root"),
                .nvml_library = option_set_value(set, "nvml-library"),
                .has_own_shm = strcmp(values[RUN_SHM], "daemon") == 0,
                .sets_compute_mode = strcmp(values[RUN_NO_COMPUTE_MODE], "true") != 0,
                .metrics_address = values[RUN_METRICS],
        };
        struct mps_process process;
        uint64_t grace = 0;
        uint64_t shm_mib = 0;
        struct error err;
        int status = EXIT_FAILED;

        if (!text_to_uint(values[RUN_GRACE], 86400, &grace)) {
                error_raise(&err, ERROR_INVALID, "grace: '%.20s' is no number of seconds from 0 to 86400",
                        values[RUN_GRACE]);
                return command_line_refuse(&command_mps_line, &err);
        }
        if (!text_to_uint(values[RUN_SHM_SIZE], SHM_MIB_MAX, &shm_mib)) {
                error_raise(&err, ERROR_INVALID, "shared-memory-size: '%.20s' is no number of MiB from 0 to %" PRIu64,
                        values[RUN_SHM_SIZE], SHM_MIB_MAX);
                return command_line_refuse(&command_mps_line, &err);
        }
        options.grace_ms = grace * 1000;
        options.shm_kib = shm_mib * 1024;
        command_line_setup_log(set, NULL);
        if (!command_begin(set, &options.is_kept, &status))
                return status;
        log_info("warpshare mps", LOG_STR("version", WARPSHARE_VERSION), LOG_STR("root", options.root));
        if (is_standalone)
                status = standalone_run(set, &options, &err);
        else if (mps_process_start(&process, &options, &err) < 0)
                status = -1;
        else
                status = mps_process_run(&process);
        if (status < 0) {
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED); /* daemons on record keep running */
        }
        return status;
}

/*
 * Beside an agent, the daemons are what the agent wants. A variable of the environment may be meant for the agent in
 * the same pod; a flag is meant for this command.
 */
static bool is_for_standalone_only(const struct option_set *set, struct error *err)
{
        static const char *const flags[] = {"config-file", "mig-strategy"};

        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
                if (set->sources[option_find(flags[i])] == OPTION_FLAG) {
                        error_raise(err, ERROR_INVALID,
                                "--%s: only with --standalone; without it, the agent says which daemons there are",
                                flags[i]);
                        return true;
                }
        return false;
}

static int supervise(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[RUN_COUNT];
        struct option_set set;
        struct error err;
        int status;

        signals_hold(); /* blocked until the loop handles them */
        if (!command_line_read(&command_mps_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (strcmp(values[RUN_STANDALONE], "true") == 0)
                standalone_set_defaults(&set);
        else if (is_for_standalone_only(&set, &err))
                return command_line_refuse(&command_mps_line, &err);
        return run_supervisor(&set, values);
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

static const struct command_line shm_line = {
        .shared = shm_shared, .program = "warpshare mps mount-shm", .help = SHM_HELP("warpshare mps")};
static const struct command_line drop_in_shm_line = {
        .shared = shm_shared, .program = "mps-control-daemon mount-shm", .help = SHM_HELP("mps-control-daemon")};

static int mount_shm(const struct command_line *line, int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct option_set set;
        struct error err;
        const char *root;
        bool mounted;
        int status;

        if (!command_line_read(line, &set, NULL, &arena, argc, argv, &status))
                return status;
        root = option_set_value(&set, "mps-directory");
        if (mps_shm_mount(root, mps_shm_machine_kib(), &mounted, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return EXIT_FAILED;
        }
        printf(mounted ? "mounted a tmpfs at '%s/shm'\n" : "a tmpfs is mounted at '%s/shm' already, and stays\n", root);
        return 0;
}

static int command_mount_shm(int argc, char **argv)
{
        return mount_shm(&shm_line, argc, argv);
}

static int command_drop_in_mount_shm(int argc, char **argv)
{
        return mount_shm(&drop_in_shm_line, argc, argv);
}

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

/* ---- the table of commands ---- */

const struct command command_mps_table[] = {
        {"status", "show the daemons and their state", mps_command_status, &mps_command_status_line, NULL},
        {"ping", "ask the supervisor for a sign of life", mps_command_ping, &mps_command_ping_line, NULL},
        {"mount-shm", "mount the shared memory of MPS, once", command_mount_shm, &shm_line, NULL},
        {"uninstall", "undo all of it, where no supervisor runs", mps_command_uninstall, &mps_command_uninstall_line,
                NULL},
        {0},
};

const struct command command_mps_control_daemon_table[] = {
        {"mount-shm", "mount the shared memory of MPS, once", command_drop_in_mount_shm, &drop_in_shm_line, NULL},
        {0},
};

int command_mps(int argc, char **argv)
{
        const struct command *below = argc > 1 ? command_find(command_mps_table, argv[1]) : NULL;

        if (argc > 1 && strcmp(argv[1], MPS_EXEC_IN_SHM) == 0)
                return command_exec_in_shm(argc - 1, argv + 1);
        if (argc > 1 && !below && argv[1][0] != '-')
                return command_refuse_word("warpshare mps", command_mps_table, argv[1]);

        signal(SIGPIPE, SIG_IGN); /* writing to a socket that the peer has closed must return an error, not end the
                                   * process */
        return below ? below->run(argc - 1, argv + 1) : supervise(argc, argv);
}
