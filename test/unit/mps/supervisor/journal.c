// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "mps/supervisor/journal.h"

/* Events as text: "kind source pid …". */
struct fixture {
        struct server_log log;
        struct strbuf said;
        char root[64];
        char path[80];
};

static void on_event(const struct server_log_event *event, void *data)
{
        struct fixture *f = data;

        strbuf_printf(&f->said, "%d:", event->source);
        switch (event->kind) {
        case SERVER_LOG_CLIENT_WAITS:
                strbuf_printf(&f->said, "waits %d of %u", event->pid, event->uid);
                break;
        case SERVER_LOG_CLIENT_SENT:
                strbuf_printf(&f->said, "sent %d of %u", event->pid, event->uid);
                break;
        case SERVER_LOG_SERVER_STARTING:
                strbuf_printf(&f->said, "starting %d for %u", event->pid, event->uid);
                break;
        case SERVER_LOG_SERVER_READY:
                strbuf_printf(&f->said, "ready %d", event->pid);
                break;
        case SERVER_LOG_SERVER_EXITED:
                strbuf_printf(&f->said, "exited %d with %d", event->pid, event->status);
                break;
        case SERVER_LOG_THREADS:
                strbuf_printf(&f->said, "threads %u", event->permille);
                break;
        case SERVER_LOG_LIMIT:
                strbuf_printf(&f->said, "limit %u %llu", event->device, (unsigned long long)event->bytes);
                break;
        case SERVER_LOG_STARTED:
                strbuf_puts(&f->said, "started");
                break;
        case SERVER_LOG_START_FAILED:
                strbuf_printf(&f->said, "failed (%s)", event->text);
                break;
        case SERVER_LOG_CLIENT_CONNECTED:
                strbuf_printf(&f->said, "connected %d under %u and %lluM", event->pid, event->limits->threads_permille,
                        (unsigned long long)event->limits->bytes[0] >> 20);
                break;
        case SERVER_LOG_CLIENT_ACTIVE:
                strbuf_printf(&f->said, "active %d under %u and %lluM", event->pid, event->limits->threads_permille,
                        (unsigned long long)event->limits->bytes[0] >> 20);
                break;
        case SERVER_LOG_CLIENT_LEFT:
                strbuf_printf(&f->said, "left %d", event->pid);
                break;
        }
        strbuf_putc(&f->said, '\n');
}

static void feed(struct fixture *f, const char *text)
{
        server_log_feed(&f->log, text, strlen(text));
}

static void reports(struct fixture *f, const char *expected)
{
        assert_string_equal(f->said.data, expected);
        strbuf_clear(&f->said);
}

#define CONTROL "[2026-11-20 10:06:00.123 Control   700] "
#define SERVER "[2026-11-20 10:06:00.123 Server  4711] "
#define OTHER "[2026-11-20 10:06:00.123 Other  4711] "

/* A start as 535 and 550 write it (recorded), and the lines of newer ones that people have posted. */
static const char control_log[] =
        CONTROL "Starting control daemon using socket /mps/pipe/control\n" CONTROL
                "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=/mps/pipe\n" CONTROL
                "CUDA MPS Control binary version: 13030\n" CONTROL "Accepting connection...\n" CONTROL
                "User did not send valid credentials\n" CONTROL "NEW UI\n" CONTROL "Cmd:get_server_list\n" CONTROL
                "UI closed\n" CONTROL
                "NEW CLIENT 800 from user 1000: Server is not ready, push client to pending list\n" CONTROL
                "Starting new server 4711 for user 1000\n" CONTROL "NEW SERVER 4711: Ready\n" CONTROL
                "NEW CLIENT 0 from user 1000: Server already exists\n" CONTROL
                "Server 4711 exited with status 1\n" CONTROL "Removed Shm file at \n" CONTROL "Exit with status 0\n";

static void test_lines_of_a_control_log_become_events(void **state)
{
        struct fixture *f = *state;

        feed(f, control_log);
        reports(f, "700:waits 800 of 1000\n"
                   "700:starting 4711 for 1000\n"
                   "700:ready 4711\n"
                   "700:sent 0 of 1000\n"
                   "700:exited 4711 with 1\n");
}

