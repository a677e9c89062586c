// SPDX-License-Identifier: Apache-2.0
/*
 * A call is a request that the supervisor answers later. It keeps its client while that is connected; an answer that
 * comes after the client has left is dropped.
 */
#include "mps/supervisor/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/io/lines.h"
#include "base/io/unix_socket.h"
#include "mps/supervisor/allocations.h"
#include "mps/wire/message.h"

#define BACKLOG 16

struct mps_listener {
        uv_pipe_t pipe;
        struct mps_supervisor *supervisor;
        char *own_plan;
        char *path;
        dev_t device; /* inode of the socket file that was bound */
        ino_t inode;
        struct list clients;
        size_t n_clients;
        char *status; /* the status line for clients that watch; NULL: must be made */
        void (*closed)(void *data);
        void *data;
};

struct client {
        struct list in_listener;
        struct mps_listener *listener;
        struct lines *lines;
        struct list calls;
        size_t n_calls;
        bool watches;
        bool is_behind; /* has not been sent the newest status */
};

struct call {
        struct list in_client;
        struct client *client; /* NULL: gone */
        uint64_t id;
};

/* ---- answers ---- */

static void listener_send_text(struct client *client, const char *text)
{
        lines_send(client->lines, text, strlen(text));
}

static void send_answer(
        struct client *client, uint64_t id, const struct error *err, const struct mps_allocation *allocation)
{
        struct mps_answer answer = {.id = id, .ok = !err, .has_allocation = !err && allocation};
        _free_ char *text = NULL;

        if (err)
                answer.error = *err;
        if (answer.has_allocation)
                answer.allocation = *allocation;
        text = mps_answer_write(&answer);
        listener_send_text(client, text);
}

static void end_call(struct call *call, const struct error *err, const struct mps_allocation *allocation)
{
        if (call->client) {
                send_answer(call->client, call->id, err, allocation);
                call->client->n_calls--;
        }
        list_remove(&call->in_client);
        free(call);
}

static void on_listener_done(const struct error *err, void *data)
{
        end_call(data, err, NULL);
}

static void on_granted(const struct error *err, const struct mps_allocation *allocation, void *data)
{
        end_call(data, err, allocation);
}

static struct call *new_call(struct client *client, uint64_t id)
{
        struct call *call = xcalloc(1, sizeof(*call));

        call->client = client;
        call->id = id;
        list_append(&client->calls, &call->in_client);
        client->n_calls++;
        return call;
}

/* ---- the status ---- */

static const char *status_text(struct mps_listener *listener)
{
        struct mps_answer answer = {.is_status = true};

        if (!listener->status) {
                /* The status is only read here, though the answer that a reader parses owns its status. */
                answer.status = (struct mps_status *)(uintptr_t)mps_supervisor_status(listener->supervisor);
                listener->status = mps_answer_write(&answer);
        }
        return listener->status;
}

static void listener_send_status(struct client *client)
{
        client->is_behind = lines_is_sending(client->lines);
        if (!client->is_behind)
                listener_send_text(client, status_text(client->listener));
}

static void on_sent(void *data)
{
        struct client *client = data;

        if (client->is_behind)
                listener_send_status(client);
}

void mps_listener_changed(struct mps_listener *listener)
{
        free(TAKE_PTR(listener->status));
        LIST_FOR_EACH(in_listener, &listener->clients) {
                struct client *client = container_of(in_listener, struct client, in_listener);

                if (client->watches)
                        listener_send_status(client);
        }
}

/* ---- requests ---- */

static void listener_apply(struct client *client, const struct mps_request *request)
{
        struct mps_listener *listener = client->listener;
        struct error err;

        mps_supervisor_name_holders(listener->supervisor, request->holders, request->n_holders);
        if (request->has_allocations) /* the client that applies the wanted daemons */
                mps_allocations_hold(
                        mps_supervisor_allocations(listener->supervisor), request->allocations, request->n_allocations);
        if (listener->own_plan) {
                error_raise(&err, ERROR_UNSUPPORTED, "%s", listener->own_plan);
                send_answer(client, request->id, &err, NULL);
        } else if (mps_supervisor_apply(listener->supervisor, &request->wanted, request->generation, &err) < 0) {
                log_warn("a request of the agent is refused", LOG_ERR(&err));
                send_answer(client, request->id, &err, NULL);
        } else {
                send_answer(client, request->id, NULL, NULL);
        }
}

/* The status comes before the answer, also to a slow reader. */
static void listener_look(struct client *client)
{
        mps_supervisor_look(client->listener->supervisor);
        free(TAKE_PTR(client->listener->status));
        if (client->watches)
                listener_send_text(client, status_text(client->listener));
}

/* Requests that the supervisor answers later, though its callback may come at once. */
static void call_supervisor(struct client *client, const struct mps_request *request)
{
        struct mps_allocations *allocations = mps_supervisor_allocations(client->listener->supervisor);
        struct error err;
        struct call *call;

        if (client->n_calls >= MPS_LISTENER_CALLS_MAX) {
                error_raise(
                        &err, ERROR_UNAVAILABLE, "%zu requests of this connection are open already", client->n_calls);
                send_answer(client, request->id, &err, NULL);
                return;
        }
        call = new_call(client, request->id);
        if (request->kind == MPS_REQUEST_ALLOCATION)
                mps_allocations_make(allocations, &request->allocation, on_granted, call);
        else if (request->kind == MPS_REQUEST_RELEASE)
                mps_allocations_release(allocations, request->allocation.id, on_listener_done, call);
        else
                mps_allocations_terminate(
                        allocations, request->daemon, request->client, request->container_id, on_listener_done, call);
}

