/*
 * Requests to the MPS supervisor that wait for their answer. Each is answered once, from the loop: as the supervisor
 * answers, with an error when the connection ends or the deadline passes, or with what is known without asking. It
 * knows no connection; mps/client/link.h sends them.
 */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "mps/client/link.h"
#include "mps/wire/message.h"

struct mps_requests {
        struct list list; /* by deadline; what was not sent, or has failed, has one that is over */
        uv_timer_t timer; /* its owner closes it; |data| is the owner's */
};

/* The callback of a request: one of the two is set, or none. */
struct mps_asker {
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

void mps_requests_init(struct mps_requests *requests, uv_loop_t *loop);

/* It has been sent with |id|, not 0, which no other that waits has. */
void mps_requests_await(struct mps_requests *requests, const struct mps_asker *asker, uint64_t id);
/* It is not sent; |err| of kind ERROR_NONE is a success. */
void mps_requests_answer_later(struct mps_requests *requests, const struct mps_asker *asker, const struct error *err);

/* The supervisor's answer; it is ignored if no request waits for it. */
void mps_requests_take(struct mps_requests *requests, const struct mps_answer *answer);
/* The supervisor will answer none that was sent. */
void mps_requests_fail(struct mps_requests *requests, const struct error *err);
/* Answers all at once: what was sent with |err|. The timer was closed. */
void mps_requests_end(struct mps_requests *requests, const struct error *err);
