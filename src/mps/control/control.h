/*
 * The dialogue with one MPS control daemon, through NVIDIA's own front end: nvidia-cuda-mps-control, fed with one
 * command on its standard input. Its wire protocol is private, so it is never spoken here.
 *
 * One command at a time for each daemon, in the order in which they were asked; each with a deadline, after which the
 * front end is killed. What is known about the program (reference: NVIDIA's MPS manual r615; tried with 535 and 550):
 *
 *   - it exits 0 for commands that fail; 1 where no daemon answers. So an answer means nothing but that the daemon
 *     lives, and whatever was set is read back. Only "quit" has another status: that of a server which did not end
 *     well.
 *   - up to 550 a device is read with atoi(): a UUID there means device 0 and clears its limit. Ordinals are those of
 *     the daemon's own CUDA_VISIBLE_DEVICES, so with one unit a daemon it is 0 always.
 *   - an option that it does not know makes it a front end that finds no daemon.
 *   - the daemon accepts one front end at a time and closes the connection of any other at once. The refused front end mostly exits 0 and
 *     prints nothing, as after a command that has no answer. So each such command is followed by one that always has an answer; if
 *     that is missing, both are sent again until the deadline.
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

struct mps_control;

struct mps_control_options {
        uv_loop_t *loop;
        const char *program;        /* path of nvidia-cuda-mps-control: mps_control_find() */
        const char *pipe_directory; /* CUDA_MPS_PIPE_DIRECTORY */
        const char *log_directory;
        const char *path;               /* PATH for the child; NULL: this process's own */
        const char *const *environment; /* more of it, "NAME=value", NULL-terminated, or NULL */
        uint64_t timeout_ms;            /* 0: MPS_COMMAND_TIMEOUT_MS */
        void (*slow)(void *data);       /* called when an answer takes longer than MPS_SLOW_MS; or NULL */
        void (*refused)(void *data);    /* called each time the daemon refuses the front end; or NULL */
        void *data;
};

/*
 * Looks |program| up: a path with a slash as it is, a name in |path|, then in the usual places of driver installations
 * (on Debian the server is in /usr/sbin, on Talos both are in /usr/local/bin), below |root| ("" or the mounted driver
 * root). Errors: ERROR_NOT_FOUND with the places looked at, ERROR_DENIED (not executable). Also checks that
 * nvidia-cuda-mps-server is in mps_control_search_path(), since without it every client hangs. |path| is NULL: this
 * process's own PATH, which it may lack.
 */
int mps_control_find(char **ret, const char *program, const char *path, const char *root, struct error *err) MUST_USE;

/*
 * The PATH with which a daemon has to be started, for the caller to free: it finds its server by it. The folder of
 * |program|, as mps_control_find() found it, |path|, and the usual places below |root|.
 */
char *mps_control_search_path(const char *program, const char *path, const char *root);

/* Copies |options|. ERROR_INVALID: a pipe directory that is no absolute path, or too long for the sockets in it. */
int mps_control_new(struct mps_control **ret, const struct mps_control_options *options, struct error *err) MUST_USE;
/* Kills what is running; nothing is called back any more. |closed| may be NULL. May be called from |done|. */
void mps_control_close(struct mps_control *control, void (*closed)(void *data), void *data);

/* |err| is NULL when the daemon answered; then |answer|, valid in the call, is its text without the last newline. */
typedef void mps_answer_fn(const struct error *err, const char *answer, void *data);

/*
 * |done| is called once, from the loop. ERROR_NOT_FOUND: no daemon there. ERROR_TIMEOUT: it does not answer.
 * ERROR_UNAVAILABLE: the front end failed in another way, as with a "quit" that ended a server with force. Others: it
 * could not be run.
 */
void mps_control_ask(struct mps_control *control, const char *command, mps_answer_fn *done, void *data);

/* As with the v3 interface, whose commands are arguments: |arguments| is NULL-terminated. */
void mps_control_run(struct mps_control *control, const char *const *arguments, mps_answer_fn *done, void *data);
