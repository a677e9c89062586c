// SPDX-License-Identifier: Apache-2.0
#include "mig/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/data/json_fields.h"
#include "gpu/mig_profile.h"
#include "mig/profile_text.h"

#define VERSION 1U
#define LIMIT ((size_t)16 * 1024 * 1024)
#define START_MAX 31U
#define SLICES_MAX 64U

static bool record_is_text(const char *text)
{
        return *text;
}

static bool record_is_any(const char *text UNUSED)
{
        return true;
}

static const struct json_text name_text = {.is = record_is_text, .most = 512, .must = "a text of 1 to "};
static const struct json_text profile_text = {
        .is = record_is_text, .most = MIG_PROFILE_SIZE - 1, .must = "a text of 1 to "};
static const struct json_text any_text = {.is = record_is_any, .most = 512, .must = "a text of at most "};

static const char *record_state_word(unsigned int position)
{
        static const char *const words[] = {
                [MIG_RECORD_ABSENT] = "absent",
                [MIG_RECORD_MAKING] = "making",
                [MIG_RECORD_PRESENT] = "present",
                [MIG_RECORD_REMOVING] = "removing",
        };

        return words[position];
}

static const char *goal_word(unsigned int position)
{
        static const char *const words[] = {[MIG_RECORD_AFTER] = "after", [MIG_RECORD_BEFORE] = "before"};

        return words[position];
}

static const struct json_field device_fields[] = {
        JSON_TEXT("uuid", struct mig_record_device, uuid, any_text, .is_needed = true),
        JSON_UINT("slices", struct mig_record_device, slices, 0, SLICES_MAX, .is_needed = true),
};
static const struct json_shape device_shape = JSON_SHAPE(struct mig_record_device, device_fields);

static const struct json_field item_fields[] = {
        JSON_TEXT("profile", struct mig_record_item, profile, profile_text, .is_needed = true),
        JSON_KNOWN("start", struct mig_record_item, start, MIG_START_UNKNOWN, START_MAX),
        JSON_BOOL("before", struct mig_record_item, is_before),
        JSON_BOOL("after", struct mig_record_item, is_after),
        JSON_WORD("state", struct mig_record_item, state, record_state_word, 4, .is_needed = true),
        JSON_ROW("devices", ARRAY, struct mig_record_item, devices,
                .count = offsetof(struct mig_record_item, n_devices), .shape = &device_shape,
                .most = MIG_RECORD_DEVICES_MAX),
};
static const struct json_shape item_shape = JSON_SHAPE(struct mig_record_item, item_fields);

static const struct json_field gpu_fields[] = {
        JSON_TEXT("uuid", struct mig_record_gpu, uuid, name_text, .is_needed = true),
        JSON_BOOL("changes", struct mig_record_gpu, changes),
        JSON_BOOL("enabledBefore", struct mig_record_gpu, is_enabled_before),
        JSON_BOOL("enabledAfter", struct mig_record_gpu, is_enabled_after),
        JSON_ITEMS("instances", struct mig_record_gpu, items, n_items, item_shape, 0, MIG_RECORD_ITEMS_MAX),
};
static const struct json_shape gpu_shape = JSON_SHAPE(struct mig_record_gpu, gpu_fields);

struct document {
        unsigned int version;
        struct mig_record record;
};

static const struct json_field document_fields[] = {
        JSON_UINT("version", struct document, version, VERSION, VERSION, .is_needed = true),
        JSON_TEXT("bootID", struct document, record.boot_id, name_text, .is_needed = true),
        JSON_TEXT("config", struct document, record.config, any_text, .is_needed = true),
        JSON_WORD("goal", struct document, record.goal, goal_word, 2, .is_needed = true),
        JSON_BOOL("mayWait", struct document, record.may_wait),
        JSON_ITEMS("gpus", struct document, record.gpus, record.n_gpus, gpu_shape, 0, MIG_RECORD_GPUS_MAX,
                .is_needed = true),
};
static const struct json_shape document_shape = JSON_SHAPE(struct document, document_fields);

char *mig_record_print(const struct mig_record *record)
{
        const struct document document = {.version = VERSION, .record = *record};
        json_t *root = json_object();

        json_fields_put(root, &document_shape, &document);
        return json_fields_print(root, JSON_INDENT(1));
}

bool mig_record_is_wanted(const struct mig_record_item *item, enum mig_record_goal goal)
{
        return goal == MIG_RECORD_AFTER ? item->is_after : item->is_before;
}

