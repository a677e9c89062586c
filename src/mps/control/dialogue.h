// SPDX-License-Identifier: Apache-2.0
/*
 * The commands to an MPS control daemon, and the parsers of its answers: in the interface that all releases have (v2:
 * one line per command), and in that of r615 and newer (v3: `nvidia-cuda-mps-control <module> <verb> …`). Pure text: no
 * process, no time.
 *
 * Every parser accepts any output of a broken or hostile daemon: numbers out of range, endless lines, text instead of
 * numbers. A single value that cannot be parsed is an error that shows the answer. A list never fails: a line that
 * cannot be read is skipped and counted (struct dialogue_unread), and what it would have said is unknown, not absent.
 * Sources: recordings of 535 and 550 in test/fixtures/mps-control, of 590 to 615 in test/fixtures/recorded/mps, and
 * NVIDIA's MPS manual (r615) where stated.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "mps/wire/status.h"

/* ---- commands ---- */

/* "sm_partition add <uuid> <chunks>", for daemons of r590 and newer that were started with -S. */
const char *dialogue_partition_add(struct arena *arena, const char *gpu_uuid, unsigned int chunks);
/*
 * "sm_partition rm <uuid> <rest>": only the part of an id "<uuid>/<rest>" that stands behind the UUID (recorded, 590);
 * <rest> may contain '/'.
 */
const char *dialogue_partition_remove(struct arena *arena, const char *gpu_uuid, const char *id);

/* ---- answers ---- */

/* The lines of lists that could not be read. Parsers add to it, so one counts for several lists; starts as {0}. */
struct dialogue_unread {
        size_t count;
        const char *first; /* the beginning of the first of them, in the arena of its list; NULL: none */
};

/* "100.0" → 1000, "30.00" → 300; with more decimals than one, the nearest. */
int dialogue_read_percentage(const char *answer, unsigned int *ret_permille, struct error *err) MUST_USE;
/*
 * "2G" → 2048; "" and "unlimited" (r615) → 0, none. The daemon stores the exact value, but from 1 GiB on it shows whole
 * GiB, rounded down: it shows a limit of 1630M as "1G" (535, 550). So compare the answer with dialogue_limit_shown() of
 * the value that was set.
 */
int dialogue_read_limit(const char *answer, uint64_t *ret_mib, struct error *err) MUST_USE;
uint64_t dialogue_limit_shown(uint64_t mib);
/* One PID per line; an empty answer is an empty list. 0 is a client that has no PID in the daemon's PID namespace. */
void dialogue_read_pids(
        const char *answer, struct arena *arena, pid_t **ret, size_t *ret_n, struct dialogue_unread *unread);

/*
 * get_device_client_list: each device's UUID with its clients. A line that cannot be read may name another device, so
 * the clients below it, up to the next UUID, are unread, too.
 */
struct dialogue_device {
        const char *uuid;
        const pid_t *clients;
        size_t n_clients;
};
void dialogue_read_device_clients(const char *answer, struct arena *arena, struct dialogue_device **ret, size_t *ret_n,
        struct dialogue_unread *unread);

/*
 * The value for CUDA_MPS_SM_PARTITION: "Partition <id> created", the bare "<GPU-uuid>/<opaque>" of r590, or the line
 * "CUDA_MPS_SM_PARTITION=<id>" of v3.
 */
int dialogue_read_partition(const char *answer, struct arena *arena, const char **ret, struct error *err) MUST_USE;

/*
 * lspart: the SM partitions, without the rows of the GPUs themselves. |gpu| may be the beginning of a UUID, and |id| be
 * without "<uuid>/" in front; dialogue_is_partition() compares them with an id of dialogue_read_partition().
 */
struct dialogue_partition {
        const char *gpu;
        const char *id;
};
void dialogue_read_partitions(const char *answer, struct arena *arena, struct dialogue_partition **ret, size_t *ret_n,
        struct dialogue_unread *unread);
bool dialogue_is_partition(const struct dialogue_partition *listed, const char *gpu_uuid, const char *id);
/*
 * lspart: the chunks of the GPU, free and used, by its own row, "<GPU> - <free> <used> …", with or without the '-'
 * (manual, recorded). False: it has no row that can be read.
 */
bool dialogue_read_chunks(const char *answer, const char *gpu_uuid, unsigned int *ret);

/* True if a program that does not know the command answers like this. */
bool dialogue_is_unknown_command(const char *answer);
/* True for "Server 4711 not found" and similar answers. */
bool dialogue_is_not_found(const char *answer);
/*
 * True if a program that was started as a daemon ended because it does not know one of its options: it then ran as a
 * front end and found no daemon. This is how support of -multiuser-server, -S and -p 3 is detected.
 */
bool dialogue_is_unknown_option(int status, const char *output);

/* ---- capabilities ---- */

/*
 * The MPS_CAN_* that a control program of this driver version ("580.105.08"; NULL: unknown) probably has. This is a
 * guess, used to choose the options to try; a probe finds out what the daemon really supports.
 */
unsigned int dialogue_capabilities(const char *driver_version);

/*
 * A probe finds out what a daemon supports. While dialogue_probe_next() returns a command, send it and pass the answer
 * to dialogue_probe_answer(). The commands change nothing, so a daemon can be probed at any time, even an adopted one
 * that gets a client at this moment. A probe proves SERVER_STATUS, TERMINATE and PARTITION; MULTI_USER and NAMESPACE
 * are proved by a start (dialogue_is_unknown_option()).
 */
struct dialogue_probe {
        unsigned int step;
        unsigned int can; /* MPS_CAN_*: what is proved so far */
};
const char *dialogue_probe_next(const struct dialogue_probe *probe);
void dialogue_probe_answer(struct dialogue_probe *probe, const char *answer);

/* ---- v3 ---- */

/*
 * The daemon has this interface if it was started with "-p 3" and knows that option. Commands are for mps_control_run().
 * The source is NVIDIA's MPS manual (r615, "MPS v3 Interface"), and for the forms of "client list" and "namespace list"
 * a recording of 615.71.09 (test/fixtures/recorded/mps/615-v3.txt), which contradicts the manual. Lists are requested
 * as "csv,noheader".
 */

/* Names of servers and namespaces: [a-z0-9_]{1,64}. */
bool dialogue_v3_is_name(const char *name);

/* Commands: their words with a blank between, in |arena|. */

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
 * The tenant controls the command, even line breaks: a line may be forged. Check it with dialogue_v3_client_get().
 */
struct dialogue_v3_client {
        pid_t pid;
        const char *server;
        const char *name_space;
};
void dialogue_v3_read_clients(const char *answer, struct arena *arena, struct dialogue_v3_client **ret, size_t *ret_n,
        struct dialogue_unread *unread);
