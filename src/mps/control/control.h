// SPDX-License-Identifier: Apache-2.0
/*
 * Sends commands to one MPS control daemon through NVIDIA's own front end, nvidia-cuda-mps-control, which reads
 * commands from standard input, a line each. The daemon's wire protocol is private, so Warpshare does not implement it.
 *
 * Commands to one daemon run one at a time, in the order in which they were asked. Each has a deadline, after which the
 * front end is killed. What is known about the program (reference: NVIDIA's MPS manual r615; tried with 535 and 550):
 *
 *   - it exits 0 for a command that fails, and 1 if no daemon answers. So an answer only proves that the daemon runs,
 *     and every setting is read back. The exception is "quit": it returns the exit status of a server that failed.
 *   - up to 550 it reads a device with atoi(): a UUID means device 0 and clears its limit. Ordinals are those of the
 *     daemon's own CUDA_VISIBLE_DEVICES, so with one unit per daemon the ordinal is always 0.
 *   - with an option that it does not know, it starts as a front end and finds no daemon.
 *   - the daemon accepts one front end at a time and closes the connection of any other at once. The refused front end
 *     mostly exits 0 and prints nothing, as after a command that has no answer. So each such command is followed by one
 *     that always has an answer; if that is missing, both are sent again until the deadline.
 *
 * It does not know units, shares or retries.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/wire/status.h"

#define MPS_COMMAND_TIMEOUT_MS UINT64_C(5000)
#define MPS_SLOW_MS UINT64_C(250)
#define MPS_ANSWER_MAX ((size_t)256 * 1024)
#define MPS_ASK_MAX ((size_t)32) /* commands in one question, of at most MPS_COMMAND_MAX bytes each */
#define MPS_COMMAND_MAX ((size_t)64)

struct mps_control;

struct mps_control_options {
        uv_loop_t *loop;
        const char *program;        /* path of nvidia-cuda-mps-control: see mps_control_find() */
        const char *pipe_directory; /* CUDA_MPS_PIPE_DIRECTORY */
        const char *log_directory;
        const char *path;               /* PATH for the child; NULL: that of this process */
        const char *const *environment; /* more variables, "NAME=value", NULL-terminated; or NULL */
        uint64_t timeout_ms;            /* 0: MPS_COMMAND_TIMEOUT_MS */
        void (*slow)(void *data);       /* called when an answer takes longer than MPS_SLOW_MS; or NULL */
        void (*refused)(void *data);    /* called each time the daemon refuses the front end; or NULL */
        void *data;
};

/*
 * Finds |program|. A name with a slash is used as it is. Otherwise it is searched in |path| (NULL: the PATH of this
 * process, if it has one), then in the usual folders of driver installations (Debian: the server is in /usr/sbin;
 * Talos: both are in /usr/local/bin) below |root| ("" or the mounted driver root). Also checks that
 * nvidia-cuda-mps-server is in mps_control_search_path(), since without it every client hangs. Errors: ERROR_NOT_FOUND
 * with the folders that were searched; ERROR_DENIED: not executable.
 */
int mps_control_find(char **ret, const char *program, const char *path, const char *root, struct error *err) MUST_USE;

/*
 * The PATH with which a daemon must be started, since the daemon finds its server through it; the caller frees. It is
 * the folder of |program| as mps_control_find() found it, then |path|, then the usual folders below |root|.
 */
char *mps_control_search_path(const char *program, const char *path, const char *root);

/* Copies |options|. ERROR_INVALID: a pipe directory that is not an absolute path, or too long for the sockets in it. */
int mps_control_new(struct mps_control **ret, const struct mps_control_options *options, struct error *err) MUST_USE;
/*
 * Kills the running front end; no callback is called after this, except |closed|, which may be NULL. May be called from
 * |done|.
 */
void mps_control_close(struct mps_control *control, void (*closed)(void *data), void *data);

/* |err| is NULL if the daemon answered. Then |answer| is its text without the last newline, valid during the call. */
typedef void mps_answer_fn(const struct error *err, const char *answer, void *data);

/*
 * |done| is called once, from the loop. ERROR_NOT_FOUND: no daemon runs there. ERROR_TIMEOUT: it does not answer.
 * ERROR_UNAVAILABLE: the front end failed in another way, for example after a "quit" that killed a server. Other
 * errors: the front end could not be started.
 */
void mps_control_ask(struct mps_control *control, const char *command, mps_answer_fn *done, void *data);

/*
 * The same for several commands, in one front end and with one deadline: all have an answer, or there is an error. Only
 * for commands whose answers have no line that is a percentage. Copies |commands|.
 */
typedef void mps_answers_fn(const struct error *err, const char *const *answers, void *data);
void mps_control_ask_all(
        struct mps_control *control, const char *const *commands, size_t n_commands, mps_answers_fn *done, void *data);

/* The same for the v3 interface, whose commands are arguments: |words|, with one blank between two of them. */
void mps_control_run(struct mps_control *control, const char *words, mps_answer_fn *done, void *data);
