// SPDX-License-Identifier: Apache-2.0
/*
 * The folder of one control daemon: <root>/<name>/pipe, <root>/<name>/log, <root>/<name>/shm where it has shared memory
 * of its own, and the files that NVIDIA's components write and expect there. It handles files only, no process.
 *
 * The pipe directory is never removed: containers have mounted it, and would not see a new directory of the same name.
 * Unless it is mounted read-only, tenants can write into it. Folders are 0755, independent of the umask, since the MPS
 * server runs under the tenant's user and has to reach its control socket through all of them.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "base/io/loop.h"

/* The files that a daemon creates in its pipe directory and keeps while it serves: two sockets and the lock file. */
#define MPS_DOORS 3U
struct mps_door {
        dev_t device;
        ino_t inode; /* 0: it does not exist */
};

struct mps_folder {
        char *path; /* <root>/<name> */
        char *pipe;
        char *log;
        char *shm; /* mps/supervisor/shm.h decides whether it is created */
        char *control_log;
        char *started;
        int pin;      /* a descriptor of |pipe|: while it is open, its inode number is not reused; -1: none yet */
        dev_t device; /* inode of |pipe|, since mps_folder_make() */
        ino_t inode;
        struct mps_door doors[MPS_DOORS]; /* since mps_folder_note_doors() */
};

void mps_folder_init(struct mps_folder *folder, const char *root, const char *name);
void mps_folder_done(struct mps_folder *folder);

/*
 * Creates what is missing, with the SELinux type that containers may use if SELinux is on; stores the inode of the pipe
 * directory.
 */
int mps_folder_make(struct mps_folder *folder, const char *root, struct error *err) MUST_USE;

/*
 * Removes the files that a daemon creates in its pipe directory. Done before a start, so that the daemon does not open
 * a file, follow a link or wait for a lock that another process left there. What cannot be removed, for example a
 * non-empty folder, is renamed.
 */
int mps_folder_clear(const struct mps_folder *folder, struct error *err) MUST_USE;

/*
 * mps_folder_note_doors() stores which sockets and lock file the process |daemon| has created. They stay the same for
 * its life, so a different one belongs to another process. mps_folder_changed_door() returns the name of the first that
 * is missing, was replaced or has another type or owner; NULL: none. It also returns one that was not the daemon's from
 * the start (the kernel says who listens on a socket). A door that cannot be checked now, for example for want of
 * memory, does not count as changed, since a change ends the daemon with all its clients.
 */
void mps_folder_note_doors(struct mps_folder *folder, pid_t daemon);
const char *mps_folder_changed_door(const struct mps_folder *folder);

/* Gives it the SELinux type that containers may use, where that is on. Refusals are logged. */
void mps_folder_label(const char *path);

/* The pipe directory is still the one that mps_folder_make() saw, or that cannot be found out now. */
bool mps_folder_is_same(const struct mps_folder *folder);

/* Creates .started, which NVIDIA's daemon has while it serves. */
void mps_folder_set_started(const struct mps_folder *folder, bool started);

/* ---- control.log ---- */

/*
 * Keeps control.log small while it is written, and reads the last words of a process in it. If it has more than 8 MiB,
 * its last MiB is copied to control.log.1 and it is truncated to nothing. Every process that reaches the daemon's
 * socket can make it write to its log (more than 100 MiB a second were seen), so the file is checked whenever it
 * changes, at most twenty times a second.
 *
 * The daemon writes into the file itself, not into a pipe to us: it survives the supervisor, and a pipe without a
 * reader would block it. While no supervisor runs, the size of the file is not bounded.
 */
struct mps_log {
        const struct mps_folder *folder;
        uv_fs_event_t event;
        uv_timer_t pause;
        off_t start;         /* the file's size when the process started */
        uint64_t trimmed_at; /* when the log was last cut, by the loop's clock; 0: never */
        void (*flooded)(void *data);
        void *data;
};

/* |flooded| is called when the log was cut twice within a minute. */
void mps_log_init(
        struct mps_log *log, uv_loop_t *loop, const struct mps_folder *folder, void (*flooded)(void *data), void *data);
/* The log of a process that starts now, or runs: watches the present file, and remembers its size. */
void mps_log_follow(struct mps_log *log);
/*
 * Opens the log for the daemon's standard output, in append mode, so that it can be truncated while the daemon writes.
 * -1 with |err|.
 */
int mps_log_open(const struct mps_log *log, struct error *err) MUST_USE;
/* The last line that the process printed, for messages; the caller frees. */
char *mps_log_last_words(const struct mps_log *log);
/* |flooded| is not called any more. */
void mps_log_close(struct mps_log *log, struct closing *closing);
