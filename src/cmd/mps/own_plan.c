// SPDX-License-Identifier: Apache-2.0
#include "cmd/mps/own_plan.h"

#include <string.h>

#include "node/status/log.h"
#include "node/status/read.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/mps/command.h"
#include "cmd/run/shares.h"
#include "gpu/monitor.h"
#include "base/io/filewatch.h"
#include "node/config/settings.h"
#include "plan/share.h"

struct own_plan {
        struct mps_process process;
        const struct own_plan_options *options;
        const struct config_text *text; /* instead of a file; or NULL */
        struct settings *settings;
        struct filewatch *file; /* NULL: no configuration file */
        struct gpu_monitor *monitor;
        struct inventory *inventory; /* of the present plan */
        struct run_units units;      /* of the present plan, for `warpshare run`; in the next */
        struct arena units_arena;
        uint64_t generation;
        bool was_empty; /* it was logged that no daemon is wanted */
        struct complaint bad_config;
        struct complaint bad_plan;
};

/* ---- what `warpshare run` reads ---- */

static const struct mps_unit *own_plan_find_wanted(
        const struct mps_wanted *wanted, const char *uuid, const struct mps_daemon_wanted **ret_daemon)
{
        for (size_t i = 0; i < wanted->n_daemons; i++)
                for (size_t k = 0; k < wanted->daemons[i].n_units; k++)
                        if (strcmp(wanted->daemons[i].units[k].uuid, uuid) == 0) {
                                *ret_daemon = &wanted->daemons[i];
                                return &wanted->daemons[i].units[k];
                        }
        return NULL;
}

/* Keeps what |plan| shares, until the next one. */
static void own_plan_take_units(struct own_plan *own, const struct plan *plan, const struct mps_wanted *wanted)
{
        struct arena *arena = &own->units_arena;
        const struct mps_daemon_wanted *daemon;
        struct run_unit *all;

        arena_done(arena);
        own->units = (struct run_units){.units = all = ARENA_ARRAY(arena, struct run_unit, RUN_UNITS_MAX)};
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t k = 0; k < plan->resources[i].n_units && own->units.n_units < RUN_UNITS_MAX; k++) {
                        const struct unit *unit = &plan->resources[i].units[k];
                        const struct mps_unit *known = own_plan_find_wanted(wanted, unit->uuid, &daemon);

                        if (known)
                                all[own->units.n_units++] = (struct run_unit){
                                        .uuid = arena_strdup(arena, unit->uuid),
                                        .index = arena_strdup(arena, unit->index),
                                        .name = arena_strdup(arena, known->name),
                                        .daemon = arena_strdup(arena, daemon->name),
                                        .memory_bytes = share_memory_of(0, unit->gpu, unit->mig),
                                        .memory_mib = share_usable_mib(unit),
                                        .most_mib = known->limit_mib,
                                        .most_permille = daemon->threads_permille,
                                };
                }
}

/* Why no program can be started on a unit of that daemon; NULL: it is ready. */
static const char *own_plan_problem(const struct own_plan *own, struct arena *arena, const char *name)
{
        const struct mps_status *status =
                own->process.is_stopping ? NULL : mps_supervisor_status(own->process.supervisor);

        if (!status)
                return "the supervisor has ended: start 'warpshare mps --standalone' as root";
        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];

                if (strcmp(daemon->name, name) != 0)
                        continue;
                if (daemon->state == MPS_READY)
                        return NULL;
                return arena_printf(arena, "%s%s%.200s", mps_state_name(daemon->state), daemon->reason ? ": " : "",
                        daemon->reason ? daemon->reason : "");
        }
        return "it is not started yet";
}

static void own_plan_write_units(struct own_plan *own)
{
        struct error err;

        if (run_units_write(&own->units, own->process.root, &err) < 0)
                log_error("'warpshare run' cannot know what is shared", LOG_ERR(&err));
}

