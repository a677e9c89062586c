// SPDX-License-Identifier: Apache-2.0
/*
 * The messages between agent and `warpshare mps` over <MPS root>/warpshare.sock: one JSON object per line, in both
 * directions. Pure: texts and values. A line has at most MPS_MESSAGE_MAX bytes; a longer line, or one that is not a
 * request, ends the connection.
 *
 *   {"do":"watch"}                                  → {"status":{…}} now and at each change
 *   {"do":"apply","id":1,"generation":7,"daemons":[…],"grants":[{…}],"holders":[{…}],"endsClients":true}
 *                                                   the daemons that are wanted. With "grants", all allocations that
 *                                                   are granted: without it, only a release releases any. With
 *                                                   "holders", the names of who has which unit. With "endsClients",
 *                                                   daemons that are not in the list end with their clients, which have
 *                                                   the supervisor's grace
 *   {"do":"grant","id":2,"grant":{…}}               → {"id":2,"ok":true,"granted":{…}}
 *   {"do":"release","id":3,"grant":"…"}
 *   {"do":"ping","id":5}                            to see that the other side is not stuck
 *   {"do":"ping","id":6,"look":true}                the same; before the answer comes a status without clients whose
 *                                                   processes have ended by now, even if their daemon still lists them
 *   {"do":"terminate","id":4,"daemon":"…","client":4711,"container":"…"}
 *                                                   → {"id":4,"ok":true} or
 *                                                   {"id":4,"ok":false,"kind":"invalid","error":"…"}
 *
 * The caller chooses |id|. Unknown members are ignored.
 */
#pragma once

#include "base/data/json_fields.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

#define MPS_SOCKET "warpshare.sock"
#define MPS_MESSAGE_MAX ((size_t)4 * 1024 * 1024)
#define MPS_HOLD_MAX ((size_t)4096) /* allocations in one apply, and holders: more than 60 clients on each of 64 GPUs */

enum mps_request_kind {
        MPS_REQUEST_WATCH,
        MPS_REQUEST_APPLY,
        MPS_REQUEST_ALLOCATION,
        MPS_REQUEST_RELEASE,
        MPS_REQUEST_TERMINATE,
        MPS_REQUEST_PING,
};

struct mps_request {
        enum mps_request_kind kind;
        uint64_t id;
        uint64_t generation;      /* apply */
        struct mps_wanted wanted; /* apply */
        bool has_allocations;     /* apply: |allocations| is the complete list */
        const struct mps_allocation_request *allocations;
        size_t n_allocations;
        const struct mps_holder *holders; /* apply: who has what, for people */
        size_t n_holders;
        struct mps_allocation_request allocation; /* allocation; release: only |allocation.id| */
        bool is_look;                             /* ping */
        const char *daemon;                       /* terminate */
        pid_t client;
        const char *container_id;
};

/* One line without its newline → request. Strings live in |arena|. */
int mps_request_read(
        struct mps_request *ret, struct arena *arena, const char *line, size_t length, struct error *err) MUST_USE;
/* The line with its newline; the caller frees. */
char *mps_request_write(const struct mps_request *request);

struct mps_answer {
        uint64_t id;
        bool is_status;            /* otherwise it is the answer to |id| */
        struct mps_status *status; /* owned by the reader */
        bool ok;
        struct error error; /* if not |ok| */
        bool has_allocation;
        struct mps_allocation allocation;
};

int mps_answer_read(
        struct mps_answer *ret, struct arena *arena, const char *line, size_t length, struct error *err) MUST_USE;
char *mps_answer_write(const struct mps_answer *answer);

/* The same values for files and people: state.json, `warpshare mps status --output json`. The caller frees. */
char *mps_status_print(const struct mps_status *status);
/* Prometheus text, per daemon and unit: daemons, states, restarts, servers, clients and limits. The caller frees. */
char *mps_status_metrics(const struct mps_status *status);
/* The same families, as part of a larger page. */
struct exposition;
void mps_status_expose(struct exposition *to, const struct mps_status *status);

/* ---- tables ---- */

/* The supervisor's record has these in common with messages. */

/* The largest number of daemons of a node, of units of a daemon, and of clients and servers of a daemon. */
#define MESSAGE_DAEMONS_MAX ((size_t)1024)
#define MESSAGE_UNITS_MAX ((size_t)1024)
#define MESSAGE_CLIENTS_MAX ((size_t)65536)
#define MESSAGE_SERVERS_MAX ((size_t)4096)

/*
 * Texts: any has no control characters of ASCII, and is cleaned where it is written and read (base/text.h), since some
 * comes from tenants; a path is relative, of letters, digits, '.', '-', '_', without "." and ".." in it; a uuid, of
 * letters, digits, '-' and '/', goes into commands and variables as one word; an allocation is [a-z0-9_]{1,64}.
 */
extern const struct json_text message_any, message_path, message_uuid, message_allocation;

extern const struct json_shape message_daemon; /* struct mps_daemon_wanted */

const char *message_tier(unsigned int position);
#define MESSAGE_TIERS 4U
