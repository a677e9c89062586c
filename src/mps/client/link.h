/*
 * The agent's end: a connection to `warpshare mps` that comes back by itself, or, where a control daemon of NVIDIA's own
 * container runs instead, a question to it at intervals.
 *
 * Which of the two is there is found out again whenever nothing answers: <directory>/warpshare.sock is ours, also while nobody
 * listens there, since the supervisor left it when it was killed; else each daemon is asked
 * get_default_active_thread_percentage through the control program, as NVIDIA's plugin does once at its start, and again every
 * 10 s. Of those only "ready" and "fault" are known, and the tier is default. Where none of them answers there is no status.
 *
 * Requests have a deadline of 30 s. A supervisor that is silent for that long, though it is pinged, is one that is not there.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/wire/status.h"
#include "share/mps_wanted.h"

struct mps_link;

struct mps_link_options {
        uv_loop_t *loop;
        const char *directory; /* the MPS root as mounted here */
        const char *control;   /* for the question to NVIDIA's daemons */
        uint64_t retry_ms;     /* 0: 1,000 */
        /* A new snapshot, or NULL with the reason: nobody is there. Borrowed until the next call. */
        void (*on_status)(const struct mps_status *status, const char *reason, void *data);
        void *data;
};

int mps_link_new(struct mps_link **ret, const struct mps_link_options *options, struct error *err) MUST_USE;
void mps_link_close(struct mps_link *link, void (*closed)(void *data), void *data);

/*
 * What is wanted from now on; copied, and said again at each new connection. A supervisor that has a plan of its own, as
 * mps-control-daemon, does not take it; its status is then told as one of |generation|.
 */
void mps_link_apply(struct mps_link *link, const struct mps_wanted *wanted, uint64_t generation);

/*
 * All that is granted at this moment (mps_supervisor_hold()), said with what is wanted, now and at each new connection, then with
 * what was granted and released since; copied. |allocations| NULL, or more of them than MPS_HOLD_MAX: the caller cannot tell, and
 * nothing is said of it until he can.
 */
void mps_link_hold(struct mps_link *link, const struct mps_allocation_request *allocations, size_t n_allocations);

/* Nothing is wanted any more, and nothing is said again: another agent says it. The status is still told. */
void mps_link_forget(struct mps_link *link);

/*
 * ERROR_UNAVAILABLE when nobody is there, ERROR_UNSUPPORTED where the daemons are NVIDIA's. Called back exactly once, from the
 * loop, at the latest while the link closes.
 */
void mps_link_allocation(
        struct mps_link *link, const struct mps_allocation_request *request, mps_granted_fn *done, void *data);
void mps_link_release(struct mps_link *link, const char *id, mps_done_fn *done, void *data);
void mps_link_terminate(struct mps_link *link, const char *daemon, pid_t client, const char *container_id,
        mps_done_fn *done, void *data);