static const char server_log[] = OTHER
        "Startup\n" OTHER "Connecting to control daemon on socket: /mps/pipe/control\n" OTHER
        "Initializing server process\n" SERVER "Creating server context on device 0 (NVIDIA H100)\n" SERVER
        "Created anonymous shared memory region mps.shm.1000.4711\n" SERVER
        "CUDA MPS Server for Linux/Unix. Binary version: 13000\n" SERVER "Display Driver version: 580\n" SERVER
        "Active Threads Percentage set to 33.3\n" SERVER
        "Device pinned memory limit for device 0 set to 0x140000000 bytes\n" SERVER "Server Priority set to 0\n" SERVER
        "Server has started\n" SERVER "Received new client request for {PID: 800, Context ID: 1}\n" SERVER
        "Client {PID: 800, Context ID: 1} connected\n" SERVER
        "Creating worker thread for client {PID: 800, Context ID: 1}\n" SERVER
        "Server failed to recevie command with status 806, assuming client {PID: 800, Context ID: 1} exit\n" SERVER
        "Volta MPS: Server is handling a fatal GPU error.\n" SERVER
        "Server encountered a fatal exception. Shutting down\n";

static const char server_events[] = "4711:threads 333\n"
                                    "4711:limit 0 5368709120\n"
                                    "4711:started\n"
                                    "4711:connected 800 under 333 and 5120M\n"
                                    "4711:left 800\n";

static void test_lines_of_a_server_log_become_events(void **state)
{
        struct fixture *f = *state;

        feed(f, server_log);
        reports(f, server_events);
}

static void test_pieces_of_any_size_make_the_same_events(void **state)
{
        struct fixture *f = *state;

        for (size_t size = 1; size < 200; size++) {
                for (size_t at = 0; at < strlen(server_log); at += size)
                        server_log_feed(&f->log, server_log + at, MIN(size, strlen(server_log) - at));
                reports(f, server_events);
        }
}

static void test_a_client_has_the_limits_that_its_server_logged_before_it(void **state)
{
        struct fixture *f = *state;

        feed(f, SERVER "New client 1 connected\n");
        feed(f, SERVER "Active Threads Percentage set to 50.0\n");
        feed(f, SERVER "New client 2 connected\n");
        feed(f, SERVER "Device pinned memory limit for device 0 set to 0x40000000 bytes\n");
        feed(f, CONTROL "NEW CLIENT 3 from user 0: Server already exists\n"); /* another process: it has no limits */
        feed(f, SERVER "New client 3 connected\n");
        feed(f, SERVER "Active Threads Percentage set to 100\n");
        feed(f, SERVER "New client 4 connected\n");
        feed(f, "[2026-11-20 10:06:00.123 Server  4800] New client 5 connected\n"); /* the next server */
        reports(f, "4711:connected 1 under 0 and 0M\n"
                   "4711:threads 500\n"
                   "4711:connected 2 under 500 and 0M\n"
                   "4711:limit 0 1073741824\n"
                   "700:sent 3 of 0\n"
                   "4711:connected 3 under 500 and 1024M\n"
                   "4711:threads 1000\n"
                   "4711:connected 4 under 1000 and 1024M\n"
                   "4800:connected 5 under 0 and 0M\n");
        assert_int_equal(f->log.limits.server, 4800);
}

