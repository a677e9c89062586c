// SPDX-License-Identifier: Apache-2.0
/*
 * The supervisor's side of <root>/warpshare.sock: sends the status to clients that watch, and takes requests
 * (mps/wire/message.h).
 *
 * Only processes of root or of our own user are accepted. A slow reader does not affect others: of several changes it
 * gets only the last one, and its unread data is bounded. The caller holds the lock of the root (base/io/lock.h), so an
 * existing socket was left by an earlier process and is replaced.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/supervisor/supervisor.h"

#define MPS_LISTENER_CLIENTS_MAX ((size_t)64)
#define MPS_LISTENER_CALLS_MAX ((size_t)64) /* open requests of one client */

struct mps_listener;

struct mps_listener_options {
        uv_loop_t *loop;
        const char *root;
        struct mps_supervisor *supervisor; /* must live as long as the listener */
        const char *own_plan;              /* NULL: clients may apply wanted daemons; otherwise the reason for the
                                            * refusal, copied */
};

int mps_listener_new(struct mps_listener **ret, const struct mps_listener_options *options, struct error *err) MUST_USE;

/* Call it when mps_supervisor_status() has changed. */
void mps_listener_changed(struct mps_listener *listener);

/* Removes the socket. The supervisor is not used after this call. |closed| is called from the loop. */
void mps_listener_close(struct mps_listener *listener, void (*closed)(void *data), void *data);