/* Writes the file again only if a daemon has another problem than it says: clients come and go often. */
static void own_plan_note_problems(struct own_plan *own)
{
        bool has_changed = false;

        for (size_t i = 0; i < own->units.n_units; i++) {
                struct run_unit *unit = &own->units.units[i];
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                const char *problem = own_plan_problem(own, &arena, unit->daemon);

                if (text_is_same(problem, unit->problem))
                        continue;
                unit->problem = problem ? arena_strdup(&own->units_arena, problem) : NULL;
                has_changed = true;
        }
        if (has_changed)
                own_plan_write_units(own);
}

static void on_own_daemons(void *data)
{
        own_plan_note_problems(data);
}

/* ---- the plan ---- */

static void report_wanted(struct own_plan *own, const struct mps_wanted *wanted)
{
        bool is_empty = wanted->n_daemons == 0;

        if (is_empty && !own->was_empty)
                log_info("No devices are configured for MPS sharing; Waiting indefinitely.");
        own->was_empty = is_empty;
}

/* The supervisor copies the wanted daemons, so the plan is not needed afterwards. */
static int own_plan_apply(struct own_plan *own, const struct inventory *inventory, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_wanted wanted;
        struct plan *plan;
        int rc;

        if (plan_build(&plan, &arena, own->settings->config, inventory, settings_warn, NULL, err) < 0)
                return -1;
        mps_wanted_of(&wanted, &arena, plan);
        rc = mps_supervisor_apply(own->process.supervisor, &wanted, own->generation + 1, err);
        if (rc == 0) {
                own->generation++;
                report_wanted(own, &wanted);
                if (own->options->writes_units) {
                        own_plan_take_units(own, plan, &wanted);
                        own_plan_write_units(own);
                }
        }
        plan_done(plan);
        return rc;
}

static void on_own_inventory(struct inventory *inventory, void *data)
{
        struct own_plan *own = data;
        struct error err;

        if (own->process.is_stopping) {
                inventory_free(inventory);
                return;
        }
        if (!own->inventory || !inventory_is_same(own->inventory, inventory))
                node_log_inventory(inventory);
        inventory_free(own->inventory);
        own->inventory = inventory;
        if (own_plan_apply(own, inventory, &err) < 0)
                complain(&own->bad_plan,
                        own->generation ? "change refused, the daemons in force stay"
                                        : "no plan can be made; waiting for another configuration or other GPUs",
                        &err);
        else
                complaint_settle(&own->bad_plan);
}

static void on_own_unavailable(const char *reason, void *data)
{
        const struct own_plan *own = data;

        if (!own->process.is_stopping)
                log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
}

static void on_own_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        const struct own_plan *own = data;

        if (!own->process.is_stopping)
                node_hangs_report(hang, has_returned, NULL);
}

static void on_own_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        const struct own_plan *own = data;

        if (!own->process.is_stopping)
                node_log_health(uuid, healthy, reason, xid);
}

/* ---- reload ---- */

static void own_plan_reload(struct own_plan *own)
{
        struct settings *settings;
        struct error err;

        if (own->file)
                filewatch_accept(own->file);
        if (settings_new(&settings, own->options->options, own->text, &err) < 0) {
                complain(&own->bad_config, "configuration refused, the one in force stays", &err);
                return;
        }
        complaint_settle(&own->bad_config);
        settings_unref(own->settings);
        own->settings = settings;
        node_log_config(settings->config);
        gpu_monitor_rescan(own->monitor); /* and its inventory leads to the next plan */
}

static void on_own_file_changed(void *data)
{
        struct own_plan *own = data;

        log_info("the configuration file changed", LOG_STR("file", own->settings->config->path));
        own_plan_reload(own);
}

static void on_hang_up(void *data)
{
        struct own_plan *own = data;

        complaint_settle(&own->bad_config); /* so that a failure is logged again */
        complaint_settle(&own->bad_plan);
        own_plan_reload(own);
}

