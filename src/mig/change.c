// SPDX-License-Identifier: Apache-2.0
#include "mig/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "mig/profile_text.h"
#include "mig/view.h"

/* A change under way. */
struct work {
        struct mig_change *change;
        struct mig_record *record;
        struct error *err;
};

static void PRINTF_LIKE(2, 3) change_report(const struct work *work, const char *format, ...)
{
        _free_ char *text = NULL;
        va_list args;

        if (!work->change->options->report)
                return;
        va_start(args, format);
        if (vasprintf(&text, format, args) < 0)
                alloc_fail();
        va_end(args);
        work->change->options->report(text, work->change->options->data);
}

/*
 * Before a step forward the record has to be on the disk. An undo continues without it: better undone than recorded.
 */
static int change_save(const struct work *work)
{
        struct error err;

        if (mig_record_write(work->record, work->change->path, &err) == 0)
                return 0;
        if (work->record->goal == MIG_RECORD_BEFORE) {
                change_report(work, "undone without a record: %s", err.text);
                return 0;
        }
        *work->err = err;
        return -1;
}

/* ---- what is there ---- */

static bool wants_mig(const struct work *work, const struct mig_record_gpu *gpu)
{
        return mig_record_wants_mig(gpu, work->record->goal);
}

static int view_read(struct mig_view *ret, const struct work *work, struct mig_record_gpu *gpu)
{
        return mig_view_read(ret, &work->change->arena, work->change->nvml, gpu, work->record->goal, work->err);
}

/*
 * True if the change is being undone and the node does not have this GPU any more: then nothing is left to undo on it.
 */
static bool change_is_gone(const struct work *work, const struct mig_record_gpu *gpu)
{
        struct mig_gpu opened;
        struct error err;

        if (work->record->goal == MIG_RECORD_AFTER || mig_gpu_open(&opened, work->change->nvml, gpu->uuid, &err) == 0 ||
                err.kind != ERROR_NOT_FOUND)
                return false;
        change_report(work, "%s", err.text);
        return true;
}

static int refuse_external(const struct mig_view *view, struct error *err)
{
        const struct mig_gpu_instance *instance = view->external;

        return error_set(err, ERROR_UNAVAILABLE,
                "GPU %s: somebody else made %s at %u since this change was planned: it is left; destroy it ('nvidia-smi "
                "mig -dci', then '-dgi -gi %u') or plan again",
                view->record->uuid, instance->profile->name, instance->placement.start, instance->id);
}

/* ---- steps ---- */

static int step_destroy(const struct work *work, struct mig_view *view, size_t at)
{
        struct mig_record_item *item = &view->record->items[at];

        item->state = MIG_RECORD_REMOVING;
        if (change_save(work) < 0)
                return -1;
        if (mig_instances_destroy(&view->gpu, view->instances[at], work->err) < 0 && work->err->kind != ERROR_NOT_FOUND)
                return -1;
        mig_record_set_absent(item);
        view->instances[at] = NULL;
        change_report(work, "GPU %s: destroyed %s at %u", view->record->uuid, item->profile, item->start);
        return 0;
}

/* Reads |view| again afterwards. */
static int step_make(const struct work *work, struct mig_view *view, size_t at)
{
        struct mig_record_item *item = &view->record->items[at];
        const struct mig_gpu_profile *profile = mig_profile_text_find(&view->geometry, item->profile);
        unsigned int slices[MIG_RECORD_DEVICES_MAX];
        unsigned int id;

        if (!profile)
                return error_set(work->err, ERROR_NOT_FOUND, "GPU %s: it has no profile %s any more",
                        view->record->uuid, item->profile);
        for (size_t i = 0; i < item->n_devices; i++)
                slices[i] = item->devices[i].slices;
        item->profile = profile->name; /* the driver may be another one since it was recorded */
        item->state = MIG_RECORD_MAKING;
        if (change_save(work) < 0)
                return -1;
        if (mig_instances_create(&view->gpu, profile, item->start, slices, item->n_devices, &id, work->err) < 0) {
                item->state = MIG_RECORD_REMOVING; /* at most a GPU instance without a compute instance is left */
                return -1;
        }
        change_report(work, "GPU %s: made %s at %u", view->record->uuid, item->profile, item->start);
        return view_read(view, work, view->record);
}

