/*
 * One tmpfs that is looked at again and again: how full it is at each look; whose files fill it, which takes longer, when it comes to be full
 * and then once in a while. What comes and goes is logged.
 */
#pragma once

#include "mps/supervisor/shared_memory.h"

struct mps_shm_watch {
        struct mps_shm shm; /* as of the last look; all zeros: there is no such tmpfs */
        unsigned int polls;
        unsigned int counted; /* at which look its owners were counted */
};

/* |daemon| has it alone; NULL: all daemons of the node. True: mps_shm_is_same() does not hold any more. */
bool mps_shm_watch_poll(struct mps_shm_watch *watch, const char *path, const char *daemon);
