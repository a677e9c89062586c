/*
 * The folder of one control daemon: <root>/<name>/pipe, <root>/<name>/log, <root>/<name>/shm where it has shared memory of its own, and what NVIDIA's components leave and look for
 * there. Files only: no process.
 *
 * The pipe directory is never removed: it is mounted into tenants, and a new one of the same name would be another one. What is in it
 * may be a tenant's work, unless it is mounted read-only. Folders are 0755 whatever the umask, since the MPS server runs under the tenant's user and has to reach its
 * control socket through all of them.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

/* What a daemon makes in its pipe directory and keeps while it serves: two sockets and the file of its lock. */
#define MPS_DOORS 3U
struct mps_door {
        dev_t device;
        ino_t inode; /* 0: it is not there */
};

struct mps_folder {
        char *path; /* <root>/<name> */
        char *pipe;
        char *log;
        char *shm; /* mps/supervisor/daemon_shm.c decides if it is made */
        char *control_log;
        char *started;
        int pin;      /* |pipe| itself: while it is open, no other directory gets its number; -1: not made yet */
        dev_t device; /* of |pipe|, since mps_folder_make() */
        ino_t inode;
        struct mps_door doors[MPS_DOORS]; /* since mps_folder_note_doors() */
};

void mps_folder_init(struct mps_folder *folder, const char *root, const char *name);
void mps_folder_done(struct mps_folder *folder);

/* Makes what is missing, with the SELinux type that containers may use where that is on; learns the pipe directory's inode. */
int mps_folder_make(struct mps_folder *folder, const char *root, struct error *err) MUST_USE;

/*
 * Takes away what a daemon makes in its pipe directory: before a start, so that it opens no file, follows no link and waits for no
 * lock that somebody else has left there. What cannot be removed, as a folder with something in it, gets another name.
 */
int mps_folder_clear(const struct mps_folder *folder, struct error *err) MUST_USE;

/*
 * Remembers the sockets and the lock that the process |daemon| has made. They are the same for its life, so another one is somebody else's:
 * mps_folder_changed_door() names the first that is not the one of then, of another kind or owner, or gone; NULL: none. One that was
 * not the daemon's from the start (the kernel tells who listens at a socket) is named, too.
 */
void mps_folder_note_doors(struct mps_folder *folder, pid_t daemon);
const char *mps_folder_changed_door(const struct mps_folder *folder);

/* Gives it the SELinux type that containers may use, where that is on. Refusals are told by the log. */
void mps_folder_label(const char *path);

/* The pipe directory is the one that mps_folder_make() saw. */
bool mps_folder_is_same(const struct mps_folder *folder);

/* For the daemon's standard output; appending, so that it can be cut while the daemon writes. -1 with |err|. */
int mps_folder_open_log(const struct mps_folder *folder, struct error *err) MUST_USE;

/*
 * Each command that is asked leaves up to six lines in control.log: one that has grown over 8 MiB is cut to nothing, and its last MiB becomes
 * control.log.1. True: that was done.
 */
bool mps_folder_trim_log(const struct mps_folder *folder);

/* The end of control.log, from |offset|, at most 4 KiB. */
void mps_folder_read_log(const struct mps_folder *folder, off_t offset, struct strbuf *text);
off_t mps_folder_log_size(const struct mps_folder *folder);

/* As NVIDIA's daemon leaves it while it serves. */
void mps_folder_set_started(const struct mps_folder *folder, bool started);
