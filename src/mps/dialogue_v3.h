/*
 * The MPS interface of r615 and newer (v3: `nvidia-cuda-mps-control <module> <verb> …`): the arguments to give to
 * mps_control_run(), and what its lists mean. Pure, as mps/dialogue.h. It is there when the daemon was started with "-p
 * 3" and did not take that for an unknown option.
 *
 * All of it is from NVIDIA's MPS manual (r615, "MPS v3 Interface"), whose examples the tests have; no program that
 * speaks it was at hand. Lists are asked for as "csv,noheader".
 */
#pragma once

#include "base/error.h"
#include "mps/status.h"

/* Servers and namespaces: [a-z0-9_]{1,64}. */
bool dialogue_v3_is_name(const char *name);

/* ---- arguments: NULL-terminated, in |arena| ---- */

/* |devices|: UUIDs with commas between them; clients of |uid| alone. */
const char *const *dialogue_v3_server_create(struct arena *arena, const char *name, uid_t uid, const char *devices);
const char *const *dialogue_v3_server_list(struct arena *arena);
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
const char *const *dialogue_v3_client_list(struct arena *arena, const char *server);
const char *const *dialogue_v3_client_terminate(struct arena *arena, pid_t pid);

/* ---- answers ---- */

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

/* The command is the tenant's, line breaks and all: believe a line no more than one of "ps" (mps/dialogue.h). */
struct dialogue_v3_client {
        pid_t pid;
        const char *server;
        const char *device;
        const char *name_space;
        const char *command;
};
int dialogue_v3_read_clients(const char *answer, struct arena *arena, struct dialogue_v3_client **ret, size_t *ret_n,
        struct error *err) MUST_USE;
