// SPDX-License-Identifier: Apache-2.0
#include "http_client.h"

#include <dirent.h>

#include "net/http/server.h"
#include "net/metrics/http.h"

static struct metrics_http *http;
static struct strbuf page;
static const char *ailment;
static unsigned int asked;

static unsigned int slow_us; /* so long a page takes */

static char *write_page(void *data UNUSED)
{
        asked++;
        usleep(slow_us);
        return xstrdup(page.data);
}

static char *find_ailment(void *data UNUSED)
{
        asked++;
        return ailment ? xstrdup(ailment) : NULL;
}

static char *write_node(bool has_history, bool has_processes, void *data UNUSED)
{
        asked++;
        usleep(slow_us);
        return xasprintf("{\"history\":%d,\"processes\":%d}\n", has_history, has_processes);
}

/* ---- who may read ---- */

static bool asks_all;
static struct question {
        char authorization[64];
        char path[16];
        bool is_suspect;
        metrics_permission_fn *done; /* NULL: none is open */
        void *waiting;
} question;
static unsigned int cancelled;

static void *ask_permission(
        const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting, void *data UNUSED)
{
        const char *authorization = asker->authorization;

        if (!authorization) {
                done(METRICS_NOBODY, "a token is needed", waiting);
                return NULL;
        }
        if (strcmp(authorization, "allowed") == 0) {
                done(METRICS_ALLOWED, NULL, waiting);
                return NULL;
        }
        question = (struct question){.done = done, .waiting = waiting, .is_suspect = asker->is_suspect};
        snprintf(question.authorization, sizeof(question.authorization), "%s", authorization);
        snprintf(question.path, sizeof(question.path), "%s", asker->path);
        return &question;
}

static void cancel_question(void *open, void *data UNUSED)
{
        assert_ptr_equal(open, &question);
        question.done = NULL;
        cancelled++;
}

static int try(const char *address, uint64_t deadline_ms, struct error *err)
{
        const struct metrics_http_options options = {
                .loop = &loop,
                .address = address,
                .metrics = write_page,
                .node = write_node,
                .unhealthy_reason = find_ailment,
                .ask = ask_permission, /* not of local clients, as these are */
                .cancel = cancel_question,
                .asks_local = asks_all,
                .deadline_ms = deadline_ms,
        };

        return metrics_http_new(&http, &options, err);
}

static void start(const char *address, uint64_t deadline_ms)
{
        struct error err;

        assert_ok(try(address, deadline_ms, &err), &err);
        server_port = metrics_http_port(http);
}

static int set_up(void **state UNUSED)
{
        uv_loop_init(&loop);
        page = (struct strbuf)STRBUF_INIT;
        strbuf_puts(&page, "# a page\n");
        ailment = NULL;
        asked = 0;
        asks_all = false;
        slow_us = 0;
        question = (struct question){.done = NULL};
        cancelled = 0;
        return 0;
}

static int tear_down(void **state UNUSED)
{
        http = metrics_http_close(http);
        uv_run(&loop, UV_RUN_DEFAULT);
        strbuf_done(&page);
        return uv_loop_close(&loop);
}

static unsigned int count_descriptors(void)
{
        DIR *folder = opendir("/proc/self/fd");
        unsigned int count = 0;

        while (readdir(folder))
                count++;
        closedir(folder);
        return count;
}

/* ---- pages ---- */

