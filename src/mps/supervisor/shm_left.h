/*
 * Removes what ended containers left in the tmpfs that was their /dev/shm. Nobody else removes it, and it takes space
 * from later containers.
 *
 * Nothing is removed on a guess. While any container has the tmpfs, the owner of a file cannot be known, so nothing is
 * removed. And whether a container has it is known only if all processes of the node are visible.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define MPS_SHM_LEFT_AGE_S 60 /* a file that changed more recently may be of a container that is starting */

/*
 * Removes the leftover files and folders in the tmpfs at |path|, if this process is in the first PID namespace of the
 * machine, no process except |daemon| and its servers (0: no daemon runs) has the tmpfs as /dev/shm, and a file has not
 * changed for |age_s| seconds. Files that the daemon or a server has open or mapped stay. No link is followed. Returns
 * how many were removed.
 */
size_t mps_shm_remove_left(const char *path, pid_t daemon, unsigned int age_s);
