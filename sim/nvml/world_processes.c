// SPDX-License-Identifier: Apache-2.0
/*
 * Processes from files: where a scenario names a `processDirectory`, each file in it is one process on one device, a
 * line "<UUID of GPU or MIG device> <pid> <bytes> <type>". The simulated MPS server writes such files for itself and
 * its clients. The file of a process that no longer exists is ignored: the server may have been killed before it could
 * remove the file.
 */
#include "sim/nvml/world.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

#define PROCESS_FILE_MAX ((size_t)4096)

struct process_line {
        char uuid[80];
        char type[8];
        struct scenario_process process;
};

static bool read_line(const char *path, struct process_line *line)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        unsigned long long bytes;
        struct error ignored;

        line->process = (struct scenario_process){.name = "", .gi = NVML_NO_INSTANCE, .ci = NVML_NO_INSTANCE};
        if (file_read(path, PROCESS_FILE_MAX, &text, &ignored) < 0 ||
                sscanf(text.data, "%79s %u %llu %7s", line->uuid, &line->process.pid, &bytes, line->type) != 4)
                return false;
        line->process.memory = bytes;
        line->process.types = strcmp(line->type, "M+C") == 0 ? PROCESS_MPS | PROCESS_COMPUTE : PROCESS_COMPUTE;
        return kill((pid_t)line->process.pid, 0) == 0 || errno == EPERM;
}

/* The GPU of the device. If that is a MIG device, the process gets its instance ids. */
static struct gpu *find_device(const struct world *world, struct process_line *line)
{
        LIST_FOR_EACH(link, &world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (strcmp(gpu->uuid, line->uuid) == 0)
                        return gpu;
        }
        LIST_FOR_EACH(link, &world->computes) {
                const struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (!compute->alive || strcmp(compute->uuid, line->uuid) != 0)
                        continue;
                line->process.gi = compute->instance->place->id;
                line->process.ci = compute->place->id;
                return compute->instance->gpu;
        }
        return NULL;
}

/* Begins with the processes that the scenario itself lists. */
static void begin(struct world *world)
{
        for (size_t i = 0; i < world->scenario->n_gpus; i++) {
                struct scenario_gpu *gpu = &world->scenario->gpus[i];

                if (!gpu->room)
                        gpu->room = ARENA_ARRAY(
                                &world->scenario->arena, struct scenario_process, 2 * SCENARIO_MAX_PROCESSES);
                if (gpu->processes != gpu->room) {
                        for (size_t n = 0; n < gpu->n_processes; n++)
                                gpu->room[n] = gpu->processes[n];
                        gpu->processes = gpu->room;
                        gpu->n_listed = gpu->n_processes;
                }
                gpu->n_processes = gpu->n_listed;
        }
}

void world_read_processes(struct world *world)
{
        DIR *directory;
        struct dirent *entry;

        if (!world->scenario || !world->scenario->process_directory)
                return;
        begin(world);
        directory = opendir(world->scenario->process_directory);
        if (!directory)
                return; /* not there yet: no processes */
        while ((entry = readdir(directory))) {
                _free_ char *path = xasprintf("%s/%s", world->scenario->process_directory, entry->d_name);
                struct process_line line;
                struct gpu *gpu;

                if (entry->d_name[0] == '.' || !read_line(path, &line) || !(gpu = find_device(world, &line)) ||
                        !gpu->config)
                        continue;
                if (world->scenario->gpus[gpu->position].n_processes < 2 * SCENARIO_MAX_PROCESSES) {
                        struct scenario_gpu *config = &world->scenario->gpus[gpu->position];

                        config->room[config->n_processes++] = line.process;
                }
        }
        closedir(directory);
}
