// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps the MPS control daemons of this node as they are wanted: starts, configures, polls, repairs and stops them.
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
 * A daemon that already runs when the supervisor starts (only the supervisor was killed) is adopted if its process is
 * the one on record, its directory has the same inode and it answers; its clients notice nothing. The wanted daemons on
 * record are applied at start, so that the node recovers without the agent. Without a record daemons are found among
 * the processes of the node (mps/supervisor/process.h), when it is known what is wanted; those that are not, drain.
 *
 * Each daemon is independent: mps/supervisor/machine.h. A change of the wanted daemons affects only those that differ
 * (mps_daemon_serves()). A daemon that is no longer wanted drains: it takes no new clients, and ends with the last
 * one, or after a grace with its clients, where that is wanted (mps_wanted.ends_clients). A unit that was away when its
 * daemon started is taken in when that has no clients.
 *
 * Compute mode (mps/supervisor/compute_mode.h) is EXCLUSIVE_PROCESS while a daemon has the unit; afterwards the
 * previous mode is restored.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "gpu/hangs.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

struct mps_allocations;
struct mps_supervisor;

/* Texts are copied; |environment| and |enter_shm| stay the caller's as long as the supervisor is there. */
struct mps_supervisor_options {
        uv_loop_t *loop;
        const char *root;               /* the MPS root as mounted here */
        const char *control;            /* program name or path: see mps_control_find() */
        const char *path;               /* PATH of the daemons; NULL: that of this process, or the usual one */
        const char *driver_root;        /* as mounted here; NULL: "" */
        const char *nvml_library;       /* "": found by the driver root */
        const char *system_root;        /* "" or NULL: /proc; otherwise /proc of clients is read below this folder */
        const char *const *environment; /* more variables for the daemons, "NAME=value", NULL-terminated; or NULL */
        /*
         * The program that is started as "PROGRAM mps exec-in-shm SHM PIPE CONTROL ARGUMENT…": this binary. With it
         * each daemon has a /dev/shm of its own, if container runtimes see what this process mounts. NULL: all daemons
         * use the node's.
         */
        const char *enter_shm;
        uint64_t shm_kib; /* of a daemon's own /dev/shm; 0: half of the memory, divided by units */
        bool sets_compute_mode;
        uint64_t grace_ms;   /* of clients, where their daemons are to end with them: mps_wanted.ends_clients */
        uint64_t poll_ms;    /* between two polls of a ready daemon; 0: 2,000 */
        uint64_t command_ms; /* for each command; 0: MPS_COMMAND_TIMEOUT_MS */
        void (*on_change)(void *data); /* mps_supervisor_status() has changed; at most once per turn of the loop */
        void *data;
};

struct mps_supervisor *mps_supervisor_new(const struct mps_supervisor_options *options);

/*
 * Called from the loop. |leaves_modes|: NVML does not answer, so compute modes are not restored; they stay on record,
 * for the next supervisor.
 */
typedef void mps_supervisor_closed_fn(bool leaves_modes, void *data);

/* Ends the supervisor but not the daemons; the next supervisor adopts them. */
void mps_supervisor_leave(struct mps_supervisor *supervisor, mps_supervisor_closed_fn *closed, void *data);

/* Copies |wanted|. An error, and no change, if a path would be too long or two daemons have one name. */
int mps_supervisor_apply(struct mps_supervisor *supervisor, const struct mps_wanted *wanted, uint64_t generation,
        struct error *err) MUST_USE;

/* Valid until the next turn of the loop, or mps_supervisor_look(). */
const struct mps_status *mps_supervisor_status(const struct mps_supervisor *supervisor);

/*
 * Asks the kernel, and no daemon, whether the clients are still there, and renews the status at once: a daemon may
 * hang, and this process may have stood still for a while.
 */
void mps_supervisor_look(struct mps_supervisor *supervisor);

/* True if NVML does not answer about a unit; |ret| is the call that did not return. */
bool mps_supervisor_hang(const struct mps_supervisor *supervisor, struct worker_call *ret);

/* For requests about partitions, namespaces and single clients: mps/supervisor/allocations.h. */
struct mps_allocations *mps_supervisor_allocations(struct mps_supervisor *supervisor);

/* Names the holders of units, as the agent calls them: copied, and a part of the status. */
void mps_supervisor_name_holders(struct mps_supervisor *supervisor, const struct mps_holder *holders, size_t n_holders);

/*
 * Stops every daemon. Daemons with clients get |grace_ms|, then are ended together with their clients. Compute modes
 * are restored.
 */
void mps_supervisor_close(
        struct mps_supervisor *supervisor, uint64_t grace_ms, mps_supervisor_closed_fn *closed, void *data);