static void test_the_page_is_served(void **state UNUSED)
{
        _free_ char *answer = NULL;

        start("127.0.0.1:0", 0);
        answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_has(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
        assert_string_equal(body(answer), "# a page\n");
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\nAuthorization: allowed\r\n\r\n"

/* Of |kinds| pages since |begin|, however long the test had to wait for a processor. */
static void assert_made_seldom(unsigned int kinds, const struct timespec *begin)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        assert_in_range(asked, kinds,
                kinds * (1 + (unsigned int)(now.tv_sec - begin->tv_sec + 1) * 1000 / METRICS_HTTP_SHARED_MS));
}

static void test_nobody_keeps_the_loop_busy_by_asking_again_and_again(void **state UNUSED)
{
        struct timespec begin;

        asks_all = true; /* so the clients of this machine are trusted no more than others */
        slow_us = 40000;
        start("127.0.0.1:0", 0);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (unsigned int i = 0; i < 10; i++) {
                _free_ char *answer = ask(GET("/metrics"));

                assert_string_equal(body(answer), "# a page\n");
        }
        assert_made_seldom(1, &begin);
        strbuf_puts(&page, "# of later\n");
        for (bool is_new = false; !is_new; turn(&begin)) {
                _free_ char *answer = ask(GET("/metrics"));

                is_new = strcmp(body(answer), "# a page\n# of later\n") == 0;
        }
        assert_made_seldom(1, &begin);
}

static void test_each_page_is_shared_for_itself(void **state UNUSED)
{
        static const struct {
                const char *request;
                const char *text;
        } table[] = {
                {GET("/metrics"), "# a page\n"},
                {GET("/node"), "{\"history\":0,\"processes\":0}\n"},
                {GET("/node?history=1"), "{\"history\":1,\"processes\":0}\n"},
                {GET("/node?processes=1"), "{\"history\":0,\"processes\":1}\n"},
                {GET("/node?history=1&processes=1"), "{\"history\":1,\"processes\":1}\n"},
        };
        struct timespec begin;

        asks_all = true;
        slow_us = 40000;
        start("127.0.0.1:0", 0);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (size_t i = 0; i < 2 * ARRAY_SIZE(table); i++) {
                _free_ char *answer = ask(table[i % ARRAY_SIZE(table)].request);

                assert_string_equal(body(answer), table[i % ARRAY_SIZE(table)].text);
        }
        assert_made_seldom(ARRAY_SIZE(table), &begin);
}

static void test_a_trusted_client_has_a_new_page_each_time(void **state UNUSED)
{
        slow_us = 40000;
        start("127.0.0.1:0", 0);
        for (unsigned int i = 0; i < 3; i++)
                free(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_int_equal(asked, 3);
}

static void test_a_large_page_arrives_whole(void **state UNUSED)
{
        _free_ char *answer = NULL;

        while (page.size < (size_t)8 * 1024 * 1024)
                strbuf_printf(&page, "warpshare_line %zu\n", page.size);
        start("127.0.0.1:0", 0);
        answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_true(strcmp(body(answer), page.data) == 0);
}

static void test_the_page_of_the_node_has_what_is_asked_for(void **state UNUSED)
{
        static const struct {
                const char *query;
                const char *page;
        } table[] = {
                {"", "{\"history\":0,\"processes\":0}\n"},
                {"?history=1", "{\"history\":1,\"processes\":0}\n"},
                {"?processes=1&history=1", "{\"history\":1,\"processes\":1}\n"},
                {"?history=0&processes&more=1", "{\"history\":0,\"processes\":0}\n"},
                {"?%00=&history=%31&&=&", "{\"history\":1,\"processes\":0}\n"},
        };

        start("127.0.0.1:0", 0);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *request = xasprintf("GET /node%s HTTP/1.1\r\nHost: x\r\n\r\n", table[i].query);
                _free_ char *answer = ask(request);

                assert_begins(answer, "HTTP/1.1 200 OK\r\n");
                assert_has(answer, "\r\nContent-Type: application/json\r\n");
                assert_string_equal(body(answer), table[i].page);
        }
}

static void test_without_a_token_only_health_is_answered(void **state UNUSED)
{
        static const char *const refused[] = {"/metrics", "/node"};
        static const char *const open[] = {"/healthz", "/livez"};

        asks_all = true;
        start("127.0.0.1:0", 0);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                _free_ char *request = xasprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", refused[i]);
                _free_ char *answer = ask(request);

                assert_begins(answer, "HTTP/1.1 401 Unauthorized\r\n");
                assert_has(answer, "\r\nWWW-Authenticate: Bearer\r\n");
                assert_string_equal(body(answer), "a token is needed\n");
        }
        assert_int_equal(asked, 0);
        for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
                _free_ char *request = xasprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", open[i]);
                _free_ char *answer = ask(request);

                assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        }
}

static void test_a_page_waits_until_it_is_known_whether_it_may_be_read(void **state UNUSED)
{
        static const struct {
                enum metrics_permission permission;
                const char *why;
                const char *status;
                const char *text;
        } table[] = {
                {METRICS_ALLOWED, NULL, "HTTP/1.1 200 OK\r\n", "# a page\n"},
                {METRICS_NOBODY, "nobody", "HTTP/1.1 401 Unauthorized\r\n", "nobody\n"},
                {METRICS_DENIED, "no right", "HTTP/1.1 403 Forbidden\r\n", "no right\n"},
                {METRICS_UNDECIDED, "not now", "HTTP/1.1 503 Service Unavailable\r\n", "not now\n"},
        };

        asks_all = true;
        start("127.0.0.1:0", 0);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct timespec begin;
                int fd = dial("127.0.0.1");
                _free_ char *answer = NULL;

                clock_gettime(CLOCK_MONOTONIC, &begin);
                say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nauthorization: Bearer abc\r\n\r\n");
                while (!question.done)
                        turn(&begin);
                assert_string_equal(question.authorization, "Bearer abc");
                assert_string_equal(question.path, "/metrics");
                assert_int_equal(asked, 0);
                question.done(table[i].permission, table[i].why, question.waiting);
                question.done = NULL;
                answer = hear(fd);
                assert_begins(answer, table[i].status);
                assert_string_equal(body(answer), table[i].text);
                asked = 0;
        }
        assert_int_equal(cancelled, 0);
}