bool mig_record_wants_mig(const struct mig_record_gpu *gpu, enum mig_record_goal goal)
{
        return goal == MIG_RECORD_AFTER ? gpu->is_enabled_after : gpu->is_enabled_before;
}

void mig_record_set_absent(struct mig_record_item *item)
{
        item->state = MIG_RECORD_ABSENT;
        for (size_t i = 0; i < item->n_devices; i++)
                item->devices[i].uuid = "";
}

int mig_record_parse(struct mig_record *ret, const char *text, size_t size, struct arena *arena, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        struct document document = {0};
        json_t *root = json_fields_load(&in, text, size);

        json_fields_take(&in, root, &document_shape, &document);
        json_decref(root);
        if (in.is_bad)
                return -1;
        *ret = document.record;
        return 0;
}

int mig_record_read(struct mig_record *ret, const char *path, struct arena *arena, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read_private(path, LIMIT, &text, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? MIG_RECORD_NONE : error_prefix(err, "record");
        if (mig_record_parse(ret, text.data, text.size, arena, err) < 0)
                return error_prefix(err, "record '%s' (remove it to accept the geometry as it is)", path);
        return 0;
}

int mig_record_write(const struct mig_record *record, const char *path, struct error *err)
{
        _free_ char *text = mig_record_print(record);

        return file_write_durable(path, text, strlen(text), err) < 0 ? error_prefix(err, "record") : 0;
}

int mig_record_remove(const char *path, struct error *err)
{
        _free_ char *folder = file_folder(path);
        _close_ int fd = -1;

        if (unlink(path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "record '%s': remove", path);
        fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) < 0)
                return error_errno(err, errno, "record '%s': sync its folder", path);
        return 0;
}

/* ---- of a plan ---- */

static struct mig_record_item item_of(const struct mig_gpu_instance *instance, bool is_after)
{
        struct mig_record_item item = {.profile = instance->profile->name,
                .start = instance->placement.start,
                .is_before = true,
                .is_after = is_after,
                .state = MIG_RECORD_PRESENT,
                .n_devices = MIN(instance->n_devices, MIG_RECORD_DEVICES_MAX)};

        for (size_t i = 0; i < item.n_devices; i++)
                item.devices[i] = (struct mig_record_device){instance->devices[i].uuid, instance->devices[i].slices};
        return item;
}

static struct mig_record_item item_made(const struct mig_plan_gpu *plan, const struct mig_plan_made *made)
{
        const struct mig_gpu_profile *profile = mig_profile_text_find(&plan->gpu->geometry, made->profile);
        struct mig_record_item item = {.profile = made->profile,
                .start = made->start,
                .is_after = true,
                .state = MIG_RECORD_ABSENT,
                .n_devices = made->shape.n_computes};

        for (size_t i = 0; i < item.n_devices; i++)
                item.devices[i] = (struct mig_record_device){"", made->shape.computes[i]};
        if (profile && item.n_devices == 0)
                item.devices[item.n_devices++] = (struct mig_record_device){"", profile->slices};
        return item;
}

static void record_gpu(struct mig_record_gpu *ret, struct arena *arena, const struct mig_plan_gpu *plan)
{
        struct mig_record_item *items =
                ARENA_ARRAY(arena, struct mig_record_item, plan->n_stays + plan->n_goes + plan->n_made);

        *ret = (struct mig_record_gpu){.uuid = plan->gpu->uuid,
                .changes = plan->changes,
                .is_enabled_before = plan->gpu->geometry.is_enabled,
                .is_enabled_after = plan->wanted->is_enabled,
                .items = items};
        for (size_t i = 0; i < plan->n_stays; i++)
                items[ret->n_items++] = item_of(plan->stays[i], true);
        for (size_t i = 0; i < plan->n_goes; i++)
                items[ret->n_items++] = item_of(plan->goes[i], false);
        for (size_t i = 0; i < plan->n_made; i++)
                items[ret->n_items++] = item_made(plan, &plan->made[i]);
}

void mig_record_plan(struct mig_record *ret, struct arena *arena, const struct mig_plan *plan, const char *config,
        const char *boot_id, bool may_wait)
{
        struct mig_record_gpu *gpus = ARENA_ARRAY(arena, struct mig_record_gpu, plan->n_gpus);

        *ret = (struct mig_record){
                .boot_id = boot_id, .config = config, .goal = MIG_RECORD_AFTER, .may_wait = may_wait, .gpus = gpus};
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].wanted->is_named && plan->gpus[i].gpu->is_capable)
                        record_gpu(&gpus[ret->n_gpus++], arena, &plan->gpus[i]);
}