/* 1: the GPU has to be reset; 0: the mode is current. */
static int step_mode(const struct work *work, const struct mig_view *view)
{
        bool is_enabled = wants_mig(work, view->record);
        const char *verb = is_enabled ? "enabled" : "disabled";
        enum mig_activation activation;

        if (change_save(work) < 0 || mig_gpu_set_mode(&view->gpu, is_enabled, &activation, work->err) < 0)
                return -1;
        switch (activation) {
        case MIG_MODE_ACTIVE:
                change_report(work, "GPU %s: MIG %s", view->record->uuid, verb);
                return 0;
        case MIG_MODE_NEEDS_RESET:
                change_report(work, "GPU %s: MIG will be %s by a reset", view->record->uuid, verb);
                return 1;
        case MIG_MODE_IN_USE:
                break;
        }
        return error_set(work->err, ERROR_UNAVAILABLE,
                "GPU %s: MIG cannot be %s, since the GPU is in use: end what 'nvidia-smi' and 'lsof /dev/nvidia*' list",
                view->record->uuid, verb);
}

/* ---- modes ---- */

/* Destroys what the goal does not have, and what is there in part only. */
static int destroy_rest(const struct work *work, struct mig_view *view)
{
        for (size_t i = 0; i < view->record->n_items; i++) {
                const struct mig_record_item *item = &view->record->items[i];

                if (view->instances[i] &&
                        (!mig_record_is_wanted(item, work->record->goal) || item->state != MIG_RECORD_PRESENT) &&
                        step_destroy(work, view, i) < 0)
                        return -1;
        }
        return 0;
}

/* 1: the GPU has to be reset. */
static int change_mode(const struct work *work, struct mig_record_gpu *gpu)
{
        const bool wanted = wants_mig(work, gpu);
        struct mig_view view;

        if (change_is_gone(work, gpu))
                return 0;
        if (view_read(&view, work, gpu) < 0)
                return -1;
        if (view.geometry.is_enabled == wanted && view.geometry.is_pending_enabled == wanted)
                return 0;
        if (view.geometry.is_enabled != wanted) {
                if (view.external)
                        return refuse_external(&view, work->err);
                if (destroy_rest(work, &view) < 0)
                        return -1;
        }
        return step_mode(work, &view);
}

static int check_mode(const struct work *work, struct mig_record_gpu *gpu)
{
        struct mig_view view;

        if (view_read(&view, work, gpu) < 0)
                return -1;
        if (view.geometry.is_enabled == wants_mig(work, gpu))
                return 0;
        return error_set(work->err, ERROR_UNAVAILABLE, "GPU %s: MIG is %s, although the GPU was reset", gpu->uuid,
                view.geometry.is_enabled ? "enabled" : "disabled");
}

/* A reset ends all that is on a GPU, also what another program has made meanwhile. */
static int check_empty(const struct work *work, struct mig_record_gpu *gpu)
{
        struct mig_view view;

        if (view_read(&view, work, gpu) < 0)
                return -1;
        return view.external ? refuse_external(&view, work->err) : 0;
}

/* NVML is open again in any case, or it cannot be opened, and nothing more can be done. */
static int reset_gpus(const struct work *work, struct mig_record_gpu *const *gpus, size_t n_gpus)
{
        const struct mig_change_options *options = work->change->options;
        const char *uuids[MIG_RECORD_GPUS_MAX];
        struct error reset = {0};
        int rc;

        for (size_t i = 0; i < n_gpus; i++) {
                if (check_empty(work, gpus[i]) < 0)
                        return -1;
                uuids[i] = gpus[i]->uuid;
        }
        work->change->nvml = nvml_close(work->change->nvml);
        rc = options->reset(uuids, n_gpus, options->data, &reset);
        if (nvml_open(&work->change->nvml, options->library, options->driver_root, work->err) < 0)
                return -1;
        if (rc < 0) {
                *work->err = reset;
                return -1;
        }
        for (size_t i = 0; i < n_gpus; i++) {
                if (check_mode(work, gpus[i]) < 0)
                        return -1;
                change_report(work, "GPU %s: reset, MIG is %s", gpus[i]->uuid,
                        wants_mig(work, gpus[i]) ? "enabled" : "disabled");
        }
        return 0;
}

