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

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/strbuf.h"

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
