// SPDX-License-Identifier: Apache-2.0
/*
 * Static SM partitions (r590): whole chunks of a GPU, given out in order, and free again once the partition is removed.
 * How many there are depends on the GPU itself: recorded is that a GPU of 132 SMs has 15 chunks of 8, one fewer than
 * fit, though all 132 SMs count as free. So is every GPU with chunks of 8 here. Of those of 4 an A10 lacks none.
 */
#include "sim/mps/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

unsigned int partition_chunk_sms(const struct mps_gpu *gpu)
{
        return gpu->compute_major >= 9 ? 8 : 4;
}

unsigned int partition_chunks(const struct mps_gpu *gpu)
{
        const unsigned int chunk = partition_chunk_sms(gpu);
        const unsigned int whole = gpu->sms / chunk;

        if (gpu->chunks)
                return gpu->chunks;
        return chunk == 8 && whole > 1 ? whole - 1 : whole;
}

unsigned int partition_free_chunks(const struct daemon *daemon, const struct mps_gpu *gpu)
{
        unsigned int used = 0;

        LIST_FOR_EACH(link, &daemon->partitions) {
                const struct partition *partition = container_of(link, struct partition, link);

                if (strcmp(partition->uuid, gpu->uuid) == 0)
                        used += partition->chunks;
        }
        return partition_chunks(gpu) - used;
}

/* Finds a GPU by its UUID, or by the beginning of one that only one visible GPU has. */
static const struct mps_gpu *find_gpu(const struct daemon *daemon, const char *uuid)
{
        const struct mps_gpu *found = NULL;
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(&daemon->scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);

        for (int i = 0; uuid[0] && i < count; i++) {
                const struct mps_gpu *gpu = &daemon->scenario.gpus[visible[i]];

                if (!text_starts_with(gpu->uuid, uuid))
                        continue;
                if (found)
                        return NULL;
                found = gpu;
        }
        return found;
}

struct partition *partition_add(struct daemon *daemon, const char *uuid, unsigned int chunks)
{
        const struct mps_gpu *gpu = find_gpu(daemon, uuid);
        struct partition *partition;

        if (!gpu || !chunks || chunks > partition_free_chunks(daemon, gpu))
                return NULL;
        partition = xcalloc(1, sizeof(*partition));
        partition->chunks = chunks;
        partition->sms = chunks * partition_chunk_sms(gpu);
        snprintf(partition->uuid, sizeof(partition->uuid), "%s", gpu->uuid);
        snprintf(partition->id, sizeof(partition->id), "%s/D/%04uAAA=", gpu->uuid, ++daemon->n_made);
        list_append(&daemon->partitions, &partition->link);
        return partition;
}

bool partition_remove(struct partition *partition)
{
        if (partition->n_clients)
                return false;
        list_remove(&partition->link);
        free(partition);
        return true;
}

struct partition *partition_find(const struct daemon *daemon, const char *id)
{
        LIST_FOR_EACH(link, &daemon->partitions) {
                struct partition *partition = container_of(link, struct partition, link);

                if (strcmp(partition->id, id) == 0)
                        return partition;
        }
        return NULL;
}

void partition_left(struct daemon *daemon, pid_t pid)
{
        LIST_FOR_EACH(link, &daemon->partitions) {
                struct partition *partition = container_of(link, struct partition, link);

                for (unsigned int i = 0; i < partition->n_clients; i++) {
                        if (partition->clients[i] == pid) {
                                partition->clients[i] = partition->clients[--partition->n_clients];
                                return;
                        }
                }
        }
}