static int end_modes(
        const struct work *work, struct mig_record_gpu *const *gpus, size_t n_gpus, enum mig_change_end *ret)
{
        bool waits = work->record->goal == MIG_RECORD_AFTER && work->record->may_wait;

        if (n_gpus == 0)
                return 0;
        if (work->change->options->reset) {
                if (reset_gpus(work, gpus, n_gpus) == 0)
                        return 0;
                if (!waits || !work->change->nvml)
                        return -1;
                work->change->reset_error = *work->err;
                change_report(work, "%s; the mode waits for a reboot", work->err->text);
        }
        if (!waits)
                return error_set(work->err, ERROR_UNAVAILABLE,
                        "GPU %s: MIG becomes %s only by a reset or a reboot, and neither is allowed (--mode-change)",
                        gpus[0]->uuid, wants_mig(work, gpus[0]) ? "enabled" : "disabled");
        *ret = MIG_CHANGE_WAITS;
        return 0;
}

/* Modes come first, and all resets at once: with NVSwitch, GPUs may be reset together only. */
static int change_modes(const struct work *work, enum mig_change_end *ret)
{
        struct mig_record_gpu *gpus[MIG_RECORD_GPUS_MAX];
        struct error first;
        bool has_failed = false;
        size_t count = 0;

        for (size_t i = 0; i < work->record->n_gpus; i++) {
                struct mig_record_gpu *gpu = &work->record->gpus[i];
                int rc = gpu->changes ? change_mode(work, gpu) : 0;

                if (rc < 0 && work->record->goal == MIG_RECORD_AFTER)
                        return -1;
                if (rc < 0 && !has_failed)
                        first = *work->err;
                has_failed = has_failed || rc < 0;
                if (rc > 0)
                        gpus[count++] = gpu;
        }
        if (end_modes(work, gpus, count, ret) < 0)
                return -1;
        if (has_failed)
                *work->err = first;
        return has_failed ? -1 : 0;
}

/* ---- instances ---- */

/* Adds the devices for which an instance without a placement is meant: one, or several that share it. */
static void count_item(const struct mig_record_item *item, struct mig_wanted_count *counts, size_t *n_counts)
{
        if (item->n_devices == 0)
                counts[(*n_counts)++] = (struct mig_wanted_count){.profile = item->profile, .count = 1};
        for (size_t i = 0; i < item->n_devices; i++)
                counts[(*n_counts)++] = (struct mig_wanted_count){
                        .profile = item->profile, .count = 1, .compute = item->devices[i].slices};
}

static void place_item(
        struct mig_record_item *item, const struct mig_geometry *geometry, const struct mig_plan_made *made)
{
        item->profile = made->profile;
        item->start = made->start;
        item->n_devices = MAX(made->shape.n_computes, 1U);
        item->devices[0] = (struct mig_record_device){
                .uuid = "", .slices = mig_profile_text_find(geometry, made->profile)->slices};
        for (size_t i = 0; i < made->shape.n_computes; i++)
                item->devices[i] = (struct mig_record_device){.uuid = "", .slices = made->shape.computes[i]};
}

/*
 * Gives placements to the instances that were planned before the profiles were known. Their number does not change,
 * since they are divided in the same way.
 */
