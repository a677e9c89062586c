/*
 * Private to mps/client/link: control daemons that are not ours, as those of NVIDIA's container. Each wanted daemon is asked
 * get_default_active_thread_percentage through the control program, one after the other, which is a round; a status is made of
 * the answers.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/wire/status.h"
#include "share/mps_wanted.h"

#define MPS_EXTERNAL_MS UINT64_C(10000) /* between the beginnings of two rounds */

struct mps_external;

struct mps_external_options {
        uv_loop_t *loop;
        const char *directory; /* as in mps/client/link.h */
        const char *control;
        /* A round ended. |status| is the receiver's; NULL: nobody answered, and |reason| says why the first one did not. */
        void (*on_round)(struct mps_status *status, const char *reason, void *data);
        void *data;
};

struct mps_external *mps_external_new(const struct mps_external_options *options); /* copies */
/* |on_round| is not called any more. */
struct mps_external *mps_external_free(struct mps_external *external);

/* Copied. What was begun is stopped, and the next look is a round. */
void mps_external_want(struct mps_external *external, const struct mps_wanted *wanted, uint64_t generation);
bool mps_external_wants_any(const struct mps_external *external);

/* Begins a round, unless one is under way or it is too early. */
void mps_external_poll(struct mps_external *external);
/* What was begun is stopped, and the next look is a round. */
void mps_external_stop(struct mps_external *external);
