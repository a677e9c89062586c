// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/world.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

#define SCENARIO_MAX_SIZE ((size_t)1 << 20)

/* File systems take a file's time from the kernel's last tick, which is at most 10 ms old. */
#define STAMP_RESOLUTION_NS INT64_C(50000000)

static int64_t nanoseconds(const struct timespec *t)
{
        return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static int stamp_take(const char *path, struct file_stamp *stamp, struct error *err)
{
        struct timespec now;
        struct stat st;

        if (stat(path, &st) < 0)
                return error_errno(err, errno, "read '%s'", path);
        clock_gettime(CLOCK_REALTIME, &now);
        *stamp =
                (struct file_stamp){.device = st.st_dev, .inode = st.st_ino, .size = st.st_size, .changed = st.st_mtim};
        stamp->fresh = nanoseconds(&now) - nanoseconds(&st.st_mtim) < STAMP_RESOLUTION_NS;
        return 0;
}

static bool stamp_is_same(const struct file_stamp *a, const struct file_stamp *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               nanoseconds(&a->changed) == nanoseconds(&b->changed);
}

static struct gpu *find_gpu(const struct world *world, const char *uuid)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (strcmp(gpu->uuid, uuid) == 0)
                        return gpu;
        }
        return NULL;
}

static bool layout_is_same(const struct mig_layout *a, const struct mig_layout *b)
{
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_instance *x = &a->instances[i];
                const struct mig_instance *y = &b->instances[i];

                if (x->profile != y->profile || x->id != y->id || x->start != y->start)
                        return false;
                for (size_t j = 0; j < MIG_COMPUTE_MAX; j++) {
                        const char *u = x->computes[j].uuid ? x->computes[j].uuid : "";
                        const char *v = y->computes[j].uuid ? y->computes[j].uuid : "";

                        if (x->computes[j].used != y->computes[j].used || x->computes[j].id != y->computes[j].id ||
                                x->computes[j].slices != y->computes[j].slices ||
                                x->computes[j].start != y->computes[j].start || strcmp(u, v) != 0)
                                return false;
                }
        }
        return true;
}

/* |before|: this GPU in the scenario until now, or NULL. */
static void gpu_configure(
        struct world *world, struct gpu *gpu, const struct scenario_gpu *before, const struct scenario_gpu *now)
{
        gpu->config = now;
        if (!before || before->compute_mode != now->compute_mode)
                gpu->compute_mode = now->compute_mode;
        if (!before || before->persistence != now->persistence)
                gpu->persistence = now->persistence;
        if (!before || before->mig_enabled != now->mig_enabled || before->mig_pending != now->mig_pending ||
                !layout_is_same(&before->mig, &now->mig)) {
                gpu->mig_current = now->mig_enabled;
                gpu->mig_pending = now->mig_pending;
                world_set_layout(world, gpu, &now->mig);
        } else if (now->boots > before->boots || now->resets > before->resets) {
                world_reset_gpu(world, gpu, now->boots > before->boots);
        }
}

static void world_adopt(struct world *world, struct scenario *scenario)
{
        struct scenario *before = world->scenario;

        world->scenario = scenario;
        for (size_t i = 0; i < scenario->n_gpus; i++) {
                const struct scenario_gpu *config = &scenario->gpus[i];
                struct gpu *gpu = find_gpu(world, config->uuid);

                if (!gpu) {
                        gpu = xcalloc(1, sizeof(*gpu));
                        snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", config->uuid);
                        gpu->handle.gpu = gpu;
                        list_append(&world->gpus, &gpu->link);
                }
                gpu->position = (unsigned int)i;
                gpu_configure(world, gpu, gpu->config, config);
        }
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu->position >= scenario->n_gpus || gpu->config != &scenario->gpus[gpu->position])
                        gpu->config = NULL;
        }
        if (before)
                world_queue_events(world, before, scenario);
        scenario_free(before);
}

void world_attach(struct world *world)
{
        unsigned int index = 0;

        world->versions = world->scenario->versions;
        LIST_FOR_EACH(link, &world->gpus)
                container_of(link, struct gpu, link)->attached = false;
        for (unsigned int i = 0; i < world->scenario->n_gpus; i++) {
                struct gpu *gpu = world_gpu_by_position(world, i);

                assert(gpu);
                gpu->attached = gpu->config->present;
                gpu->index = index;
                index += gpu->attached;
        }
}

/* 1: read, 0: the same text as before. */
static int world_read(struct world *world, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(world->path, SCENARIO_MAX_SIZE, &text, err) < 0)
                return -1;
        if (world->text.size == text.size && memcmp(world->text.data, text.data, text.size) == 0)
                return 0;
        strbuf_clear(&world->text);
        strbuf_append(&world->text, text.data, text.size);
        return 1;
}

