/*
 * The MPS control daemons of this node, kept as they are wanted: started, configured, looked after, repaired, stopped.
 *
 *         <root>/                 0755, traversable by any user: servers run under the tenant's
 *           warpshare.sock        0600, mps/supervisor/listener.h
 *           state.json            the wanted daemons, their PIDs, the compute modes from before; survives us
 *           shm/                  tmpfs, /dev/shm of daemons that have none of their own, and of their tenants
 *           <name>/pipe           0755, never removed while it may be mounted: its inode is in the tenants
 *           <name>/log            control.log, server.log
 *           <name>/shm            tmpfs, /dev/shm of this daemon and its tenants: mps/supervisor/shm_mount.h
 *           <name>/.started       as NVIDIA's daemon leaves it, while the daemon is ready
 *
 * A daemon that already runs when we start (we were killed, it was not) is adopted if its process is the one on record, its
 * directory is the same inode and it answers; its clients notice nothing. The wanted daemons on record are put in force at
 * start, so that the node comes back without the agent.
 *
 * Each daemon is on its own: mps/supervisor/daemon.h. A change of what is wanted touches only daemons that differ (mps_daemon_is_same());
 * one that has to go drains: it takes no new clients, and ends with the last one.
 *
 * Compute mode (mps/supervisor/compute_mode.h) is EXCLUSIVE_PROCESS while a daemon has the unit, and what it was before otherwise.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "gpu/call_trace.h"
#include "mps/wire/status.h"
#include "share/mps_wanted.h"

struct mps_supervisor;

struct mps_supervisor_options {
        uv_loop_t *loop;
        const char *root;               /* the MPS root as mounted here */
        const char *control;            /* program name or path: mps_control_find() */
        const char *path;               /* PATH of the daemons; NULL: ours, or the usual one */
        const char *driver_root;        /* as mounted here */
        const char *nvml_library;       /* "": found by the driver root */
        const char *system_root;        /* "" or NULL; else /proc/<pid> of clients is looked at below this folder */
        const char *const *environment; /* more of it for the daemons, "NAME=value", NULL-terminated, or NULL */
        /*
         * The program that is started as "PROGRAM mps exec-in-shm SHM PIPE CONTROL ARGUMENT…": this binary. With it each daemon has a /dev/shm of its own, where
         * others see what is mounted here. NULL: all daemons have that of the node.
         */
        const char *enter_shm;
        uint64_t shm_kib; /* the size of a daemon's own; 0: half of the memory, by the daemon's part of the units */
        bool sets_compute_mode;
        uint64_t poll_ms;              /* between two looks at a daemon that is ready; 0: 2,000 */
        uint64_t command_ms;           /* for each command; 0: MPS_COMMAND_TIMEOUT_MS */
        void (*on_change)(void *data); /* mps_supervisor_status() says something new; at most once a turn of the loop */
        void *data;
};

int mps_supervisor_new(
        struct mps_supervisor **ret, const struct mps_supervisor_options *options, struct error *err) MUST_USE;

/*
 * From the loop. |leaves_thread|: it stays behind in a call into NVML that does not return; the process should then leave by _exit(). Compute
 * modes that could not be put back for that reason stay on record, for the next supervisor.
 */
typedef void mps_supervisor_closed_fn(bool leaves_thread, void *data);

/* Every daemon goes on, and the next supervisor adopts it. */
void mps_supervisor_leave(struct mps_supervisor *supervisor, mps_supervisor_closed_fn *closed, void *data);

/* Copies |wanted|. Refused (nothing changes) where a path would be too long or two daemons have one name. */
int mps_supervisor_apply(struct mps_supervisor *supervisor, const struct mps_wanted *wanted, uint64_t generation,
        struct error *err) MUST_USE;

/* Borrowed, until the next turn of the loop. */
const struct mps_status *mps_supervisor_status(const struct mps_supervisor *supervisor);

/* A call into NVML that does not return, if there is one. */
bool mps_supervisor_hang(const struct mps_supervisor *supervisor, struct call_info *ret);

/* Makes the partition or namespace; the same id again answers with what is there. */
void mps_supervisor_allocation(struct mps_supervisor *supervisor, const struct mps_allocation_request *request,
        mps_granted_fn *done, void *data);
/* An error: it stays for now, as while it has clients, and is removed as soon as that goes. */
void mps_supervisor_release(struct mps_supervisor *supervisor, const char *id, mps_done_fn *done, void *data);
/*
 * All that is granted at this moment: what is missing of it is made, and what was granted before and is not in it is released. What
 * is granted or released later counts from then on. Without this call all that is not released is wanted.
 */
void mps_supervisor_hold(
        struct mps_supervisor *supervisor, const struct mps_allocation_request *wanted, size_t n_wanted);

/* Politely, through the control daemon. Refused unless the client is in the list at that moment, with the container said. */
void mps_supervisor_terminate(struct mps_supervisor *supervisor, const char *daemon, pid_t client,
        const char *container_id, mps_done_fn *done, void *data);

/* Stops every daemon: those with clients are given |grace_ms|, then told to quit with them. Compute modes go back. */
void mps_supervisor_close(
        struct mps_supervisor *supervisor, uint64_t grace_ms, mps_supervisor_closed_fn *closed, void *data);
