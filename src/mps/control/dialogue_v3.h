/*
 * The MPS interface of r615 and newer (v3: `nvidia-cuda-mps-control <module> <verb> …`): the commands for
 * mps_control_run(), and the parsers of its lists. Pure, like mps/control/dialogue.h. The daemon has it if it was
 * started with "-p 3" and knows that option.
 *
 * The source is NVIDIA's MPS manual (r615, "MPS v3 Interface"), and for the forms of "client list" and "namespace list"
 * a recording of 615.71.09 (test/fixtures/recorded/mps/615-v3.txt), which contradicts the manual. Lists are requested
 * as "csv,noheader", and are read as mps/control/dialogue.h reads lists: a line that cannot be read fails no other.
 */
#pragma once

#include "base/error.h"
#include "mps/control/dialogue.h"
#include "mps/wire/status.h"

/* Names of servers and namespaces: [a-z0-9_]{1,64}. */
bool dialogue_v3_is_name(const char *name);

/* ---- commands: their words with a blank between, in |arena| ---- */

#define DIALOGUE_V3_FORMAT "--format=csv,noheader"
#define DIALOGUE_V3_SERVER_LIST "server list " DIALOGUE_V3_FORMAT
#define DIALOGUE_V3_CLIENT_LIST "client list --all " DIALOGUE_V3_FORMAT /* the clients of all servers */
#define DIALOGUE_V3_QUIT "-q"                                           /* ends the daemon with all its servers */

/* |devices|: UUIDs separated by commas. The server serves clients of |uid| only. */
const char *dialogue_v3_server_create(struct arena *arena, const char *name, uid_t uid, const char *devices);
/*
 * The limits of the namespace "default", which clients without a namespace use; parameters as for
 * dialogue_v3_namespace_set().
 */
const char *dialogue_v3_server_set(struct arena *arena, const char *server, unsigned int permille, uint64_t limit_mib);
const char *dialogue_v3_namespace_create(struct arena *arena, const char *server, const char *name);
/*
 * The limits of a namespace. A client's variables can lower them and not raise them, with one exception (recorded,
 * 615.71.09): an entry of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT for a GPU that the client does not see leaves it without any
 * limit of memory; so containers in a namespace are not given that variable (plan/allocate.c). At least one must
 * be set. |permille| is passed as whole percent, rounded down, but at least 1; 0: not set. |limit_mib| 0: not set.
 */
const char *dialogue_v3_namespace_set(
        struct arena *arena, const char *server, const char *name, unsigned int permille, uint64_t limit_mib);
/* The command fails while the namespace has clients. */
const char *dialogue_v3_namespace_delete(struct arena *arena, const char *server, const char *name);
const char *dialogue_v3_namespace_list(struct arena *arena, const char *server);
/* One field of the namespace, as a bare value. */
#define DIALOGUE_V3_LIMIT "pinned-memory-limit"
#define DIALOGUE_V3_THREADS "active-thread-percentage"
const char *dialogue_v3_namespace_get(struct arena *arena, const char *server, const char *name, const char *field);
/* The answer is one field of the client; exit status 1 if the daemon has no such client. */
#define DIALOGUE_V3_SERVER "server"
#define DIALOGUE_V3_NAMESPACE "maws-ns"
const char *dialogue_v3_client_get(struct arena *arena, pid_t pid, const char *field);
const char *dialogue_v3_client_terminate(struct arena *arena, pid_t pid);

/* The server of a client that names none: "uid_<number>". In multi-user mode root's server serves all users. */
const char *dialogue_v3_own_server(struct arena *arena, uid_t uid);

/* ---- answers ---- */

/* The part of |permille| that v3 can set, in permille: whole percent, at least 1 %. */
unsigned int dialogue_v3_threads_set(unsigned int permille);

struct dialogue_v3_server {
        const char *name;
        uid_t uid;
        pid_t pid; /* 0: the server does not run */
        const char *status;
};
void dialogue_v3_read_servers(const char *answer, struct arena *arena, struct dialogue_v3_server **ret, size_t *ret_n,
        struct dialogue_unread *unread);

struct dialogue_v3_namespace {
        const char *name;
        const char *server;
        uint64_t limit_mib;    /* 0: none, "unlimited" */
        unsigned int permille; /* 0: none */
};
void dialogue_v3_read_namespaces(const char *answer, struct arena *arena, struct dialogue_v3_namespace **ret,
        size_t *ret_n, struct dialogue_unread *unread);

/*
 * The namespace that a client's field names: "default" (manual), "srv/default (0)" (615.71.09), or that without the
 * number. NULL: it names none, or one of another server than |server|.
 */
const char *dialogue_v3_read_namespace_name(struct arena *arena, const char *field, const char *server);

/*
 * The tenant controls the command, even line breaks: a line may be forged. Check it with "ps" (mps/control/dialogue.h).
 */
struct dialogue_v3_client {
        pid_t pid;
        const char *server;
        const char *name_space;
};
void dialogue_v3_read_clients(const char *answer, struct arena *arena, struct dialogue_v3_client **ret, size_t *ret_n,
        struct dialogue_unread *unread);
