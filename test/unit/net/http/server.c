// SPDX-License-Identifier: Apache-2.0
/*
 * What pages of metrics do not need: answers that come later, arguments and headers. Connections and deadlines are
 * tested in net/metrics/http.
 */
#include "http_client.h"

#include <sys/resource.h>

#include "epoll_limit.h"
#include "net/http/server.h"

static struct http_server *server;
static struct http_request *waiting; /* the newest request that is not answered */
static unsigned int n_asked;
static unsigned int n_gone;
static bool is_late_to_answer;
static struct strbuf seen;
static struct http_text *shared;

static void on_gone(void *data)
{
        assert_ptr_equal(data, &waiting);
        waiting = NULL;
        n_gone++;
}

static void on_request(struct http_request *request, void *data UNUSED)
{
        const char *argument = http_request_argument(request, "q");
        const char *header = http_request_header(request, "x-some");

        n_asked++;
        strbuf_printf(&seen, "%s q=%s x-some=%s\n", http_request_path(request), argument ? argument : "(none)",
                header ? header : "(none)");
        if (strcmp(http_request_path(request), "/shared") == 0) {
                http_request_answer(request, &(struct http_answer){.status = 200,
                                                     .type = "text/html",
                                                     .text = http_text_ref(shared),
                                                     .headers = (const struct http_header[]){{"X-A", "1"}, {0}}});
        } else if (is_late_to_answer) {
                waiting = request;
                http_request_on_gone(request, on_gone, &waiting);
        } else {
                http_request_answer_plain(request, 200, "now\n");
        }
}

static int set_up(void **state UNUSED)
{
        uv_loop_init(&loop);
        seen = (struct strbuf)STRBUF_INIT;
        shared = http_text_new(xstrdup("<p>"), 3);
        waiting = NULL;
        n_asked = n_gone = 0;
        is_late_to_answer = true;
        watches_left = -1;
        return 0;
}

static int tear_down(void **state UNUSED)
{
        server = http_server_close(server);
        uv_run(&loop, UV_RUN_DEFAULT);
        strbuf_done(&seen);
        shared = http_text_unref(shared);
        return uv_loop_close(&loop);
}

static const struct http_server_tls own_certificate = {NULL, NULL};

static struct http_server_options with(uint64_t deadline_ms, unsigned int connections)
{
        return (struct http_server_options){
                .loop = &loop,
                .address = "127.0.0.1:0",
                .connections = connections,
                .per_peer = 8,
                .deadline_ms = deadline_ms,
                .on_request = on_request,
        };
}

static void start(uint64_t deadline_ms, unsigned int connections)
{
        const struct http_server_options options = with(deadline_ms, connections);
        struct error err;

        assert_ok(http_server_new(&server, &options, &err), &err);
        server_port = http_server_port(server);
}

static int dial_and_ask(const char *request)
{
        const unsigned int before = n_asked;
        struct timespec begin;
        int fd = dial("127.0.0.1");

        say(fd, request);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (n_asked == before)
                turn(&begin);
        return fd;
}

static void test_an_answer_may_come_later(void **state UNUSED)
{
        _free_ char *answer = NULL;
        struct timespec begin;
        int fd;

        start(0, 8);
        fd = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (unsigned int i = 0; i < 10; i++)
                turn(&begin);
        assert_non_null(waiting);
        http_request_answer_plain(waiting, 200, "later\n");
        answer = hear(fd);
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_string_equal(body(answer), "later\n");
        assert_int_equal(n_asked, 1);
        assert_int_equal(n_gone, 0);
}

static void test_a_body_that_comes_with_the_question_is_thrown_away(void **state UNUSED)
{
        _free_ char *answer = NULL;
        int fd;

        start(0, 8);
        fd = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
        http_request_answer_plain(waiting, 200, "later\n");
        answer = hear(fd);
        assert_string_equal(body(answer), "later\n");
        assert_int_equal(n_asked, 1);
}

