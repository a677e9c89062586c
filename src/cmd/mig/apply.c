// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare mig apply and restore: make this node's GPUs as a configuration or a checkpoint wants them, or leave them
 * as they are.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/proc.h"
#include "base/strbuf.h"
#include "cmd/mig/command.h"
#include "mig/checkpoint.h"
#include "mig/hooks.h"

/* ---- a reset ---- */

#define PROGRAM "/usr/bin/nvidia-smi"
#define EXIT_NOT_STARTED 127
#define KILL_MS 5000

/* Runs in the child. |root| is NULL for this process's own root. */
static void reset_start(const char *root, char **argv)
{
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                return;
        if (!root) {
                execvp(argv[0], argv);
                return;
        }
        if (chroot(root) == 0 && chdir("/") == 0)
                execv(PROGRAM, argv);
}

/* A process that is inside the driver may not react to the kill, and is left behind. */
static int reset_wait_for(pid_t pid, int *ret_status, int timeout_ms, struct error *err)
{
        if (child_has_ended(pid, ret_status, (uint64_t)timeout_ms))
                return 0;
        kill(pid, SIGKILL);
        return error_set(err, ERROR_TIMEOUT,
                "nvidia-smi --gpu-reset did not end within %d s and was %s: whether the GPUs were reset is not known; reboot "
                "the node",
                timeout_ms / 1000, child_has_ended(pid, ret_status, KILL_MS) ? "killed" : "left behind");
}

