/*
 * Collects facts about a daemon. A poll asks the daemon for its servers and their clients, then asks the kernel about
 * each client's process. Memory of processes on units comes from NVML. This module judges nothing.
 */
#pragma once

#include "mps/control/control.h"
#include "gpu/nvml_queue.h"
#include "mps/wire/status.h"

#define MPS_OBSERVED_CLIENTS_MAX ((size_t)4096)
/*
 * A daemon has one server per user. A list with more is an error, since each costs a descriptor and a question per
 * poll.
 */
#define MPS_OBSERVED_SERVERS_MAX ((size_t)256)

struct mps_observation {
        struct arena arena;
        struct mps_server *servers;
        size_t n_servers;
        int *server_fds; /* a pidfd of each; -1: not proven to be this daemon's (mps/supervisor/identity.h) */
        struct mps_client *clients;
        size_t n_clients;
        bool has_fault;      /* one of the servers is in FAULT */
        const char *waiting; /* why a client gets no server, or NULL: mps/supervisor/journal.h */
};
struct mps_observation *mps_observation_free(struct mps_observation *observation); /* accepts NULL, returns NULL */

bool mps_observation_is_same(const struct mps_observation *a, const struct mps_observation *b); /* either may be NULL */
/*
 * Drops clients whose processes have ended since: a daemon that hangs, or has not been asked for a while, still counts
 * them. Those that the kernel never showed stay. True: there were some. |system_root|: mps/supervisor/process.h.
 */
bool mps_observation_drop_ended(struct mps_observation *observation, const char *system_root);
/* Only if it is proven to be a server of this daemon. */
void mps_observation_kill_server(const struct mps_observation *observation, size_t position);

struct mps_poll;
/* One of the two is NULL. The receiver owns the observation. */
typedef void mps_poll_fn(struct mps_observation *observation, const struct error *err, void *data);

struct mps_poll_options {
        struct mps_control *control;
        pid_t daemon; /* start time of the process that |control| asks; 0: do not prove servers */
        uint64_t daemon_start;
        unsigned int can; /* MPS_CAN_SERVER_STATUS */
        bool is_v3;       /* the daemon speaks the v3 interface */
        const struct mps_observation
                *known;          /* v3: the clients of the last poll, which are not asked about again; or NULL */
        const char *unit;        /* the unit of all clients; NULL: the daemon has several */
        const char *system_root; /* mps/supervisor/process.h */
        mps_poll_fn *done;
        void *data;
};
struct mps_poll *mps_poll_start(const struct mps_poll_options *options);
/* Stops a poll; |done| is not called. Must also be called after |control| was closed. Accepts NULL, returns NULL. */
struct mps_poll *mps_poll_cancel(struct mps_poll *poll);

/* ---- memory ---- */

struct mps_usage_process {
        pid_t pid;
        uint64_t memory; /* UINT64_MAX: not known */
};
struct mps_usage_unit {
        const char *uuid;
        const char *lost; /* why the unit does not exist any more, or NULL */
        struct mps_usage_process *processes;
        size_t n_processes;
};
/* If an NVML call hangs, the last figures stay; older than this they are dropped. */
#define MPS_USAGE_FRESH_MS INT64_C(10000)
/* Figures of one moment. */
struct mps_usage {
        struct arena arena;
        int64_t asked_at; /* when NVML was asked, in milliseconds of the monotonic clock */
        struct mps_usage_unit *units;
        size_t n_units;
};
/* Asks NVML about |units| on its thread; fills |lost| and |processes|. A unit is "lost" only if that is certain. */
void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, bool *ret_reopen);
struct mps_usage *mps_usage_free(struct mps_usage *usage); /* accepts NULL, returns NULL */
static inline bool mps_usage_is_fresh(const struct mps_usage *usage, int64_t now)
{
        return usage && now - usage->asked_at <= MPS_USAGE_FRESH_MS;
}
/* UINT64_MAX: unknown, or too old. |uuid| NULL: on any unit. */
uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, const char *uuid, pid_t pid);