static void test_a_request_whose_answer_does_not_come_in_time_is_gone(void **state UNUSED)
{
        _free_ char *answer = NULL;
        int fd;

        start(200, 8);
        fd = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        answer = hear(fd);
        assert_string_equal(answer, "");
        assert_int_equal(n_gone, 1);
}

static void test_a_request_that_waits_gives_way_to_others(void **state UNUSED)
{
        _free_ char *first = NULL;
        struct timespec begin;
        int fds[3];

        start(UINT64_C(600000), 2);
        for (unsigned int i = 0; i < 3; i++)
                fds[i] = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (n_gone == 0)
                turn(&begin);
        first = hear(fds[0]);
        assert_string_equal(first, "");
        close(fds[1]);
        close(fds[2]);
}

/* libmicrohttpd reads it all the same, since it sees both at once, and ends the program if it is left suspended. */
static void test_a_request_whose_connection_makes_room_is_never_begun(void **state UNUSED)
{
        _free_ char *first = NULL;
        struct timespec begin;
        int fds[2];

        start(UINT64_C(600000), 1);
        fds[0] = dial("127.0.0.2");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (uv_backend_timeout(&loop) < 0) /* its deadline runs: it was accepted */
                turn(&begin);
        for (unsigned int i = 0; i < 3; i++) /* what has come is seen in the order in which it came */
                turn(&begin);
        fds[1] = dial("127.0.0.3");
        say(fds[0], "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        first = hear(fds[0]);
        assert_string_equal(first, "");
        assert_int_equal(n_asked, 0);
        server = http_server_close(server);
        close(fds[1]);
}

/* Though it is the newest of an address that has as many as it may have. */
static void test_the_newest_connection_of_an_address_is_heard(void **state UNUSED)
{
        int fds[20];

        start(UINT64_C(600000), 16);
        is_late_to_answer = false;
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = dial("127.0.0.1");
        for (unsigned int i = 0; i < 3; i++) {
                _free_ char *answer = ask("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n");

                assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        }
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

static void test_who_is_trusted_does_not_give_way_to_strangers(void **state UNUSED)
{
        static const char *const strangers[] = {"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"};
        int fds[ARRAY_SIZE(strangers)];
        _free_ char *answer = NULL;
        struct timespec begin;
        int trusted;

        start(UINT64_C(600000), 2);
        trusted = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        http_request_trust(waiting);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
                fds[i] = dial(strangers[i]);
                for (unsigned int j = 0; j < 5; j++)
                        turn(&begin);
        }
        assert_int_equal(n_gone, 0);
        http_request_answer_plain(waiting, 200, "later\n");
        answer = hear(trusted);
        assert_string_equal(body(answer), "later\n");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

static void test_closing_the_server_ends_requests_that_wait(void **state UNUSED)
{
        _free_ char *answer = NULL;
        int fd;

        start(UINT64_C(600000), 8);
        fd = dial_and_ask("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        server = http_server_close(server);
        assert_int_equal(n_gone, 1);
        uv_run(&loop, UV_RUN_DEFAULT);
        answer = hear(fd);
        assert_string_equal(answer, "");
}

static void test_paths_arguments_and_headers_are_read(void **state UNUSED)
{
        static const char *const requests[] = {
                "GET /a%20b?q=1%2f2&q=3 HTTP/1.1\r\nHost: x\r\nX-SOME: thing\r\n\r\n",
                "GET /a?p=1 HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET /a?q= HTTP/1.1\r\nHost: x\r\nx-some:\r\n\r\n",
                "GET /%3cscript%3e?q=a+b HTTP/1.1\r\nHost: x\r\n\r\n",
        };

        start(0, 8);
        is_late_to_answer = false;
        for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
                free(ask(requests[i]));
        assert_string_equal(seen.data, "/a b q=1/2 x-some=thing\n"
                                       "/a q=(none) x-some=(none)\n"
                                       "/a q= x-some=\n"
                                       "/<script> q=a b x-some=(none)\n");
}

static void test_several_answers_share_one_text(void **state UNUSED)
{
        start(0, 8);
        for (unsigned int i = 0; i < 3; i++) {
                _free_ char *answer = ask("GET /shared HTTP/1.1\r\nHost: x\r\n\r\n");

                assert_has(answer, "\r\nContent-Type: text/html\r\n");
                assert_has(answer, "\r\nX-A: 1\r\n");
                assert_string_equal(body(answer), "<p>");
        }
        assert_string_equal(shared->data, "<p>");
}

static void start_tls(void)
{
        struct http_server_options options = with(0, 8);
        struct error err;

        options.tls = &own_certificate;
        is_late_to_answer = false;
        assert_ok(http_server_new(&server, &options, &err), &err);
        server_port = http_server_port(server);
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_a_server_whose_sockets_cannot_be_watched_is_an_error(void **state UNUSED)
{
        for (unsigned int i = 0; i < 2; i++) {
                struct http_server_options options = with(0, 8);
                unsigned int n_failed = 0;
                struct error err;

                options.tls = i ? &own_certificate : NULL;
                while (watches_left = (int)n_failed, http_server_new(&server, &options, &err) < 0) {
                        n_failed++;
                        uv_run(&loop, UV_RUN_DEFAULT);
                }
                watches_left = -1;
                assert_true(n_failed > 0);
                assert_string_equal(err.text, "watch the sockets of HTTP: No space left on device");
                server = http_server_close(server);
        }
}

static void test_a_connection_that_cannot_be_watched_ends_alone(void **state UNUSED)
{
        start_tls();
        for (int i = 0; i < 3; i++) {
                int fd = dial("127.0.0.1");
                _free_ char *answer = NULL;

                say(fd, "GET / HTTP/1.0\r\n\r\n");
                watches_left = i < 2 ? i : -1;
                answer = hear(fd);
                watches_left = -1;
                assert_begins(answer, i < 2 ? "" : "HTTP/1.1 200 OK\r\n");
                assert_int_equal(n_asked, i < 2 ? 0 : 1);
        }
}

static void on_turn(uv_prepare_t *prepare)
{
        ++*(unsigned int *)prepare->data;
}

static void on_enough(uv_timer_t *timer)
{
        uv_stop(timer->loop);
}

static void test_a_connection_for_which_there_is_no_descriptor_waits_for_one(void **state UNUSED)
{
        unsigned int n_turns = 0;
        _free_ char *answer = NULL;
        uv_prepare_t prepare;
        uv_timer_t timer;
        struct rlimit before;
        struct rlimit few;
        int fd;

        start_tls();
        fd = dial("127.0.0.1");
        say(fd, "GET / HTTP/1.0\r\n\r\n");
        uv_prepare_init(&loop, &prepare);
        uv_timer_init(&loop, &timer);
        prepare.data = &n_turns;
        uv_prepare_start(&prepare, on_turn);
        uv_timer_start(&timer, on_enough, 300, 0);
        getrlimit(RLIMIT_NOFILE, &before);
        few = before;
        few.rlim_cur = (rlim_t)dup(fd);
        close((int)few.rlim_cur);
        setrlimit(RLIMIT_NOFILE, &few);
        uv_run(&loop, UV_RUN_DEFAULT);
        setrlimit(RLIMIT_NOFILE, &before);
        uv_close((uv_handle_t *)&prepare, NULL);
        uv_close((uv_handle_t *)&timer, NULL);
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_in_range(n_turns, 2, 20);
        answer = hear(fd);
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_an_answer_may_come_later, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_body_that_comes_with_the_question_is_thrown_away, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_request_whose_answer_does_not_come_in_time_is_gone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_request_that_waits_gives_way_to_others, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_request_whose_connection_makes_room_is_never_begun, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_newest_connection_of_an_address_is_heard, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_who_is_trusted_does_not_give_way_to_strangers, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_closing_the_server_ends_requests_that_wait, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_paths_arguments_and_headers_are_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_several_answers_share_one_text, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_server_whose_sockets_cannot_be_watched_is_an_error, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_connection_that_cannot_be_watched_ends_alone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_connection_for_which_there_is_no_descriptor_waits_for_one, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
