// SPDX-License-Identifier: Apache-2.0
/*
 * A unix stream socket with lines both ways, for both ends: who connects, and who was connected to. It knows nothing of
 * what the lines say.
 *
 * Everything is bounded: a longer line than |line_limit| ends the connection, and so does a peer that leaves more than
 * |unsent_limit| bytes unread. The owner closes; no callback comes after that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

struct lines;

struct lines_options {
        size_t line_limit;   /* bytes, without the newline */
        size_t unsent_limit; /* bytes that wait for the peer */
        /* |line| has neither a newline nor a terminating zero, and is valid in the call. The callback may close. */
        void (*on_line)(const char *line, size_t length, void *data);
        /* The kernel has taken all of lines_send() now, after a time in which it had not. May be NULL. */
        void (*on_sent)(void *data);
        /*
         * The connection cannot be used any more. Called once, from the loop; the owner closes. A line without a
         * newline is lost.
         */
        void (*on_end)(const struct error *reason, void *data);
        void *data;
};

int lines_connect(struct lines **ret, uv_loop_t *loop, const char *path, const struct lines_options *options,
        struct error *err) MUST_USE;
/* To be called from the callback of uv_listen(). */
int lines_accept(
        struct lines **ret, uv_stream_t *listener, const struct lines_options *options, struct error *err) MUST_USE;

/* |text| has its newline. Never calls back. */
void lines_send(struct lines *lines, const char *text, size_t length);
/* Something waits for the peer to read. */
bool lines_is_sending(const struct lines *lines);
/* The user who connected, as the kernel recorded it; (uid_t)-1 when it does not say. */
uid_t lines_peer(const struct lines *lines);

/* The memory goes when the loop has closed the handle. Accepts NULL, returns NULL. */
struct lines *lines_close(struct lines *lines);