static int place_items(const struct work *work, struct mig_view *view)
{
        struct arena *arena = &work->change->arena;
        struct mig_wanted_count *counts =
                ARENA_ARRAY(arena, struct mig_wanted_count, view->record->n_items * MIG_RECORD_DEVICES_MAX);
        struct mig_wanted wanted = {.is_named = true, .is_enabled = true, .counts = counts};
        const struct mig_node_gpu gpu = {.uuid = view->record->uuid, .is_capable = true, .geometry = view->geometry};
        const struct mig_node node = {.gpus = &gpu, .n_gpus = 1};
        struct mig_plan plan;
        size_t n_unplaced = 0;
        size_t at = 0;

        for (size_t i = 0; i < view->record->n_items; i++)
                if (view->record->items[i].start == MIG_START_UNKNOWN) {
                        count_item(&view->record->items[i], counts, &wanted.n_counts);
                        n_unplaced++;
                }
        if (n_unplaced == 0)
                return 0;
        mig_plan_build(&plan, arena, &node, &wanted);
        if (!plan.fits)
                return error_set(work->err, ERROR_INVALID, "GPU %s: %s", view->record->uuid, plan.gpus[0].problem);
        if (plan.gpus[0].n_made != n_unplaced)
                return error_set(work->err, ERROR_UNAVAILABLE,
                        "GPU %s: its MIG devices have changed since this change was planned: plan again",
                        view->record->uuid);
        for (size_t i = 0; i < view->record->n_items; i++) {
                struct mig_record_item *item = &view->record->items[i];

                if (item->start == MIG_START_UNKNOWN)
                        place_item(item, &view->geometry, &plan.gpus[0].made[at++]);
        }
        return 0;
}

static int change_make_missing(const struct work *work, struct mig_view *view)
{
        for (size_t i = 0; i < view->record->n_items; i++) {
                if (!view->instances[i] && !view->is_met[i] &&
                        mig_record_is_wanted(&view->record->items[i], work->record->goal) &&
                        step_make(work, view, i) < 0)
                        return -1;
        }
        return 0;
}

static int change_instances(const struct work *work, struct mig_record_gpu *gpu)
{
        struct mig_view view;

        if (change_is_gone(work, gpu))
                return 0;
        if (view_read(&view, work, gpu) < 0)
                return -1;
        if (view.external && work->record->goal == MIG_RECORD_AFTER)
                return refuse_external(&view, work->err);
        if (view.external)
                change_report(work, "GPU %s: %s at %u is somebody else's, and is left", gpu->uuid,
                        view.external->profile->name, view.external->placement.start);
        if (destroy_rest(work, &view) < 0)
                return -1;
        if (!wants_mig(work, gpu))
                return 0;
        if (work->record->goal == MIG_RECORD_AFTER && place_items(work, &view) < 0)
                return -1;
        if (change_make_missing(work, &view) < 0)
                return -1;
        return view.external && work->record->goal == MIG_RECORD_AFTER ? refuse_external(&view, work->err) : 0;
}

/* Makes the geometry of the goal. Undoing continues with the other GPUs when it fails on one. */
static int change_reach(const struct work *work, enum mig_change_end *ret)
{
        enum mig_change_end end = MIG_CHANGE_DONE;
        bool is_undone = work->record->goal == MIG_RECORD_BEFORE;
        struct error first;
        int result = change_modes(work, &end);

        if (result < 0 && (!is_undone || !work->change->nvml))
                return -1;
        if (result < 0)
                first = *work->err;
        for (size_t i = 0; end != MIG_CHANGE_WAITS && i < work->record->n_gpus; i++) {
                if (!work->record->gpus[i].changes || change_instances(work, &work->record->gpus[i]) == 0)
                        continue;
                if (!is_undone)
                        return -1;
                if (result == 0)
                        first = *work->err;
                result = -1;
        }
        if (result < 0)
                *work->err = first;
        *ret = end;
        return result;
}

/* ---- a whole change ---- */

static int change_end(const struct work *work, enum mig_change_end *ret, enum mig_change_end end)
{
        if (mig_record_remove(work->change->path, work->err) < 0)
                return -1;
        *ret = end;
        return 0;
}

static int change_undo(const struct work *work)
{
        enum mig_change_end end;

        work->record->goal = MIG_RECORD_BEFORE;
        if (change_save(work) < 0 || change_reach(work, &end) < 0)
                return error_prefix(work->err, "not undone yet ('warpshare mig apply --resume' tries again)");
        return 0;
}

static int change_run(const struct work *work, enum mig_change_end *ret)
{
        enum mig_change_end end;
        struct error cause;

        if (work->record->goal == MIG_RECORD_BEFORE)
                return change_undo(work) < 0 ? -1 : change_end(work, ret, MIG_CHANGE_UNDONE);
        if (change_reach(work, &end) == 0) {
                if (end != MIG_CHANGE_WAITS)
                        return change_end(work, ret, end);
                *ret = end;
                return change_save(work);
        }
        cause = *work->err;
        change_report(work, "failed: %s", cause.text);
        if (!work->change->nvml || change_undo(work) < 0 || change_end(work, &end, MIG_CHANGE_UNDONE) < 0)
                return -1;
        *work->err = cause;
        return error_prefix(work->err, "the geometry is as before");
}

