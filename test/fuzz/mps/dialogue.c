// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as an answer of an MPS control daemon.
 *
 *         tools/fuzz 60 fuzz-mps-dialogue
 */
#include <stdlib.h>
#include <string.h>

#include "mps/control/dialogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds)
{
        if (!holds)
                abort();
}

static void read_values(const char *answer, struct arena *arena)
{
        const char *partition;
        unsigned int permille;
        struct error err;
        uint64_t mib;

        if (dialogue_read_percentage(answer, &permille, &err) == 0)
                need(permille <= 1000);
        if (dialogue_read_limit(answer, &mib, &err) == 0)
                need(mib < UINT64_MAX >> 20); /* can be told in bytes */
        if (dialogue_read_partition(answer, arena, &partition, &err) == 0)
                need(*partition && !strpbrk(partition, " \n\t\"'$,;"));
        (void)dialogue_is_unknown_command(answer);
        (void)dialogue_is_not_found(answer);
        (void)dialogue_capabilities(answer);
}

static void read_lists(const char *answer, struct arena *arena)
{
        struct dialogue_partition *partitions;
        struct dialogue_device *devices;
        struct dialogue_unread unread = {0};
        unsigned int chunks;
        size_t count;
        pid_t *pids;

        dialogue_read_pids(answer, arena, &pids, &count, &unread);
        for (size_t i = 0; i < count; i++)
                need(pids[i] >= 0);
        dialogue_read_device_clients(answer, arena, &devices, &count, &unread);
        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < devices[i].n_clients; j++)
                        need(devices[i].clients[j] >= 0);
        dialogue_read_partitions(answer, arena, &partitions, &count, &unread);
        for (size_t i = 0; i < count; i++)
                need(*partitions[i].id && !strpbrk(partitions[i].id, " \n\t"));
        if (dialogue_read_chunks(answer, "GPU-74d43ed3", &chunks))
                need(chunks <= 2 * UINT16_MAX);
}

static void read_v3(const char *answer, struct arena *arena)
{
        struct dialogue_v3_namespace *namespaces;
        struct dialogue_v3_server *servers;
        struct dialogue_v3_client *clients;
        struct dialogue_unread unread = {0};
        size_t count;

        dialogue_v3_read_servers(answer, arena, &servers, &count, &unread);
        for (size_t i = 0; i < count; i++)
                need(dialogue_v3_is_name(servers[i].name) && servers[i].status);
        dialogue_v3_read_namespaces(answer, arena, &namespaces, &count, &unread);
        for (size_t i = 0; i < count; i++)
                need(dialogue_v3_is_name(namespaces[i].server) && namespaces[i].permille <= 1000);
        dialogue_v3_read_clients(answer, arena, &clients, &count, &unread);
        for (size_t i = 0; i < count; i++)
                need(clients[i].pid >= 0 && dialogue_v3_is_name(clients[i].name_space));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        char *text = malloc(size + 1);

        memcpy(text, data, size);
        text[size] = '\0';
        read_values(text, &arena);
        read_lists(text, &arena);
        read_v3(text, &arena);
        arena_done(&arena);
        free(text);
        return 0;
}
