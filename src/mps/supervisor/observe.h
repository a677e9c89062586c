// SPDX-License-Identifier: Apache-2.0
/*
 * Collects facts about a daemon. A poll asks the daemon for its servers and their clients, by one front end if the
 * servers are those of the last poll, then asks about each client's process: all of it once, later only whether it is
 * still the same process. This module decides nothing.
 *
 * Lines of the daemon's lists that cannot be read are counted. What they would have said is unknown, not absent: known
 * clients and servers that the other lines do not have stay, as long as the kernel has their processes.
 */
#pragma once

#include "mps/control/control.h"
#include "mps/control/dialogue.h"
#include "mps/supervisor/environment.h"
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
        int *server_fds;           /* a pidfd of each; -1: not proven to be this daemon's (mps/supervisor/process.h) */
        const char **server_names; /* v3: of each; NULL else */
        struct mps_client *clients;
        size_t n_clients;
        struct dialogue_unread unread; /* if any: there may be more servers and clients than these */
        bool has_fault;                /* one of the servers is in FAULT */
        const char *waiting;           /* why a client gets no server, or NULL: mps/supervisor/journal.h */
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
        bool asks_singly; /* each question has a front end and a deadline of its own: a slow daemon gets more time */
        bool reads_again; /* the processes of known clients, too */
        const struct mps_observation *known; /* the last poll, or NULL; v3: its clients are not asked about again */
        const char *unit;                    /* the unit of all clients; NULL: the daemon has several */
        const char *system_root;             /* mps/supervisor/process.h */
        struct environments *environments;   /* NULL: the environments of clients stay unknown */
        mps_poll_fn *done;
        void *data;
};
struct mps_poll *mps_poll_start(const struct mps_poll_options *options);
/* Stops a poll; |done| is not called. Must also be called after |control| was closed. Accepts NULL, returns NULL. */
struct mps_poll *mps_poll_cancel(struct mps_poll *poll);
