// SPDX-License-Identifier: Apache-2.0
/*
 * The MIG geometry that several processes of one simulated node share: where a scenario names a `geometryFile`,
 * programs write their changes there, and every call of every program reads it. It has an entry for each GPU that can
 * be split:
 *
 *         gpu <base> <resets> <boots> <current mode> <pending mode> <created> <UUID>
 *         gi <profile id> <id> <start>
 *         ci <id of its GPU instance> <id> <slices> <start> <index of the MIG device> <UUID>
 *
 * |base| is a hash of what the scenario said about the GPU's MIG when the entry was made. An entry with another base is
 * void: the scenario was edited since, and the edit counts. Scenario and file are read together only with a lock on the
 * file's folder, so that all processes see resets and edits in the same order; the file is replaced as a whole.
 */
#include "sim/nvml/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/file.h"
#include "sim/hardware/uuid.h"

#define GEOMETRY_MAX ((size_t)1 << 20)

struct entry {
        char base[SIM_UUID];
        unsigned int resets;
        unsigned int boots;
        unsigned int current;
        unsigned int pending;
        unsigned int created;
        struct gpu *gpu;
        struct mig_layout layout; /* its UUIDs point into the text that was read */
        struct {
                unsigned int index;
                const char *uuid;
        } devices[MIG_INSTANCES_MAX];
        size_t n_devices;
};

static void base_of(char base[SIM_UUID], const struct scenario_gpu *config)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%s %d %d", config->model->key, config->mig_enabled, config->mig_pending);
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_instance *instance = &config->mig.instances[i];

                if (!instance->profile)
                        continue;
                strbuf_printf(&text, " %s %u %u", instance->profile->name, instance->id, instance->start);
                for (size_t j = 0; j < MIG_COMPUTE_MAX; j++) {
                        const struct mig_compute *compute = &instance->computes[j];

                        if (compute->used)
                                strbuf_printf(&text, " %u %u %u %s", compute->id, compute->slices, compute->start,
                                        compute->uuid ? compute->uuid : "");
                }
        }
        strbuf_putc(&text, '\0');
        sim_uuid(base, "MIG", text.data);
}

static struct gpu *find_gpu(const struct world *world, const char *uuid)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu->config && strcmp(gpu->uuid, uuid) == 0)
                        return gpu;
        }
        return NULL;
}

static bool read_gpu(const struct world *world, const char *line, struct entry *entry)
{
        char base[SIM_UUID];
        int uuid = 0;

        if (sscanf(line, "gpu %40s %u %u %u %u %u %n", entry->base, &entry->resets, &entry->boots, &entry->current,
                    &entry->pending, &entry->created, &uuid) != 6)
                return false;
        entry->gpu = find_gpu(world, line + uuid);
        if (!entry->gpu)
                return false;
        base_of(base, entry->gpu->config);
        return strcmp(base, entry->base) == 0;
}

static bool read_instance(const char *line, struct entry *entry)
{
        struct mig_instance instance = {0};
        unsigned int id;

        if (sscanf(line, "gi %u %u %u", &id, &instance.id, &instance.start) != 3)
                return false;
        instance.profile = model_profile_by_id(entry->gpu->config->model, id);
        for (size_t i = 0; i < MIG_INSTANCES_MAX && instance.profile; i++) {
                if (!entry->layout.instances[i].profile) {
                        entry->layout.instances[i] = instance;
                        return true;
                }
        }
        return false;
}

static bool read_compute(const char *line, struct entry *entry)
{
        struct mig_compute compute = {.used = true};
        unsigned int index;
        unsigned int gi;
        int uuid = 0;

        if (sscanf(line, "ci %u %u %u %u %u %n", &gi, &compute.id, &compute.slices, &compute.start, &index, &uuid) !=
                        5 ||
                entry->n_devices == ARRAY_SIZE(entry->devices))
                return false;
        compute.uuid = line + uuid;
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                struct mig_instance *instance = &entry->layout.instances[i];

                for (size_t j = 0; instance->profile && instance->id == gi && j < MIG_COMPUTE_MAX; j++) {
                        if (instance->computes[j].used)
                                continue;
                        instance->computes[j] = compute;
                        entry->devices[entry->n_devices].index = index;
                        entry->devices[entry->n_devices++].uuid = compute.uuid;
                        return true;
                }
        }
        return false;
}