static void listener_carry_out(struct client *client, const struct mps_request *request)
{
        switch (request->kind) {
        case MPS_REQUEST_WATCH:
                client->watches = true;
                listener_send_status(client);
                break;
        case MPS_REQUEST_PING:
                if (request->is_look)
                        listener_look(client);
                send_answer(client, request->id, NULL, NULL);
                break;
        case MPS_REQUEST_APPLY:
                listener_apply(client, request);
                break;
        case MPS_REQUEST_ALLOCATION:
        case MPS_REQUEST_RELEASE:
        case MPS_REQUEST_TERMINATE:
                call_supervisor(client, request);
                break;
        }
}

/* ---- clients ---- */

static void drop_client(struct client *client)
{
        while (!list_is_empty(&client->calls)) {
                struct call *call = container_of(client->calls.next, struct call, in_client);

                call->client = NULL;
                list_remove(&call->in_client);
        }
        lines_close(client->lines);
        list_remove(&client->in_listener);
        client->listener->n_clients--;
        free(client);
}

static void on_listener_line(const char *line, size_t length, void *data)
{
        struct client *client = data;
        struct arena arena = ARENA_INIT;
        struct mps_request request;
        struct error err;

        if (mps_request_read(&request, &arena, line, length, &err) < 0) {
                log_warn("a connection to the MPS socket is closed", LOG_ERR(&err));
                drop_client(client);
        } else {
                listener_carry_out(client, &request);
        }
        arena_done(&arena);
}

static void on_listener_end(const struct error *reason, void *data)
{
        log_debug("a connection to the MPS socket ended", LOG_ERR(reason));
        drop_client(data);
}

static bool is_welcome(const struct mps_listener *listener, const struct lines *lines)
{
        uid_t peer = lines_peer(lines);

        if (listener->n_clients >= MPS_LISTENER_CLIENTS_MAX) {
                log_warn("a connection to the MPS socket is closed: too many are open");
                return false;
        }
        if (peer == 0 || peer == geteuid())
                return true;
        log_warn("a connection to the MPS socket is closed: only root may ask", LOG_UINT("uid", peer));
        return false;
}

static void listener_on_connection(uv_stream_t *stream, int status)
{
        struct mps_listener *listener = container_of(stream, struct mps_listener, pipe);
        struct client *client = xcalloc(1, sizeof(*client));
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = 2 * MPS_MESSAGE_MAX,
                .on_line = on_listener_line,
                .on_sent = on_sent,
                .on_end = on_listener_end,
                .data = client,
        };
        struct error err;

        if (status < 0 || lines_accept(&client->lines, stream, &options, &err) < 0) {
                free(client); /* out of descriptors, or the client left before it was accepted; libuv keeps listening */
                return;
        }
        if (!is_welcome(listener, client->lines)) {
                lines_close(client->lines);
                free(client);
                return;
        }
        client->listener = listener;
        list_init(&client->calls);
        list_append(&listener->clients, &client->in_listener);
        listener->n_clients++;
}

/* ---- start and end ---- */

static void on_listener_closed(uv_handle_t *handle)
{
        struct mps_listener *listener = container_of(handle, struct mps_listener, pipe);

        if (listener->closed)
                listener->closed(listener->data);
        free(listener->status);
        free(listener->own_plan);
        free(listener->path);
        free(listener);
}

/* Removes only our own socket: another supervisor may have created one of the same name. */
static void listener_remove_socket(const struct mps_listener *listener)
{
        struct stat status;

        if (listener->inode != 0 && lstat(listener->path, &status) == 0 && status.st_dev == listener->device &&
                status.st_ino == listener->inode)
                unlink(listener->path);
}

void mps_listener_close(struct mps_listener *listener, void (*closed)(void *data), void *data)
{
        listener->closed = closed;
        listener->data = data;
        listener_remove_socket(listener);
        while (!list_is_empty(&listener->clients))
                drop_client(container_of(listener->clients.next, struct client, in_listener));
        uv_close((uv_handle_t *)&listener->pipe, on_listener_closed);
}

static int listener_listen_on(struct mps_listener *listener, struct error *err)
{
        struct stat status;
        _close_ int fd = -1;
        int rc;

        if (unix_socket_bind(&fd, listener->path, 0600, err) < 0)
                return -1;
        if (lstat(listener->path, &status) < 0)
                return error_errno(err, errno, "inspect '%s'", listener->path);
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
        rc = uv_pipe_open(&listener->pipe, fd);
        if (rc == 0) {
                TAKE_FD(fd);
                rc = uv_listen((uv_stream_t *)&listener->pipe, BACKLOG, listener_on_connection);
        }
        if (rc < 0)
                return error_errno(err, -rc, "listen on '%s'", listener->path);
        return 0;
}

int mps_listener_new(struct mps_listener **ret, const struct mps_listener_options *options, struct error *err)
{
        struct mps_listener *listener = xcalloc(1, sizeof(*listener));

        listener->supervisor = options->supervisor;
        listener->own_plan = options->own_plan ? xstrdup(options->own_plan) : NULL;
        listener->path = xasprintf("%s/" MPS_SOCKET, options->root);
        list_init(&listener->clients);
        uv_pipe_init(options->loop, &listener->pipe, 0);
        if (listener_listen_on(listener, err) < 0) {
                mps_listener_close(listener, NULL, NULL);
                return -1;
        }
        *ret = listener;
        return 0;
}
