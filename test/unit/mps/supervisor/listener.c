// SPDX-License-Identifier: Apache-2.0
#include "until.h"
#include "user.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "mps/fakes.h"
#include "base/io/lines.h"
#include "base/io/unix_socket.h"
#include "mps/supervisor/listener.h"
#include "mps/wire/message.h"

#define CLIENTS (MPS_LISTENER_CLIENTS_MAX + 1)

struct peer {
        struct lines *lines;
        struct mps_answer last;
        size_t n_answers;
        size_t n_statuses;
        uint64_t generation; /* of the last status */
        bool is_over;
};

static struct rig {
        char folder[64];
        char path[100];
        uv_loop_t loop;
        struct mps_listener *listener;
        struct peer peers[CLIENTS];
        struct arena arena;
} rig;

static void on_line(const char *line, size_t length, void *data)
{
        struct peer *peer = data;
        struct mps_answer answer;
        struct error err;

        assert_ok(mps_answer_read(&answer, &rig.arena, line, length, &err), &err);
        if (answer.is_status) {
                peer->n_statuses++;
                peer->generation = answer.status->generation;
                mps_status_free(answer.status);
        } else {
                peer->n_answers++;
                peer->last = answer;
        }
}

static void on_end(const struct error *reason UNUSED, void *data)
{
        struct peer *peer = data;

        peer->is_over = true;
        peer->lines = lines_close(peer->lines);
}

static void listen_with(const char *own_plan)
{
        const struct mps_listener_options options = {.loop = &rig.loop, .root = rig.folder, .own_plan = own_plan};
        struct error err;

        assert_ok(mps_listener_new(&rig.listener, &options, &err), &err);
}

static int start(void **state UNUSED)
{
        memset(&rig, 0, sizeof(rig));
        memset(&fakes, 0, sizeof(fakes));
        strcpy(rig.folder, "/tmp/warpshare-listener-XXXXXX");
        assert_non_null(mkdtemp(rig.folder));
        snprintf(rig.path, sizeof(rig.path), "%s/" MPS_SOCKET, rig.folder);
        uv_loop_init(&rig.loop);
        listen_with(NULL);
        return 0;
}

static void close_listener(void)
{
        if (rig.listener)
                mps_listener_close(rig.listener, NULL, NULL);
        rig.listener = NULL;
}

static int stop(void **state UNUSED)
{
        close_listener();
        for (size_t i = 0; i < CLIENTS; i++)
                lines_close(rig.peers[i].lines);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&rig.loop), 0);
        arena_done(&rig.arena);
        arena_done(&fakes.status.arena);
        unlink(rig.path);
        return rmdir(rig.folder);
}

static struct peer *connect_peer(size_t position)
{
        struct peer *peer = &rig.peers[position];
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = MPS_MESSAGE_MAX,
                .on_line = on_line,
                .on_end = on_end,
                .data = peer,
        };
        struct error err;

        assert_ok(lines_connect(&peer->lines, &rig.loop, rig.path, &options, &err), &err);
        return peer;
}

static void say(const struct peer *peer, const struct mps_request *request)
{
        _free_ char *text = mps_request_write(request);

        lines_send(peer->lines, text, strlen(text));
}

static void test_a_watcher_gets_the_status_at_once_and_at_each_change(void **state UNUSED)
{
        const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};
        struct peer *peer = connect_peer(0);
        struct peer *other = connect_peer(1);
        const struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = 3};

        fakes.status.generation = 1;
        say(peer, &watch);
        say(other, &ping);
        UNTIL(&rig.loop, peer->n_statuses == 1 && other->n_answers == 1);
        assert_int_equal(peer->generation, 1);
        assert_true(other->last.ok && other->last.id == 3);
        fakes.status.generation = 2;
        mps_listener_changed(rig.listener);
        UNTIL(&rig.loop, peer->generation == 2);
        assert_int_equal(peer->n_statuses, 2);
        assert_int_equal(other->n_statuses, 0);
}