static void take_entry(struct world *world, const struct entry *entry, bool *known)
{
        const struct scenario_gpu *config;
        struct gpu *gpu = entry->gpu;

        if (!gpu)
                return;
        config = gpu->config;
        known[gpu->position] = true;
        gpu->mig_current = entry->current;
        gpu->mig_pending = entry->pending;
        gpu->created = entry->created;
        world_set_layout(world, gpu, &entry->layout);
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                for (size_t i = 0; i < entry->n_devices && compute->alive && compute->handle.gpu == gpu; i++) {
                        if (strcmp(compute->uuid, entry->devices[i].uuid) == 0)
                                compute->mig_index = entry->devices[i].index;
                }
        }
        if (config->boots > entry->boots || config->resets > entry->resets)
                world_reset_gpu(world, gpu, config->boots > entry->boots);
}

/* Sets each GPU as the file says, and |known| at its position. An entry that cannot be read is ignored. */
static void read_entries(struct world *world, char *text, bool *known)
{
        struct entry entry = {0};
        char *line;

        while ((line = strsep(&text, "\n")) && *line) {
                bool good;

                if (strncmp(line, "gpu ", 4) == 0) {
                        take_entry(world, &entry, known);
                        entry = (struct entry){0};
                        good = read_gpu(world, line, &entry);
                } else {
                        good = entry.gpu && (line[0] == 'g' ? read_instance(line, &entry) : read_compute(line, &entry));
                }
                if (!good)
                        entry.gpu = NULL;
        }
        take_entry(world, &entry, known);
}

static void render_gpu(const struct world *world, const struct gpu *gpu, struct strbuf *text)
{
        char base[SIM_UUID];

        base_of(base, gpu->config);
        strbuf_printf(text, "gpu %s %u %u %d %d %u %s\n", base, gpu->config->resets, gpu->config->boots,
                gpu->mig_current, gpu->mig_pending, gpu->created, gpu->uuid);
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_instance *place = &gpu->mig->instances[i];

                if (place->profile)
                        strbuf_printf(text, "gi %u %u %u\n", place->profile->id, place->id, place->start);
        }
        LIST_FOR_EACH(link, &world->computes) {
                const struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->handle.gpu == gpu)
                        strbuf_printf(text, "ci %u %u %u %u %u %s\n", compute->instance->place->id, compute->place->id,
                                compute->place->slices, compute->place->start, compute->mig_index, compute->uuid);
        }
}

/* A file that does not exist yet counts as an empty one. */
static int read_file(const struct world *world, struct strbuf *text, struct error *err)
{
        if (access(world->scenario->geometry_file, F_OK) < 0 && errno == ENOENT)
                return 0;
        return file_read(world->scenario->geometry_file, GEOMETRY_MAX, text, err);
}

bool world_geometry_changed(const struct world *world)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored; /* reported by the next read, under the lock */

        if (!world->scenario || !world->scenario->geometry_file)
                return false;
        return read_file(world, &text, &ignored) < 0 || text.size != world->geometry.size ||
               memcmp(text.data, world->geometry.data, text.size) != 0;
}

int world_lock_geometry(const struct world *world, struct error *err)
{
        _free_ char *folder = file_folder(world->scenario->geometry_file);
        _close_ int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return error_errno(err, errno, "lock '%s'", folder);
        return TAKE_FD(lock);
}

int world_read_geometry(struct world *world, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        bool known[SCENARIO_MAX_GPUS] = {false};

        if (read_file(world, &text, err) < 0)
                return -1;
        strbuf_clear(&world->geometry);
        strbuf_append(&world->geometry, text.data, text.size);
        strbuf_putc(&text, '\0');
        read_entries(world, text.data, known);
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (!gpu->config || known[gpu->position])
                        continue;
                gpu->mig_current = gpu->config->mig_enabled;
                gpu->mig_pending = gpu->config->mig_pending;
                world_set_layout(world, gpu, &gpu->config->mig);
        }
        return 0;
}

int world_write_geometry(struct world *world, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        LIST_FOR_EACH(link, &world->gpus) {
                const struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu->config && gpu->config->model->memory_slices)
                        render_gpu(world, gpu, &text);
        }
        if (text.size == world->geometry.size && memcmp(text.data, world->geometry.data, text.size) == 0)
                return 0;
        if (file_write(world->scenario->geometry_file, text.data, text.size, err) < 0)
                return -1;
        strbuf_clear(&world->geometry);
        strbuf_append(&world->geometry, text.data, text.size);
        return 0;
}
