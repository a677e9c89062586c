// SPDX-License-Identifier: Apache-2.0
#include "net/rpc/link.h"

#include <sys/socket.h>

void rpc_link_init(
        struct rpc_link *link, struct rpc_session *session, const struct rpc_link_events *events, uint8_t *buffer)
{
        link->session = session;
        link->events = events;
        link->buffer = buffer;
}

int64_t rpc_link_now(const uv_loop_t *loop)
{
        return (int64_t)uv_now(loop);
}

/* ---- the end ---- */

static void on_rpc_link_closed(uv_handle_t *handle)
{
        struct rpc_link *link = container_of(handle, struct rpc_link, pipe);

        link->session = rpc_session_free(link->session);
        link->events->closed(link);
}

void rpc_link_close(struct rpc_link *link)
{
        if (link->is_closing)
                return;
        link->is_closing = true;
        uv_close((uv_handle_t *)&link->pipe, on_rpc_link_closed);
}

static void link_end(struct rpc_link *link, const struct error *reason)
{
        if (link->is_over || link->is_closing)
                return;
        link->is_over = true;
        uv_read_stop((uv_stream_t *)&link->pipe);
        link->events->over(link, reason);
}

void rpc_link_settle(struct rpc_link *link)
{
        struct error reason;

        if (link->is_closing || link->is_leaving || link->is_writing || !rpc_session_is_finished(link->session))
                return;
        if (!rpc_session_why(link->session, &reason))
                error_set(&reason, ERROR_UNAVAILABLE, "the connection was ended in order");
        link_end(link, &reason);
}

/* ---- writing ---- */

static void end_writing_if_leaving(const struct rpc_link *link)
{
        uv_os_fd_t fd;

        if (link->is_leaving && !link->is_writing && uv_fileno((const uv_handle_t *)&link->pipe, &fd) == 0)
                shutdown(fd, SHUT_WR);
}

static void on_link_written(uv_write_t *write, int status)
{
        struct rpc_link *link = container_of(write, struct rpc_link, write);

        link->is_writing = false;
        if (status < 0)
                return; /* the reading side gets the error as well, and reports it */
        rpc_link_flush(link);
        end_writing_if_leaving(link);
        rpc_link_settle(link);
}

void rpc_link_flush(struct rpc_link *link)
{
        uv_stream_t *stream = (uv_stream_t *)&link->pipe;
        const uint8_t *bytes;
        size_t size;

        if (link->is_busy || link->is_closing)
                return;
        link->is_busy = true;
        while (!link->is_writing && !link->is_closing && (size = rpc_session_pending(link->session, &bytes)) > 0) {
                uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned int)size);
                int written = uv_try_write(stream, &buffer, 1);

                if (written == (int)size)
                        continue;
                if (written > 0) {
                        buffer.base += written;
                        buffer.len -= (size_t)written;
                }
                /* The session keeps the bytes until it is asked for the next, so they need no copy. */
                if (written >= 0 || written == UV_EAGAIN)
                        link->is_writing = uv_write(&link->write, stream, &buffer, 1, on_link_written) == 0;
                if (!link->is_writing)
                        break;
        }
        link->is_busy = false;
}

void rpc_link_leave(struct rpc_link *link)
{
        rpc_link_flush(link);
        link->is_leaving = true;
        end_writing_if_leaving(link);
}

/* ---- reading ---- */

static void link_on_allocate(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buffer)
{
        struct rpc_link *link = container_of(handle, struct rpc_link, pipe);

        *buffer = uv_buf_init((char *)link->buffer, RPC_LINK_BUFFER_SIZE);
}

static void on_link_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
        struct rpc_link *link = container_of(stream, struct rpc_link, pipe);
        struct error err;
        int r;

        if (size == 0 || link->is_closing)
                return;
        if (size < 0) {
                if (size == UV_EOF && !rpc_session_why(link->session, &err)) /* a GOAWAY has said more */
                        error_set(&err, ERROR_UNAVAILABLE, "the peer closed the connection");
                else if (size != UV_EOF)
                        error_errno(&err, (int)-size, "read");
                link_end(link, &err);
                return;
        }
        if (link->is_leaving)
                return;
        link->is_busy = true;
        r = rpc_session_receive(
                link->session, (const uint8_t *)buffer->base, (size_t)size, rpc_link_now(stream->loop), &err);
        link->is_busy = false;
        rpc_link_flush(link); /* after an error too: the GOAWAY that says why */
        if (r < 0) {
                link_end(link, &err);
                return;
        }
        if (!link->is_closing)
                link->events->moved(link);
        rpc_link_settle(link);
}

int rpc_link_start(struct rpc_link *link, struct error *err)
{
        int r = uv_read_start((uv_stream_t *)&link->pipe, link_on_allocate, on_link_read);

        if (r < 0)
                return error_errno(err, -r, "read from the socket");
        rpc_link_flush(link);
        return 0;
}

void rpc_link_expire(struct rpc_link *link, int64_t now_ms)
{
        if (link->is_closing)
                return;
        link->is_busy = true;
        rpc_session_expire(link->session, now_ms);
        link->is_busy = false;
        rpc_link_flush(link);
}
