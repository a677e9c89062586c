// SPDX-License-Identifier: Apache-2.0
/*
 * MPS daemons as the supervisor sees them, without a process: the control program, processes, what the kernel says of
 * them, and NVML are these here, which the linker takes before those of the library. Answers come from the loop, at
 * once where a daemon is well. Sockets and the lock in the pipe directory are real.
 *
 * All daemons have the PID of this process, since the kernel says whose a socket is; their time of start tells them
 * apart. Interface 2 (mps/control/dialogue.h) with static partitions, as driver 590 has it.
 */
#pragma once

#include "unit.h"

#include "mps/supervisor/launch.h"

#define MODEL_UNITS 2
#define MODEL_DAEMONS 256 /* processes, one after the other */
#define MODEL_CLIENTS 8
#define MODEL_PARTITIONS 16
#define MODEL_CHUNKS 8U /* of a unit */

struct model_partition {
        char id[24];
        char unit[16];
        unsigned int chunks;
};

/* One process. */
struct model_daemon {
        bool is_alive;
        char pipe[96];
        char units[48]; /* "GPU-0,GPU-1" */
        uint64_t start_time;
        struct mps_launch *launch; /* who watches it, or NULL */
        bool has_answered;
        bool is_disturbed; /* it had a fault: who ends it has a reason */
        bool is_hung, is_rubbish, refuses, ends_never;
        bool is_lost;  /* a GPU of it was, or a file in its pipe directory was replaced */
        bool is_fault; /* its server is in FAULT */
        unsigned int permille;
        uint64_t limit_mib[MODEL_UNITS];
        pid_t server; /* 0: none */
        pid_t clients[MODEL_CLIENTS];
        uint64_t joined[MODEL_CLIENTS]; /* by the loop's clock */
        size_t n_clients;
        bool has_partitions; /* it was started with -S */
        struct model_partition partitions[MODEL_PARTITIONS];
        size_t n_partitions;
        bool has_unknown; /* partitions that no supervisor has on record */
        int doors[3];
};

struct model_daemons {
        uv_loop_t *loop;
        struct model_daemon all[MODEL_DAEMONS];
        size_t n_all;
        pid_t next_pid;
        bool fails_to_start;       /* who is started now */
        bool is_nvml_late;         /* requests wait for model_answer_nvml() */
        bool is_lost[MODEL_UNITS]; /* NVML says so */
        const char *wrong;         /* what must not happen, and has */
        unsigned int n_started, n_terminated;
};
extern struct model_daemons daemons;

void model_daemons_begin(uv_loop_t *loop);
/* All that runs ends; to be called when the supervisor is closed. */
void model_daemons_end(void);

/* That runs now, or NULL. */
struct model_daemon *model_daemon_at(const char *pipe);
struct model_daemon *model_daemon_of_unit(const char *unit);
struct model_daemon *model_daemon_started(uint64_t start_time);
struct model_daemon *model_daemon_of_client(pid_t pid);
/* By itself, with its server and clients. */
void model_daemon_die(struct model_daemon *daemon);
/* Another client; 0: it has no room. */
pid_t model_daemon_join(struct model_daemon *daemon);
void model_daemon_leave(struct model_daemon *daemon, size_t client);
void model_daemon_replace_door(struct model_daemon *daemon);
void model_answer_nvml(void);
