#include "mig/record_plan.h"

#include "mig/profile_text.h"

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
