/*
 * How full the tmpfs is that MPS servers and their clients have as /dev/shm, and whose files fill it. Values only;
 * mps/supervisor/shared_memory.h measures them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

#define MPS_SHM_OWNERS 3U          /* the largest users, by bytes and by files */
#define MPS_SHM_FULL_PERMILLE 900U /* at or above this it is full, */
#define MPS_SHM_FREE_PERMILLE 800U /* until it falls below this */

struct mps_shm_owner {
        uid_t uid; /* as the files show it, in the node's user namespace */
        uint64_t bytes;
        uint64_t files; /* including folders and links */
};

struct mps_shm {
        uint64_t size; /* bytes; 0: there is no such tmpfs, and all other fields are 0 */
        uint64_t used;
        uint64_t files_max; /* 0: no bound */
        uint64_t files;
        bool is_full; /* since it reached MPS_SHM_FULL_PERMILLE of its bytes or files */

        /* Only while it is full, from the last count: the largest user first. */
        struct mps_shm_owner owners[MPS_SHM_OWNERS];
        size_t n_owners;
        uint64_t nameless; /* bytes */
};

/* The larger of the two used parts, bytes or files, in permille. */
unsigned int mps_shm_permille(const struct mps_shm *shm);

/* |before| is the previous poll: between the two bounds it decides whether the tmpfs is full. Its owners are kept. */
void mps_shm_judge(struct mps_shm *shm, const struct mps_shm *before);

/* The difference is too small to report: equally full, to one percent. */
bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b);

/* "123 of 1024 MiB and 7 of 100 files are used; user 1000 has 120 MiB in 5 files, …"; the caller frees it. */
char *mps_shm_text(const struct mps_shm *shm);