/* Until it shows one that may: then it is trusted for long. */
static void test_an_address_that_has_shown_a_wrong_token_is_a_suspect(void **state UNUSED)
{
        static const struct {
                const char *from;
                bool is_suspect;
                enum metrics_permission permission;
        } table[] = {
                {"127.0.0.2", false, METRICS_UNDECIDED},
                {"127.0.0.2", false, METRICS_NOBODY},
                {"127.0.0.2", true, METRICS_DENIED},
                {"127.0.0.3", false, METRICS_DENIED},
                {"127.0.0.3", true, METRICS_ALLOWED},
                {"127.0.0.3", false, METRICS_NOBODY},
                {"127.0.0.3", false, METRICS_ALLOWED},
                {"127.0.0.2", true, METRICS_NOBODY},
        };

        asks_all = true;
        start("127.0.0.1:0", 0);
        free(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")); /* no token is no wrong one */
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct timespec begin;
                int fd = dial(table[i].from);

                clock_gettime(CLOCK_MONOTONIC, &begin);
                say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n");
                while (!question.done)
                        turn(&begin);
                assert_int_equal(question.is_suspect, table[i].is_suspect);
                question.done(table[i].permission, "why", question.waiting);
                question.done = NULL;
                free(hear(fd));
        }
}

static void test_a_question_ends_with_its_client_and_with_the_server(void **state UNUSED)
{
        struct timespec begin;
        int fd;

        asks_all = true;
        start("127.0.0.1:0", 50);
        for (unsigned int i = 0; i < 2; i++) {
                clock_gettime(CLOCK_MONOTONIC, &begin);
                fd = dial("127.0.0.1");
                say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n");
                while (!question.done)
                        turn(&begin);
                if (i == 1)
                        http = metrics_http_close(http);
                while (question.done)
                        turn(&begin);
                assert_int_equal(cancelled, i + 1);
                close(fd);
        }
}

static void test_health_is_a_status_with_its_reason(void **state UNUSED)
{
        _free_ char *well = NULL;
        _free_ char *ill = NULL;

        start("127.0.0.1:0", 0);
        well = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(well, "HTTP/1.1 200 OK\r\n");
        assert_string_equal(body(well), "ok\n");
        ailment = "the MPS daemon of GPU-1 is at fault";
        ill = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(ill, "HTTP/1.1 503 Service Unavailable\r\n");
        assert_string_equal(body(ill), "the MPS daemon of GPU-1 is at fault\n");
}

