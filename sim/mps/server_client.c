// SPDX-License-Identifier: Apache-2.0
/* Which clients may connect, what each gets, and what happens to all when one causes a fault. */
#include "sim/mps/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "sim/mps/segment.h"

/* cuda.h */
#define CUDA_ERROR_NO_DEVICE 100
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_MPS_CONNECTION_FAILED 805
#define CUDA_ERROR_MPS_SERVER_NOT_READY 807
#define CUDA_ERROR_MPS_MAX_CLIENTS_REACHED 808
#define CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION 915

unsigned int server_count(const struct server *server)
{
        unsigned int count = 0;

        LIST_FOR_EACH(link, &server->clients)
                count++;
        return count;
}

unsigned int server_lost_gpus(const struct server *server)
{
        unsigned int lost = 0;

        for (unsigned int i = 0; i < server->n_gpus; i++)
                lost |= (unsigned int)server_gpu(server, i)->lost << i;
        return lost;
}

bool server_is_faulty(const struct server *server)
{
        LIST_FOR_EACH(link, &server->clients) {
                if (container_of(link, struct client, link)->faulted)
                        return true;
        }
        return server->scenario.server == MPS_SERVER_FAULT || server_lost_gpus(server);
}

void server_fault(struct server *server, unsigned int gpus)
{
        bool grows = true;

        journal_line(&server->journal, "Volta MPS: Server is handling a fatal GPU error.");
        while (grows) {
                grows = false;
                LIST_FOR_EACH(link, &server->clients) {
                        struct client *client = container_of(link, struct client, link);

                        if (client->faulted || !(client->gpus & gpus))
                                continue;
                        client->faulted = grows = true;
                        gpus |= client->gpus;
                        channel_send(client->fd, "FAULT");
                        journal_line(&server->journal, "Client {PID: %d, Context ID: %u}", (int)client->pid,
                                client->context);
                }
        }
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (gpus & (1U << i))
                        journal_line(&server->journal, "Destroy server context on device %u", i);
        }
}

/* ---- lines of server.log, as they are recorded: test/fixtures/recorded/mps ---- */

/* Only the lines from 580 on have PIDs. The request's own are wrong in some of them. */
static void log_request(const struct server *server, const struct client *client)
{
        if (server->scenario.version >= 580)
                journal_line(&server->journal, "Received new client request for {PID: %d, Context ID: %u}",
                        (int)client->pid, client->context);
        else if (server->scenario.version >= 535)
                journal_line(&server->journal, "Received new client request");
        else
                journal_line(&server->journal, "Volta MPS Server: Received new client request");
}

static void log_devices(const struct server *server, const struct client *client)
{
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (!(client->gpus & (1U << i)))
                        continue;
                journal_line(&server->journal, "%sDevice %s (uuid %s) is associated",
                        server->scenario.version >= 535 ? "" : "Volta MPS: ", server_gpu(server, i)->name,
                        server_gpu(server, i)->uuid);
        }
}

static void log_admission(const struct server *server, const struct client *client)
{
        const struct journal *journal = &server->journal;
        const int pid = (int)client->pid;

        if (server->scenario.version < 535) {
                journal_line(journal, "MPS Server: worker created");
                journal_line(journal, "Volta MPS: Creating worker thread");
                log_devices(server, client);
                return;
        }
        if (server->scenario.version >= 580) {
                journal_line(journal, "Client {PID: %d, Context ID: %u} connected", pid, client->context);
                journal_line(
                        journal, "Creating worker thread for client {PID: %d, Context ID: %u}", pid, client->context);
        } else {
                journal_line(journal, "Worker created");
                journal_line(journal, "Creating worker thread");
        }
        log_devices(server, client);
        journal_line(journal, "Status of client {%d, 1} is ACTIVE", pid);
        if (server->scenario.version >= 580)
                journal_line(journal, "Priority level of client {%d} is: 0 ", pid);
}

/* No line of 535 to 575 is recorded for this; they get that of 460, which names nobody. */
static void log_leaving(const struct server *server, const struct client *client)
{
        if (server->scenario.version >= 580)
                journal_line(&server->journal,
                        "Server failed to recevie command with status 806, assuming client {PID: %d, Context ID: %u} exit",
                        (int)client->pid, client->context);
        else
                journal_line(&server->journal, "Receive command failed, assuming client exit");
}

/* ---- leaving ---- */