static void test_a_ping_that_looks_is_answered_behind_the_status(void **state UNUSED)
{
        const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};
        const struct mps_request look = {.kind = MPS_REQUEST_PING, .id = 3, .is_look = true};
        struct peer *peer = connect_peer(0);
        struct peer *other = connect_peer(1);

        say(peer, &watch);
        UNTIL(&rig.loop, peer->n_statuses == 1);
        say(peer, &look);
        UNTIL(&rig.loop, peer->n_answers == 1);
        assert_int_equal(peer->generation, 1);
        assert_int_equal(peer->n_statuses, 2);
        say(other, &look); /* it does not watch */
        UNTIL(&rig.loop, other->n_answers == 1);
        assert_int_equal(fakes.looks, 2);
        assert_int_equal(other->n_statuses, 0);
}

/* A status of about 100 KB, so that few of them fill the socket. */
static void make_large_status(void)
{
        struct mps_client *clients = ARENA_ARRAY(&fakes.status.arena, struct mps_client, 1000);
        struct mps_daemon_status *daemon = ARENA_NEW(&fakes.status.arena, struct mps_daemon_status);

        *daemon = (struct mps_daemon_status){.name = "a", .resource = "r", .clients = clients, .n_clients = 1000};
        fakes.status.daemons = daemon;
        fakes.status.n_daemons = 1;
}

