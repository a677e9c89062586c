// SPDX-License-Identifier: Apache-2.0
/*
 * Server and client on real sockets, one loop for both sides, and a peer that writes bytes itself where a client would
 * not.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"

struct stage {
        uv_loop_t loop;
        char folder[64];
        char path[96];
        struct bench bench;
        struct rpc_server *server; /* NULL once it was told to close */
        bool server_is_closed;
        unsigned int disconnects;
        struct error client_reason;
        unsigned int clients_closed;
};

static void on_disconnect(void *context)
{
        struct stage *stage = container_of((struct bench *)context, struct stage, bench);

        stage->disconnects++;
}

static void stage_serve(struct stage *stage, size_t connections, uint64_t handshake_ms, size_t message)
{
        struct rpc_server_options options = {.service = bench_service(&stage->bench),
                .connections = connections,
                .handshake_ms = handshake_ms,
                .on_disconnect = on_disconnect};
        struct error err;

        options.service.limits.message = message;
        stage->server_is_closed = false;
        assert_ok(rpc_server_new(&stage->server, &stage->loop, stage->path, &options, &err), &err);
}

#define HANDSHAKE_MS 500 /* in which a handshake is done even where the machine stands still for a moment */

static void stage_begin(struct stage *stage)
{
        *stage = (struct stage){0};
        strcpy(stage->folder, "/tmp/rpc-socket-XXXXXX");
        assert_non_null(mkdtemp(stage->folder));
        snprintf(stage->path, sizeof(stage->path), "%s/s.sock", stage->folder);
        assert_int_equal(uv_loop_init(&stage->loop), 0);
}

static void stage_init(struct stage *stage, size_t connections, uint64_t handshake_ms)
{
        stage_begin(stage);
        stage_serve(stage, connections, handshake_ms, 0);
}

/* Messages have at most |message| bytes. */
static void stage_init_limited(struct stage *stage, size_t message)
{
        stage_begin(stage);
        stage_serve(stage, 0, 0, message);
}

static void on_server_closed(void *data)
{
        ((struct stage *)data)->server_is_closed = true;
}

static void stage_close_server(struct stage *stage, uint64_t grace_ms)
{
        rpc_server_close(stage->server, grace_ms, on_server_closed, stage);
        stage->server = NULL;
        assert_false(stage->server_is_closed);
}

static void stage_done(struct stage *stage)
{
        if (stage->server)
                stage_close_server(stage, 0);
        uv_run(&stage->loop, UV_RUN_DEFAULT);
        assert_true(stage->server_is_closed);
        assert_int_equal(uv_loop_close(&stage->loop), 0);
        unlink(stage->path);
        assert_int_equal(rmdir(stage->folder), 0);
}

/* Turns the loop until |*value| is at least |least|; a test that waits ten seconds has failed. */
static void run_until(struct stage *stage, const unsigned int *value, unsigned int least)
{
        uint64_t end_ms;

        uv_update_time(&stage->loop);
        end_ms = uv_now(&stage->loop) + 10000;
        while (*value < least) {
                bool is_alive = uv_run(&stage->loop, UV_RUN_NOWAIT) != 0 && uv_now(&stage->loop) < end_ms;

                if (!is_alive && *value < least)
                        fail_msg("waited in vain: %u of %u", *value, least);
        }
}

static void run_some(struct stage *stage, uint64_t milliseconds)
{
        uint64_t end_ms;

        uv_update_time(&stage->loop);
        end_ms = uv_now(&stage->loop) + milliseconds;
        while (uv_now(&stage->loop) < end_ms)
                uv_run(&stage->loop, UV_RUN_NOWAIT);
}

static void on_client_closed(struct rpc_client *client UNUSED, const struct error *reason, void *data)
{
        struct stage *stage = data;

        stage->clients_closed++;
        stage->client_reason = *reason;
}

static struct rpc_client *new_client(struct stage *stage)
{
        const struct rpc_client_options options = {.on_closed = on_client_closed, .data = stage};
        struct rpc_client *client;
        struct error err;

        assert_ok(rpc_client_new(&client, &stage->loop, stage->path, &options, &err), &err);
        return client;
}

static struct rpc_call *start(
        struct rpc_client *client, const char *path, size_t size, uint64_t timeout_ms, struct outcome *outcome)
{
        _cleanup_(rpc_message_unrefp) struct rpc_message *request = filled_message(size, 'q');
        struct rpc_call *call;

