// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's connection to `warpshare mps`, which reconnects by itself. If control daemons of NVIDIA's own container
 * run instead, it asks those at intervals.
 *
 * Each time nothing answers, the link checks again which of the two is there. If <directory>/warpshare.sock exists, the
 * supervisor is ours, even if no process listens: a supervisor that was killed leaves the socket. Otherwise the link
 * asks each daemon for get_default_active_thread_percentage through the control program, as NVIDIA's plugin does once
 * at its start, and again every 10 s. Such a daemon is only "ready" or "fault", and its tier is default. If none of
 * them answers, the status is unknown.
 *
 * A request has a deadline of 30 s. A supervisor that answers neither requests nor pings for 30 s counts as not
 * connected.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

struct mps_link;

struct mps_link_options {
        uv_loop_t *loop;
        const char *directory; /* the MPS root as mounted here */
        const char *control;   /* the control program, to ask NVIDIA's daemons */
        uint64_t retry_ms;     /* 0: 1,000 */
        /* A new status, or NULL with the reason why there is none. Valid until the next call. */
        void (*on_status)(const struct mps_status *status, const char *reason, void *data);
        void *data;
};

int mps_link_new(struct mps_link **ret, const struct mps_link_options *options, struct error *err) MUST_USE;
void mps_link_close(struct mps_link *link, void (*closed)(void *data), void *data);

/*
 * True if at the last attempt there was neither a supervisor's socket nor a daemon of NVIDIA's that answered. A
 * supervisor that was killed leaves its socket, and one that ends takes its daemons with it: so no daemon of ours runs
 * then.
 */
bool mps_link_is_absent(const struct mps_link *link);

/*
 * Sets the wanted daemons. They are copied, and sent again at each new connection. A supervisor with a plan of its own
 * (mps-control-daemon) does not take them; its status is then reported with |generation|.
 */
void mps_link_apply(struct mps_link *link, const struct mps_wanted *wanted, uint64_t generation);

/*
 * Sets all allocations that are granted now (see mps_allocations_hold()). They are copied and sent with the wanted
 * daemons, now and at each new connection; what is granted or released later is added to or removed from the copy. If
 * |allocations| is NULL or has more than MPS_HOLD_MAX entries, the caller does not know the complete list, and none is
 * sent until it does.
 */
void mps_link_hold(struct mps_link *link, const struct mps_allocation_request *allocations, size_t n_allocations);

/*
 * Sets the names of the holders, which the supervisor shows to people. They are sent like the list of allocations; at
 * most the first MPS_HOLD_MAX.
 */
void mps_link_name_holders(struct mps_link *link, const struct mps_holder *holders, size_t n_holders);

/* Stops sending the wanted daemons, because another agent sends them now. The status is still reported. */
void mps_link_forget(struct mps_link *link);

/*
 * |done| is called exactly once, from the loop, at the latest while the link closes. ERROR_UNAVAILABLE: no supervisor
 * is connected. ERROR_UNSUPPORTED: the daemons are NVIDIA's.
 */
void mps_link_allocation(
        struct mps_link *link, const struct mps_allocation_request *request, mps_granted_fn *done, void *data);
void mps_link_release(struct mps_link *link, const char *id, mps_done_fn *done, void *data);
void mps_link_terminate(struct mps_link *link, const char *daemon, pid_t client, const char *container_id,
        mps_done_fn *done, void *data);
/*
 * Asks for a status without clients whose processes have ended by now (mps_supervisor_look()). It is reported, if it is
 * new, before |done| is called.
 */
void mps_link_look(struct mps_link *link, mps_done_fn *done, void *data);
