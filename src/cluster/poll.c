#include "cluster/poll.h"

#include "base/alloc.h"

static void poll_run_turns(struct poll *poll);

/* Up to a tenth of the interval earlier, so that agents whose turns came together do not stay together. */
static void turn_rest(struct poll_turn *turn, bool is_good)
{
        const struct poll_options *options = &turn->poll->options;
        const uint64_t now = uv_now(turn->poll->timer.loop);

        if (options->interval_ms == 0) {
                turn->due_ms = POLL_NEVER;
        } else if (is_good) {
                turn->backoff.failures = 0;
                turn->due_ms = now + options->interval_ms - backoff_random() % (options->interval_ms / 10 + 1);
        } else {
                turn->due_ms = now + MAX(backoff_next(&turn->backoff, 0, backoff_random()), options->interval_ms / 2);
        }
}

static void on_poll_answer(const struct kube_answer *answer, void *data)
{
        struct poll_turn *turn = data;
        struct poll *poll = turn->poll;
        bool is_good;

        turn->call = NULL;
        poll->n_asked--;
        turn->due_ms = POLL_NEVER;
        is_good = poll->options.on_answer(turn, answer, poll->options.data);
        if (turn->poll) /* it was not removed */
                turn_rest(turn, is_good);
        poll_run_turns(poll);
}

static void turn_ask(struct poll_turn *turn)
{
        struct poll *poll = turn->poll;
        _free_ char *path = poll->options.path(turn, poll->options.data);

        poll->n_asked++;
        turn->call = kube_client_send(poll->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                    .path = path,
                                                                    .query = poll->options.query,
                                                                    .is_text = true,
                                                                    .timeout_ms = poll->options.deadline_ms,
                                                                    .done = on_poll_answer,
                                                                    .data = turn});
}

/* The turn that is due first, among those that are not asked now; NULL: none ever is. */
static struct poll_turn *next_turn(const struct poll *poll)
{
        struct poll_turn *next = NULL;

        LIST_FOR_EACH(link, &poll->turns) {
                struct poll_turn *turn = container_of(link, struct poll_turn, link);

                if (!turn->call && turn->due_ms != POLL_NEVER && (!next || turn->due_ms < next->due_ms))
                        next = turn;
        }
        return next;
}

static void on_poll_timer(uv_timer_t *timer)
{
        poll_run_turns(container_of(timer, struct poll, timer));
}

static void poll_run_turns(struct poll *poll)
{
        struct poll_turn *turn;

        if (uv_is_closing((uv_handle_t *)&poll->timer))
                return;
        uv_timer_stop(&poll->timer);
        while (poll->n_asked < poll->options.parallel && (turn = next_turn(poll))) {
                const uint64_t now = uv_now(poll->timer.loop);

                if (turn->due_ms > now) {
                        uv_timer_start(&poll->timer, on_poll_timer, turn->due_ms - now + 1, 0);
                        break;
                }
                turn_ask(turn);
        }
}

void poll_init(struct poll *poll, const struct poll_options *options)
{
        *poll = (struct poll){.options = *options};
        list_init(&poll->turns);
        uv_timer_init(kube_client_loop(options->client), &poll->timer);
}

void poll_close(struct poll *poll, struct closing *closing)
{
        while (!list_is_empty(&poll->turns))
                poll_remove(container_of(poll->turns.next, struct poll_turn, link));
        closing_close(closing, &poll->timer);
}

/*
 * By the timer, so that who adds many in one turn of the loop is not called back, and the first are not asked before
 * the others.
 */
static void poll_wake(struct poll *poll)
{
        uv_timer_start(&poll->timer, on_poll_timer, 0, 0);
}

void poll_add(struct poll *poll, struct poll_turn *turn)
{
        turn->poll = poll;
        turn->due_ms = uv_now(poll->timer.loop);
        turn->backoff = (struct backoff){.least_ms = poll->options.wait_ms, .most_ms = poll->options.wait_limit_ms};
        list_append(&poll->turns, &turn->link);
        poll_wake(poll);
}

void poll_remove(struct poll_turn *turn)
{
        struct poll *poll = turn->poll;

        if (!poll)
                return;
        if (turn->call) {
                turn->call = kube_call_cancel(turn->call);
                poll->n_asked--;
        }
        list_remove(&turn->link);
        turn->poll = NULL;
        if (!uv_is_closing((uv_handle_t *)&poll->timer))
                poll_wake(poll);
}
