/*
 * warpshare mps: the supervisor of this node's MPS control daemons, and what people ask it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/command_line.h"
#include "cmd/init.h"
#include "cmd/mps_command.h"
#include "cmd/mps_process.h"
#include "cmd/shm.h"

/* ---- warpshare mps ---- */

enum { RUN_GRACE, RUN_NO_COMPUTE_MODE, RUN_METRICS, RUN_COUNT };

static const struct option run_own[RUN_COUNT] = {
        [RUN_GRACE] = {.flag = "grace",
                .type = OPTION_STRING,
                .fallback = "20",
                .argument = "SECONDS",
                .help = "how long clients may go on after this process was told to stop, before their daemon ends with them; at most 86400"},
        [RUN_NO_COMPUTE_MODE] = {.flag = "no-compute-mode",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "leave the compute mode of GPUs as it is, instead of EXCLUSIVE_PROCESS while a daemon has them"},
        [RUN_METRICS] = {.flag = "metrics-address",
                .environment = {"WARPSHARE_MPS_METRICS_ADDRESS"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "ADDRESS",
                .help = "where /metrics and /healthz are served, as 127.0.0.1:9401, [::1]:9401 or :9401; empty: nowhere"},
};

static const char *const run_shared[] = {"mps-directory", "mps-control", "driver-root-ctr-path", "system-root",
        "nvml-library", "log-level", "log-format", NULL};

static const struct command_line run_line = {run_shared, run_own, RUN_COUNT};

static const char run_help[] =
        "usage: warpshare mps [OPTION...]\n"
        "       warpshare mps status [--output table|json|metrics]    what its daemons do; status 1 if one is not ready\n"
        "       warpshare mps mount-shm                               mount the shared memory of MPS, once, as root\n"
        "       warpshare mps uninstall                               undo all of it, where no supervisor runs\n"
        "\n"
        "Supervises the MPS control daemons of this node: starts one for each GPU or MIG device that is shared by MPS,\n"
        "sets its limits and reads them back, asks it every two seconds whether it lives, and starts it anew when it\n"
        "does not. The agent says over <MPS directory>/warpshare.sock what is wanted, and hears how it is.\n"
        "\n"
        "MPS clients live as long as their daemon. So SIGTERM ends the daemons (after --grace), but a supervisor that\n"
        "is killed or crashes leaves them alive, and the next one takes them over; clients notice nothing. In a\n"
        "container that needs hostPID, as MPS itself does. An agent may come and go at any time.\n"
        "\n"
        "SIGHUP writes the state of every daemon into the log. At --log-level debug the log has what the daemons write\n"
        "into their control.log, too.\n"
        "\n";

static const char *const help_end = "  -h, --help                    show this text\n"
                                    "  -v, --version                 show the version\n";

static int fail_usage(const char *program, const struct error *err)
{
        fprintf(stderr, "%s: %s\n", program, err->text);
        return EXIT_USAGE;
}

static int print_help(const char *text, const struct command_line *line)
{
        struct strbuf help = STRBUF_INIT;

        strbuf_puts(&help, text);
        command_line_print_help(line, &help);
        strbuf_puts(&help, help_end);
        fputs(help.data, stdout);
        strbuf_done(&help);
        return 0;
}

static int run_supervisor(const struct option_set *set, const char *const *values)
{
        struct mps_process_options options = {
                .root = command_line_get(set, "mps-directory"),
                .control = command_line_get(set, "mps-control"),
                .driver_root = command_line_get(set, "driver-root-ctr-path"),
                .system_root = command_line_get(set, "system-root"),
                .nvml_library = command_line_get(set, "nvml-library"),
                .sets_compute_mode = strcmp(values[RUN_NO_COMPUTE_MODE], "true") != 0,
                .metrics_address = values[RUN_METRICS],
        };
        struct mps_process process;
        uint64_t grace = 0;
        struct error err;

        if (!text_to_uint(values[RUN_GRACE], 86400, &grace)) {
                error_raise(&err, ERROR_INVALID, "grace: '%.20s' is no number of seconds from 0 to 86400",
                        values[RUN_GRACE]);
                return fail_usage("warpshare mps", &err);
        }
        options.grace_ms = grace * 1000;
        command_line_setup_log(set, NULL);
        init_if_first();
        log_info("warpshare mps", LOG_STR("version", WARPSHARE_VERSION), LOG_STR("root", options.root));
        if (mps_process_start(&process, &options, &err) < 0) {
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED); /* nothing was begun that has to be ended, and daemons on record live on */
        }
        return mps_process_run(&process);
}

static int command_run(int argc, char **argv)
{
        struct arena arena = ARENA_INIT;
        const char *values[RUN_COUNT];
        struct option_set set;
        struct error err;
        int status;

        if (command_line_parse(&run_line, &set, values, &arena, argc, argv, environ, &err) < 0)
                status = fail_usage("warpshare mps", &err);
        else if (set.help)
                status = print_help(run_help, &run_line);
        else if (set.version)
                status = puts("warpshare " WARPSHARE_VERSION) < 0;
        else
                status = run_supervisor(&set, values);
        arena_done(&arena);
        return status;
}

/* ---- mount-shm ---- */

static const char *const shm_shared[] = {"mps-directory", NULL};
static const struct command_line shm_line = {shm_shared, NULL, 0};

static const char shm_help[] =
        "usage: %s mount-shm\n"
        "\n"
        "Mounts a tmpfs at <MPS directory>/shm, of half the machine's memory at most: the /dev/shm that MPS servers and\n"
        "their clients have in common. One that is there already stays, since clients may be using it. Needs a\n"
        "privileged container whose mount of the MPS directory is Bidirectional.\n"
        "\n";

static int mount_shm(const char *root)
{
        struct error err;
        bool mounted;

        if (shm_mount(root, &mounted, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return EXIT_FAILED;
        }
        printf(mounted ? "mounted a tmpfs at '%s/shm'\n" : "a tmpfs is mounted at '%s/shm' already, and stays\n", root);
        return 0;
}

int mps_command_mount_shm(const char *program, int argc, char **argv)
{
        _free_ char *help = NULL;
        struct arena arena = ARENA_INIT;
        struct option_set set;
        struct error err;
        int status;

        if (command_line_parse(&shm_line, &set, NULL, &arena, argc, argv, environ, &err) < 0) {
                status = fail_usage(program, &err);
        } else if (set.help) {
                help = xasprintf(shm_help, program);
                status = print_help(help, &shm_line);
        } else {
                status = mount_shm(command_line_get(&set, "mps-directory"));
        }
        arena_done(&arena);
        return status;
}

/* ---- all of them ---- */

int command_mps(int argc, char **argv)
{
        const char *word = argc > 1 ? argv[1] : "";

        signal(SIGPIPE, SIG_IGN); /* a peer that closed its socket is an error code, not the end of us */
        if (strcmp(word, "status") == 0)
                return mps_command_status(argc - 1, argv + 1);
        if (strcmp(word, "uninstall") == 0)
                return mps_command_uninstall(argc - 1, argv + 1);
        if (strcmp(word, "mount-shm") == 0)
                return mps_command_mount_shm("warpshare mps", argc - 1, argv + 1);
        return command_run(argc, argv);
}