        rpc_client_call(client, &call, path, request, timeout_ms, &outcome_handlers, outcome);
        assert_int_equal(outcome->ended, 0);
        return call;
}

static void test_a_call_goes_round(void **state UNUSED)
{
        static const size_t sizes[] = {0, 1, 1000, 1 << 20, 4 << 20};
        struct stage stage;
        struct rpc_client *client;

        stage_init(&stage, 1, 0);
        client = new_client(&stage);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct outcome outcome = {0};

                start(client, "/t.T/Echo", sizes[i], 5000, &outcome);
                run_until(&stage, &outcome.ended, 1);
                assert_int_equal(outcome.status, RPC_OK);
                assert_int_equal(outcome.bytes, sizes[i]);
        }
        assert_int_equal(stage.disconnects, 0);
        assert_string_equal(rpc_server_path(stage.server), stage.path);
        rpc_client_close(client);
        run_until(&stage, &stage.disconnects, 1);
        assert_int_equal(stage.clients_closed, 0);
        stage_done(&stage);
}

static void test_a_thousand_connections_are_served(void **state UNUSED)
{
        enum { MANY = 1000 };
        struct outcome *outcomes = xcalloc(MANY, sizeof(*outcomes));
        struct rpc_client **clients = xcalloc(MANY, sizeof(struct rpc_client *));
        struct rlimit files;
        struct stage stage;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = MIN(files.rlim_max, 4096);
        setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur < 2 * MANY + 50) {
                free(outcomes);
                free(clients);
                skip();
        }
        stage_init(&stage, MANY, 0);
        for (size_t i = 0; i < MANY; i++) {
                clients[i] = new_client(&stage);
                start(clients[i], "/t.T/Echo", i, 0, &outcomes[i]);
                if (i % 100 == 99) /* the backlog is finite */
                        run_until(&stage, &outcomes[i].ended, 1);
        }
        for (size_t i = 0; i < MANY; i++) {
                run_until(&stage, &outcomes[i].ended, 1);
                assert_int_equal(outcomes[i].status, RPC_OK);
                assert_int_equal(outcomes[i].bytes, i);
        }
        assert_int_equal(stage.disconnects, 0);
        for (size_t i = 0; i < MANY; i++)
                rpc_client_close(clients[i]);
        run_until(&stage, &stage.disconnects, MANY);
        free(outcomes);
        free(clients);
        stage_done(&stage);
}

static void test_a_connection_too_many_is_closed(void **state UNUSED)
{
        struct outcome fine[2] = {0}, extra = {0}, again = {0};
        struct rpc_client *clients[4];
        struct stage stage;

        stage_init(&stage, 2, 0);
        for (size_t i = 0; i < 2; i++) {
                clients[i] = new_client(&stage);
                start(clients[i], "/t.T/Hold", 1, 0, &fine[i]);
                run_until(&stage, &stage.bench.handled, (unsigned int)i + 1);
        }
        clients[2] = new_client(&stage);
        start(clients[2], "/t.T/Echo", 1, 0, &extra);
        run_until(&stage, &extra.ended, 1);
        assert_int_equal(extra.status, RPC_UNAVAILABLE);
        assert_int_equal(stage.clients_closed, 1);
        rpc_client_close(clients[2]);
        rpc_client_close(clients[0]);
        run_until(&stage, &stage.disconnects, 1);
        clients[3] = new_client(&stage);
        start(clients[3], "/t.T/Echo", 1, 0, &again);
        run_until(&stage, &again.ended, 1);
        assert_int_equal(again.status, RPC_OK);
        rpc_client_close(clients[1]);
        rpc_client_close(clients[3]);
        stage_done(&stage);
}

