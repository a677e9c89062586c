/*
 * The /dev/shm of one daemon: its own, or the node's. The choice is made when the daemon's folder is created, and holds
 * as long as the folder: containers have it mounted for their whole life, and kubelet gives a restarted container the
 * same mount. If the supervisor may not mount, or is configured not to, it changes an existing choice to the node's
 * shared memory and logs which containers lose theirs.
 */
#pragma once

#include "base/io/worker.h"
#include "mps/supervisor/folder.h"
#include "mps/supervisor/shared_memory.h"
#include "mps/supervisor/shm_left.h"

struct daemon_shm {
        const char *name; /* the daemon's */
        const struct mps_folder *folder;
        struct worker *cleaner;
        bool is_own;                /* folder->shm is /dev/shm of the process, or of the next one */
        struct mps_shm_watch watch; /* of its own */
        struct worker_request removal;
        struct mps_shm_left left; /* what |removal| is about */
        bool is_removing;         /* |removal| is asked */
        bool has_clients;         /* at the last poll */
};

/* Before a start. |kib| 0: daemons are to use the node's. |is_new|: the daemon's folder is being created. */
int daemon_shm_prepare(struct daemon_shm *shm, uint64_t kib, bool is_new, struct error *err) MUST_USE;
/* For an adopted process. */
void daemon_shm_find(struct daemon_shm *shm, pid_t daemon);
/*
 * Polls its own shared memory, if it has that, and has removed what ended containers left there. |daemon| 0: there is no
 * process. True: something changed.
 */
bool daemon_shm_poll(struct daemon_shm *shm, pid_t daemon, bool has_clients);
/* Stops removing what ended containers left. */
void daemon_shm_stop(struct daemon_shm *shm);
