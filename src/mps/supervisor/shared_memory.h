/*
 * Measures how full the tmpfs of MPS is, and whose files fill it.
 *
 * Tenants write everything in it. So no link is followed, only folders are opened, and names are never printed. The
 * count is bounded: MPS_SHM_ENTRIES_MAX entries, MPS_SHM_DEPTH_MAX nested folders. The size of a file with several
 * names is divided among them. A deleted file that a process still has open or mapped has no visible owner: its space
 * is |nameless|.
 */
#pragma once

#include "base/error.h"
#include "mps/wire/status.h"

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
