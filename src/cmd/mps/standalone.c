#include "cmd/mps/standalone.h"

#include <string.h>

#include "base/log.h"
#include "cmd/mps/own_plan.h"
#include "cmd/run/shares.h"
#include "plan/budget.h"

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

static const struct mps_unit *find_wanted(
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

static void on_standalone_plan(const struct plan *plan, const struct mps_wanted *wanted, const char *root)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct run_unit *all = ARENA_ARRAY(&arena, struct run_unit, RUN_UNITS_MAX);
        struct run_units units = {.units = all};
        const struct mps_daemon_wanted *daemon;
        struct error err;

        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t k = 0; k < plan->resources[i].n_units && units.n_units < RUN_UNITS_MAX; k++) {
                        const struct unit *unit = &plan->resources[i].units[k];
                        const struct mps_unit *known = find_wanted(wanted, unit->uuid, &daemon);

                        if (known)
                                all[units.n_units++] = (struct run_unit){
                                        .uuid = unit->uuid,
                                        .index = unit->index,
                                        .name = known->name,
                                        .daemon = daemon->name,
                                        .memory_mib = budget_usable_mib(unit),
                                        .most_mib = known->limit_mib,
                                        .most_permille = daemon->threads_permille,
                                };
                }
        if (run_units_write(&units, root, &err) < 0)
                log_error("'warpshare run' cannot know what is shared", LOG_ERR(&err));
}

int standalone_run(const struct option_set *set, const struct mps_process_options *process, struct error *err)
{
        static const struct config_text text = {
                .name = "built in: every GPU is shared", .text = everything, .size = sizeof(everything) - 1};
        struct own_plan_options options = {
                .options = set, .text = &text, .process = *process, .on_plan = on_standalone_plan};

        options.process.own_plan = "it runs with --standalone, and takes its daemons from its own configuration";
        options.process.has_own_shm = false; /* programs of the machine have the machine's /dev/shm */
        return own_plan_run(&options, err);
}
