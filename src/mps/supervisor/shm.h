// SPDX-License-Identifier: Apache-2.0
/*
 * The /dev/shm of one daemon: its own, or the node's. The choice is made when the daemon's folder is created, and holds
 * as long as the folder: containers have it mounted for their whole life, and kubelet gives a restarted container the
 * same mount. If the supervisor may not mount, or is configured not to, it changes an existing choice to the node's
 * shared memory and logs which containers lose theirs.
 *
 * What ended containers left in the tmpfs that was their /dev/shm is removed, since it takes space from later
 * containers and no other component removes it. Nothing is removed on a guess. While any container has the tmpfs, the
 * owner of a file cannot be known, so nothing is removed. And whether a container has it is known only if all processes
 * of the node are visible.
 *
 * What they left may be much, so it is removed in slices: base/sweep.h.
 */
#pragma once

#include <limits.h>

#include "base/io/worker.h"
#include "mps/supervisor/folder.h"
#include "mps/wire/status.h"

/* ---- how full a tmpfs is ---- */

/*
 * Tenants write everything in it. So no link is followed, only folders are opened, and names are never printed. The
 * count is bounded: MPS_SHM_ENTRIES_MAX entries, MPS_SHM_DEPTH_MAX nested folders. The size of a file with several
 * names is divided among them. A deleted file that a process still has open or mapped has no visible owner: its space
 * is |nameless|.
 */
#define MPS_SHM_ENTRIES_MAX ((size_t)131072) /* twice the number of files that mps mount-shm allows */
#define MPS_SHM_DEPTH_MAX 16U

/* The tmpfs at |path|: fills size, used, files_max and files; all 0 if there is none. */
int mps_shm_poll(struct mps_shm *ret, const char *path, struct error *err) MUST_USE;

/* Adds owners and nameless; takes up to a tenth of a second if there are very many files. */
int mps_shm_count(struct mps_shm *shm, const char *path, struct error *err) MUST_USE;

/*
 * Polls one tmpfs. Counting whose files fill it takes longer, so that is done when it becomes full and then at longer
 * intervals. Changes are logged.
 */
struct mps_shm_watch {
        struct mps_shm shm; /* of the last poll; all zeros: the tmpfs does not exist */
        unsigned int polls;
        unsigned int counted; /* number of the poll at which its owners were counted */
};

/* |daemon| is its only user; NULL: all daemons of the node. True: it has changed, by mps_shm_is_same(). */
bool mps_shm_watch_poll(struct mps_shm_watch *watch, const char *path, const char *daemon);

/* ---- what ended containers left ---- */

#define MPS_SHM_LEFT_AGE_S 60U /* a file that changed more recently may be of a container that is starting */
#define MPS_SHM_LEFT_MS 5000U  /* for one answer; what is left then is for the next */

struct mps_shm_left {
        pid_t daemon;        /* it and its servers may have the tmpfs as /dev/shm; 0: no daemon runs */
        unsigned int age_s;  /* what has changed more recently stays */
        char path[PATH_MAX]; /* of the tmpfs */
};

/*
 * Removes for |ms| what is left there, unless this process is not in the first PID namespace of the machine, or a
 * process besides the daemon and its servers has the tmpfs as /dev/shm. Files that the daemon or a server has open or
 * mapped stay. No link is followed. Returns how many files and folders were removed. Files of other processes are read
 * for that, so it may wait for ever.
 */
size_t mps_shm_remove_left(const struct mps_shm_left *what, unsigned int ms, bool *ret_is_over);

/* The same for a worker (base/io/worker.h): the message is a struct mps_shm_left, and this is the answer. */
struct mps_shm_left_answer {
        size_t removed;
        bool is_over;
};
void mps_shm_left_serve(const void *message, size_t size, struct strbuf *answer, const void *data);

/* ---- one daemon ---- */

struct daemon_shm {
        const char *name; /* the daemon's */
        const struct mps_folder *folder;
        struct worker *cleaner;
        bool is_own;                /* folder->shm is /dev/shm of the process, or of the next one */
        struct mps_shm_watch watch; /* of its own */
        struct worker_request removal;
        struct mps_shm_left left; /* what |removal| is about */
        bool is_removing;         /* |removal| is asked */
        bool has_clients;         /* at the last poll */
};

/* Before a start. |kib| 0: daemons are to use the node's. |is_new|: the daemon's folder is being created. */
int daemon_shm_prepare(struct daemon_shm *shm, uint64_t kib, bool is_new, struct error *err) MUST_USE;
/* For an adopted process. */
void daemon_shm_find(struct daemon_shm *shm, pid_t daemon);
/*
 * Polls its own shared memory, if it has that, and has removed what ended containers left there. |daemon| 0: there is
 * no process. True: something changed.
 */
bool daemon_shm_poll(struct daemon_shm *shm, pid_t daemon, bool has_clients);
/* Stops removing what ended containers left. */
void daemon_shm_stop(struct daemon_shm *shm);
