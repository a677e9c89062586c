// SPDX-License-Identifier: Apache-2.0
#include "until.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/io/lines.h"
#include "base/io/unix_socket.h"

#define LIMIT ((size_t)100000)

static char folder[64];
static char path[80];

/* One end, and what it has heard. */
struct end {
        struct lines *lines;
        struct strbuf heard; /* lines, each with a newline */
        size_t n_heard;
        bool closes; /* at the first line */
        size_t n_sent;
        bool is_over;
        struct error reason;
};

static struct rig {
        uv_loop_t loop;
        uv_pipe_t listener;
        struct end here;
        struct end there; /* accepted */
} rig;

static void on_line(const char *line, size_t length, void *data)
{
        struct end *end = data;

        strbuf_append(&end->heard, line, length);
        strbuf_putc(&end->heard, '\n');
        end->n_heard++;
        if (end->closes)
                end->lines = lines_close(end->lines);
}

static void on_sent(void *data)
{
        ((struct end *)data)->n_sent++;
}

static void on_end(const struct error *reason, void *data)
{
        struct end *end = data;

        assert_false(end->is_over);
        end->is_over = true;
        end->reason = *reason;
        end->lines = lines_close(end->lines);
}

static struct lines_options options_of(struct end *end)
{
        return (struct lines_options){
                .line_limit = LIMIT,
                .unsent_limit = 2 * LIMIT,
                .on_line = on_line,
                .on_sent = on_sent,
                .on_end = on_end,
                .data = end,
        };
}

static void on_connection(uv_stream_t *listener, int status)
{
        const struct lines_options options = options_of(&rig.there);
        struct error err;

        assert_int_equal(status, 0);
        assert_ok(lines_accept(&rig.there.lines, listener, &options, &err), &err);
}

static int start(void **state UNUSED)
{
        struct error err;
        int fd;

        memset(&rig, 0, sizeof(rig));
        rig.here.heard = rig.there.heard = (struct strbuf)STRBUF_INIT;
        strcpy(folder, "/tmp/warpshare-lines-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/socket", folder);
        uv_loop_init(&rig.loop);
        uv_pipe_init(&rig.loop, &rig.listener, 0);
        assert_ok(unix_socket_bind(&fd, path, 0600, &err), &err);
        assert_int_equal(uv_pipe_open(&rig.listener, fd), 0);
        assert_int_equal(uv_listen((uv_stream_t *)&rig.listener, 5, on_connection), 0);
        return 0;
}

static int stop(void **state UNUSED)
{
        lines_close(rig.here.lines);
        lines_close(rig.there.lines);
        uv_close((uv_handle_t *)&rig.listener, NULL);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&rig.loop), 0);
        strbuf_done(&rig.here.heard);
        strbuf_done(&rig.there.heard);
        unlink(path);
        return rmdir(folder);
}

static void connect_both(void)
{
        const struct lines_options options = options_of(&rig.here);
        struct error err;

        assert_ok(lines_connect(&rig.here.lines, &rig.loop, path, &options, &err), &err);
        UNTIL(&rig.loop, rig.there.lines);
}

static void say(struct end *from, const char *text)
{
        lines_send(from->lines, text, strlen(text));
}

static void test_lines_go_both_ways(void **state UNUSED)
{
        connect_both();
        say(&rig.here, "one\ntwo\n");
        say(&rig.here, "\nthree\n");
        UNTIL(&rig.loop, rig.there.n_heard == 4);
        assert_string_equal(rig.there.heard.data, "one\ntwo\n\nthree\n");
        say(&rig.there, "four\n");
        UNTIL(&rig.loop, rig.here.n_heard == 1);
        assert_string_equal(rig.here.heard.data, "four\n");
}

static void test_a_line_in_pieces_is_one_line(void **state UNUSED)
{
        connect_both();
        for (const char *piece = "pieces\n"; *piece; piece++) {
                lines_send(rig.here.lines, piece, 1);
                UNTIL(&rig.loop, !lines_is_sending(rig.here.lines));
        }
        UNTIL(&rig.loop, rig.there.n_heard == 1);
        assert_string_equal(rig.there.heard.data, "pieces\n");
}

static char *make_line(size_t length)
{
        char *line = xmalloc(length + 2);

        memset(line, 'x', length);
        memcpy(line + length, "\n", 2);
        return line;
}

static void test_the_longest_line_arrives_and_a_longer_one_ends_it(void **state UNUSED)
{
        _free_ char *longest = make_line(LIMIT);
        _free_ char *longer = make_line(LIMIT + 1);

        connect_both();
        say(&rig.here, longest);
        UNTIL(&rig.loop, rig.there.n_heard == 1);
        assert_int_equal(rig.there.heard.size, LIMIT + 1);
        say(&rig.here, longer);
        UNTIL(&rig.loop, rig.there.is_over);
        assert_int_equal(rig.there.n_heard, 1);
        assert_int_equal(rig.there.reason.kind, ERROR_INVALID);
        assert_string_equal(rig.there.reason.text, "a line of more than 100000 bytes");
        UNTIL(&rig.loop, rig.here.is_over);
}

static void test_a_line_without_an_end_is_not_waited_for_beyond_the_limit(void **state UNUSED)
{
        _free_ char *text = make_line(LIMIT + 1);

        connect_both();
        lines_send(rig.here.lines, text, LIMIT + 1);
        UNTIL(&rig.loop, rig.there.is_over);
        assert_string_equal(rig.there.reason.text, "a line of more than 100000 bytes");
}

