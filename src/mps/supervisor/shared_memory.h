/*
 * How full the tmpfs is that MPS servers and their clients have as /dev/shm, and whose files fill it. It only looks.
 *
 * All that lies in it is written by tenants: no link is followed, nothing is opened but folders, and names are never repeated. What is
 * counted is bounded: MPS_SHM_ENTRIES_MAX entries, MPS_SHM_DEPTH_MAX folders one in another. A file with several names counts
 * for each with its part. Space of a file that has no name any more, and that a process still has open or mapped, is nobody's by this
 * look: it is |nameless|.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define MPS_SHM_ENTRIES_MAX ((size_t)131072) /* twice what the tmpfs takes: mps mount-shm */
#define MPS_SHM_DEPTH_MAX 16U
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

/* The tmpfs at |path|: size, used, files_max and files; 0 where there is none. */
int mps_shm_look(struct mps_shm *ret, const char *path, struct error *err) MUST_USE;

/* Adds owners and nameless: up to a tenth of a second where there are very many files. */
int mps_shm_count(struct mps_shm *shm, const char *path, struct error *err) MUST_USE;

/* "123 of 1024 MiB and 7 of 100 files are used; user 1000 has 120 MiB in 5 files, …": to be freed. */
char *mps_shm_text(const struct mps_shm *shm);
