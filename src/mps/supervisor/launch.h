// SPDX-License-Identifier: Apache-2.0
/*
 * The process of one control daemon: one that we start, or one that already runs. It survives this supervisor: it has a
 * session of its own and writes to a file, not to a pipe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

struct mps_launch;

/*
 * Its servers may still run. |status| is the exit status; it is -1 if the process was ended by |signal|, or was not a
 * child of ours (then |signal| is 0).
 */
typedef void mps_exit_fn(int status, int signal, void *data);

struct mps_launch_options {
        uv_loop_t *loop;
        const char *const *argv;        /* NULL-terminated; argv[0] is the path of the program */
        const char *const *environment; /* the whole environment, NULL-terminated */
        int log;                        /* descriptor for its output; the caller keeps it */
        mps_exit_fn *exited;
        void *data;
};

int mps_launch_start(struct mps_launch **ret, const struct mps_launch_options *options, struct error *err) MUST_USE;

/* Watches |pid|, which another process started at |start_time|. */
int mps_launch_adopt(struct mps_launch **ret, uv_loop_t *loop, pid_t pid, uint64_t start_time, mps_exit_fn *exited,
        void *data, struct error *err) MUST_USE;

/* 0 and false for NULL. */
pid_t mps_launch_pid(const struct mps_launch *launch);
uint64_t mps_launch_start_time(const struct mps_launch *launch);
bool mps_launch_is_adopted(const struct mps_launch *launch);

/* Kills its children (the servers), then the process itself: |exited| follows. */
void mps_launch_kill(struct mps_launch *launch);

/* |exited| is not called any more; the process keeps running. Accepts NULL, returns NULL. */
struct mps_launch *mps_launch_forget(struct mps_launch *launch);