static void test_the_end_of_the_peer_is_reported_once_and_half_a_line_is_lost(void **state UNUSED)
{
        connect_both();
        say(&rig.here, "whole\nhalf");
        UNTIL(&rig.loop, !lines_is_sending(rig.here.lines));
        rig.here.lines = lines_close(rig.here.lines);
        UNTIL(&rig.loop, rig.there.is_over);
        assert_string_equal(rig.there.heard.data, "whole\n");
        assert_string_equal(rig.there.reason.text, "the peer closed the connection");
        assert_false(rig.here.is_over); /* who closes hears nothing more */
}

static void test_a_callback_may_close_in_the_middle_of_what_came(void **state UNUSED)
{
        connect_both();
        rig.there.closes = true;
        say(&rig.here, "one\ntwo\n");
        UNTIL(&rig.loop, rig.here.is_over);
        assert_int_equal(rig.there.n_heard, 1);
}

static void test_a_peer_that_does_not_read_is_given_up(void **state UNUSED)
{
        _free_ char *line = make_line(LIMIT - 1);
        const struct lines_options options = options_of(&rig.here);
        struct error err;

        /* Nobody accepts, since the loop does not turn: the peer is the kernel's buffer. */
        assert_ok(lines_connect(&rig.here.lines, &rig.loop, path, &options, &err), &err);
        for (int i = 0; i < 100; i++)
                say(&rig.here, line);
        assert_true(lines_is_sending(rig.here.lines));
        assert_false(rig.here.is_over); /* told by the loop only */
        UNTIL(&rig.loop, rig.here.is_over);
        assert_int_equal(rig.here.reason.kind, ERROR_UNAVAILABLE);
        assert_string_equal(rig.here.reason.text, "the peer does not read: 200000 bytes wait for it");
}

static void test_the_end_of_a_delayed_write_is_reported(void **state UNUSED)
{
        _free_ char *line = make_line(LIMIT);

        connect_both();
        say(&rig.here, line);
        say(&rig.here, "short\n");
        assert_true(lines_is_sending(rig.here.lines));
        UNTIL(&rig.loop, rig.there.n_heard == 2);
        UNTIL(&rig.loop, rig.here.n_sent == 1);
        assert_false(lines_is_sending(rig.here.lines));
}

static void test_the_peer_is_known(void **state UNUSED)
{
        connect_both();
        assert_int_equal(lines_peer(rig.there.lines), geteuid());
}

static void test_the_socket_has_its_mode_from_birth(void **state UNUSED)
{
        struct stat status;
        mode_t mask = umask(0);

        umask(mask);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600 & ~mask);
}

static void test_a_socket_without_a_listener_is_an_error_that_names_it(void **state UNUSED)
{
        const struct lines_options options = options_of(&rig.here);
        char text[200];
        char other[100];
        struct error err;
        int fd;

        snprintf(other, sizeof(other), "%s/other", folder);
        snprintf(text, sizeof(text), "connect to '%s': No such file or directory", other);
        assert_fails(lines_connect(&rig.here.lines, &rig.loop, other, &options, &err), &err, ERROR_NOT_FOUND, text);
        assert_ok(unix_socket_bind(&fd, other, 0600, &err), &err); /* without listening, as one that died */
        assert_int_equal(lines_connect(&rig.here.lines, &rig.loop, other, &options, &err), -1);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        close(fd);
        unlink(other);
}

static void test_a_path_that_is_too_long_is_refused(void **state UNUSED)
{
        const struct lines_options options = options_of(&rig.here);
        char long_path[200];
        struct error err;
        int fd;

        memset(long_path, 'p', sizeof(long_path));
        long_path[108] = '\0';
        assert_int_equal(lines_connect(&rig.here.lines, &rig.loop, long_path, &options, &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_int_equal(unix_socket_bind(&fd, long_path, 0600, &err), -1);
        assert_non_null(strstr(err.text, "the path has 108 bytes, at most 107 are possible"));
}

static void test_a_socket_that_was_left_is_replaced(void **state UNUSED)
{
        char other[100];
        struct error err;
        int first;
        int second;

        snprintf(other, sizeof(other), "%s/other", folder);
        assert_ok(unix_socket_bind(&first, other, 0600, &err), &err);
        close(first);
        assert_ok(unix_socket_bind(&second, other, 0600, &err), &err);
        close(second);
        unlink(other);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_lines_go_both_ways, start, stop),
                cmocka_unit_test_setup_teardown(test_a_line_in_pieces_is_one_line, start, stop),
                cmocka_unit_test_setup_teardown(test_the_longest_line_arrives_and_a_longer_one_ends_it, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_a_line_without_an_end_is_not_waited_for_beyond_the_limit, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_the_end_of_the_peer_is_reported_once_and_half_a_line_is_lost, start, stop),
                cmocka_unit_test_setup_teardown(test_a_callback_may_close_in_the_middle_of_what_came, start, stop),
                cmocka_unit_test_setup_teardown(test_a_peer_that_does_not_read_is_given_up, start, stop),
                cmocka_unit_test_setup_teardown(test_the_end_of_a_delayed_write_is_reported, start, stop),
                cmocka_unit_test_setup_teardown(test_the_peer_is_known, start, stop),
                cmocka_unit_test_setup_teardown(test_the_socket_has_its_mode_from_birth, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_a_socket_without_a_listener_is_an_error_that_names_it, start, stop),
                cmocka_unit_test_setup_teardown(test_a_path_that_is_too_long_is_refused, start, stop),
                cmocka_unit_test_setup_teardown(test_a_socket_that_was_left_is_replaced, start, stop),
        };

        signal(SIGPIPE, SIG_IGN); /* as the program has it */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
