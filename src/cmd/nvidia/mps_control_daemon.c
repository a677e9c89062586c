/*
 * mps-control-daemon: the supervisor as a replacement of NVIDIA's component of that name. It reads the plugin's
 * configuration file and the GPUs, and so computes the wanted daemons itself; NVIDIA's plugin or ours then uses them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <warpshare_commit.h>

#include "agent/hangs.h"
#include "agent/report.h"
#include "base/complaint.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "cli/init.h"
#include "cmd/commands.h"
#include "cmd/mps/process.h"
#include "gpu/monitor.h"
#include "io/filewatch.h"
#include "io/signals.h"
#include "nodeconfig/settings.h"
#include "share/mps_wanted.h"

#define PROGRAM "mps-control-daemon"
#define GRACE_MS UINT64_C(20000)

struct dropin {
        struct mps_process process;
        const struct option_set *options;
        struct settings *settings;
        struct filewatch *file; /* NULL: no configuration file */
        struct gpu_monitor *monitor;
        struct inventory *inventory; /* of the present plan */
        uint64_t generation;
        bool was_empty; /* it was logged that no daemon is wanted */
        struct complaint bad_config;
        struct complaint bad_plan;
};

/* ---- the plan ---- */

static void report_wanted(struct dropin *dropin, const struct mps_wanted *wanted)
{
        bool is_empty = wanted->n_daemons == 0;

        if (is_empty && !dropin->was_empty)
                log_info("No devices are configured for MPS sharing; Waiting indefinitely.");
        dropin->was_empty = is_empty;
}

/* The supervisor copies the wanted daemons, so the plan is not needed afterwards. */
static int mps_control_daemon_apply(struct dropin *dropin, const struct inventory *inventory, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_wanted wanted;
        struct plan *plan;
        int rc;

        if (plan_build(&plan, &arena, dropin->settings->config, inventory, settings_warn, NULL, err) < 0)
                return -1;
        mps_wanted_of(&wanted, &arena, plan);
        rc = mps_supervisor_apply(dropin->process.supervisor, &wanted, dropin->generation + 1, err);
        if (rc == 0) {
                dropin->generation++;
                report_wanted(dropin, &wanted);
        }
        plan_done(plan);
        return rc;
}

static void on_mps_control_daemon_inventory(struct inventory *inventory, void *data)
{
        struct dropin *dropin = data;
        struct error err;

        if (dropin->process.is_stopping) {
                inventory_free(inventory);
                return;
        }
        if (!dropin->inventory || !inventory_is_same(dropin->inventory, inventory))
                report_inventory(inventory);
        inventory_free(dropin->inventory);
        dropin->inventory = inventory;
        if (mps_control_daemon_apply(dropin, inventory, &err) < 0)
                complain(&dropin->bad_plan,
                        dropin->generation ? "change refused, the daemons in force stay"
                                           : "no plan can be made; waiting for another configuration or other GPUs",
                        &err);
        else
                complaint_settle(&dropin->bad_plan);
}

static void on_mps_control_daemon_unavailable(const char *reason, void *data)
{
        const struct dropin *dropin = data;

        if (!dropin->process.is_stopping)
                log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
}

static void on_mps_control_daemon_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        const struct dropin *dropin = data;

        if (!dropin->process.is_stopping)
                agent_hangs_report(hang, has_returned, NULL);
}

static void on_mps_control_daemon_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        const struct dropin *dropin = data;

        if (!dropin->process.is_stopping)
                report_health(uuid, healthy, reason, xid);
}

/* ---- reload ---- */

static void mps_control_daemon_reload(struct dropin *dropin)
{
        struct settings *settings;
        struct error err;

        if (dropin->file)
                filewatch_accept(dropin->file);
        if (settings_new(&settings, dropin->options, NULL, &err) < 0) {
                complain(&dropin->bad_config, "configuration refused, the one in force stays", &err);
                return;
        }
        complaint_settle(&dropin->bad_config);
        settings_unref(dropin->settings);
        dropin->settings = settings;
        report_config(settings->config);
        gpu_monitor_rescan(dropin->monitor); /* and its inventory leads to the next plan */
}

static void on_mps_control_daemon_file_changed(void *data)
{
        struct dropin *dropin = data;

        log_info("the configuration file changed", LOG_STR("file", dropin->settings->config->path));
        mps_control_daemon_reload(dropin);
}

static void on_hang_up(void *data)
{
        struct dropin *dropin = data;

        complaint_settle(&dropin->bad_config); /* so that a failure is logged again */
        complaint_settle(&dropin->bad_plan);
        mps_control_daemon_reload(dropin);
}

