/*
 * Removes what ended containers left in the tmpfs that was their /dev/shm. Nobody else removes it, and it takes space
 * from later containers.
 *
 * Nothing is removed on a guess. While any container has the tmpfs, the owner of a file cannot be known, so nothing is
 * removed. And whether a container has it is known only if all processes of the node are visible.
 *
 * What they left may be much, so it is removed in slices: base/sweep.h.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/sweep.h"

#define MPS_SHM_LEFT_AGE_S 60 /* a file that changed more recently may be of a container that is starting */

struct mps_shm_left;

struct mps_shm_left_options {
        const char *path;      /* of the tmpfs */
        pid_t daemon;          /* it and its servers may have the tmpfs as /dev/shm; 0: no daemon runs */
        unsigned int age_s;    /* what has changed more recently stays */
        sweep_close_fn *close; /* of large files; NULL: close() */
        void *data;
};

/*
 * Looks who uses the tmpfs, and begins to remove what is left in it. NULL: nothing may be removed, since this process
 * is not in the first PID namespace of the machine, or since a process besides |daemon| and its servers has the tmpfs
 * as /dev/shm. Files that the daemon or a server has open or mapped stay. No link is followed.
 */
struct mps_shm_left *mps_shm_left_new(const struct mps_shm_left_options *options);

/* Goes on for |ms|. True: all is removed that can be. */
bool mps_shm_left_run(struct mps_shm_left *left, unsigned int ms) MUST_USE;

/* Accepts NULL. Returns how many files and folders were removed. */
size_t mps_shm_left_free(struct mps_shm_left *left);