/* kubelet always has a call open, and whoever only holds a connection does not keep it out. */
static void test_an_idle_connection_gives_way(void **state UNUSED)
{
        struct outcome held = {0}, idle = {0}, again[2] = {{0}, {0}};
        struct rpc_client *clients[4];
        struct stage stage;

        stage_init(&stage, 2, 0);
        clients[0] = new_client(&stage);
        start(clients[0], "/t.T/Hold", 1, 0, &held);
        run_until(&stage, &stage.bench.handled, 1);
        clients[1] = new_client(&stage);
        start(clients[1], "/t.T/Echo", 1, 0, &idle);
        run_until(&stage, &idle.ended, 1);
        for (size_t i = 0; i < 2; i++) {
                clients[2 + i] = new_client(&stage);
                start(clients[2 + i], "/t.T/Echo", 1, 0, &again[i]);
                run_until(&stage, &again[i].ended, 1);
                assert_int_equal(again[i].status, RPC_OK);
                run_until(&stage, &stage.clients_closed, (unsigned int)i + 1);
        }
        assert_int_equal(held.ended, 0);
        run_until(&stage, &stage.disconnects, 2);
        assert_int_equal(stage.disconnects, 2);
        for (size_t i = 0; i < 4; i++)
                rpc_client_close(clients[i]);
        stage_done(&stage);
}

/* ---- peers that write bytes themselves ---- */

static int dial(struct stage *stage)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        strcpy(address.sun_path, stage->path);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

static void check_still_serving(struct stage *stage)
{
        struct outcome outcome = {0};
        struct rpc_client *client = new_client(stage);

        start(client, "/t.T/Echo", 100, 5000, &outcome);
        run_until(stage, &outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_OK);
        rpc_client_close(client);
}

static void test_half_a_frame_and_then_silence_is_closed_without_handshake(void **state UNUSED)
{
        struct stage stage;
        int fd, silent;

        stage_init(&stage, 0, HANDSHAKE_MS);
        silent = dial(&stage);
        fd = dial(&stage);
        assert_int_equal(write(fd, NGHTTP2_CLIENT_MAGIC "\0\0", 26), 26);
        run_until(&stage, &stage.disconnects, 2);
        check_still_serving(&stage);
        close(fd);
        close(silent);
        stage_done(&stage);
}

static void test_half_a_frame_after_the_handshake_may_wait(void **state UNUSED)
{
        struct stage stage;
        struct peer peer;
        int fd;

        stage_init(&stage, 0, HANDSHAKE_MS);
        peer_init(&peer);
        peer_preface(&peer);
        peer_request(&peer, 1, "/t.T/Echo", "\0\0\0\0\0", 5);
        fd = dial(&stage);
        assert_int_equal(write(fd, peer.out.data, peer.out.size - 10), (ssize_t)peer.out.size - 10);
        run_some(&stage, HANDSHAKE_MS + 200);
        assert_int_equal(stage.disconnects, 0);
        assert_int_equal(stage.bench.handled, 0);
        assert_int_equal(write(fd, peer.out.data + peer.out.size - 10, 10), 10);
        run_until(&stage, &stage.bench.handled, 1);
        close(fd);
        peer_done(&peer);
        stage_done(&stage);
}

static void test_a_claimed_gibibyte_costs_a_stream(void **state UNUSED)
{
        struct stage stage;
        struct peer peer;
        int fd;

        stage_init(&stage, 0, 0);
        peer_init(&peer);
        peer_preface(&peer);
        peer_request(&peer, 1, "/t.T/Echo", "\0\100\0\0\0", 5);
        peer_request(&peer, 3, "/t.T/Echo", "\0\0\0\0\0", 5);
        fd = dial(&stage);
        assert_int_equal(write(fd, peer.out.data, peer.out.size), (ssize_t)peer.out.size);
        run_until(&stage, &stage.bench.handled, 1);
        assert_int_equal(stage.disconnects, 0);
        close(fd);
        peer_done(&peer);
        stage_done(&stage);
}

/* Twenty peers with half a message each: what they keep here has one bound, and costs those who keep most. */
static void test_half_messages_of_all_connections_together_are_bounded(void **state UNUSED)
{
        enum { PEERS = 20, HALF = 9000 };
        uint8_t part[HALF] = {0, 0, 0, 0x27, 0x10}; /* claims 10000 */
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct peer peer;
        int fds[PEERS];
        struct stage stage;

        stage_init_limited(&stage, 10000);
        peer_init(&peer);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 100, 0, &outcome);
        run_until(&stage, &stage.bench.handled, 1);
        for (size_t i = 0; i < PEERS; i++) {
                static const struct field request[] = {{":method", "POST"}, {":scheme", "http"}, {":path", "/t.T/Echo"},
                        {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"},
                        {NULL, NULL}};

                peer_done(&peer);
                peer_init(&peer);
                peer_preface(&peer);
                peer_headers(&peer, 0, 1, request);
                peer_frame(&peer, NGHTTP2_DATA, 0, 1, part, sizeof(part));
                fds[i] = dial(&stage);
                assert_int_equal(write(fds[i], peer.out.data, peer.out.size), (ssize_t)peer.out.size);
        }
        run_until(&stage, &stage.disconnects, PEERS - 2);
        run_some(&stage, 50);
        assert_int_equal(stage.disconnects, PEERS - 2);
        assert_int_equal(outcome.ended, 0);
        check_still_serving(&stage);
        for (size_t i = 0; i < PEERS; i++)
                close(fds[i]);
        rpc_client_close(client);
        peer_done(&peer);
        stage_done(&stage);
}