static void on_stop(void *data)
{
        struct own_plan *own = data;

        own_plan_note_problems(own);
        own->file = filewatch_close(own->file);
        gpu_monitor_close(own->monitor, NULL, NULL);
}

/* ---- start ---- */

static int own_plan_watch_file(struct own_plan *own, struct error *err)
{
        const struct filewatch_options options = {
                .path = option_set_get(own->options->options, "config-file"),
                .limit = CONFIG_FILE_LIMIT,
                .changed = on_own_file_changed,
                .data = own,
        };

        if (!options.path || !*options.path)
                return 0;
        return filewatch_new(&own->file, &own->process.loop, &options, err);
}

static void start_monitor(struct own_plan *own)
{
        const struct config *config = own->settings->config;
        const struct gpu_monitor_options options = {
                .library = config->driver.nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver.mounted_root},
                .discovery = node_platform_choice(config),
                .policy = &own->settings->policy,
                .on_inventory = on_own_inventory,
                .on_unavailable = on_own_unavailable,
                .on_health = on_own_health,
                .on_hang = on_own_hang,
                .data = own,
        };

        own->monitor = gpu_monitor_new(&own->process.loop, &options);
}

static int own_plan_start(struct own_plan *own, struct mps_process_options process, struct error *err)
{
        const struct config *config;

        if (settings_new(&own->settings, own->options->options, own->text, err) < 0)
                return error_prefix(err, "configuration refused");
        config = own->settings->config;
        node_log_config(config);
        process.supervisor.root = config->mps.directory;
        process.supervisor.control = config->mps.control;
        process.supervisor.driver_root = config->driver.mounted_root;
        process.supervisor.nvml_library = config->driver.nvml_library;
        process.on_hang_up = on_hang_up;
        process.on_stop = on_stop;
        process.on_change = on_own_daemons;
        process.data = own;
        if (mps_process_start(&own->process, &process, err) < 0)
                return -1;
        own->generation = mps_supervisor_status(own->process.supervisor)->generation;
        if (own_plan_watch_file(own, err) < 0)
                return -1;
        start_monitor(own);
        return 0;
}

int own_plan_run(const struct own_plan_options *options, struct error *err)
{
        const char *path = option_set_get(options->options, "config-file");
        struct own_plan own = {.options = options, .text = path && *path ? NULL : options->text};
        int status;

        if (own_plan_start(&own, options->process, err) < 0)
                return -1;
        status = mps_process_run(&own.process);
        inventory_free(own.inventory);
        settings_unref(own.settings);
        arena_done(&own.units_arena);
        return status;
}

/* ---- without Kubernetes ---- */

/*
 * Each may have it all, so that `warpshare run` alone says who has how much; replicas stand for how many programs there
 * may be.
 */
static const char everything[] = "version: v1\n"
                                 "flags: {migStrategy: mixed}\n"
                                 "sharing:\n"
                                 "  mps:\n"
                                 "    provisioning: declared\n"
                                 "    daemonScope: gpu\n"
                                 "    resources:\n"
                                 "    - {name: nvidia.com/gpu, replicas: 48}\n";

void standalone_set_defaults(struct option_set *set)
{
        if (!option_set_get(set, "mps-directory"))
                set->values[option_find("mps-directory")] = STANDALONE_ROOT;
        if (!option_set_get(set, "driver-root-ctr-path"))
                set->values[option_find("driver-root-ctr-path")] = "/";
        set->values[option_find("mps-root")] = option_set_get(set, "mps-directory");
}

int standalone_run(const struct option_set *set, const struct mps_process_options *process, struct error *err)
{
        static const struct config_text text = {
                .name = "built in: every GPU is shared", .text = everything, .size = sizeof(everything) - 1};
        struct own_plan_options options = {.options = set, .text = &text, .process = *process, .writes_units = true};

        options.process.own_plan = "it runs with --standalone, and takes its daemons from its own configuration";
        options.process.supervisor.enter_shm = NULL; /* programs of the machine have the machine's /dev/shm */
        return own_plan_run(&options, err);
}
