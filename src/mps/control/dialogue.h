/*
 * What is said to an MPS control daemon through the interface of all releases (v2: one line a command), and what its
 * answers mean. Pure text: no process, no time. mps/control/dialogue_v3.h has the interface of r615.
 *
 * Every parser takes whatever a broken or hostile daemon may print: numbers out of range, lines without end, text in
 * place of numbers; what cannot be understood is an error that shows it. Facts: recorded from 535 and 550 in
 * test/fixtures/mps-control, from NVIDIA's MPS manual (r615) where said.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"
#include "mps/wire/status.h"

/* ---- commands ---- */

/* |permille| as the percentage with one decimal that the daemon prints: 333 is "33.3", 1000 is "100.0". */
void dialogue_put_percentage(struct strbuf *text, unsigned int permille);
/* "set_default_device_pinned_mem_limit 0 1630M"; 0 MiB clears. |device|: a number; up to 550 a UUID is read as 0. */
void dialogue_put_default_limit(struct strbuf *text, const char *device, uint64_t mib);
/* "sm_partition add <uuid> <chunks>": daemons of r590 and newer that were started with -S. */
void dialogue_put_partition_add(struct strbuf *text, const char *gpu_uuid, unsigned int chunks);
/* "sm_partition rm <uuid> <id>" */
void dialogue_put_partition_remove(struct strbuf *text, const char *gpu_uuid, const char *id);

/* ---- answers ---- */

/* "100.0" → 1000. */
int dialogue_read_percentage(const char *answer, unsigned int *ret_permille, struct error *err) MUST_USE;
/*
 * "2G" → 2048, "" → 0. What is kept is exact, but what is shown from 1 GiB on is whole GiB, rounded down: a limit of
 * 1630M is shown as "1G" (535, 550). So what is read back is to be compared with dialogue_limit_shown() of what was
 * set.
 */
int dialogue_read_limit(const char *answer, uint64_t *ret_mib, struct error *err) MUST_USE;
uint64_t dialogue_limit_shown(uint64_t mib);
/* One PID a line; an empty answer is an empty list. 0 is a client without a number in the daemon's PID namespace. */
int dialogue_read_pids(const char *answer, struct arena *arena, pid_t **ret, size_t *ret_n, struct error *err) MUST_USE;

/* get_device_client_list: each device's UUID with its clients. */
struct dialogue_device {
        const char *uuid;
        const pid_t *clients;
        size_t n_clients;
};
int dialogue_read_device_clients(const char *answer, struct arena *arena, struct dialogue_device **ret, size_t *ret_n,
        struct error *err) MUST_USE;

/*
 * The value for CUDA_MPS_SM_PARTITION: "Partition <id> created", the bare "<GPU-uuid>/<opaque>" of r590, or the line
 * "CUDA_MPS_SM_PARTITION=<id>" of v3.
 */
int dialogue_read_partition(const char *answer, struct arena *arena, const char **ret, struct error *err) MUST_USE;

/* True where the answer is that of a program that does not know the command. */
bool dialogue_is_unknown_command(const char *answer);
/* "Server 4711 not found" and its like. */
bool dialogue_is_not_found(const char *answer);
/*
 * True where a program that was to become a daemon ended like this: it does not know one of its options, took itself
 * for a front end and found no daemon. How -multiuser-server, -S and -p 3 are tried.
 */
bool dialogue_is_unknown_option(int status, const char *output);

/* ---- what a program can do ---- */

/*
 * From the driver's version ("580.105.08"; NULL unknown) what its control program should know, MPS_CAN_*: a guess, for
 * a choice of options to try. What the daemon really can is asked by a probe.
 */
unsigned int dialogue_capabilities(const char *driver_version);

/*
 * The questions whose answers prove what a daemon can, one at a time: while dialogue_probe_next() has a command, ask it
 * and give the answer. They change nothing, so that a daemon can be asked at any time: one that is adopted may get a
 * client at this moment. Proves SERVER_STATUS, TERMINATE and PARTITION; MULTI_USER and NAMESPACE are proved by a start
 * (dialogue_is_unknown_option()).
 */
struct dialogue_probe {
        unsigned int step;
        unsigned int can; /* MPS_CAN_*: proved so far */
};
const char *dialogue_probe_next(const struct dialogue_probe *probe);
void dialogue_probe_answer(struct dialogue_probe *probe, const char *answer);