static int connect_blocking(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(address.sun_path, rig.path);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

/* Reads what is there, and lets the listener go on; counts the statuses in it. */
static void read_statuses(int fd, struct strbuf *text)
{
        char bytes[65536];
        ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (size > 0)
                strbuf_append(text, bytes, (size_t)size);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static void test_a_slow_reader_gets_the_newest_status_and_few_others(void **state UNUSED)
{
        static const char watch[] = "{\"do\":\"watch\"}\n";
        struct strbuf text = STRBUF_INIT;
        int fd = connect_blocking();
        size_t n_statuses = 0;

        make_large_status();
        assert_int_equal(write(fd, watch, strlen(watch)), strlen(watch));
        for (int i = 0; i < 1000; i++) {
                fakes.status.generation++;
                mps_listener_changed(rig.listener);
                uv_run(&rig.loop, UV_RUN_NOWAIT);
        }
        while (!strstr(text.data, "{\"status\":{\"generation\":1000,"))
                read_statuses(fd, &text);
        for (const char *at = text.data; (at = strstr(at, "{\"status\"")); at++)
                n_statuses++;
        assert_in_range(n_statuses, 2, 100);
        strbuf_done(&text);
        close(fd);
}

static void test_what_is_wanted_is_put_in_force_or_refused(void **state UNUSED)
{
        struct mps_unit unit = {.uuid = "GPU-1", .gpu_uuid = "GPU-1", .index = "0", .name = "V100"};
        struct mps_daemon_wanted daemon = {
                .name = "GPU-1", .resource = "nvidia.com/gpu", .threads_permille = 50, .units = &unit, .n_units = 1};
        const struct mps_request apply = {.kind = MPS_REQUEST_APPLY, .id = 7, .generation = 3, .wanted = {&daemon, 1}};
        struct peer *peer = connect_peer(0);

        say(peer, &apply);
        UNTIL(&rig.loop, peer->n_answers == 1);
        assert_true(peer->last.ok && peer->last.id == 7);
        assert_int_equal(fakes.generation, 3);
        assert_string_equal(fakes.daemon, "GPU-1");
        fakes.refuses = true;
        say(peer, &apply);
        UNTIL(&rig.loop, peer->n_answers == 2);
        assert_false(peer->last.ok);
        assert_int_equal(peer->last.error.kind, ERROR_INVALID);
        assert_string_equal(peer->last.error.text, "two daemons are named 'a'");
}

static void test_with_a_plan_of_its_own_the_supervisor_takes_no_requests(void **state UNUSED)
{
        const struct mps_request apply = {.kind = MPS_REQUEST_APPLY, .id = 7};
        struct peer *peer;

        close_listener();
        listen_with("it has a plan of its own");
        peer = connect_peer(0);
        say(peer, &apply);
        UNTIL(&rig.loop, peer->n_answers == 1);
        assert_int_equal(peer->last.error.kind, ERROR_UNSUPPORTED);
        assert_string_equal(peer->last.error.text, "it has a plan of its own");
        assert_int_equal(fakes.applied, 0);
}

static void test_an_allocation_is_answered_when_it_is_made(void **state UNUSED)
{
        const struct mps_request allocation = {
                .kind = MPS_REQUEST_ALLOCATION, .id = 8, .allocation = {"g1", "GPU-1", "GPU-1", 350, 1000, 24}};
        const struct mps_allocation made = {.tier = MPS_TIER_PARTITION, .partition = "GPU-1/A=", .sms = 24};
        struct peer *peer = connect_peer(0);

        say(peer, &allocation);
        UNTIL(&rig.loop, fakes.on_granted);
        assert_string_equal(fakes.granted.id, "g1");
        assert_int_equal(fakes.granted.sms, 24);
        fakes.on_granted(NULL, &made, fakes.data);
        UNTIL(&rig.loop, peer->n_answers == 1);
        assert_true(peer->last.ok && peer->last.has_allocation && peer->last.id == 8);
        assert_string_equal(peer->last.allocation.partition, "GPU-1/A=");
}

static void test_release_and_terminate_are_answered(void **state UNUSED)
{
        const struct mps_request release = {.kind = MPS_REQUEST_RELEASE, .id = 9, .allocation = {.id = "g1"}};
        const struct mps_request terminate = {
                .kind = MPS_REQUEST_TERMINATE, .id = 10, .daemon = "GPU-1", .client = 4711, .container_id = "0a"};
        struct peer *peer = connect_peer(0);
        struct error err;

        say(peer, &release);
        UNTIL(&rig.loop, fakes.on_done);
        assert_string_equal(fakes.released, "g1");
        fakes.on_done(NULL, fakes.data);
        fakes.on_done = NULL;
        say(peer, &terminate);
        UNTIL(&rig.loop, fakes.on_done);
        assert_int_equal(fakes.terminated, 4711);
        error_raise(&err, ERROR_NOT_FOUND, "no client 4711");
        fakes.on_done(&err, fakes.data);
        UNTIL(&rig.loop, peer->n_answers == 2);
        assert_false(peer->last.ok);
        assert_string_equal(peer->last.error.text, "no client 4711");
}

static void test_an_answer_for_a_closed_connection_is_dropped(void **state UNUSED)
{
        const struct mps_request release = {.kind = MPS_REQUEST_RELEASE, .id = 9, .allocation = {.id = "g1"}};
        const struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = 1};
        struct peer *peer = connect_peer(0);
        struct peer *other;

        say(peer, &release);
        UNTIL(&rig.loop, fakes.on_done);
        peer->lines = lines_close(peer->lines);
        other = connect_peer(1); /* accepted after the end of the first was seen */
        say(other, &ping);
        UNTIL(&rig.loop, other->n_answers == 1);
        fakes.on_done(NULL, fakes.data);
        say(other, &ping);
        UNTIL(&rig.loop, other->n_answers == 2);
}

static void test_an_answer_after_the_end_of_the_listener_goes_nowhere(void **state UNUSED)
{
        const struct mps_request release = {.kind = MPS_REQUEST_RELEASE, .id = 9, .allocation = {.id = "g1"}};
        struct peer *peer = connect_peer(0);

        say(peer, &release);
        UNTIL(&rig.loop, fakes.on_done);
        close_listener();
        UNTIL(&rig.loop, peer->is_over);
        fakes.on_done(NULL, fakes.data);
}

static void test_open_requests_are_bounded(void **state UNUSED)
{
        const struct mps_request release = {.kind = MPS_REQUEST_RELEASE, .id = 9, .allocation = {.id = "g1"}};
        void *calls[MPS_LISTENER_CALLS_MAX];
        struct peer *peer = connect_peer(0);

        for (size_t i = 0; i < MPS_LISTENER_CALLS_MAX; i++) {
                fakes.on_done = NULL;
                say(peer, &release);
                UNTIL(&rig.loop, fakes.on_done);
                calls[i] = fakes.data;
        }
        say(peer, &release);
        UNTIL(&rig.loop, peer->n_answers == 1);
        assert_int_equal(peer->last.error.kind, ERROR_UNAVAILABLE);
        assert_string_equal(peer->last.error.text, "64 requests of this connection are open already");
        for (size_t i = 0; i < MPS_LISTENER_CALLS_MAX; i++)
                fakes.on_done(NULL, calls[i]);
        UNTIL(&rig.loop, peer->n_answers == 1 + MPS_LISTENER_CALLS_MAX);
        assert_true(peer->last.ok);
}

static void test_connections_are_bounded(void **state UNUSED)
{
        const struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = 1};

        for (size_t i = 0; i < CLIENTS; i++) {
                struct peer *peer = connect_peer(i);

                say(peer, &ping);
                UNTIL(&rig.loop, peer->n_answers == 1 || peer->is_over);
                assert_int_equal(peer->is_over, i == CLIENTS - 1);
        }
}