void client_drop(struct server *server, struct client *client)
{
        bool was_faulty = server_is_faulty(server);
        unsigned int gpus = client->gpus;
        bool kills = !client->polite && !client->faulted && server->scenario.killed_client_faults;

        log_leaving(server, client);
        for (unsigned int i = 0; i < server->n_gpus; i++)
                process_hide(server, i, client->pid);
        channel_send(server->control, "LEFT %d", (int)client->pid);
        list_remove(&client->link);
        close(client->fd);
        free(client);
        if (kills)
                server_fault(server, gpus);
        if (!was_faulty || server_is_faulty(server))
                return;
        for (unsigned int i = 0; i < server->n_gpus; i++)
                journal_line(
                        &server->journal, "Creating server context on device %u (%s)", i, server_gpu(server, i)->name);
}

/* ---- admission ---- */

/* CUDA_VISIBLE_DEVICES of a client: UUIDs, or indices into what the daemon shows. */
static unsigned int visible_mask(const struct server *server, const char *hello)
{
        char devices[1024];
        char *rest = NULL;
        unsigned int mask = 0;

        if (!packet_value(hello, "devices", devices, sizeof(devices)))
                return (1U << server->n_gpus) - 1;
        for (char *word = strtok_r(devices, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
                uint64_t index;
                unsigned int found = server->n_gpus;

                if (text_to_uint(word, MPS_SIM_GPUS, &index))
                        found = (unsigned int)index;
                for (unsigned int i = 0; i < server->n_gpus && found == server->n_gpus; i++) {
                        if (text_starts_with(server_gpu(server, i)->uuid, word))
                                found = i;
                }
                if (found >= server->n_gpus)
                        break; /* as CUDA does: everything after the first wrong entry is ignored */
                mask |= 1U << found;
        }
        return mask;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
        return !a || (b && b < a) ? b : a;
}

static void set_percentage(const struct server *server, struct client *client, const char *hello)
{
        char text[32];
        double asked = server->limits.percentage;
        double namespace_percentage = 0;

        client->percentage = server->limits.percentage;
        if (server->is_static)
                client->percentage = 100; /* percentages are ignored with static partitioning */
        else if (packet_value(hello, "namespace-percentage", text, sizeof(text)) &&
                 limits_read_percentage(&namespace_percentage, text))
                client->percentage = MIN(client->percentage, namespace_percentage);
        else if (packet_value(hello, "percentage", text, sizeof(text)) && limits_read_percentage(&asked, text))
                client->percentage = MIN(client->percentage, asked);
}

/* Whether |device|, an ordinal or a UUID, is a GPU that the client sees. */
static bool is_visible(const struct server *server, const struct client *client, const char *device)
{
        uint64_t ordinal;

        if (text_to_uint(device, UINT32_MAX, &ordinal))
                return ordinal < (uint64_t)__builtin_popcount(client->gpus);
        for (unsigned int i = 0; i < server->n_gpus; i++)
                if (client->gpus & (1U << i) && strcmp(server_gpu(server, i)->uuid, device) == 0)
                        return true;
        return false;
}

/*
 * With one entry for a GPU that the client does not see it has no limit of memory at all, not even that of its server
 * or its namespace; threads stay limited. Recorded on 615.71.09.
 */
static bool lifts_limits(const struct server *server, const struct client *client, const char *list)
{
        _free_ char *items = xstrdup(list);
        char *rest = NULL;

        for (char *item = strtok_r(items, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
                char *equals = strchr(item, '=');

                if (!equals)
                        continue;
                *equals = '\0';
                if (!is_visible(server, client, item))
                        return true;
        }
        return false;
}

/* A value without a device is one for each; nobody has recorded that. */
static uint64_t asked_memory(const struct server *server, const struct client *client, const char *list, unsigned int i)
{
        const int ordinal = __builtin_popcount(client->gpus & ((1U << i) - 1));

        if (!(client->gpus & (1U << i)))
                return 0;
        return strchr(list, '=') ? limits_from_list(list, ordinal, server_gpu(server, i)->uuid)
                                 : limits_read_memory(list);
}

static void set_limits(const struct server *server, struct client *client, const char *hello)
{
        char asked[1024];
        char of_namespace[1024];

        packet_value(hello, "memory", asked, sizeof(asked));
        packet_value(hello, "namespace-memory", of_namespace, sizeof(of_namespace));
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                const char *uuid = server_gpu(server, i)->uuid;
                uint64_t limit = lower(server->limits.memory_mib[i], limits_from_list(of_namespace, (int)i, uuid));

                client->limit_mib[i] =
                        lifts_limits(server, client, asked) ? 0 : lower(limit, asked_memory(server, client, asked, i));
        }
}

static unsigned int first_gpu(const struct client *client)
{
        return (unsigned int)__builtin_ctz(client->gpus);
}

/* Whole TPCs of two SMs, rounded down; at least one. */
static void set_sms(const struct server *server, struct client *client, const char *hello)
{
        char text[32];
        uint64_t sms;

        client->sms = (unsigned int)(server_gpu(server, first_gpu(client))->sms * client->percentage / 100) & ~1U;
        client->sms = MAX(client->sms, 2U);
        if (packet_value(hello, "partition-sms", text, sizeof(text)) && text_to_uint(text, 10000, &sms))
                client->sms = (unsigned int)sms;
}

static uint64_t used_of_gpu(const struct server *server, unsigned int ordinal)
{
        uint64_t used = 0;

        LIST_FOR_EACH(link, &server->clients)
                used += container_of(link, struct client, link)->used_mib[ordinal];
        return used;
}

static bool may_use(const struct server *server, const struct client *client, unsigned int ordinal, uint64_t mib)
{
        if (client->limit_mib[ordinal] && client->used_mib[ordinal] + mib > client->limit_mib[ordinal])
                return false;
        if (!cgroup_allows(server, client, ordinal, mib))
                return false;
        return used_of_gpu(server, ordinal) + mib <= server_gpu(server, ordinal)->memory_mib;
}

static bool take_context(struct server *server, struct client *client)
{
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (!(client->gpus & (1U << i)))
                        continue;
                if (!may_use(server, client, i, server->scenario.context_mib))
                        return false;
                client->used_mib[i] = server->scenario.context_mib;
        }
        return true;
}