int mig_reset(const char *const *uuids, size_t n_uuids, const char *driver_root, int timeout_ms, struct error *err)
{
        static char name[] = "nvidia-smi", what[] = "--gpu-reset", flag[] = "--id";
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;
        _free_ char *in_root = xasprintf("%s%s", driver_root, PROGRAM);
        const bool has_root = *driver_root && strcmp(driver_root, "/") != 0 && access(in_root, X_OK) == 0;
        int status = 0;
        pid_t pid;

        for (size_t i = 0; i < n_uuids; i++)
                strbuf_printf(&list, "%s%s", i ? "," : "", uuids[i]);
        fflush(NULL);
        pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "start nvidia-smi");
        if (pid == 0) {
                char *argv[] = {name, what, flag, list.data, NULL};

                reset_start(has_root ? driver_root : NULL, argv);
                _exit(EXIT_NOT_STARTED);
        }
        if (reset_wait_for(pid, &status, timeout_ms, err) < 0)
                return -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_STARTED)
                return error_set(err, ERROR_NOT_FOUND,
                        "GPUs have to be reset, and nvidia-smi cannot be started: put it into PATH, or reboot the node");
        return error_set(err, ERROR_UNAVAILABLE,
                "nvidia-smi --gpu-reset --id %s failed with status %d: a process uses a GPU of these (nvidia-persistenced and "
                "DCGM are such), or they are reset with all of their NVLink fabric only; end it, or reboot the node",
                list.data, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* ---- a change with the lock of this node, this boot, and nvidia-smi for a reset ---- */

struct under_way {
        struct mig_change change;
        struct mig_change_options options;
        const struct option_set *set;
        FILE *steps; /* where each step is said; NULL: nowhere */
        char *boot_id;
};

static int reset(const char *const *uuids, size_t n_uuids, void *data, struct error *err)
{
        const struct under_way *work = data;

        return mig_reset(uuids, n_uuids, option_set_value(work->set, "driver-root-ctr-path"), MIG_RESET_MS, err);
}

static void say_step(const char *step, void *data)
{
        const struct under_way *work = data;

        if (!work->steps)
                return;
        fprintf(work->steps, "%s\n", step);
        fflush(work->steps);
}

/* Close it, unless this fails. */
static int under_way_open(
        struct under_way *ret, const struct option_set *set, const struct mig_apply *wish, struct error *err)
{
        _free_ char *path = xasprintf("%s" BOOT_ID_PATH, option_set_value(set, "system-root"));
        const enum mig_mode_change mode_change = wish->mode_change;
        int rc;

        *ret = (struct under_way){.set = set, .steps = wish->steps};
        if (boot_id_read(&ret->boot_id, path, err) < 0)
                return -1;
        ret->options = (struct mig_change_options){.directory = wish->state_directory,
                .library = option_set_value(set, "nvml-library"),
                .driver_root = option_set_value(set, "driver-root-ctr-path"),
                .boot_id = ret->boot_id,
                .may_wait = mode_change == MIG_MODE_REBOOT || mode_change == MIG_MODE_RESET_OR_REBOOT,
                .reset = mode_change == MIG_MODE_RESET || mode_change == MIG_MODE_RESET_OR_REBOOT ? reset : NULL,
                .report = say_step,
                .data = ret};
        rc = mig_change_open(&ret->change, &ret->options, err);
        if (rc == 0)
                return 0;
        free(ret->boot_id);
        return rc < 0 ? -1
                      : error_set(err, ERROR_UNAVAILABLE,
                                "another process changes the MIG geometry of this node now ('%s' is locked)",
                                wish->state_directory);
}

static void under_way_close(struct under_way *work)
{
        mig_change_close(&work->change);
        free(work->boot_id);
}

static int under_way_settle(struct under_way *work, struct error *err)
{
        enum mig_change_end end;

        if (mig_change_resume(&work->change, false, &end, err) < 0) {
                if (access(work->change.path, F_OK) == 0)
                        return -1;
                say_step(err->text, work);
                return 0;
        }
        return end == MIG_CHANGE_WAITS ? mig_change_resume(&work->change, true, &end, err) : 0;
}

/* ---- what is wanted ---- */

/* The request, read before anything is touched. */
struct request {
        const struct mig_apply *wish;
        struct arena *arena;
        struct mig_hooks hooks;
        struct mig_parted parted;
        struct mig_checkpoint checkpoint;
        const char *name;
};

static int read_request(struct request *request, struct error *err)
{
        const struct mig_apply *wish = request->wish;
        struct arena *arena = request->arena;

        if (wish->hooks_file && *wish->hooks_file &&
                mig_hooks_read(&request->hooks, arena, wish->hooks_file, command_warn, NULL, err) < 0)
                return -1;
        if (wish->checkpoint)
                return mig_checkpoint_read(&request->checkpoint, arena, wish->checkpoint, err);
        return *wish->file ? mig_parted_read(&request->parted, arena, wish->file, command_warn, NULL, err) : 0;
}

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

static int apply_make_plan(
        struct mig_plan *ret, struct request *request, const struct mig_change *change, struct error *err)
{
        const struct mig_apply *wish = request->wish;
        struct arena *arena = request->arena;
        struct mig_node *node = ARENA_NEW(arena, struct mig_node);
        const struct mig_parted_config *config;
        const struct mig_wanted *wanted;

        if (mig_node_read(node, arena, change->nvml, err) < 0)
                return -1;
        request->name = "checkpoint";
        if (wish->checkpoint)
                return mig_checkpoint_plan(ret, arena, node, &request->checkpoint, wish->is_mode_only, err);
        if (!*wish->file)
                mig_generate(&request->parted, arena, node);
        if (mig_parted_choose(&config, &request->parted, wish->config, err) < 0)
                return -1;
        request->name = config->name;
        mig_parted_warn(config, node, command_warn, NULL);
        if (mig_parted_resolve(&wanted, arena, config, node, wish->is_mode_only, err) < 0)
                return -1;
        mig_plan_build(ret, arena, node, wish->is_mode_only ? modes_alone(arena, node, wanted) : wanted);
        if (!ret->fits)
                return error_set(err, ERROR_INVALID, "%s", mig_plan_reason(ret, arena));
        return wish->only && *wish->only ? mig_plan_check_only(ret, wish->only, err) : 0;
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

static int run_hooks(const struct request *request, enum mig_hook_point point, struct error *err)
{
        return mig_hooks_run(&request->hooks, point, request->wish->environment, request->wish->shows_hooks, err);
}

static int carry_out(struct under_way *work, struct request *request, struct mig_applied *ret, struct error *err)
{
        struct mig_plan plan;

        if (under_way_settle(work, err) < 0 || apply_make_plan(&plan, request, &work->change, err) < 0)
                return -1;
        if (changes_mode(&plan) && run_hooks(request, MIG_HOOK_BEFORE_MODE, err) < 0)
                return -1;
        if (changes_devices(&plan) && run_hooks(request, MIG_HOOK_BEFORE_CONFIG, err) < 0)
                return -1;
        if (mig_change_apply(&work->change, &plan, request->name, &ret->end, err) < 0)
                return -1;
        ret->config = request->name;
        ret->reset_error = work->change.reset_error;
        if (ret->end == MIG_CHANGE_WAITS && request->wish->has_to_end)
                return error_set(err, ERROR_UNAVAILABLE,
                        "the MIG mode is pending until the GPUs are reset or the node is rebooted, and devices can only be "
                        "created then");
        return 0;
}

static int open_and_carry_out(
        struct request *request, struct command_call *call, struct mig_applied *ret, struct error *err)
{
        struct under_way work;
        int rc;

        if (under_way_open(&work, &call->set, request->wish, err) < 0)
                return -1;
        rc = carry_out(&work, request, ret, err);
        under_way_close(&work);
        return rc;
}

int mig_apply(struct mig_applied *ret, struct command_call *call, const struct mig_apply *wish, struct error *err)
{
        struct request request = {.wish = wish, .arena = &call->arena};
        struct error exit_err;
        int rc;

        if (read_request(&request, err) < 0 || run_hooks(&request, MIG_HOOK_START, err) < 0)
                return -1;
        rc = open_and_carry_out(&request, call, ret, err);
        if (run_hooks(&request, MIG_HOOK_EXIT, &exit_err) == 0)
                return rc;
        if (rc == 0)
                return error_set(err, exit_err.kind, "%s", exit_err.text);
        command_fail(call->command, &exit_err);
        return -1;
}

/* ---- apply ---- */

enum { EXIT_REBOOT = 3 };

enum { NAMED_FILE, CONFIG, ONLY, MODE_CHANGE, RESUME, STATE_DIRECTORY, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [ONLY] = COMMAND_TEXT("only", "", "GPU,...",
                "UUIDs of GPUs, all of which have to be there: if the configuration would change another one, "
                "nothing is touched; empty: any GPU may change"),
        [MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [RESUME] = COMMAND_FLAG("resume", "finish a change that was interrupted, or undo it; without one do nothing"),
        [STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [OUTPUT] = COMMAND_OUTPUT,
};

static const char help[] =
        "usage: warpshare mig apply [OPTION...]\n"
        "       warpshare mig apply --resume [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry that a configuration wants. MIG devices that are wanted and there\n"
        "stay; GPUs that are not named are not touched. It refuses, before it touches anything, what does not fit and\n"
        "what a process uses. When a step fails, all is made as it was before; MIG devices that somebody else makes\n"
        "meanwhile are left. Each step is recorded before it is taken: after a kill or a reboot, --resume goes on.\n"
        "'warpshare mig plan' shows beforehand what would change.\n"
        "\n"
        "  warpshare mig apply --config all-balanced\n"
        "  warpshare mig apply --file mig.yaml --config mixed --mode-change reset\n"
        "\n";

static const char more_help[] =
        "\n"
        "exit status: 0 the geometry is as wanted; 1 it is not, and is as before, or standard error says what is left\n"
        "to --resume; 2 wrong usage; 3 a mode is pending until the node is rebooted; 4 a call of the driver did\n"
        "not return, or the library crashed: --resume goes on. It needs root with CAP_SYS_ADMIN.\n";

/* Prints how it ended, and returns the exit status. */
static int apply_end(const struct mig_applied *applied, bool is_json)
{
        static const char *const results[] = {
                [MIG_CHANGE_NONE] = "unchanged",
                [MIG_CHANGE_DONE] = "done",
                [MIG_CHANGE_UNDONE] = "undone",
                [MIG_CHANGE_WAITS] = "reboot",
        };
        static const char *const sentences[] = {
                [MIG_CHANGE_NONE] = "there is nothing to change",
                [MIG_CHANGE_DONE] = "the geometry is as wanted",
                [MIG_CHANGE_UNDONE] = "the geometry is as before",
                [MIG_CHANGE_WAITS] = "a MIG mode is pending: reboot the node, then 'warpshare mig apply --resume'",
        };

        if (is_json)
                command_print_json(
                        json_pack("{s:s, s:s, s:s*}", "config", applied->config, "result", results[applied->end], "why",
                                applied->reset_error.kind != ERROR_NONE ? applied->reset_error.text : NULL),
                        JSON_COMPACT);
        else
                puts(sentences[applied->end]);
        return applied->end == MIG_CHANGE_WAITS ? EXIT_REBOOT : 0;
}

static int apply_resume(const struct command_call *call, const struct mig_apply *wish, bool is_json, struct error *err)
{
        struct mig_applied applied = {.config = "", .end = MIG_CHANGE_NONE};
        struct under_way work;
        int rc;

        if (!mig_change_is_recorded(wish->state_directory))
                return apply_end(&applied, is_json);
        if (under_way_open(&work, &call->set, wish, err) < 0)
                return -1;
        rc = mig_change_resume(&work.change, false, &applied.end, err);
        applied.reset_error = work.change.reset_error;
        under_way_close(&work);
        return rc < 0 ? -1 : apply_end(&applied, is_json);
}

static int apply_change(struct command_call *call, const struct mig_apply *wish, bool is_json, struct error *err)
{
        struct mig_applied applied;

        return mig_apply(&applied, call, wish, err) < 0 ? -1 : apply_end(&applied, is_json);
}

static int apply_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        const bool is_json = command_has(call, OUTPUT, "json");
        const struct mig_apply wish = {.file = values[NAMED_FILE],
                .config = values[CONFIG],
                .only = values[ONLY],
                .mode_change = option_position(&own[MODE_CHANGE], values[MODE_CHANGE]),
                .state_directory = values[STATE_DIRECTORY],
                .steps = is_json ? stderr : stdout};

        if (!command_is_set(call, RESUME))
                return apply_change(call, &wish, is_json, err);
        if (*wish.file || *wish.config || *wish.only)
                return command_refuse(
                        err, "--resume goes without --file, --config and --only: what was wanted is recorded");
        return apply_resume(call, &wish, is_json, err);
}

const struct command mig_command_apply = {
        .name = "apply",
        .summary = "give the GPUs the geometry that a configuration wants",
        .run = apply_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_change_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig apply",
        .help = help,
        .more_help = more_help,
};

/* ---- restore ---- */

enum { RESTORE_FILE, RESTORE_MODE_CHANGE, RESTORE_STATE_DIRECTORY, RESTORE_OUTPUT };

static const struct option restore_own[] = {
        [RESTORE_FILE] =
                COMMAND_TEXT("file", "", "PATH", "the checkpoint, - for standard input; needed", .aliases = {"f"}),
        [RESTORE_MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [RESTORE_STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [RESTORE_OUTPUT] = COMMAND_OUTPUT,
};

static const char restore_help[] =
        "usage: warpshare mig restore --file PATH [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry that 'warpshare mig checkpoint' wrote, at the same placements. What\n"
        "stands at its place stays; GPUs that are not in the checkpoint are not touched. Otherwise it is as 'warpshare\n"
        "mig apply': it refuses what a process uses, and a step that fails is taken back.\n"
        "\n"
        "  warpshare mig restore --file /root/before.json\n"
        "\n";

static int restore_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        const bool is_json = command_has(call, RESTORE_OUTPUT, "json");
        const struct mig_apply wish = {.checkpoint = values[RESTORE_FILE],
                .mode_change = option_position(&restore_own[RESTORE_MODE_CHANGE], values[RESTORE_MODE_CHANGE]),
                .state_directory = values[RESTORE_STATE_DIRECTORY],
                .steps = is_json ? stderr : stdout};

        if (!*wish.checkpoint)
                return command_refuse(err, "file: is needed, use --file");
        return apply_change(call, &wish, is_json, err);
}

const struct command mig_command_restore = {
        .name = "restore",
        .summary = "give the GPUs the geometry of a checkpoint",
        .run = restore_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_change_shared,
        COMMAND_OWN(restore_own),
        .program = "warpshare mig restore",
        .help = restore_help,
};
