// SPDX-License-Identifier: Apache-2.0
/*
 * The parent of a process in a container, the agent or the supervisor of MPS: it starts that, and starts it again at
 * once when a signal has ended it (a fault of ours or of the driver's library, the kernel out of memory, kill -9).
 * kubelet would start the container again, but waits 10, 20, … 300 s, and when a container ends, so does all that was
 * started in it: the MPS daemons with their clients' work.
 *
 *                     ┌────────(crash: wait keeper_wait_ms())───────┐
 *                     ▼                                             │
 *        start ──► RUNNING ───(exit: its status is ours)──► end     │
 *                     │  └──────────────────────────────────────────┘
 *                     └──(asked to end, and it ends as it likes)──► end
 *
 * It is what PID 1 has to be, too: it reaps orphans, and passes on the signals that a container is sent. It forks
 * before anything is loaded, does nothing but wait, and so costs some hundred KiB; the child runs from the point of the
 * fork, without exec, and starts as quickly as without a parent. A process that exits by itself (a refused
 * configuration, no GPU where that is to be an error) is not started again: kubelet shows it, as it does with NVIDIA's
 * plugin. What the process has started stays, as a child of the parent's.
 *
 * Not in a thread: fork copies the calling thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* How the earlier processes ended; all zero: this is the first one. */
struct keeper_crashes {
        unsigned int total; /* since the parent started */
        int signal;         /* that ended the latest */
        int64_t lived_ms;   /* how long that one ran */
};

/*
 * A process that ran for so long has served. It is started again at once, however often, and the count of quick ends is
 * reset.
 */
#define KEEPER_STEADY_MS INT64_C(1000)
/*
 * So many quick ends in a row are followed by a start at once; then it waits 1 s, and twice as long each time, up to 60
 * s.
 */
#define KEEPER_QUICK_STARTS 3U
#define KEEPER_WAIT_MAX_MS INT64_C(60000)

/* Before the next start, after so many ends in a row that came within KEEPER_STEADY_MS of their start. Pure. */
int64_t keeper_wait_ms(unsigned int quick_ends);

/*
 * Whether there is to be one: |choice| is always, never or auto, where this process is the first of a container. It is
 * PID 1 there or, with the PIDs of the host (hostPID), its parent has other mounts.
 */
bool keeper_is_wanted(const char *choice);

/*
 * |what| is for the log: "the agent". Returns 1 in a child, which is to run it, with what became of the ones before in
 * |ret|; and 0 in the parent when all is over, with the status to end with in |ret_status|. -1: there can be no child,
 * and nothing is held back from this process, which may do the work itself.
 */
int keeper_run(const char *what, struct keeper_crashes *ret, int *ret_status, struct error *err) MUST_USE;

/*
 * For a program that is not to be started again, and is to leave nothing behind: the same, except that the first end of
 * the child is the last. Then all that it has started is killed, daemons in sessions of their own included. The caller
 * removes its files. If this parent is killed, the child receives SIGTERM.
 */
int keeper_run_once(const char *what, int *ret_status, struct error *err) MUST_USE;

/* ---- init ---- */

/*
 * The first process of a container has two duties that no other has: it is the parent of every orphan, and signals for
 * which it has no handler do not reach it. When we are that process, another one does the work, and this one waits: it
 * buries what died, hands signals on, and ends as the other did.
 */

/* Returns in the process that is to do the work: at once where we are not the first one. */
void init_if_first(void);