static void count_turn(uv_prepare_t *prepare)
{
        ++*(unsigned int *)prepare->data;
}

static void stop_loop(uv_timer_t *timer)
{
        uv_stop(timer->loop);
}

/*
 * No descriptor is free, and peers wait to be accepted: the loop sleeps all the same, and serves them once there is
 * one.
 */
static void test_a_server_out_of_descriptors_sleeps(void **state UNUSED)
{
        enum { PEERS = 5 };
        struct rlimit before, none;
        unsigned int turns = 0;
        uv_prepare_t prepare;
        uv_timer_t timer;
        int fds[PEERS];
        struct stage stage;

        stage_init(&stage, 0, 0);
        uv_prepare_init(&stage.loop, &prepare);
        uv_timer_init(&stage.loop, &timer);
        prepare.data = &turns;
        for (size_t i = 0; i < PEERS; i++)
                fds[i] = dial(&stage);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        uv_prepare_start(&prepare, count_turn);
        uv_timer_start(&timer, stop_loop, 300, 0);
        uv_run(&stage.loop, UV_RUN_DEFAULT);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_in_range(turns, 1, 50);
        uv_close((uv_handle_t *)&prepare, NULL);
        uv_close((uv_handle_t *)&timer, NULL);
        check_still_serving(&stage);
        for (size_t i = 0; i < PEERS; i++)
                close(fds[i]);
        stage_done(&stage);
}

/* Writes what fits; false once the server has hung up. */
static bool push(int fd, struct peer *peer)
{
        ssize_t size = send(fd, peer->out.data, peer->out.size, MSG_NOSIGNAL);

        if (size > 0)
                strbuf_consume(&peer->out, (size_t)size);
        return size >= 0 || errno == EAGAIN;
}

static void test_resets_in_a_loop_end_the_connection(void **state UNUSED)
{
        struct stage stage;
        struct peer peer;
        char sink[65536];
        int32_t stream_id = 1;
        int fd;

        stage_init(&stage, 0, 0);
        peer_init(&peer);
        peer_preface(&peer);
        fd = dial(&stage);
        for (; stage.disconnects == 0 && stream_id < 20000; stream_id += 2) {
                peer_request(&peer, stream_id, "/t.T/Hold", "\0\0\0\0\0", 5);
                peer_u32(&peer, NGHTTP2_RST_STREAM, stream_id, NGHTTP2_CANCEL);
                push(fd, &peer);
                uv_run(&stage.loop, UV_RUN_NOWAIT);
                while (read(fd, sink, sizeof(sink)) > 0)
                        ;
        }
        assert_int_equal(stage.disconnects, 1);
        assert_true(stage.bench.handled <= 1002);
        assert_int_equal(stage.bench.ended, stage.bench.handled);
        check_still_serving(&stage);
        close(fd);
        peer_done(&peer);
        stage_done(&stage);
}