/* Feeds test/fixtures/recorded/mps/|name|. */
static void feed_recorded(struct fixture *f, const char *name)
{
        _free_ char *path = xasprintf(RECORDED "/mps/%s", name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        char bytes[65536];
        ssize_t size;

        assert_true(fd >= 0);
        size = read(fd, bytes, sizeof(bytes));
        close(fd);
        assert_true(size > 0 && (size_t)size < sizeof(bytes));
        server_log_feed(&f->log, bytes, (size_t)size);
}

/* No line names a client. */
static void test_the_recorded_log_of_460_tells_the_limits_of_its_server(void **state)
{
        struct fixture *f = *state;

        feed_recorded(f, "460-470.log");
        reports(f, "6:waits 0 of 0\n"
                   "6:starting 17 for 0\n"
                   "6:ready 17\n"
                   "17:threads 330\n"
                   "17:started\n"
                   "6:sent 0 of 0\n");
        assert_int_equal(f->log.limits.server, 17);
        assert_int_equal(f->log.limits.threads_permille, 330);
        assert_true(f->log.limits.has_started && !f->log.limits.has_changed);
}

static void test_the_recorded_log_of_535_names_its_client_with_the_limits_of_its_server(void **state)
{
        struct fixture *f = *state;

        feed_recorded(f, "535-550.log");
        reports(f, "73:starting 95 for 0\n"
                   "73:exited 95 with 1\n"
                   "425:failed (Failed to start : invalid argument)\n"
                   "82:threads 120\n"
                   "82:limit 0 2012217344\n"
                   "82:started\n"
                   "82:active 4711 under 120 and 1919M\n");
}

/* A line that begins with "failed to" is about a client that left, and no fault. */
static void test_the_recorded_log_of_580_tells_who_comes_and_who_leaves(void **state)
{
        struct fixture *f = *state;

        feed_recorded(f, "580.log");
        reports(f, "337:starting 337 for 0\n"
                   "4428:threads 330\n"
                   "4428:limit 0 5368709120\n"
                   "4428:started\n"
                   "4428:connected 4267 under 330 and 5120M\n"
                   "4428:connected 4281 under 330 and 5120M\n"
                   "4428:active 4267 under 330 and 5120M\n"
                   "53:failed (Failed to start : operation not supported)\n"
                   "700:left 814\n");
}

static void test_limits_that_are_set_again_after_the_start_have_changed(void **state)
{
        struct fixture *f = *state;

        feed(f, SERVER "Active Threads Percentage set to 50.0\n" SERVER "Server has started\n");
        feed(f, SERVER "Active Threads Percentage set to 50.0\n");
        assert_true(f->log.limits.has_started && !f->log.limits.has_changed);
        feed(f, SERVER "Device pinned memory limit for device 0 set to 0x40000000 bytes\n");
        assert_true(f->log.limits.has_changed);
        feed(f, "[2026-11-20 10:06:00.123 Server  4800] Server has started\n");
        assert_true(f->log.limits.has_started && !f->log.limits.has_changed);
}

static void test_a_server_that_cannot_start_says_why(void **state)
{
        struct fixture *f = *state;

        feed(f, OTHER "MPS server failed to start\n" OTHER
                      "MPS is only supported on 64-bit Linux platforms, with an SM 3.5 or higher GPU.\n");
        reports(f, "4711:failed (MPS server failed to start)\n"
                   "4711:failed (MPS is only supported on 64-bit Linux platforms, with an SM 3.5 or higher GPU.)\n");
}

static void test_lines_that_are_none_are_passed_over(void **state)
{
        static const char *const table[] = {
                "",
                "Server has started",
                "[] Server has started",
                "[2026-11-20 10:06:00.123] Server has started",
                "[2026-11-20 10:06:00.123 Server ] Server has started",
                "[2026-11-20 10:06:00.123 Server 99999999999] Server has started",
                "[2026-11-20 10:06:00.123 Server -1] Server has started",
                "[2026/11/20 10:06:00.123 Server 4711] Server has started",
                SERVER "server has started",
                SERVER " Server has started",
                CONTROL "Cmd:NEW CLIENT 1 from user 0: Server already exists",
                CONTROL "NEW CLIENT 99999999999 from user 0: Server already exists",
                CONTROL "NEW CLIENT -1 from user 0: Server already exists",
                CONTROL "NEW CLIENT 1 from user 99999999999: Server already exists",
                CONTROL "NEW CLIENT 99999999999999999999999999 from user 0: Server already exists",
                SERVER "Active Threads Percentage set to 100.1",
                SERVER "Active Threads Percentage set to",
                SERVER "Active Threads Percentage set to -1",
                SERVER "Device pinned memory limit for device 32 set to 0x1 bytes",
                SERVER "Device pinned memory limit for device 0 set to 0xfffffffffffffffff bytes",
                SERVER "Device pinned memory limit for device 0 set to 0x bytes",
                SERVER "Client {PID: 1, Context ID: 4294967296} connected",
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                feed(f, table[i]);
                feed(f, "\n");
                reports(f, "");
        }
        server_log_feed(&f->log, "\0\n[\0\n", 5);
        feed(f, SERVER "Server has started\n");
        reports(f, "4711:started\n");
}

static void test_a_line_without_end_costs_its_cap_and_the_next_is_read(void **state)
{
        struct fixture *f = *state;

        feed(f, SERVER "Server has started");
        for (int i = 0; i < 100000; i++)
                feed(f, "xxxxxxxxxx");
        assert_true(f->log.line.capacity <= 2 * SERVER_LOG_LINE_MAX);
        feed(f, "\n" SERVER "New client 1 connected\n");
        reports(f, "4711:started\n4711:connected 1 under 0 and 0M\n");
}

/* ---- what is made of them ---- */

/* Each driver's recorded log with a client of its server, and the limits that are known of that client. */
static void test_a_client_has_limits_whatever_its_driver_logs_of_it(void **state)
{
        static const struct {
                const char *name;
                pid_t server;
                pid_t client;
                unsigned int permille;
                uint64_t mib;
        } table[] = {
                {"460-470.log", 17, 5000, 330, 0}, /* no line names it */
                {"535-550.log", 82, 4711, 120, 1919},
        };
        struct fixture *f = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *command = xasprintf("cp %s/mps/%s %s", RECORDED, table[i].name, f->path);
                struct mps_client client = {.pid = table[i].client, .server = table[i].server, .unit = "GPU-a"};
                struct mps_server server = {.pid = table[i].server};
                struct mps_observation seen = {
                        .servers = &server, .n_servers = 1, .clients = &client, .n_clients = 1, .arena = ARENA_INIT};
                const struct mps_unit unit = {.uuid = "GPU-a"};
                struct mps_journal *journal = mps_journal_new(f->root);

                assert_int_equal(system(command), 0);
                mps_journal_explain(journal, &seen, &unit, 1);
                assert_int_equal(client.threads_permille, table[i].permille);
                assert_int_equal(client.limit_mib, table[i].mib);
                mps_journal_free(journal);
                arena_done(&seen.arena);
        }
}

