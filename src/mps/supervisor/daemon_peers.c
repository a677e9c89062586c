/*
 * Closes connections that keep a daemon from serving others (supervisor/peer.h).
 *
 * The search for blocking connections starts when an answer takes longer than MPS_SLOW_MS. It goes on until no
 * connection blocks the daemon, even if the supervisor has no question of its own, because clients wait behind the same
 * connections. A front end that occupies the daemon looks like any other connection, so connections are closed one by
 * one until a question is answered; those of known clients come last.
 */
#include "mps/supervisor/daemon_parts.h"

#include <stdlib.h>

#include "base/log.h"

#define PATIENCE_MS UINT64_C(2000)
#define POLL_MS UINT64_C(50)
#define BRIEF_POLL_MS UINT64_C(10)
#define REFUSED_GAP_MS UINT64_C(250) /* refusals with more time between them come from different front ends */
#define IDLE_POLLS 20U               /* after so many in a row the search ends */

static const struct peer_patience patience = {.first_ms = PATIENCE_MS, .again_ms = 20};

/* Reported once for all blocking connections that follow each other. */
static void report_closed(struct mps_run *run, const char *who)
{
        if (run->closed_peers++)
                return;
        log_warn("MPS daemon", LOG_STR("name", run->name), LOG_STR("notice", who));
        run_set_text(&run->notice, xstrdup(who));
        run_set_text(&run->drift, xstrdup(who));
        run->drift_polls = RUN_DRIFT_POLLS;
        run_notify(run, false);
}

static void on_peers(uv_timer_t *timer)
{
        struct mps_run *run = timer->data;
        uint64_t pause = run->closed_peers ? BRIEF_POLL_MS : POLL_MS;
        _free_ char *who = NULL;
        enum peer_found found = PEER_NONE;

        if (run->launch)
                found = peer_poll(&run->peer, mps_launch_pid(run->launch), mps_launch_start_time(run->launch),
                        uv_now(timer->loop), &patience, &who);
        run->idle_polls = found == PEER_NONE ? run->idle_polls + 1 : 0;
        if (found == PEER_CLOSED) {
                pause = 1;
                report_closed(run, who);
        }
        if (run->idle_polls == IDLE_POLLS)
                run->closed_peers = 0;
        else
                uv_timer_start(timer, on_peers, pause, 0);
}

void run_on_slow_answer(void *data)
{
        struct mps_run *run = data;

        run->idle_polls = 0;
        if (!uv_is_active((uv_handle_t *)&run->peers))
                uv_timer_start(&run->peers, on_peers, 0, 0);
}

/* ---- front ends ---- */

static unsigned int rank(pid_t pid, void *data)
{
        const struct mps_run *run = data;

        for (size_t i = 0; run->seen && i < run->seen->n_clients; i++)
                if (run->seen->clients[i].pid == pid)
                        return 2;
        return mps_journal_names(run->journal, pid) ? 1 : 0;
}

void run_on_refused_question(void *data)
{
        struct mps_run *run = data;
        const uint64_t now = uv_now(run->context->loop);
        _free_ char *who = NULL;

        if (now - run->refused_at > REFUSED_GAP_MS)
                run->refused_since = now;
        run->refused_at = now;
        if (!run->launch || now - run->refused_since < PATIENCE_MS)
                return;
        mps_journal_read(run->journal); /* for rank() */
        if (!peer_close_one(mps_launch_pid(run->launch), mps_launch_start_time(run->launch), rank, run, &who))
                return;
        report_closed(run, who);
        run_on_slow_answer(run);
}