static void test_a_peer_that_never_reads_is_dropped(void **state UNUSED)
{
        struct stage stage;
        struct peer peer;
        int fd;

        stage_init(&stage, 0, 0);
        peer_init(&peer);
        peer_preface(&peer);
        fd = dial(&stage);
        for (unsigned int i = 0; stage.disconnects == 0 && i < 100000; i++) {
                if (peer.out.size < 65536) {
                        for (unsigned int j = 0; j < 100; j++)
                                peer_frame(&peer, NGHTTP2_PING, 0, 0, "12345678", 8);
                }
                if (!push(fd, &peer))
                        run_some(&stage, 1);
                uv_run(&stage.loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(stage.disconnects, 1);
        check_still_serving(&stage);
        close(fd);
        peer_done(&peer);
        stage_done(&stage);
}

static void send_list(struct stage *stage, int byte)
{
        struct rpc_message *list = filled_message(1 << 20, byte);

        rpc_call_send(stage->bench.call, list);
        rpc_call_flush(stage->bench.call);
        rpc_message_unref(list);
}

static void test_lists_for_a_peer_that_does_not_read_replace_each_other(void **state UNUSED)
{
        static const uint8_t large_window[] = {0, 4, 0x7f, 0xff, 0xff, 0xff};
        struct stage stage;
        struct peer peer;
        size_t total = 0;
        char sink[65536];
        ssize_t size;
        int fd;

        stage_init(&stage, 0, 0);
        peer_init(&peer);
        peer_preface(&peer);
        peer_frame(&peer, NGHTTP2_SETTINGS, 0, 0, large_window, sizeof(large_window));
        peer_u32(&peer, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000 - 65535);
        peer_request(&peer, 1, "/t.T/Hold", "\0\0\0\0\0", 5);
        fd = dial(&stage);
        assert_true(push(fd, &peer));
        run_until(&stage, &stage.bench.handled, 1);
        for (int i = 0; i < 100; i++) {
                send_list(&stage, i);
                uv_run(&stage.loop, UV_RUN_NOWAIT);
        }
        assert_non_null(stage.bench.call);
        for (unsigned int quiet = 0; quiet < 3; quiet++) {
                run_some(&stage, 5);
                while ((size = read(fd, sink, sizeof(sink))) > 0) {
                        total += (size_t)size;
                        quiet = 0;
                        uv_run(&stage.loop, UV_RUN_NOWAIT);
                }
        }
        assert_in_range(total, 1 << 20, (3 << 20) + 10000);
        close(fd);
        run_until(&stage, &stage.bench.ended, 1);
        peer_done(&peer);
        stage_done(&stage);
}

/* ---- the socket file ---- */

static void test_the_socket_file_is_ours_or_left_alone(void **state UNUSED)
{
        struct stage stage;
        struct stat status;
        int fd;

        stage_init(&stage, 0, 0);
        assert_true(rpc_server_is_reachable(stage.server));
        assert_int_equal(unlink(stage.path), 0);
        assert_false(rpc_server_is_reachable(stage.server));
        fd = open(stage.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
        assert_false(rpc_server_is_reachable(stage.server));
        stage_close_server(&stage, 0);
        uv_run(&stage.loop, UV_RUN_DEFAULT);
        assert_int_equal(stat(stage.path, &status), 0); /* somebody else's */

        stage_serve(&stage, 0, 0, 0); /* replaces what is there */
        assert_true(rpc_server_is_reachable(stage.server));
        check_still_serving(&stage);
        stage_close_server(&stage, 0);
        assert_int_equal(stat(stage.path, &status), -1); /* at once */
        stage_done(&stage);
}

static void test_paths_that_cannot_be_are_errors(void **state UNUSED)
{
        struct rpc_server_options options = {0};
        const struct rpc_client_options client_options = {0};
        struct rpc_server *server;
        struct rpc_client *client;
        char path[109], expected[256];
        struct stage stage;
        struct error err;

        stage_init(&stage, 0, 0);
        memset(path, 'x', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        snprintf(expected, sizeof(expected), "socket '%s': the path has 108 bytes, at most 107 are possible", path);
        assert_fails(rpc_server_new(&server, &stage.loop, path, &options, &err), &err, ERROR_INVALID, expected);
        assert_fails(rpc_client_new(&client, &stage.loop, path, &client_options, &err), &err, ERROR_INVALID, expected);
        assert_fails(rpc_server_new(&server, &stage.loop, "/nowhere/s.sock", &options, &err), &err, ERROR_NOT_FOUND,
                "bind '/nowhere/s.sock': No such file or directory");
        assert_fails(rpc_server_new(&server, &stage.loop, stage.folder, &options, &err), &err, ERROR_INVALID,
                (snprintf(expected, sizeof(expected), "remove what is at '%s': Is a directory", stage.folder),
                        expected));
        stage_done(&stage);
}

/* ---- the end ---- */

static void test_a_polite_close_waits_for_the_calls(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, 0);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 0, 0, &outcome);
        run_until(&stage, &stage.bench.handled, 1);
        stage_close_server(&stage, 5000);
        run_some(&stage, 50);
        assert_false(stage.server_is_closed);
        assert_int_equal(outcome.ended, 0);
        rpc_call_finish(stage.bench.call, RPC_NOT_FOUND, "bye");
        rpc_call_flush(stage.bench.call);
        run_until(&stage, &stage.clients_closed, 1);
        assert_int_equal(outcome.status, RPC_NOT_FOUND);
        assert_string_equal(outcome.text, "bye");
        rpc_client_close(client);
        stage_done(&stage);
}

static void test_grace_ends(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, 0);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 0, 0, &outcome);
        run_until(&stage, &stage.bench.handled, 1);
        stage_close_server(&stage, 50);
        run_until(&stage, &stage.clients_closed, 1);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_CANCELLED); /* reset */
        assert_int_equal(stage.bench.ended, 1);
        rpc_client_close(client);
        stage_done(&stage);
}