static void on_stop(void *data)
{
        struct dropin *dropin = data;
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];

        dropin->file = filewatch_close(dropin->file);
        dropin->process.leaves_threads = gpu_monitor_hangs(dropin->monitor, hangs) > 0;
        gpu_monitor_close(dropin->monitor, NULL, NULL);
}

/* ---- start ---- */

static int watch_file(struct dropin *dropin, struct error *err)
{
        const struct filewatch_options options = {
                .path = option_set_get(dropin->options, "config-file"),
                .limit = CONFIG_FILE_LIMIT,
                .changed = on_mps_control_daemon_file_changed,
                .data = dropin,
        };

        if (!options.path || !*options.path)
                return 0;
        return filewatch_new(&dropin->file, &dropin->process.loop, &options, err);
}

static int start_monitor(struct dropin *dropin, struct error *err)
{
        static const enum platform_choice discoveries[] = {
                [DISCOVERY_AUTO] = PLATFORM_CHOICE_AUTO,
                [DISCOVERY_NVML] = PLATFORM_CHOICE_NVML,
                [DISCOVERY_TEGRA] = PLATFORM_CHOICE_TEGRA,
        };
        const struct config *config = dropin->settings->config;
        const struct gpu_monitor_options options = {
                .library = config->nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver_root_ctr},
                .discovery = discoveries[config->discovery],
                .policy = &dropin->settings->policy,
                .on_inventory = on_mps_control_daemon_inventory,
                .on_unavailable = on_mps_control_daemon_unavailable,
                .on_health = on_mps_control_daemon_health,
                .on_hang = on_mps_control_daemon_hang,
                .data = dropin,
        };

        return gpu_monitor_new(&dropin->monitor, &dropin->process.loop, &options, err);
}

static int mps_control_daemon_start(struct dropin *dropin, struct error *err)
{
        struct mps_process_options process = {
                .sets_compute_mode = true,
                .grace_ms = GRACE_MS,
                .own_plan = PROGRAM
                " takes its daemons from its own configuration; only 'warpshare mps' takes them from the agent",
                .on_hang_up = on_hang_up,
                .on_stop = on_stop,
                .data = dropin,
        };
        const struct config *config;

        if (settings_new(&dropin->settings, dropin->options, NULL, err) < 0)
                return error_prefix(err, "configuration refused");
        config = dropin->settings->config;
        report_config(config);
        process.root = config->mps_directory;
        process.control = config->mps_control;
        process.driver_root = config->driver_root_ctr;
        process.nvml_library = config->nvml_library;
        if (mps_process_start(&dropin->process, &process, err) < 0)
                return -1;
        dropin->generation = mps_supervisor_status(dropin->process.supervisor)->generation;
        if (watch_file(dropin, err) < 0)
                return -1;
        return start_monitor(dropin, err);
}

static int run_dropin(const struct option_set *options)
{
        struct dropin dropin = {.options = options};
        struct error err;
        int status;

        command_line_setup_log(options, "klog");
        init_if_first();
        log_info("Starting MPS Control Daemon.", LOG_STR("version", "Warpshare " WARPSHARE_VERSION));
        if (mps_control_daemon_start(&dropin, &err) < 0) {
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED); /* a thread may be inside the driver; daemons on record keep running */
        }
        status = mps_process_run(&dropin.process);
        inventory_free(dropin.inventory);
        settings_unref(dropin.settings);
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

const struct command_line command_mps_control_daemon_line = {
        .shared = shared,
        .program = PROGRAM,
        .help = help,
        .version = "MPS Control Daemon version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_drop_in = true,
};

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

int command_mps_control_daemon(int argc, char **argv)
{
        const struct command *below = argc > 1 ? command_find(command_mps_control_daemon_table, argv[1]) : NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct option_set set;
        int status;

        signal(SIGPIPE, SIG_IGN); /* writing to a socket that the peer has closed must return an error, not end the
                                   * process */
        if (below)
                return below->run(argc - 1, argv + 1);
        signals_hold(); /* blocked until the loop handles them */
        take_full_name(argv);
        if (!command_line_read(&command_mps_control_daemon_line, &set, NULL, &arena, argc, argv, &status))
                return status;
        /* Only the plugin needs the host's MPS root, to mount it; NVIDIA's charts do not pass it to this program. */
        set.values[option_find("mps-root")] = command_line_get(&set, "mps-directory");
        return run_dropin(&set);
}
