/*
 * The supervisor's end of <root>/warpshare.sock: tells whoever watches, and takes requests (mps/wire/message.h).
 *
 * Only processes of root, or of our own user, are heard. A peer that reads slowly costs nobody else anything: of several
 * changes it gets the last one, and what it leaves unread is bounded. The caller holds the lock of the root (io/lock.h), so a
 * socket that is there already is one that a process before us left, and is replaced.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/supervisor/supervisor.h"

#define MPS_LISTENER_CLIENTS_MAX ((size_t)64)
#define MPS_LISTENER_CALLS_MAX ((size_t)64) /* that one client may have open */

struct mps_listener;

struct mps_listener_options {
        uv_loop_t *loop;
        const char *root;
        struct mps_supervisor *supervisor; /* outlives the listener, or ends with it */
        const char *own_plan;              /* NULL: clients say what is wanted; else why they are refused, copied */
};

int mps_listener_new(struct mps_listener **ret, const struct mps_listener_options *options, struct error *err) MUST_USE;

/* mps_supervisor_status() says something new. */
void mps_listener_changed(struct mps_listener *listener);

/* Removes the socket. The supervisor is not touched any more. |closed| is called from the loop. */
void mps_listener_close(struct mps_listener *listener, void (*closed)(void *data), void *data);
