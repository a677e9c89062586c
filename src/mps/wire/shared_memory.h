/*
 * How full the tmpfs is that MPS servers and their clients have as /dev/shm, and whose files fill it. Values only; who looks is
 * mps/supervisor/shared_memory.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

#define MPS_SHM_OWNERS 3U          /* the largest, by bytes and by files */
#define MPS_SHM_FULL_PERMILLE 900U /* from here on it is full, */
#define MPS_SHM_FREE_PERMILLE 800U /* until it is below this */

struct mps_shm_owner {
        uid_t uid; /* of the node: what the files say */
        uint64_t bytes;
        uint64_t files; /* with folders, links and the like */
};

struct mps_shm {
        uint64_t size; /* bytes; 0: there is no such tmpfs, and all else is 0, too */
        uint64_t used;
        uint64_t files_max; /* 0: no bound */
        uint64_t files;
        bool is_full; /* since it came to MPS_SHM_FULL_PERMILLE of its bytes or files */

        /* While it is full only, as when it was looked at last: the one that takes most first. */
        struct mps_shm_owner owners[MPS_SHM_OWNERS];
        size_t n_owners;
        uint64_t nameless; /* bytes */
};

/* The larger of the two parts, bytes and files, in permille. */
unsigned int mps_shm_permille(const struct mps_shm *shm);

/* |before| is the last look: it decides whether what is between the two bounds is full, and its owners are kept. */
void mps_shm_judge(struct mps_shm *shm, const struct mps_shm *before);

/* Not worth telling again: as full, to one percent. */
bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b);

/* "123 of 1024 MiB and 7 of 100 files are used; user 1000 has 120 MiB in 5 files, …": to be freed. */
char *mps_shm_text(const struct mps_shm *shm);