/*
 * Whether the client could share memory with us. A client that does not send its /dev/shm is no program of this
 * simulator, and is accepted.
 */
static bool shares_segment(const char *hello)
{
        char theirs[SEGMENT_PLACE_SIZE];
        char ours[SEGMENT_PLACE_SIZE];

        segment_place(ours);
        return (!packet_value(hello, "shm", theirs, sizeof(theirs)) || strcmp(theirs, ours) == 0) && segment_has_room();
}

/* 0: the client is admitted. Else the number of the CUDA error with which it is refused. */
static int admission_error(struct server *server, struct client *client, const char *hello)
{
        client->gpus = visible_mask(server, hello);
        if (!shares_segment(hello))
                return CUDA_ERROR_MPS_CONNECTION_FAILED;
        if (server_is_faulty(server))
                return CUDA_ERROR_MPS_SERVER_NOT_READY;
        if (server_count(server) >= mps_scenario_max_clients(&server->scenario))
                return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
        if (!client->gpus)
                return CUDA_ERROR_NO_DEVICE;
        set_percentage(server, client, hello);
        set_limits(server, client, hello);
        set_sms(server, client, hello);
        return take_context(server, client) ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

static void show_client(const struct server *server, const struct client *client)
{
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (client->gpus & (1U << i))
                        process_show(server, i, client->pid, client->used_mib[i], "M+C");
        }
}

void client_admit(struct server *server, int fd, const char *hello)
{
        struct client *client = xcalloc(1, sizeof(*client));
        int refused;

        *client = (struct client){.fd = fd, .pid = channel_peer(fd).pid, .context = server->next_context++};
        log_request(server, client);
        refused = admission_error(server, client, hello);
        if (refused) {
                channel_send(fd, "ERROR %d", refused);
                channel_send(server->control, "LEFT %d", (int)client->pid);
                close(fd);
                free(client);
                return;
        }
        list_append(&server->clients, &client->link);
        show_client(server, client);
        channel_send(fd, "OK server=%d percentage=%.1f sms=%u limit=%llu", (int)getpid(), client->percentage,
                client->sms, (unsigned long long)client->limit_mib[first_gpu(client)]);
        log_admission(server, client);
}

/* ---- requests of a client ---- */

/* The client gets as much as fits, and the answer says how much that was. */
static void allocate(struct server *server, struct client *client, const char *text)
{
        unsigned int gpu = first_gpu(client);
        uint64_t asked = 0;
        uint64_t got = 0;

        if (text_to_uint(text, UINT32_MAX, &asked) && may_use(server, client, gpu, asked))
                got = asked;
        client->used_mib[gpu] += got;
        show_client(server, client);
        channel_send(client->fd, "TEXT %llu", (unsigned long long)got);
}

/* From r610 on a fault ends only the clients of the same static partition. */
static void fault_by(struct server *server, struct client *client)
{
        if (server->is_static && server->scenario.version >= 610) {
                client->faulted = true;
                channel_send(client->fd, "FAULT");
        } else {
                server_fault(server, client->gpus);
        }
}

void client_serve(struct server *server, struct client *client)
{
        static struct packet packet;
        const char *rest;

        if (!channel_receive(client->fd, &packet)) {
                client_drop(server, client);
                return;
        }
        if (packet.fd >= 0)
                close(packet.fd);
        if ((rest = packet_is(&packet, "ALLOCATE")))
                allocate(server, client, rest);
        else if (packet_is(&packet, "FAULT"))
                fault_by(server, client);
        else if (packet_is(&packet, "BYE"))
                client->polite = true;
}
