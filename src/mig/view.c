#include "mig/view.h"

#include <stdlib.h>
#include <string.h>

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

static int compare_slices(const void *a, const void *b)
{
        unsigned int left = *(const unsigned int *)a;
        unsigned int right = *(const unsigned int *)b;

        return (left > right) - (left < right);
}

/* |instance| has the compute instances of |item|, in any order. */
static bool view_is_complete(const struct mig_record_item *item, const struct mig_gpu_instance *instance)
{
        unsigned int is[MIG_RECORD_DEVICES_MAX] = {0};
        unsigned int wanted[MIG_RECORD_DEVICES_MAX] = {0};

        if (instance->n_devices != item->n_devices)
                return false;
        for (size_t i = 0; i < item->n_devices; i++) {
                is[i] = instance->devices[i].slices;
                wanted[i] = item->devices[i].slices;
        }
        qsort(is, item->n_devices, sizeof(*is), compare_slices);
        qsort(wanted, item->n_devices, sizeof(*wanted), compare_slices);
        return memcmp(is, wanted, sizeof(is)) == 0;
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