/* ---- files ---- */

static void write_file(const struct fixture *f, const char *text, int flags)
{
        int fd = open(f->path, O_CREAT | O_WRONLY | O_CLOEXEC | flags, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void poll(struct fixture *f, const char *expected)
{
        struct error err;

        assert_ok(server_log_poll(&f->log, &err), &err);
        reports(f, expected);
}

static void test_a_file_is_followed_through_appends_cuts_and_replacements(void **state)
{
        struct fixture *f = *state;
        char moved[96];

        poll(f, ""); /* not there yet */
        write_file(f, SERVER "Server has started\n" SERVER "New client 1 ", 0);
        poll(f, "4711:started\n");
        poll(f, "");
        write_file(f, "connected\n", O_APPEND);
        poll(f, "4711:connected 1 under 0 and 0M\n");
        write_file(f, SERVER "New cl", O_APPEND);
        poll(f, "");
        write_file(f, SERVER "Server has started\n", O_TRUNC); /* shorter than what was read */
        poll(f, "4711:started\n");
        write_file(f, SERVER "New cl", O_APPEND);
        poll(f, "");
        snprintf(moved, sizeof(moved), "%s.1", f->path);
        assert_int_equal(rename(f->path, moved), 0);
        poll(f, "");
        write_file(f, "ient 2 connected\n" SERVER "New client 3 connected\n", 0); /* not the end of what was begun */
        poll(f, "4711:connected 3 under 0 and 0M\n");
}

/* Who is made to write faster than we read must not keep us reading. */
static void test_of_much_only_the_end_is_read_at_first_and_later(void **state)
{
        struct fixture *f = *state;
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, SERVER "New client 1 connected\n");
        while (text.size < 2 * SERVER_LOG_POLL_MAX)
                strbuf_puts(&text, SERVER "nothing\n");
        strbuf_puts(&text, SERVER "New client 2 connected\n");
        write_file(f, text.data, 0);
        poll(f, "4711:connected 2 under 0 and 0M\n");
        write_file(f, SERVER "Active Threads Percentage set to 50.0\n" SERVER "New client 3 connected\n", O_APPEND);
        poll(f, "4711:threads 500\n4711:connected 3 under 500 and 0M\n");
        write_file(f, text.data, O_APPEND); /* other limits may have been told in what is not read */
        poll(f, "4711:connected 2 under 0 and 0M\n");
        strbuf_done(&text);
}

static void test_a_pipe_in_the_place_of_a_log_is_refused(void **state)
{
        struct fixture *f = *state;
        _free_ char *expected = xasprintf("'%s' is no file", f->path);
        struct error err;

        assert_int_equal(mkfifo(f->path, 0600), 0);
        assert_fails(server_log_poll(&f->log, &err), &err, ERROR_INVALID, expected);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        strcpy(f->root, "/tmp/warpshare-log-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        snprintf(f->path, sizeof(f->path), "%s/server.log", f->root);
        f->said = (struct strbuf)STRBUF_INIT;
        server_log_init(&f->log, f->path, on_event, f);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        server_log_done(&f->log);
        strbuf_done(&f->said);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_lines_of_a_control_log_become_events),
                TEST(test_lines_of_a_server_log_become_events),
                TEST(test_pieces_of_any_size_make_the_same_events),
                TEST(test_a_client_has_the_limits_that_its_server_logged_before_it),
                TEST(test_the_recorded_log_of_460_tells_the_limits_of_its_server),
                TEST(test_the_recorded_log_of_535_names_its_client_with_the_limits_of_its_server),
                TEST(test_the_recorded_log_of_580_tells_who_comes_and_who_leaves),
                TEST(test_limits_that_are_set_again_after_the_start_have_changed),
                TEST(test_a_server_that_cannot_start_says_why),
                TEST(test_lines_that_are_none_are_passed_over),
                TEST(test_a_line_without_end_costs_its_cap_and_the_next_is_read),
                TEST(test_a_client_has_limits_whatever_its_driver_logs_of_it),
                TEST(test_a_file_is_followed_through_appends_cuts_and_replacements),
                TEST(test_of_much_only_the_end_is_read_at_first_and_later),
                TEST(test_a_pipe_in_the_place_of_a_log_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
