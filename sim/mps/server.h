// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated nvidia-cuda-mps-server: what its parts share. server.c talks to the control daemon, server_client.c to
 * the clients, server_answer.c answers what the control daemon asks about them.
 */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "sim/mps/channel.h"
#include "sim/mps/journal.h"
#include "sim/mps/limits.h"
#include "sim/mps/scenario.h"

struct client {
        struct list link; /* in server->clients */
        int fd;
        pid_t pid;
        unsigned int context;
        unsigned int gpus; /* a bit for each of the server's ordinals */
        double percentage;
        unsigned int sms; /* of its first GPU */
        uint64_t limit_mib[MPS_SIM_GPUS];
        uint64_t used_mib[MPS_SIM_GPUS]; /* allocations are on its first GPU only, contexts on all */
        bool faulted;
        bool polite; /* it sent BYE before it left */
};

struct server {
        struct mps_scenario scenario;
        struct journal journal;
        int control; /* -1: the daemon is gone */
        bool is_static;
        bool stops; /* it ends with its last client */
        unsigned int next_context;
        struct limits limits;
        unsigned int gpus[MPS_SIM_GPUS]; /* ordinal → scenario */
        unsigned int n_gpus;
        struct list clients;
};

static inline const struct mps_gpu *server_gpu(const struct server *server, unsigned int ordinal)
{
        return &server->scenario.gpus[server->gpus[ordinal]];
}

/* ---- clients ---- */

/* Takes |fd|; |hello| is what the client said, and what the daemon added. */
void client_admit(struct server *server, int fd, const char *hello);
/* The client sent something, or has disconnected. */
void client_serve(struct server *server, struct client *client);
void client_drop(struct server *server, struct client *client);

/*
 * A fault on the GPUs of |gpus|. It is sent to all clients that use one of these GPUs, and to all that share another
 * GPU with such a client, and so on.
 */
void server_fault(struct server *server, unsigned int gpus);
unsigned int server_lost_gpus(const struct server *server);
bool server_is_faulty(const struct server *server);
unsigned int server_count(const struct server *server);

/* ---- answers ---- */

/* The answer to one line of the control interface about this server. */
void server_answer(struct server *server, char *line, struct strbuf *out);
void server_log_limits(const struct server *server);

/* ---- memory limits of cgroups ---- */

/* Whether |client| can have |mib| more within the limit of its cgroup, which is for all its processes together. */
bool cgroup_allows(const struct server *server, const struct client *client, unsigned int ordinal, uint64_t mib);

/* ---- the processes that NVML shows ---- */

void process_show(const struct server *server, unsigned int ordinal, pid_t pid, uint64_t mib, const char *type);
void process_hide(const struct server *server, unsigned int ordinal, pid_t pid);