static void take_reboot(struct mig_record *record, const char *boot_id)
{
        if (strcmp(record->boot_id, boot_id) == 0)
                return;
        record->boot_id = boot_id;
        record->may_wait = false; /* it has waited */
        for (size_t i = 0; i < record->n_gpus; i++) {
                record->gpus[i].changes = true;
                for (size_t j = 0; j < record->gpus[i].n_items; j++)
                        mig_record_set_absent(&record->gpus[i].items[j]);
        }
}

int mig_change_resume(struct mig_change *change, bool undoes, enum mig_change_end *ret, struct error *err)
{
        struct mig_record record;
        const struct work work = {.change = change, .record = &record, .err = err};
        int rc = mig_record_read(&record, change->path, &change->arena, err);

        if (rc == MIG_RECORD_NONE)
                *ret = MIG_CHANGE_NONE;
        if (rc != 0)
                return rc == MIG_RECORD_NONE ? 0 : -1;
        take_reboot(&record, change->options->boot_id);
        if (undoes)
                record.goal = MIG_RECORD_BEFORE;
        change_report(&work, "%s the change to '%s' that was interrupted",
                record.goal == MIG_RECORD_AFTER ? "resuming" : "undoing", record.config);
        return change_run(&work, ret);
}

static int check_plan(const struct work *work, const struct mig_plan *plan)
{
        const struct mig_change_options *options = work->change->options;

        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].needs_reset && !options->reset && !options->may_wait)
                        return error_set(work->err, ERROR_UNAVAILABLE,
                                "GPU %u (%s): MIG becomes %s only by a reset or a reboot, and neither is allowed "
                                "(--mode-change)",
                                plan->gpus[i].gpu->index, plan->gpus[i].gpu->uuid,
                                plan->gpus[i].wanted->is_enabled ? "enabled" : "disabled");
        for (size_t i = 0; i < work->record->n_gpus; i++) {
                struct mig_view view;

                if (!work->record->gpus[i].changes)
                        continue;
                if (view_read(&view, work, &work->record->gpus[i]) < 0)
                        return -1;
                if (view.external)
                        return refuse_external(&view, work->err);
        }
        return mig_users_check(work->change->nvml, plan, work->err);
}

int mig_change_apply(struct mig_change *change, const struct mig_plan *plan, const char *config,
        enum mig_change_end *ret, struct error *err)
{
        struct mig_record record;
        const struct work work = {.change = change, .record = &record, .err = err};

        *ret = MIG_CHANGE_NONE;
        if (!plan->changes)
                return 0;
        mig_record_plan(&record, &change->arena, plan, config, change->options->boot_id, change->options->may_wait);
        if (check_plan(&work, plan) < 0)
                return -1;
        return change_run(&work, ret);
}

bool mig_change_is_recorded(const char *directory)
{
        _free_ char *path = xasprintf("%s/" MIG_RECORD_NAME, directory);

        return access(path, F_OK) == 0 || errno != ENOENT;
}

int mig_change_open(struct mig_change *ret, const struct mig_change_options *options, struct error *err)
{
        struct mig_change change = {.options = options, .lock = LOCK_INIT};
        int rc;

        if (file_make_folder(options->directory, err) < 0)
                return -1;
        rc = lock_take_within(&change.lock, options->directory, LOCK_PATIENCE_MS, err);
        if (rc == LOCK_BUSY)
                return MIG_CHANGE_BUSY;
        if (rc < 0)
                return -1;
        if (nvml_open(&change.nvml, options->library, options->driver_root, err) < 0) {
                lock_release(&change.lock);
                return -1;
        }
        change.path = xasprintf("%s/" MIG_RECORD_NAME, options->directory);
        *ret = change;
        return 0;
}

void mig_change_close(struct mig_change *change)
{
        nvml_close(change->nvml);
        lock_release(&change->lock);
        arena_done(&change->arena);
        free(change->path);
}