/* Reads up to the end of the connection, in whole frames; returns the last stream that GOAWAY names. */
static int32_t read_goaway(struct stage *stage, int fd)
{
        uint8_t bytes[4096];
        size_t size = 0;
        ssize_t got;
        int32_t last = -1;

        while ((got = read(fd, bytes + size, sizeof(bytes) - size)) != 0) {
                if (got > 0)
                        size += (size_t)got;
                else
                        assert_int_equal(errno, EAGAIN);
                run_some(stage, 1);
        }
        for (size_t at = 0; at < size;) {
                size_t length = (size_t)bytes[at] << 16 | (size_t)bytes[at + 1] << 8 | bytes[at + 2];

                if (bytes[at + 3] == NGHTTP2_GOAWAY)
                        last = bytes[at + 9] << 24 | bytes[at + 10] << 16 | bytes[at + 11] << 8 | bytes[at + 12];
                at += 9 + length;
        }
        return last;
}

static void stage_leave(struct stage *stage)
{
        rpc_server_leave(stage->server, on_server_closed, stage);
        stage->server = NULL;
        assert_false(stage->server_is_closed);
}

/* grpc fails a call that it cannot write, and repeats one that GOAWAY says has not begun. */
static void test_a_client_that_still_writes_reads_that_the_server_leaves(void **state UNUSED)
{
        struct stage stage;
        struct peer peer;
        int fd;

        stage_init(&stage, 0, 0);
        peer_init(&peer);
        peer_preface(&peer);
        peer_request(&peer, 1, "/t.T/Hold", "\0\0\0\0\0", 5);
        fd = dial(&stage);
        assert_int_equal(write(fd, peer.out.data, peer.out.size), (ssize_t)peer.out.size);
        run_until(&stage, &stage.bench.handled, 1);
        stage_leave(&stage);
        run_some(&stage, 20);
        peer.out.size = 0;
        peer_request(&peer, 3, "/t.T/Hold", "\0\0\0\0\0", 5);
        assert_int_equal(write(fd, peer.out.data, peer.out.size), (ssize_t)peer.out.size);
        run_some(&stage, 20);
        assert_int_equal(write(fd, peer.out.data, peer.out.size), (ssize_t)peer.out.size);
        assert_int_equal(read_goaway(&stage, fd), 0);
        assert_int_equal(stage.bench.handled, 1);
        assert_false(stage.server_is_closed);
        close(fd);
        run_until(&stage, &stage.disconnects, 1);
        peer_done(&peer);
        stage_done(&stage);
}

static void test_a_client_that_was_not_accepted_yet_reads_that_the_server_leaves(void **state UNUSED)
{
        struct stage stage;
        int fd;

        stage_init(&stage, 0, 0);
        fd = dial(&stage);
        stage_leave(&stage);
        assert_int_equal(read_goaway(&stage, fd), 0);
        close(fd);
        stage_done(&stage);
}

static void test_a_server_leaves_though_a_client_does_not(void **state UNUSED)
{
        struct stage stage;
        int fd;

        stage_init(&stage, 0, 0);
        fd = dial(&stage);
        run_some(&stage, 20);
        stage_leave(&stage);
        stage_done(&stage);
        close(fd);
}

