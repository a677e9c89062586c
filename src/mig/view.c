// SPDX-License-Identifier: Apache-2.0
#include "mig/view.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "gpu/process_list.h"

static bool view_has_device(const struct mig_record_item *item, const char *uuid)
{
        for (size_t i = 0; i < item->n_devices; i++)
                if (strcmp(item->devices[i].uuid, uuid) == 0)
                        return true;
        return false;
}

/* True if all MIG devices of |instance| are recorded in |item|. */
static bool view_has_devices(const struct mig_record_item *item, const struct mig_gpu_instance *instance)
{
        for (size_t i = 0; i < instance->n_devices; i++)
                if (!view_has_device(item, instance->devices[i].uuid))
                        return false;
        return true;
}

/* |instance| has the compute instances of |item|, in any order. */
static bool view_is_complete(const struct mig_record_item *item, const struct mig_gpu_instance *instance)
{
        struct mig_shape is = {.n_computes = 0};
        struct mig_shape wanted = {.n_computes = 0};

        for (size_t i = 0; i < instance->n_devices; i++)
                mig_shape_add(&is, instance->devices[i].slices);
        for (size_t i = 0; i < item->n_devices; i++)
                mig_shape_add(&wanted, item->devices[i].slices);
        return instance->n_devices == item->n_devices && mig_shape_is_same(&is, &wanted);
}

static bool is_at_its_place(const struct mig_record_item *item, const struct mig_gpu_instance *instance)
{
        return item->start == instance->placement.start && strcmp(item->profile, instance->profile->name) == 0;
}

static bool is_item(const struct mig_record_item *item, const struct mig_gpu_instance *instance)
{
        if (!is_at_its_place(item, instance))
                return false;
        switch (item->state) {
        case MIG_RECORD_PRESENT:
                return instance->n_devices == item->n_devices && view_has_devices(item, instance);
        case MIG_RECORD_REMOVING:
                return view_has_devices(item, instance);
        case MIG_RECORD_MAKING:
                return true;
        case MIG_RECORD_ABSENT:
                break;
        }
        return false;
}

static void view_match(struct mig_view *view, enum mig_record_goal goal, const struct mig_gpu_instance *instance)
{
        const struct mig_record_gpu *gpu = view->record;

        for (size_t i = 0; i < gpu->n_items; i++) {
                if (!view->instances[i] && is_item(&gpu->items[i], instance)) {
                        view->instances[i] = instance;
                        return;
                }
        }
        for (size_t i = 0; i < gpu->n_items; i++) {
                const struct mig_record_item *item = &gpu->items[i];

                if (item->state == MIG_RECORD_ABSENT && mig_record_is_wanted(item, goal) &&
                        is_at_its_place(item, instance) && view_is_complete(item, instance)) {
                        view->is_met[i] = true;
                        return;
                }
        }
        if (!view->external)
                view->external = instance;
}

/*
 * Settles each item that was being made or removed when the record was written, by the instance that the driver has
 * now.
 */
static void view_settle(const struct mig_view *view, struct arena *arena)
{
        for (size_t i = 0; i < view->record->n_items; i++) {
                struct mig_record_item *item = &view->record->items[i];
                const struct mig_gpu_instance *instance = view->instances[i];

                if (!instance) {
                        mig_record_set_absent(item);
                        continue;
                }
                if (!view_is_complete(item, instance))
                        continue; /* half made, or half destroyed: it has to go */
                item->state = MIG_RECORD_PRESENT;
                for (size_t j = 0; j < item->n_devices; j++)
                        item->devices[j] = (struct mig_record_device){
                                .uuid = arena_strdup(arena, instance->devices[j].uuid),
                                .slices = instance->devices[j].slices,
                        };
        }
}

int mig_view_read(struct mig_view *ret, struct arena *arena, const struct nvml *nvml, struct mig_record_gpu *gpu,
        enum mig_record_goal goal, struct error *err)
{
        *ret = (struct mig_view){.record = gpu};
        if (mig_gpu_open(&ret->gpu, nvml, gpu->uuid, err) < 0 ||
                mig_instances_read(&ret->geometry, arena, &ret->gpu, err) < 0)
                return -1;
        for (size_t i = 0; i < ret->geometry.n_instances; i++)
                view_match(ret, goal, &ret->geometry.instances[i]);
        view_settle(ret, arena);
        return 0;
}

/* ---- who uses it ---- */

#define USERS_MAX 64U /* that are listed of one kind */
#define USERS_NAMED 8U

struct users {
        unsigned int pids[3 * USERS_MAX];
        size_t count;
};

static void add_user(struct users *users, unsigned int pid)
{
        for (size_t i = 0; i < users->count; i++)
                if (users->pids[i] == pid)
                        return;
        users->pids[users->count++] = pid;
}

static int list_users(struct users *users, const struct nvml *nvml, nvmlDevice_t device, struct error *err)
{
        static const unsigned int kinds[] = {GPU_PROCESS_COMPUTE, GPU_PROCESS_GRAPHICS, GPU_PROCESS_MPS};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                struct gpu_listed_process listed[USERS_MAX];
                unsigned int count = USERS_MAX;
                nvmlReturn_t code = gpu_process_list(nvml, device, kinds[i], listed, &count);
                int known;

                if (code == NVML_ERROR_INSUFFICIENT_SIZE)
                        return error_set(err, ERROR_UNAVAILABLE, "more than %u processes use it", USERS_MAX);
                known = nvml_outcome(nvml, code, gpu_process_list_call(kinds[i]), err);
                if (known < 0)
                        return -1;
                for (unsigned int j = 0; known == 1 && j < count; j++)
                        add_user(users, listed[j].pid);
        }
        return 0;
}

/* |uuid| of a GPU or a MIG device. */
static int check_unused(const struct nvml *nvml, const char *uuid, struct error *err)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(USERS_NAMED);
        struct users users = {0};
        nvmlDevice_t device = NULL;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);

        if (code == NVML_ERROR_NOT_FOUND)
                return 0; /* it is gone already */
        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
        if (list_users(&users, nvml, device, err) < 0)
                return -1;
        if (users.count == 0)
                return 0;
        for (size_t i = 0; i < users.count; i++)
                names_add(&names, "%u", users.pids[i]);
        return error_set(err, ERROR_UNAVAILABLE, "used by process%s %s", users.count > 1 ? "es" : "", names.text.data);
}

static int users_check_gpu(const struct nvml *nvml, const struct mig_plan_gpu *plan, struct error *err)
{
        for (size_t i = 0; i < plan->n_goes; i++) {
                const struct mig_gpu_instance *instance = plan->goes[i];

                for (size_t j = 0; j < instance->n_devices; j++)
                        if (check_unused(nvml, instance->devices[j].uuid, err) < 0)
                                return error_prefix(err, "%s (%s at %u)", instance->devices[j].uuid,
                                        instance->profile->name, instance->placement.start);
        }
        if (plan->gpu->geometry.is_enabled != plan->wanted->is_enabled && check_unused(nvml, plan->gpu->uuid, err) < 0)
                return error_prefix(err, "its MIG mode changes");
        return 0;
}

int mig_users_check(const struct nvml *nvml, const struct mig_plan *plan, struct error *err)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].changes && users_check_gpu(nvml, &plan->gpus[i], err) < 0)
                        return error_prefix(err, "GPU %u (%s)", plan->gpus[i].gpu->index, plan->gpus[i].gpu->uuid);
        return 0;
}
