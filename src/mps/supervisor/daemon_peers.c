#include "mps/supervisor/daemon_peers.h"

#include "base/alloc.h"

#define PATIENCE_MS UINT64_C(2000)
#define POLL_MS UINT64_C(50)
#define BRIEF_POLL_MS UINT64_C(10)
#define REFUSED_GAP_MS UINT64_C(250) /* refusals with more time between them come from different front ends */
#define IDLE_POLLS 20U               /* after so many in a row the search ends */

static const struct peer_patience patience = {.first_ms = PATIENCE_MS, .again_ms = 20};

/* Takes |who|. Reported once for all blocking connections that follow each other. */
static void report_closed(struct daemon_peers *peers, char *who)
{
        if (peers->n_closed++)
                free(who);
        else
                peers->closed(who, peers->data);
}

static void on_peers(uv_timer_t *timer)
{
        struct daemon_peers *peers = container_of(timer, struct daemon_peers, timer);
        uint64_t pause = peers->n_closed ? BRIEF_POLL_MS : POLL_MS;
        enum peer_found found = PEER_NONE;
        char *who = NULL;

        if (peers->pid)
                found = peer_poll(&peers->wait, peers->pid, peers->start_time, uv_now(timer->loop), &patience, &who);
        peers->n_idle = found == PEER_NONE ? peers->n_idle + 1 : 0;
        if (found == PEER_CLOSED) {
                pause = 1;
                report_closed(peers, who);
        }
        if (peers->n_idle == IDLE_POLLS)
                peers->n_closed = 0;
        else
                uv_timer_start(timer, on_peers, pause, 0);
}

void daemon_peers_on_slow(struct daemon_peers *peers)
{
        peers->n_idle = 0;
        if (!uv_is_active((uv_handle_t *)&peers->timer))
                uv_timer_start(&peers->timer, on_peers, 0, 0);
}

void daemon_peers_on_refused(struct daemon_peers *peers)
{
        const uint64_t now = uv_now(peers->timer.loop);
        char *who;

        if (now - peers->refused_at > REFUSED_GAP_MS)
                peers->refused_since = now;
        peers->refused_at = now;
        if (!peers->pid || now - peers->refused_since < PATIENCE_MS ||
                !peer_close_one(peers->pid, peers->start_time, peers->rank, peers->data, &who))
                return;
        report_closed(peers, who);
        daemon_peers_on_slow(peers);
}

bool daemon_peers_are_blocking(const struct daemon_peers *peers)
{
        return peers->n_closed > 0;
}

void daemon_peers_init(struct daemon_peers *peers, uv_loop_t *loop, peer_rank_fn *rank,
        void (*closed)(char *who, void *data), void *data)
{
        *peers = (struct daemon_peers){.rank = rank, .closed = closed, .data = data};
        uv_timer_init(loop, &peers->timer);
}

void daemon_peers_follow(struct daemon_peers *peers, pid_t pid, uint64_t start_time)
{
        peers->pid = pid;
        peers->start_time = start_time;
}

void daemon_peers_close(struct daemon_peers *peers, struct closing *closing)
{
        peer_wait_done(&peers->wait);
        closing_close(closing, &peers->timer);
}
