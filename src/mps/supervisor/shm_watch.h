/*
 * Polls one tmpfs: how full it is at each poll. Counting whose files fill it takes longer, so that is done when it
 * becomes full and then at longer intervals. Changes are logged.
 */
#pragma once

#include "mps/supervisor/shared_memory.h"

struct mps_shm_watch {
        struct mps_shm shm; /* of the last poll; all zeros: there is no such tmpfs */
        unsigned int polls;
        unsigned int counted; /* number of the poll at which its owners were counted */
};

/* |daemon| is its only user; NULL: all daemons of the node. True: it has changed, by mps_shm_is_same(). */
bool mps_shm_watch_poll(struct mps_shm_watch *watch, const char *path, const char *daemon);