static void test_what_is_no_request_ends_the_connection(void **state UNUSED)
{
        struct peer *peer = connect_peer(0);

        lines_send(peer->lines, "GET / HTTP/1.1\n", 15);
        UNTIL(&rig.loop, peer->is_over);
        assert_int_equal(peer->n_answers, 0);
}

static void test_only_root_and_our_own_user_may_connect(void **state UNUSED)
{
        static const char ping[] = "{\"do\":\"ping\",\"id\":1}\n";
        int status = -1;
        pid_t child;

        if (!user_can_be(65534))
                skip(); /* nobody else can be played */
        assert_int_equal(chmod(rig.folder, 0755), 0);
        assert_int_equal(chmod(rig.path, 0666), 0);
        child = fork();
        if (child == 0) {
                char byte;
                int fd;

                if (setgid(65534) < 0 || setuid(65534) < 0)
                        _exit(2);
                fd = connect_blocking();
                (void)!write(fd, ping, strlen(ping));
                _exit(read(fd, &byte, 1) == 1 ? 1 : 0);
        }
        while (waitpid(child, &status, WNOHANG) == 0)
                uv_run(&rig.loop, UV_RUN_NOWAIT);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_the_socket_is_ours_alone_and_goes_with_us(void **state UNUSED)
{
        struct stat status;

        assert_int_equal(stat(rig.path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        close_listener();
        assert_int_equal(stat(rig.path, &status), -1);
}

static void test_a_socket_that_is_not_ours_any_more_stays(void **state UNUSED)
{
        struct stat status;
        struct error err;
        int fd;

        assert_ok(unix_socket_bind(&fd, rig.path, 0600, &err), &err);
        close_listener();
        assert_int_equal(stat(rig.path, &status), 0);
        close(fd);
}

static void test_a_root_that_is_not_there_is_named(void **state UNUSED)
{
        const struct mps_listener_options options = {.loop = &rig.loop, .root = "/nonexistent"};
        struct mps_listener *listener;
        struct error err;

        assert_fails(mps_listener_new(&listener, &options, &err), &err, ERROR_NOT_FOUND,
                "bind '/nonexistent/warpshare.sock': No such file or directory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_watcher_gets_the_status_at_once_and_at_each_change, start, stop),
                cmocka_unit_test_setup_teardown(test_a_ping_that_looks_is_answered_behind_the_status, start, stop),
                cmocka_unit_test_setup_teardown(test_a_slow_reader_gets_the_newest_status_and_few_others, start, stop),
                cmocka_unit_test_setup_teardown(test_what_is_wanted_is_put_in_force_or_refused, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_with_a_plan_of_its_own_the_supervisor_takes_no_requests, start, stop),
                cmocka_unit_test_setup_teardown(test_an_allocation_is_answered_when_it_is_made, start, stop),
                cmocka_unit_test_setup_teardown(test_release_and_terminate_are_answered, start, stop),
                cmocka_unit_test_setup_teardown(test_an_answer_for_a_closed_connection_is_dropped, start, stop),
                cmocka_unit_test_setup_teardown(test_an_answer_after_the_end_of_the_listener_goes_nowhere, start, stop),
                cmocka_unit_test_setup_teardown(test_open_requests_are_bounded, start, stop),
                cmocka_unit_test_setup_teardown(test_connections_are_bounded, start, stop),
                cmocka_unit_test_setup_teardown(test_what_is_no_request_ends_the_connection, start, stop),
                cmocka_unit_test_setup_teardown(test_only_root_and_our_own_user_may_connect, start, stop),
                cmocka_unit_test_setup_teardown(test_the_socket_is_ours_alone_and_goes_with_us, start, stop),
                cmocka_unit_test_setup_teardown(test_a_socket_that_is_not_ours_any_more_stays, start, stop),
                cmocka_unit_test_setup_teardown(test_a_root_that_is_not_there_is_named, start, stop),
        };

        signal(SIGPIPE, SIG_IGN); /* as the program has it */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
