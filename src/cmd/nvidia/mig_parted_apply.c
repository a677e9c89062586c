/*
 * Hooks run in the order of NVIDIA's program: apply-start; pre-apply-mode if the mode of a GPU differs;
 * pre-apply-config if devices differ; apply-exit, always. What differs from it: pre-apply-config runs before the mode
 * changes, not after, because mode and devices are one change here that is done or undone as a whole (mig/change.h).
 */
#include "cmd/nvidia/mig_parted_apply.h"

#include <stdio.h>
#include <string.h>

#include "cmd/mig/under_way.h"
#include "mig/checkpoint.h"
#include "mig/hooks.h"
#include "mig/parted.h"

/* What is wanted, read before anything is touched. */
struct request {
        struct arena arena;
        struct mig_hooks hooks;
        struct mig_parted parted;
        const struct mig_parted_config *config;
        struct mig_checkpoint checkpoint;
};

static int read_request(struct request *request, const struct mig_parted_change *change, struct error *err)
{
        if (*change->hooks_file &&
                mig_hooks_read(&request->hooks, &request->arena, change->hooks_file, command_warn, NULL, err) < 0)
                return -1;
        if (change->checkpoint_file)
                return mig_checkpoint_read(&request->checkpoint, &request->arena, change->checkpoint_file, err);
        if (mig_parted_read(&request->parted, &request->arena, change->config_file, command_warn, NULL, err) < 0)
                return -1;
        return mig_parted_choose(&request->config, &request->parted, change->selected_config, err);
}

/* ---- the plan ---- */

/* Only GPUs whose mode differs, and without devices. */
static const struct mig_wanted *modes_alone(
        struct arena *arena, const struct mig_node *node, const struct mig_wanted *wanted)
{
        struct mig_wanted *modes = ARENA_ARRAY(arena, struct mig_wanted, node->n_gpus);

        for (size_t i = 0; i < node->n_gpus; i++)
                if (wanted[i].is_named && wanted[i].is_enabled != node->gpus[i].geometry.is_enabled)
                        modes[i] = (struct mig_wanted){.is_named = true, .is_enabled = wanted[i].is_enabled};
        return modes;
}

static int make_plan(struct mig_plan *ret, struct request *request, const struct mig_parted_change *change,
        const struct mig_change *work, struct error *err)
{
        struct mig_node *node = ARENA_NEW(&request->arena, struct mig_node);
        const struct mig_wanted *wanted;

        if (mig_node_read(node, &request->arena, work->nvml, err) < 0)
                return -1;
        if (change->checkpoint_file)
                return mig_checkpoint_plan(ret, &request->arena, node, &request->checkpoint, change->is_mode_only, err);
        mig_parted_warn(request->config, node, command_warn, NULL);
        if (mig_parted_resolve(&wanted, &request->arena, request->config, node, change->is_mode_only, err) < 0)
                return -1;
        if (change->is_mode_only)
                wanted = modes_alone(&request->arena, node, wanted);
        mig_plan_build(ret, &request->arena, node, wanted);
        return ret->fits ? 0 : error_set(err, ERROR_INVALID, "%s", mig_plan_reason(ret, &request->arena));
}

static bool changes_mode(const struct mig_plan *plan)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].changes_mode)
                        return true;
        return false;
}

static bool changes_devices(const struct mig_plan *plan)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].n_made || (plan->gpus[i].n_goes && !plan->gpus[i].changes_mode))
                        return true;
        return false;
}

/* ---- the change ---- */

static int run_hooks(const struct request *request, const struct mig_parted_change *change, enum mig_hook_point point,
        struct error *err)
{
        return mig_hooks_run(&request->hooks, point, change->environment, change->is_debug, err);
}

static int carry_out(
        struct mig_under_way *work, struct request *request, const struct mig_parted_change *change, struct error *err)
{
        enum mig_change_end end;
        struct mig_plan plan;

        if (mig_under_way_settle(work, err) < 0 || make_plan(&plan, request, change, &work->change, err) < 0)
                return -1;
        if (changes_mode(&plan) && run_hooks(request, change, MIG_HOOK_BEFORE_MODE, err) < 0)
                return -1;
        if (changes_devices(&plan) && run_hooks(request, change, MIG_HOOK_BEFORE_CONFIG, err) < 0)
                return -1;
        if (mig_change_apply(&work->change, &plan, request->config ? request->config->name : "checkpoint", &end, err) <
                0)
                return -1;
        if (end == MIG_CHANGE_WAITS && !(change->is_mode_only && change->skips_reset))
                return error_set(err, ERROR_UNAVAILABLE,
                        "the MIG mode is pending until the GPUs are reset or the node is rebooted, and devices can only be "
                        "created then");
        return 0;
}

static int open_and_carry_out(struct request *request, const struct command_call *call,
        const struct mig_parted_change *change, struct error *err)
{
        struct mig_under_way work;
        int rc;

        if (mig_under_way_open(&work, &call->set, change->state_directory,
                    change->skips_reset ? MIG_MODE_REBOOT : MIG_MODE_RESET, change->is_debug ? stderr : NULL, err) < 0)
                return -1;
        rc = carry_out(&work, request, change, err);
        mig_under_way_close(&work);
        return rc;
}

static int change_with_hooks(struct request *request, const struct command_call *call,
        const struct mig_parted_change *change, struct error *err)
{
        struct error exit_err;
        int rc;

        if (run_hooks(request, change, MIG_HOOK_START, err) < 0)
                return -1;
        rc = open_and_carry_out(request, call, change, err);
        if (run_hooks(request, change, MIG_HOOK_EXIT, &exit_err) == 0)
                return rc;
        if (rc == 0)
                return error_set(err, exit_err.kind, "%s", exit_err.text);
        command_fail(call->command, &exit_err);
        return -1;
}

int mig_parted_change(const struct command_call *call, const struct mig_parted_change *change, struct error *err)
{
        struct request request = {.arena = ARENA_INIT};
        int rc = read_request(&request, change, err) < 0 ? -1 : change_with_hooks(&request, call, change, err);

        if (rc == 0)
                puts(change->checkpoint_file ? "MIG configuration restored successfully"
                                             : "MIG configuration applied successfully");
        arena_done(&request.arena);
        return rc;
}