static void test_a_server_that_is_not_there_fails_the_calls(void **state UNUSED)
{
        struct outcome early = {0}, late = {0};
        struct rpc_client *client;
        char expected[256];
        struct stage stage;

        stage_init(&stage, 0, 0);
        stage_close_server(&stage, 0);
        uv_run(&stage.loop, UV_RUN_DEFAULT);
        client = new_client(&stage);
        start(client, "/t.T/Echo", 0, 1000, &early);
        run_until(&stage, &early.ended, 1);
        snprintf(expected, sizeof(expected), "connect to '%s': No such file or directory", stage.path);
        assert_int_equal(early.status, RPC_UNAVAILABLE);
        assert_string_equal(early.text, expected);
        assert_int_equal(stage.clients_closed, 1);
        assert_int_equal(stage.client_reason.kind, ERROR_NOT_FOUND);
        start(client, "/t.T/Echo", 0, 1000, &late);
        run_until(&stage, &late.ended, 1);
        assert_int_equal(late.status, RPC_UNAVAILABLE);
        rpc_client_close(client);
        stage_done(&stage);
}

static void test_a_deadline_passes(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, 0);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 0, 500, &outcome);
        run_until(&stage, &outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_DEADLINE_EXCEEDED);
        run_until(&stage, &stage.bench.ended, 1);
        rpc_client_close(client);
        stage_done(&stage);
}

static void test_the_server_learns_of_a_cancelled_call_at_once(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct rpc_call *call;
        struct stage stage;

        stage_init(&stage, 0, 0);
        client = new_client(&stage);
        call = start(client, "/t.T/Hold", 0, 0, &outcome);
        run_until(&stage, &stage.bench.handled, 1);
        rpc_call_cancel(call);
        assert_int_equal(outcome.ended, 1);
        run_until(&stage, &stage.bench.ended, 1);
        rpc_client_close(client);
        stage_done(&stage);
}

static void test_closing_a_client_ends_its_calls(void **state UNUSED)
{
        struct outcome open = {0}, unsent = {0};
        struct rpc_client *client, *never;
        struct stage stage;

        stage_init(&stage, 0, 0);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 0, 0, &open);
        run_until(&stage, &stage.bench.handled, 1);
        assert_null(rpc_client_close(client));
        assert_int_equal(open.ended, 1);
        assert_int_equal(open.status, RPC_CANCELLED);
        run_until(&stage, &stage.bench.ended, 1);

        never = new_client(&stage);
        start(never, "/t.T/Hold", 0, 0, &unsent);
        rpc_client_close(never); /* while it connects */
        assert_int_equal(unsent.status, RPC_CANCELLED);
        assert_null(rpc_client_close(NULL));
        stage_done(&stage);
        assert_int_equal(open.ended + unsent.ended, 2);
        assert_int_equal(stage.clients_closed, 0);
}

struct closer {
        struct rpc_client *client;
        unsigned int ended;
};

static void closer_message(struct rpc_call *call UNUSED, const uint8_t *message UNUSED, size_t size UNUSED, void *data)
{
        struct closer *closer = data;

        closer->client = rpc_client_close(closer->client);
}

static void closer_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data)
{
        struct closer *closer = data;

        assert_int_equal(status, RPC_CANCELLED);
        closer->ended++;
}

static void test_a_client_may_be_closed_from_within_its_callbacks(void **state UNUSED)
{
        static const struct rpc_handlers handlers = {closer_message, closer_ended};
        struct rpc_message *request = filled_message(10, 'q');
        struct closer closer = {0};
        struct stage stage;

        stage_init(&stage, 0, 0);
        closer.client = new_client(&stage);
        rpc_client_call(closer.client, NULL, "/t.T/Echo", request, 0, &handlers, &closer);
        rpc_client_call(closer.client, NULL, "/t.T/Hold", request, 0, &handlers, &closer);
        run_until(&stage, &closer.ended, 2);
        assert_null(closer.client);
        rpc_message_unref(request);
        stage_done(&stage);
}

/* ---- what owners may do ---- */

static void stage_serve_instead(struct stage *stage, const struct rpc_method *method)
{
        const struct rpc_server_options options = {.service = {.methods = method, .n_methods = 1, .context = stage}};
        struct error err;

        stage_close_server(stage, 0);
        uv_run(&stage->loop, UV_RUN_DEFAULT);
        stage->server_is_closed = false;
        assert_ok(rpc_server_new(&stage->server, &stage->loop, stage->path, &options, &err), &err);
}

static void handle_with_flushes(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *context UNUSED)
{
        struct rpc_message *answer = filled_message(size, 'f');

        rpc_call_flush(call);
        rpc_call_send(call, answer);
        rpc_call_flush(call);
        rpc_call_finish(call, RPC_OK, NULL);
        rpc_call_flush(call);
        rpc_message_unref(answer);
}

