// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/world.h"

#include <string.h>
#include <sys/eventfd.h>

#include "base/hash.h"

static bool event_is_same(const struct scenario *a, size_t i, const struct scenario *b, size_t j)
{
        const struct scenario_event *x = &a->events[i];
        const struct scenario_event *y = &b->events[j];

        return x->type == y->type && x->data == y->data && x->gi == y->gi && x->ci == y->ci &&
               strcmp(a->gpus[x->gpu].uuid, b->gpus[y->gpu].uuid) == 0;
}

static void queue_in_set(struct nvmlEventSet_st *set, struct gpu *gpu, const struct scenario_event *what)
{
        for (size_t i = 0; i < set->n_registered; i++) {
                struct event *event;

                if (set->registered[i].gpu != gpu || !(set->registered[i].types & what->type))
                        continue;
                event = xmalloc(sizeof(*event));
                *event = (struct event){.gpu = gpu, .what = *what};
                list_append(&set->events, &event->link);
                eventfd_write(set->wake, 1);
                return;
        }
}

/*
 * Both lists have the same beginning; the events after it are new. So each event happens once if events are only
 * appended to the file.
 */
void world_queue_events(struct world *world, const struct scenario *before, const struct scenario *now)
{
        size_t same = 0;

        while (same < before->n_events && same < now->n_events && event_is_same(before, same, now, same))
                same++;
        for (; same < now->n_events; same++) {
                struct gpu *gpu = world_gpu_by_position(world, now->events[same].gpu);

                LIST_FOR_EACH(link, &world->event_sets)
                        queue_in_set(container_of(link, struct nvmlEventSet_st, link), gpu, &now->events[same]);
        }
}

static uint64_t geometry_of(const struct world *world, const struct gpu *gpu)
{
        uint64_t sum = HASH_INIT;

        hash_add(&sum, &gpu->mig_current, sizeof(gpu->mig_current));
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_instance *place = &gpu->mig->instances[i];

                if (!place->profile)
                        continue;
                hash_add(&sum, &place->profile->id, sizeof(place->profile->id));
                hash_add(&sum, &place->start, sizeof(place->start));
        }
        LIST_FOR_EACH(link, &world->computes) {
                const struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->handle.gpu == gpu)
                        hash_add(&sum, compute->uuid, strlen(compute->uuid));
        }
        return sum;
}

void world_queue_mig_events(struct world *world)
{
        LIST_FOR_EACH(gpu_link, &world->gpus) {
                struct gpu *gpu = container_of(gpu_link, struct gpu, link);
                const struct scenario_event what = {.gpu = gpu->position,
                        .type = NVML_EVENT_TYPE_MIG_CONFIG_CHANGE,
                        .gi = NVML_NO_INSTANCE,
                        .ci = NVML_NO_INSTANCE};
                uint64_t before = gpu->told_geometry;

                if (!gpu->config || !gpu->config->model->memory_slices)
                        continue;
                gpu->told_geometry = geometry_of(world, gpu);
                if (before == 0 || before == gpu->told_geometry)
                        continue;
                LIST_FOR_EACH(link, &world->event_sets)
                        queue_in_set(container_of(link, struct nvmlEventSet_st, link), gpu, &what);
        }
}

void event_set_unref(struct nvmlEventSet_st *set)
{
        if (--set->references)
                return;
        while (!list_is_empty(&set->events)) {
                struct event *event = container_of(set->events.next, struct event, link);

                list_remove(&event->link);
                free(event);
        }
        if (set->wake >= 0)
                close(set->wake);
        if (set->changes >= 0)
                close(set->changes);
        free(set->file);
        free(set->geometry);
        free(set);
}

void event_set_close(struct nvmlEventSet_st *set)
{
        list_remove(&set->link);
        set->closed = true;
        eventfd_write(set->wake, 1);
        event_set_unref(set);
}
