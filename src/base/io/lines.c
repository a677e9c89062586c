// SPDX-License-Identifier: Apache-2.0
#include "base/io/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/io/unix_socket.h"

#define READ_SIZE ((size_t)16 * 1024)

struct lines {
        uv_pipe_t pipe;
        uv_write_t write;
        struct lines_options options;
        struct strbuf in;
        size_t searched; /* bytes of |in| that are known to contain no newline */
        struct strbuf out;
        struct strbuf flight; /* what |write| holds */
        bool is_writing;
        bool is_closing;
        struct error reason; /* why it was broken off on this side; kind ERROR_NONE: it was not */
};

static struct lines *lines_of(void *handle)
{
        return container_of(handle, struct lines, pipe);
}

/* ---- the end ---- */

static void on_lines_closed(uv_handle_t *handle)
{
        struct lines *lines = lines_of(handle);

        strbuf_done(&lines->in);
        strbuf_done(&lines->out);
        strbuf_done(&lines->flight);
        free(lines);
}

struct lines *lines_close(struct lines *lines)
{
        if (lines && !lines->is_closing) {
                lines->is_closing = true;
                uv_close((uv_handle_t *)&lines->pipe, on_lines_closed);
        }
        return NULL;
}

static void lines_end(struct lines *lines, const struct error *reason)
{
        uv_read_stop((uv_stream_t *)&lines->pipe);
        lines->options.on_end(lines->reason.kind != ERROR_NONE ? &lines->reason : reason, lines->options.data);
}

/*
 * The reading side then sees the end of the connection, from the loop. So a sender is never called back while it sends.
 */
static void lines_break_off(struct lines *lines, const struct error *reason)
{
        int fd;

        if (lines->reason.kind != ERROR_NONE)
                return;
        lines->reason = *reason;
        if (uv_fileno((const uv_handle_t *)&lines->pipe, &fd) == 0)
                shutdown(fd, SHUT_RDWR);
}

/* ---- writing ---- */

static void on_lines_written(uv_write_t *write, int status);

static void lines_flush(struct lines *lines)
{
        uv_stream_t *stream = (uv_stream_t *)&lines->pipe;
        struct error err;
        uv_buf_t buffer;
        int rc;

        if (lines->is_writing || lines->out.size == 0)
                return;
        lines->flight = lines->out;
        lines->out = (struct strbuf)STRBUF_INIT;
        buffer = uv_buf_init(lines->flight.data, (unsigned int)lines->flight.size);
        rc = uv_write(&lines->write, stream, &buffer, 1, on_lines_written);
        lines->is_writing = rc == 0;
        if (rc < 0) {
                error_errno(&err, -rc, "write to the socket");
                lines_break_off(lines, &err);
        }
}

static void on_lines_written(uv_write_t *write, int status)
{
        struct lines *lines = container_of(write, struct lines, write);
        struct error err;

        lines->is_writing = false;
        strbuf_done(&lines->flight);
        if (lines->is_closing)
                return;
        if (status < 0) {
                error_errno(&err, -status, "write to the socket");
                lines_break_off(lines, &err);
                return;
        }
        lines_flush(lines);
        if (!lines->is_writing && lines->options.on_sent)
                lines->options.on_sent(lines->options.data);
}

bool lines_is_sending(const struct lines *lines)
{
        return lines->is_writing;
}

void lines_send(struct lines *lines, const char *text, size_t length)
{
        struct error err;

        if (lines->is_closing || lines->reason.kind != ERROR_NONE)
                return;
        if (length > lines->options.unsent_limit - MIN(lines->out.size, lines->options.unsent_limit)) {
                error_set(&err, ERROR_UNAVAILABLE, "the peer does not read: %zu bytes wait for it", lines->out.size);
                lines_break_off(lines, &err);
                return;
        }
        strbuf_append(&lines->out, text, length);
        lines_flush(lines);
}

/* ---- reading ---- */

static void lines_on_allocate(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buffer)
{
        struct lines *lines = lines_of(handle);

        strbuf_reserve(&lines->in, READ_SIZE);
        *buffer = uv_buf_init(lines->in.data + lines->in.size, READ_SIZE);
}

/* Tells the lines that are whole; false when there is nothing more to be done with the connection. */
static bool lines_report_lines(struct lines *lines)
{
        struct strbuf *in = &lines->in;
        size_t reported = 0;
        const char *newline;
        struct error err;

        while ((newline = memchr(in->data + lines->searched, '\n', in->size - lines->searched))) {
                size_t length = (size_t)(newline - in->data) - reported;

                if (length > lines->options.line_limit)
                        break;
                lines->options.on_line(in->data + reported, length, lines->options.data);
                if (lines->is_closing)
                        return false;
                reported += length + 1;
                lines->searched = reported;
        }
        strbuf_consume(in, reported);
        lines->searched = in->size;
        if (in->size <= lines->options.line_limit)
                return true;
        error_set(&err, ERROR_INVALID, "a line of more than %zu bytes", lines->options.line_limit);
        lines_end(lines, &err);
        return false;
}

static void on_lines_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer UNUSED)
{
        struct lines *lines = lines_of(stream);
        struct error err;

        if (size == 0 || lines->is_closing)
                return;
        if (size < 0) {
                if (size == UV_EOF)
                        error_set(&err, ERROR_UNAVAILABLE, "the peer closed the connection");
                else
                        error_errno(&err, (int)-size, "read from the socket");
                lines_end(lines, &err);
                return;
        }
        lines->in.size += (size_t)size;
        lines->in.data[lines->in.size] = '\0';
        if (lines_report_lines(lines) && lines->in.size == 0)
                strbuf_done(&lines->in); /* nothing is kept for a peer that is quiet */
}

/* ---- the start ---- */

/* Takes |lines|, whose handle is initialised; |rc| is how opening it went. */
static int lines_start(struct lines **ret, struct lines *lines, int rc, struct error *err)
{
        if (rc == 0)
                rc = uv_read_start((uv_stream_t *)&lines->pipe, lines_on_allocate, on_lines_read);
        if (rc < 0) {
                lines_close(lines);
                return error_errno(err, -rc, "use the socket");
        }
        *ret = lines;
        return 0;
}

static struct lines *new_lines(uv_loop_t *loop, const struct lines_options *options)
{
        struct lines *lines = xcalloc(1, sizeof(*lines));

        lines->options = *options;
        lines->in = lines->out = lines->flight = (struct strbuf)STRBUF_INIT;
        uv_pipe_init(loop, &lines->pipe, 0);
        return lines;
}

int lines_connect(
        struct lines **ret, uv_loop_t *loop, const char *path, const struct lines_options *options, struct error *err)
{
        struct sockaddr_un address;
        _close_ int fd = -1;
        struct lines *lines;
        int rc;

        if (unix_socket_address(&address, path, err) < 0)
                return -1;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "connect to '%s'", path);
        lines = new_lines(loop, options);
        rc = uv_pipe_open(&lines->pipe, fd);
        if (rc == 0)
                TAKE_FD(fd);
        return lines_start(ret, lines, rc, err);
}

int lines_accept(struct lines **ret, uv_stream_t *listener, const struct lines_options *options, struct error *err)
{
        struct lines *lines = new_lines(listener->loop, options);

        return lines_start(ret, lines, uv_accept(listener, (uv_stream_t *)&lines->pipe), err);
}

uid_t lines_peer(const struct lines *lines)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);
        int fd;

        if (uv_fileno((const uv_handle_t *)&lines->pipe, &fd) < 0 ||
                getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return (uid_t)-1;
        return peer.uid;
}
