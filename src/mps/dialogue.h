/*
 * What is said to an MPS control daemon, and what its answers mean. Pure text: no process, no time.
 *
 * Two interfaces: v2, one line a command, in all releases; v3, modules and verbs as arguments, from r615, where several servers
 * and namespaces exist. Every parser takes whatever a broken or hostile daemon may print: numbers out of range, lines without
 * end, text in place of numbers; what cannot be understood is an error that shows it.
 */
#pragma once

#include "base/strbuf.h"
#include "mps/status.h"

/* ---- commands, v2 ---- */

/* |permille| as the percentage with one decimal that the daemon prints: 333 is "33.3", 1000 is "100.0". */
void dialogue_put_percentage(struct strbuf *text, unsigned int permille);
/* "set_default_device_pinned_mem_limit 0 1630M"; 0 MiB clears ("0G", which is the one spelling that does). */
void dialogue_put_default_limit(struct strbuf *text, const char *device, uint64_t mib);
/* "sm_partition add <uuid> <chunks>" */
void dialogue_put_partition_add(struct strbuf *text, const char *gpu_uuid, unsigned int chunks);

/* ---- answers, v2 ---- */

/* "100.0" → 1000. */
int dialogue_read_percentage(const char *answer, unsigned int *ret_permille, struct error *err) MUST_USE;
/* "2G" → 2048, "" → 0. The daemon shows whole GiB as G and all else as M. */
int dialogue_read_limit(const char *answer, uint64_t *ret_mib, struct error *err) MUST_USE;
/* One PID a line; an empty answer is an empty list. */
int dialogue_read_pids(const char *answer, struct arena *arena, pid_t **ret, size_t *ret_n, struct error *err) MUST_USE;

/* One line of "ps". */
struct dialogue_process {
        pid_t pid;
        unsigned int id;
        pid_t server;
        const char *device;     /* the first part of the UUID: "GPU-1e2f3a4b" */
        uint64_t pid_namespace; /* inode */
        const char *command;
};
int dialogue_read_ps(const char *answer, struct arena *arena, struct dialogue_process **ret, size_t *ret_n,
        struct error *err) MUST_USE;

/* get_device_client_list: each device's UUID with its clients. */
struct dialogue_device {
        const char *uuid;
        const pid_t *clients;
        size_t n_clients;
};
int dialogue_read_device_clients(const char *answer, struct arena *arena, struct dialogue_device **ret, size_t *ret_n,
        struct error *err) MUST_USE;

/* "Partition 1 created", or the bare "<GPU-uuid>/<opaque>" of r590: the value for CUDA_MPS_SM_PARTITION. */
int dialogue_read_partition(const char *answer, struct arena *arena, const char **ret, struct error *err) MUST_USE;

/* True where the answer is that of a program that does not know the command. */
bool dialogue_is_unknown_command(const char *answer);
/* "Server 4711 not found" and its like. */
bool dialogue_is_not_found(const char *answer);

/* ---- what a program can do ---- */

/*
 * From the driver's version ("580.105.08"; NULL unknown) what its control program should know: a guess, to be proved by the
 * probes of mps/daemon.h before it is relied upon.
 */
unsigned int dialogue_capabilities(const char *driver_version);

/* ---- SM chunks ---- */

/* SMs of one chunk of static partitioning: 8 from Hopper on, 4 before (MPS manual r590). */
unsigned int dialogue_chunk_sms(int compute_major);
