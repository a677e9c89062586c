/*
 * What containers that have ended left in the tmpfs that was their /dev/shm: nobody else removes it, and it counts against those that come.
 *
 * Nothing is removed on a guess. While any container has the tmpfs, nobody can tell whose a file is, so nothing is removed; and whether a container
 * has it is known only where all processes of the node can be seen.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MPS_SHM_LEFT_AGE_S 60 /* a file that has changed since then may be of a container that is starting */

/*
 * Removes the files and folders in the tmpfs at |path| that were left: only where this process is in the first PID namespace of the machine, no
 * process but |daemon| and its servers (0: no daemon runs) has the tmpfs as /dev/shm, and the file has not changed for |age_s| seconds. What the daemon or a
 * server has open or mapped stays. No link is followed. Returns how many were removed.
 */
size_t mps_shm_remove_left(const char *path, pid_t daemon, unsigned int age_s);