static void test_a_handler_may_flush_and_a_caller_may_ignore_the_message(void **state UNUSED)
{
        static const struct rpc_method methods[] = {{"/t.T/Flush", handle_with_flushes}};
        const struct rpc_handlers only_ended = {.ended = outcome_handlers.ended};
        struct rpc_message *request = filled_message(10, 'q');
        struct outcome outcome = {0}, ignored = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, 0);
        stage_serve_instead(&stage, methods);
        client = new_client(&stage);
        start(client, "/t.T/Flush", 10, 0, &outcome);
        rpc_client_call(client, NULL, "/t.T/Flush", request, 0, &only_ended, &ignored);
        run_until(&stage, &outcome.ended, 1);
        run_until(&stage, &ignored.ended, 1);
        assert_int_equal(outcome.status, RPC_OK);
        assert_int_equal(outcome.first_byte, 'f');
        assert_int_equal(ignored.status, RPC_OK);
        assert_int_equal(ignored.messages, 0);
        rpc_message_unref(request);
        rpc_client_close(client);
        stage_done(&stage);
}

static void handle_by_closing(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        struct stage *stage = context;

        rpc_call_finish(call, RPC_OK, NULL);
        stage_close_server(stage, 5000);
}

static void test_a_handler_may_close_its_server(void **state UNUSED)
{
        static const struct rpc_method methods[] = {{"/t.T/Close", handle_by_closing}};
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, 0);
        stage_serve_instead(&stage, methods);
        client = new_client(&stage);
        start(client, "/t.T/Close", 0, 0, &outcome);
        run_until(&stage, &stage.clients_closed, 1);
        assert_int_equal(outcome.status, RPC_OK);
        rpc_client_close(client);
        stage_done(&stage);
}

static void test_an_idle_server_sleeps(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_client *client;
        struct stage stage;

        stage_init(&stage, 0, HANDSHAKE_MS);
        client = new_client(&stage);
        start(client, "/t.T/Hold", 0, 0, &outcome);
        run_until(&stage, &stage.bench.handled, 1);
        run_some(&stage, HANDSHAKE_MS + 200); /* past the one wake-up that the handshake had armed */
        assert_int_equal(uv_backend_timeout(&stage.loop), -1);
        rpc_client_close(client);
        stage_done(&stage);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_call_goes_round),
                cmocka_unit_test(test_a_thousand_connections_are_served),
                cmocka_unit_test(test_a_connection_too_many_is_closed),
                cmocka_unit_test(test_an_idle_connection_gives_way),
                cmocka_unit_test(test_half_messages_of_all_connections_together_are_bounded),
                cmocka_unit_test(test_a_server_out_of_descriptors_sleeps),
                cmocka_unit_test(test_half_a_frame_and_then_silence_is_closed_without_handshake),
                cmocka_unit_test(test_half_a_frame_after_the_handshake_may_wait),
                cmocka_unit_test(test_a_claimed_gibibyte_costs_a_stream),
                cmocka_unit_test(test_resets_in_a_loop_end_the_connection),
                cmocka_unit_test(test_a_peer_that_never_reads_is_dropped),
                cmocka_unit_test(test_lists_for_a_peer_that_does_not_read_replace_each_other),
                cmocka_unit_test(test_the_socket_file_is_ours_or_left_alone),
                cmocka_unit_test(test_paths_that_cannot_be_are_errors),
                cmocka_unit_test(test_a_polite_close_waits_for_the_calls),
                cmocka_unit_test(test_grace_ends),
                cmocka_unit_test(test_a_client_that_still_writes_reads_that_the_server_leaves),
                cmocka_unit_test(test_a_client_that_was_not_accepted_yet_reads_that_the_server_leaves),
                cmocka_unit_test(test_a_server_leaves_though_a_client_does_not),
                cmocka_unit_test(test_a_server_that_is_not_there_fails_the_calls),
                cmocka_unit_test(test_a_deadline_passes),
                cmocka_unit_test(test_the_server_learns_of_a_cancelled_call_at_once),
                cmocka_unit_test(test_closing_a_client_ends_its_calls),
                cmocka_unit_test(test_a_client_may_be_closed_from_within_its_callbacks),
                cmocka_unit_test(test_a_handler_may_flush_and_a_caller_may_ignore_the_message),
                cmocka_unit_test(test_a_handler_may_close_its_server),
                cmocka_unit_test(test_an_idle_server_sleeps),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
