/*
 * The MPS interface of r615 and newer (v3: `nvidia-cuda-mps-control <module> <verb> …`): the arguments to give to
 * mps_control_run(), and what its lists mean. Pure, as mps/control/dialogue.h. It is there when the daemon was started with "-p
 * 3" and did not take that for an unknown option.
 *
 * All of it is from NVIDIA's MPS manual (r615, "MPS v3 Interface"), whose examples the tests have; no program that
 * speaks it was at hand. Lists are asked for as "csv,noheader".
 */
#pragma once

#include "base/error.h"
#include "mps/wire/status.h"

/* Servers and namespaces: [a-z0-9_]{1,64}. */
bool dialogue_v3_is_name(const char *name);

/* ---- arguments: NULL-terminated, in |arena| ---- */

/* |devices|: UUIDs with commas between them; clients of |uid| alone. */
const char *const *dialogue_v3_server_create(struct arena *arena, const char *name, uid_t uid, const char *devices);
const char *const *dialogue_v3_server_list(struct arena *arena);
/* The limits of its namespace "default", where clients are that name none; as with dialogue_v3_namespace_set(). */
const char *const *dialogue_v3_server_set(
        struct arena *arena, const char *server, unsigned int permille, uint64_t limit_mib);
const char *const *dialogue_v3_namespace_create(struct arena *arena, const char *server, const char *name);
/*
 * The limits of a namespace, which hold for each of its clients, whatever their variables say. One of them at least.
 * |permille| goes in as whole percent, rounded down, but not to 0; 0: not set. |limit_mib| 0: not set.
 */
const char *const *dialogue_v3_namespace_set(
        struct arena *arena, const char *server, const char *name, unsigned int permille, uint64_t limit_mib);
/* With |force| its clients are ended; else it is refused while there are any. */
const char *const *dialogue_v3_namespace_delete(struct arena *arena, const char *server, const char *name, bool force);
const char *const *dialogue_v3_namespace_list(struct arena *arena, const char *server);
/* One field of it, without format. */
#define DIALOGUE_V3_LIMIT "pinned-memory-limit"
#define DIALOGUE_V3_THREADS "active-thread-percentage"
const char *const *dialogue_v3_namespace_get(
        struct arena *arena, const char *server, const char *name, const char *field);
/* Of all servers. */
const char *const *dialogue_v3_client_list(struct arena *arena);
/* The answer is one field of it; status 1 where there is no such client. */
#define DIALOGUE_V3_SERVER "server"
#define DIALOGUE_V3_NAMESPACE "maws-ns"
const char *const *dialogue_v3_client_get(struct arena *arena, pid_t pid, const char *field);
const char *const *dialogue_v3_client_terminate(struct arena *arena, pid_t pid);
/* The daemon, and with it all servers. */
const char *const *dialogue_v3_quit(struct arena *arena);

/*
 * The server that a client gets which names none: "uid_<number>". In multi-user mode there is that of root alone, for
 * everybody.
 */
const char *dialogue_v3_own_server(struct arena *arena, uid_t uid);

/* ---- answers ---- */

/* That a field is what was set; a difference is an error with both. */
int dialogue_v3_check_limit(const char *answer, uint64_t limit_mib, struct error *err) MUST_USE;
int dialogue_v3_check_threads(const char *answer, unsigned int permille, struct error *err) MUST_USE;
/* Whole percent, as they are set. */
unsigned int dialogue_v3_threads_set(unsigned int permille);

struct dialogue_v3_server {
        const char *name;
        uid_t uid;
        pid_t pid; /* 0: it does not run */
        const char *status;
        const char *pipe_directory;
        const char *devices;
};
int dialogue_v3_read_servers(const char *answer, struct arena *arena, struct dialogue_v3_server **ret, size_t *ret_n,
        struct error *err) MUST_USE;

struct dialogue_v3_namespace {
        const char *name;
        const char *server;
        const char *server_status;
        uint64_t limit_mib;    /* 0: none */
        unsigned int permille; /* 0: none */
        const char *pipe_directory;
};
int dialogue_v3_read_namespaces(const char *answer, struct arena *arena, struct dialogue_v3_namespace **ret,
        size_t *ret_n, struct error *err) MUST_USE;

/* The command is the tenant's, line breaks and all: believe a line no more than one of "ps" (mps/control/dialogue.h). */
struct dialogue_v3_client {
        pid_t pid;
        const char *server;
        const char *device;
        const char *name_space;
        const char *command;
};
int dialogue_v3_read_clients(const char *answer, struct arena *arena, struct dialogue_v3_client **ret, size_t *ret_n,
        struct error *err) MUST_USE;