/* If the file comes back it is a new one, even with the same text. */
static void forget_file(struct world *world)
{
        world->stamp = (struct file_stamp){0};
        strbuf_clear(&world->text);
        strbuf_putc(&world->text, '\0');
}

static int world_load(struct world *world, struct error *err)
{
        _free_ char *name = NULL;
        struct scenario *scenario = NULL;
        struct file_stamp stamp;
        int changed;

        if (stamp_take(world->path, &stamp, err) < 0) {
                forget_file(world);
                return -1;
        }
        if (stamp_is_same(&stamp, &world->stamp) && !world->stamp.fresh)
                return 0;
        changed = world_read(world, err);
        if (changed < 0)
                return -1;
        world->stamp = stamp;
        if (!changed)
                return 0;
        name = xasprintf("scenario '%s'", world->path);
        if (scenario_parse(&scenario, name, world->text.data, world->text.size, err) < 0)
                return -1;
        world_adopt(world, scenario);
        return 1;
}

int world_end_change(struct world *world, int lock, struct error *err)
{
        _close_ int held UNUSED = lock;

        world_queue_mig_events(world);
        return lock < 0 ? 0 : world_write_geometry(world, err);
}

/*
 * Reads the scenario again under the lock, so that an old scenario is never combined with a newer geometry. If it is
 * bad, the last good one stays.
 */
int world_begin_change(struct world *world, int *lock, struct error *err)
{
        _close_ int held = -1;
        struct error problem;

        *lock = -1;
        if (!world->scenario->geometry_file)
                return 0;
        held = world_lock_geometry(world, err);
        if (held < 0)
                return -1;
        if (world_load(world, &problem) > 0)
                world->problem.kind = ERROR_NONE;
        if (world_read_geometry(world, err) < 0)
                return -1;
        *lock = TAKE_FD(held);
        return 0;
}

/* Reads what other programs changed in the geometry, and writes what a new scenario changes in it. */
static int world_follow_geometry(struct world *world, struct error *err)
{
        int lock;

        return world_begin_change(world, &lock, err) < 0 ? -1 : world_end_change(world, lock, err);
}

void world_refresh(struct world *world)
{
        struct error problem = {0};
        int loaded = world_load(world, &problem);

        if (loaded < 0)
                world->problem = problem;
        else if (loaded > 0)
                world->problem.kind = ERROR_NONE;
        if ((loaded > 0 || world_geometry_changed(world)) && world_follow_geometry(world, &problem) < 0) {
                world->problem = problem;
                forget_file(world);
        }
        world_queue_mig_events(world);
        world_read_processes(world);
}

struct world *world_new(const char *path)
{
        struct world *world = xcalloc(1, sizeof(*world));

        world->path = xstrdup(path);
        world->text = (struct strbuf)STRBUF_INIT;
        world->geometry = (struct strbuf)STRBUF_INIT;
        strbuf_putc(&world->text, '\0'); /* no file has this text, so that an empty file is also read, and refused */
        list_init(&world->gpus);
        list_init(&world->instances);
        list_init(&world->computes);
        list_init(&world->event_sets);
        return world;
}

#define FREE_ALL(list, type)                                                                                           \
        while (!list_is_empty(list)) {                                                                                 \
                type *object = container_of((list)->next, type, link);                                                 \
                list_remove(&object->link);                                                                            \
                free(object);                                                                                          \
        }

struct world *world_free(struct world *world)
{
        if (!world)
                return NULL;
        while (!list_is_empty(&world->event_sets))
                event_set_close(container_of(world->event_sets.next, struct nvmlEventSet_st, link));
        FREE_ALL(&world->computes, struct nvmlComputeInstance_st);
        FREE_ALL(&world->instances, struct nvmlGpuInstance_st);
        LIST_FOR_EACH(link, &world->gpus)
                free(container_of(link, struct gpu, link)->mig);
        FREE_ALL(&world->gpus, struct gpu);
        scenario_free(world->scenario);
        strbuf_done(&world->text);
        strbuf_done(&world->geometry);
        free(world->path);
        free(world);
        return NULL;
}

unsigned int world_count(const struct world *world)
{
        unsigned int count = 0;

        LIST_FOR_EACH(link, &world->gpus)
                count += container_of(link, struct gpu, link)->attached;
        return count;
}

struct gpu *world_gpu_by_index(const struct world *world, unsigned int index)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu->attached && gpu->index == index)
                        return gpu;
        }
        return NULL;
}

struct gpu *world_gpu_by_position(const struct world *world, unsigned int position)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu->config && gpu->position == position)
                        return gpu;
        }
        return NULL;
}

struct nvmlDevice_st *world_device(const struct world *world, nvmlDevice_t handle)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (&gpu->handle == handle)
                        return &gpu->handle;
        }
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (&compute->handle == handle)
                        return compute->alive ? &compute->handle : NULL;
        }
        return NULL;
}