static void test_an_ailment_is_no_reason_for_a_restart(void **state UNUSED)
{
        _free_ char *answer = NULL;

        start("127.0.0.1:0", 0);
        ailment = "the newest configuration is refused";
        answer = ask("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_string_equal(body(answer), "ok\n");
}

static void test_head_is_a_page_without_its_text(void **state UNUSED)
{
        _free_ char *answer = NULL;

        start("127.0.0.1:0", 0);
        answer = ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        assert_has(answer, "\r\nContent-Length: 9\r\n");
        assert_string_equal(body(answer), "");
}

static const struct {
        const char *request;
        const char *beginning;
} refusals[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "},
        {"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "},
        {"GET /../metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "},
        {"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "},
        {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 405 "},
        {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nbody", "HTTP/1.1 405 "},
        {"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
                "HTTP/1.1 405 "},
};

static void test_anything_else_is_refused(void **state UNUSED)
{
        start("127.0.0.1:0", 0);
        for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
                _free_ char *answer = ask(refusals[i].request);

                if (strncmp(answer, refusals[i].beginning, strlen(refusals[i].beginning)) != 0)
                        fail_msg("%s\nis answered: %.200s", refusals[i].request, answer);
        }
        assert_int_equal(asked, 0);
}

static const char *const junk[] = {
        "\r\n\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET\r\n\r\n",
        "GET /metrics HTTP/9.9\r\nHost: x\r\n\r\n",
        ": : :\r\n: :\r\n\r\n",
};

static void test_junk_ends_with_its_connection(void **state UNUSED)
{
        _free_ char *after = NULL;

        start("127.0.0.1:0", 1000);
        for (size_t i = 0; i < ARRAY_SIZE(junk); i++) {
                _free_ char *answer = ask(junk[i]);

                assert_null(strstr(answer, "# a page"));
        }
        after = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_string_equal(body(after), "# a page\n");
}

static void test_a_head_without_an_end_is_refused(void **state UNUSED)
{
        _free_ char *answer = NULL;
        struct strbuf request = STRBUF_INIT;

        start("127.0.0.1:0", 0);
        strbuf_puts(&request, "GET /metrics HTTP/1.1\r\nHost: x\r\n");
        while (request.size < 4 * HTTP_MEMORY)
                strbuf_puts(&request, "X-More: and more of it\r\n");
        answer = ask(request.data);
        strbuf_done(&request);
        assert_null(strstr(answer, "# a page"));
        assert_int_equal(asked, 0);
}

/* ---- clients that are slow, or many ---- */

static void test_a_connection_has_one_request(void **state UNUSED)
{
        _free_ char *answer = NULL;

        start("127.0.0.1:0", 0);
        answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_has(answer, "\r\nConnection: close\r\n");
        assert_string_equal(body(answer), "ok\n");
        assert_int_equal(asked, 1);
}

/* A byte now and then does not buy it time. */
static void test_a_client_that_writes_slowly_is_let_go(void **state UNUSED)
{
        struct timespec begin;
        char byte;
        int fd;

        start("127.0.0.1:0", 1000);
        fd = dial("127.0.0.1");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
                send(fd, "G", 1, MSG_NOSIGNAL);
                turn(&begin);
        }
        close(fd);
        assert_int_equal(asked, 0);
}

static void test_a_client_that_reads_nothing_is_let_go(void **state UNUSED)
{
        unsigned int before;
        struct timespec begin;
        _free_ char *rest = NULL;
        int fd;

        while (page.size < (size_t)32 * 1024 * 1024)
                strbuf_puts(&page, "# it does not fit into the buffers of the sockets\n");
        start("127.0.0.1:0", 1000);
        before = count_descriptors();
        fd = dial("127.0.0.1");
        say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (asked == 0)
                turn(&begin);
        while (count_descriptors() > before + 1) /* ours */
                turn(&begin);
        rest = hear(fd);
        assert_true(strlen(rest) < page.size);
}

/* However many of them there are, and though their deadline is not over by far. */
static void test_silent_clients_do_not_keep_a_probe_out(void **state UNUSED)
{
        static const char *const holders[] = {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"};
        int fds[ARRAY_SIZE(holders) * METRICS_HTTP_PER_PEER];

        start("127.0.0.1:0", UINT64_C(600000));
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                _free_ char *answer = NULL;

                fds[i] = dial(holders[i / METRICS_HTTP_PER_PEER]);
                answer = ask("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
                assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        }
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

/* Who asked first is not sent away by those who come after and hold more. */
static void test_a_peer_with_one_connection_keeps_it_before_one_with_many(void **state UNUSED)
{
        static const char *const holders[] = {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"};
        int fds[ARRAY_SIZE(holders) * METRICS_HTTP_PER_PEER];
        _free_ char *answer = NULL;
        int first;

        start("127.0.0.1:0", UINT64_C(600000));
        first = dial("127.0.0.9");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
                _free_ char *other = NULL;

                fds[i] = dial(holders[i % ARRAY_SIZE(holders)]);
                other = ask("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
                assert_begins(other, "HTTP/1.1 200 OK\r\n");
        }
        say(first, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        answer = hear(first);
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
}

/*
 * libmicrohttpd stops listening while there is no room; nothing but the end of the others says that it is to begin
 * again.
 */
static void test_room_that_is_made_at_once_is_used(void **state UNUSED)
{
        static const char *const holders[] = {
                "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"};
        int fds[ARRAY_SIZE(holders) *
                METRICS_HTTP_PER_PEER]; /* more than there is room for, before the loop turns once */
        _free_ char *answer = NULL;
        struct timespec begin;
        unsigned int before;

        start("127.0.0.1:0", 0);
        before = count_descriptors();
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = dial(holders[i % ARRAY_SIZE(holders)]);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (count_descriptors() < before + ARRAY_SIZE(fds) + METRICS_HTTP_CONNECTIONS)
                turn(&begin);
        turn(&begin);
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
                close(fds[i]);
        while (count_descriptors() > before)
                turn(&begin);
        answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
}

static void test_an_idle_server_costs_no_turn_of_the_loop(void **state UNUSED)
{
        _free_ char *answer = NULL;
        struct timespec begin;

        start("127.0.0.1:0", 0);
        answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (uv_backend_timeout(&loop) >= 0)
                turn(&begin);
}

/* ---- addresses ---- */

static void test_addresses_have_three_forms(void **state UNUSED)
{
        static const char *const forms[] = {"127.0.0.1:0", ":0", "[::]:0", "0.0.0.0:0"};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                _free_ char *answer = NULL;

                if (try(forms[i], 0, &err) < 0) {
                        assert_int_equal(err.kind, ERROR_UNAVAILABLE); /* no IPv6 on this machine */
                        continue;
                }
                server_port = metrics_http_port(http);
                if (forms[i][0] != '[') {
                        answer = ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
                        assert_begins(answer, "HTTP/1.1 200 OK\r\n");
                }
                http = metrics_http_close(http);
                uv_run(&loop, UV_RUN_DEFAULT);
        }
}

static const char *const wrong_addresses[] = {"9400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1: 1", "localhost:9400", "::1:9400", "[::1]9400", "[::1:9400", "[]:9400", "[127.0.0.1]:9400", "[:9400",
        "http://127.0.0.1:9400", "1111111111111111111111111111111111111111111111111111111111111:1"};

static void test_a_wrong_address_is_refused_with_the_right_form(void **state UNUSED)
{
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong_addresses); i++) {
                _free_ char *text = xasprintf(
                        "metrics: '%s' is no IP address with a port, as 127.0.0.1:9400, [::1]:9400 or, for all, :9400",
                        wrong_addresses[i]);

                assert_fails(try(wrong_addresses[i], 0, &err), &err, ERROR_INVALID, text);
        }
}

static void test_a_port_in_use_is_an_error(void **state UNUSED)
{
        _free_ char *address = NULL;
        _free_ char *text = NULL;
        struct metrics_http *first;
        struct error err;

        start("127.0.0.1:0", 0);
        first = http;
        address = xasprintf("127.0.0.1:%u", metrics_http_port(http));
        text = xasprintf("metrics: listen at '%s': Address already in use", address);
        if (try(address, 0, &err) == 0)
                fail_msg("two servers have one port");
        assert_string_equal(err.text, text);
        http = first;
}

/* ---- the end ---- */

static void test_closing_leaves_nothing(void **state UNUSED)
{
        unsigned int before = count_descriptors();
        struct timespec begin;
        _free_ char *rest = NULL;
        int fd;

        start("127.0.0.1:0", 0);
        fd = dial("127.0.0.1");
        say(fd, "GET /metrics HTTP");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        while (uv_backend_timeout(&loop) < 0) /* its deadline runs: it was accepted */
                turn(&begin);
        http = metrics_http_close(http);
        uv_run(&loop, UV_RUN_DEFAULT);
        rest = hear(fd);
        assert_string_equal(rest, "");
        /* The loop keeps what it opened for itself. */
        uv_loop_close(&loop);
        uv_loop_init(&loop);
        assert_int_equal(count_descriptors(), before);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_page_is_served, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_nobody_keeps_the_loop_busy_by_asking_again_and_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_each_page_is_shared_for_itself, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_trusted_client_has_a_new_page_each_time, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_large_page_arrives_whole, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_page_of_the_node_has_what_is_asked_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_health_is_a_status_with_its_reason, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_ailment_is_no_reason_for_a_restart, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_head_is_a_page_without_its_text, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_anything_else_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_junk_ends_with_its_connection, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_without_a_token_only_health_is_answered, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_page_waits_until_it_is_known_whether_it_may_be_read, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_an_address_that_has_shown_a_wrong_token_is_a_suspect, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_question_ends_with_its_client_and_with_the_server, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_head_without_an_end_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_connection_has_one_request, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_client_that_writes_slowly_is_let_go, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_client_that_reads_nothing_is_let_go, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_silent_clients_do_not_keep_a_probe_out, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_peer_with_one_connection_keeps_it_before_one_with_many, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_room_that_is_made_at_once_is_used, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_idle_server_costs_no_turn_of_the_loop, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_addresses_have_three_forms, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_wrong_address_is_refused_with_the_right_form, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_port_in_use_is_an_error, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_closing_leaves_nothing, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
