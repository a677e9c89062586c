// SPDX-License-Identifier: Apache-2.0
/*
 * Private to mps/client/link: control daemons that Warpshare's supervisor did not start, for example those of NVIDIA's
 * container. A round asks each wanted daemon in turn for get_default_active_thread_percentage through the control
 * program, and makes a status of the answers.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

#define MPS_EXTERNAL_MS UINT64_C(10000) /* between the starts of two rounds */

struct mps_external;

struct mps_external_options {
        uv_loop_t *loop;
        const char *directory; /* as in mps/client/link.h */
        const char *control;
        /*
         * A round ended. The receiver owns |status|. NULL: no daemon answered; |reason| says why the first one did not.
         */
        void (*on_round)(struct mps_status *status, const char *reason, void *data);
        void *data;
};

struct mps_external *mps_external_new(const struct mps_external_options *options); /* copies */
/* |on_round| is not called after this. */
struct mps_external *mps_external_free(struct mps_external *external);

/* |wanted| stays the caller's until the next call. Stops the current round; the next poll starts a new one. */
void mps_external_want(struct mps_external *external, const struct mps_wanted *wanted, uint64_t generation);
bool mps_external_wants_any(const struct mps_external *external);

/* Starts a round, unless one is running or the interval has not passed. */
void mps_external_poll(struct mps_external *external);
/* Stops the current round; the next poll starts a new one. */
void mps_external_stop(struct mps_external *external);
