// SPDX-License-Identifier: Apache-2.0
/* The front end is a shell script that notes what it is asked, and answers with files; /proc is a folder. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "mps/supervisor/process.h"
#include "mps/supervisor/observe.h"

#define UNIT "GPU-11111111-1111-1111-1111-111111111111"
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct fixture {
        uv_loop_t loop;
        char root[64];
        struct mps_control *control;
        struct environments *environments;
        struct mps_observation *seen; /* by the last poll that had no error */
        char *problem;                /* of the last poll, or NULL */
        unsigned int can;
        bool asks_singly;
        bool reads_again;
        bool is_v3;
        pid_t daemon; /* 0: servers are not proven */
};

/* ---- what there is ---- */

static void make_folder(const struct fixture *f, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", f->root, name);

        mkdir(path, 0755);
}

static void make_file(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
        _free_ char *path = xasprintf("%s/%s", f->root, name);
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, mode);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

static void answer(const struct fixture *f, const char *command, const char *text)
{
        _free_ char *name = xasprintf("answers/%s", command);

        make_file(f, name, text, 0644);
}

/* |start|: ticks since boot. */
static void make_process(const struct fixture *f, int pid, int start, const char *pod)
{
        _free_ char *folder = xasprintf("proc/%d", pid);
        _free_ char *stat = xasprintf("%s/stat", folder);
        _free_ char *cgroup = xasprintf("%s/cgroup", folder);
        _free_ char *stat_text = xasprintf("%d (train) S 1 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 %d 1 5\n", pid, start);
        _free_ char *cgroup_text = xasprintf("0::/kubepods/burstable/pod%s/" ID "\n", pod);

        make_folder(f, folder);
        make_file(f, stat, stat_text, 0644);
        make_file(f, cgroup, cgroup_text, 0644);
}

#define POD_A "aaaaaaaa-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define POD_B "bbbbbbbb-5c6d-7e8f-9a0b-1c2d3e4f5a6b"

/* ---- polls ---- */

static void on_poll(struct mps_observation *observation, const struct error *err, void *data)
{
        struct fixture *f = data;

        free(f->problem);
        f->problem = err ? xstrdup(err->text) : NULL;
        if (!observation)
                return;
        mps_observation_free(f->seen);
        f->seen = observation;
}

/* What was asked meanwhile, a word a command; each front end is a bracket. The caller frees. */
static char *poll(struct fixture *f)
{
        const struct mps_poll_options options = {
                .control = f->control,
                .can = f->can,
                .asks_singly = f->asks_singly,
                .reads_again = f->reads_again,
                .is_v3 = f->is_v3,
                .daemon = f->daemon,
                .daemon_start = f->daemon ? process_start_time("", f->daemon) : 0,
                .known = f->seen,
                .unit = UNIT,
                .system_root = f->root,
                .environments = f->environments,
                .done = on_poll,
                .data = f,
        };
        _free_ char *path = xasprintf("%s/program.asked", f->root);
        struct strbuf asked = STRBUF_INIT;
        struct error err;

        unlink(path);
        mps_poll_start(&options);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_ok(file_read(path, 65536, &asked, &err), &err);
        return strbuf_take(&asked);
}

static void polls(struct fixture *f, const char *expected)
{
        _free_ char *asked = poll(f);

        assert_string_equal(asked, expected);
        if (f->problem)
                fail_msg("%s", f->problem);
}

static void make_one_server(const struct fixture *f)
{
        answer(f, "get_server_list", "100\n");
        answer(f, "get_server_status 100", "ACTIVE\n");
        answer(f, "get_client_list 100", "201\n202\n");
        make_process(f, 201, 7, POD_A);
        make_process(f, 202, 8, POD_B);
}

static void has_two_clients(const struct fixture *f)
{
        assert_int_equal(f->seen->n_servers, 1);
        assert_string_equal(f->seen->servers[0].status, "ACTIVE");
        assert_int_equal(f->seen->n_clients, 2);
        assert_int_equal(f->seen->clients[0].pid, 201);
        assert_int_equal(f->seen->clients[0].server, 100);
        assert_string_equal(f->seen->clients[0].unit, UNIT);
        assert_string_equal(f->seen->clients[0].pod_uid, POD_A);
        assert_string_equal(f->seen->clients[1].pod_uid, POD_B);
}

static void test_a_poll_that_finds_the_servers_of_the_last_one_is_one_front_end(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        polls(f, "[get_server_list][get_server_status 100,get_client_list 100]");
        has_two_clients(f);
        for (int i = 0; i < 3; i++) {
                polls(f, "[get_server_list,get_server_status 100,get_client_list 100]");
                has_two_clients(f);
        }
}

static void test_a_daemon_without_clients_is_one_front_end(void **state)
{
        struct fixture *f = *state;

        answer(f, "get_server_list", "");
        polls(f, "[get_server_list]");
        assert_int_equal(f->seen->n_servers, 0);
        polls(f, "[get_server_list]");
}

static void test_a_daemon_that_knows_no_states_is_not_asked_for_them(void **state)
{
        struct fixture *f = *state;

        f->can = 0;
        make_one_server(f);
        polls(f, "[get_server_list][get_client_list 100]");
        polls(f, "[get_server_list,get_client_list 100]");
        assert_int_equal(f->seen->n_clients, 2);
        assert_null(f->seen->servers[0].status);
}

/* What was said of a server that has gone counts for none. */
static void test_other_servers_than_those_of_the_last_poll_are_asked_about_again(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        polls(f, "[get_server_list][get_server_status 100,get_client_list 100]");
        answer(f, "get_server_list", "300\n");
        answer(f, "get_server_status 300", "FAULT\n");
        answer(f, "get_client_list 300", "201\n");
        polls(f,
                "[get_server_list,get_server_status 100,get_client_list 100][get_server_status 300,get_client_list 300]");
        assert_int_equal(f->seen->n_servers, 1);
        assert_int_equal(f->seen->servers[0].pid, 300);
        assert_true(f->seen->has_fault);
        assert_int_equal(f->seen->n_clients, 1);
        assert_int_equal(f->seen->clients[0].server, 300);
}

static void test_a_server_that_has_come_is_asked_about_alone(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        polls(f, "[get_server_list][get_server_status 100,get_client_list 100]");
        answer(f, "get_server_list", "100\n300\n");
        answer(f, "get_server_status 300", "ACTIVE\n");
        answer(f, "get_client_list 300", "203\n");
        polls(f,
                "[get_server_list,get_server_status 100,get_client_list 100][get_server_status 300,get_client_list 300]");
        assert_int_equal(f->seen->n_servers, 2);
        assert_int_equal(f->seen->n_clients, 3);
        assert_int_equal(f->seen->clients[2].server, 300);
        answer(f, "get_server_list", "");
        polls(f,
                "[get_server_list,get_server_status 100,get_client_list 100,get_server_status 300,get_client_list 300]");
        assert_int_equal(f->seen->n_servers, 0);
        assert_int_equal(f->seen->n_clients, 0);
}

static void test_many_servers_are_several_front_ends(void **state)
{
        struct fixture *f = *state;
        struct strbuf list = STRBUF_INIT;
        _free_ char *second = NULL;
        size_t front_ends = 0;

        for (int server = 1000; server < 1040; server++) {
                _free_ char *status = xasprintf("get_server_status %d", server);
                _free_ char *clients = xasprintf("get_client_list %d", server);
                _free_ char *client = xasprintf("%d\n", server + 1000);

                strbuf_printf(&list, "%d\n", server);
                answer(f, status, "ACTIVE\n");
                answer(f, clients, client);
        }
        answer(f, "get_server_list", list.data);
        free(poll(f));
        second = poll(f);
        for (const char *at = second; (at = strchr(at, '[')); at++)
                front_ends++;
        assert_int_equal(front_ends, 3); /* 81 commands */
        assert_int_equal(f->seen->n_servers, 40);
        assert_int_equal(f->seen->n_clients, 40);
        for (size_t i = 0; i < 40; i++) {
                assert_int_equal(f->seen->clients[i].pid, 2000 + i);
                assert_int_equal(f->seen->clients[i].server, 1000 + i);
                assert_string_equal(f->seen->servers[i].status, "ACTIVE");
        }
        strbuf_done(&list);
}

static void test_a_slow_daemon_has_a_front_end_for_each_question(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        f->asks_singly = true;
        for (int i = 0; i < 2; i++) {
                polls(f, "[get_server_list][get_server_status 100][get_client_list 100]");
                has_two_clients(f);
        }
}

static void test_a_line_that_cannot_be_read_is_counted_and_hides_nobody(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        answer(f, "get_client_list 100", "no list\n201\n");
        free(poll(f));
        assert_null(f->problem);
        assert_int_equal(f->seen->unread.count, 1);
        assert_string_equal(f->seen->unread.first, "no list");
        assert_int_equal(f->seen->n_clients, 1);
        assert_int_equal(f->seen->clients[0].pid, 201);
}

static void test_a_known_client_stays_while_lines_cannot_be_read_and_its_process_runs(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        free(poll(f));
        answer(f, "get_client_list 100", "202 (new form)\n");
        free(poll(f));
        has_two_clients(f);
        make_process(f, 201, 9, POD_A); /* another process now */
        free(poll(f));
        assert_int_equal(f->seen->n_clients, 1);
        assert_int_equal(f->seen->clients[0].pid, 202);
        assert_string_equal(f->seen->clients[0].pod_uid, POD_B);
        answer(f, "get_client_list 100", "");
        free(poll(f));
        assert_int_equal(f->seen->n_clients, 0);
}

/* ---- the v3 interface ---- */

static void answer_v3_servers(const struct fixture *f, pid_t server, const char *devices)
{
        _free_ char *list = xasprintf("uid_1000,1000,%d,Ready,/run/uid_1000,%s,-\n", (int)server, devices);

        answer(f, "server list --format=csv,noheader", list);
}

/*
 * The server is this process' child, as a daemon's are. Its line, that it runs, and what it was called in the last list
 * say whose the clients are.
 */
static void test_clients_of_a_server_whose_line_cannot_be_read_stay_its_own(void **state)
{
        struct fixture *f = *state;
        pid_t server = fork();

        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                pause();
                _exit(0);
        }
        f->is_v3 = true;
        f->daemon = getpid();
        answer_v3_servers(f, server, UNIT);
        answer(f, "client list --all --format=csv,noheader", "201,uid_1000,0,uid_1000/default (0),train\n");
        answer(f, "client get 201 server", "uid_1000\n");
        answer(f, "client get 201 maws-ns", "uid_1000/default (0)\n");
        make_process(f, 201, 7, POD_A);
        free(poll(f));
        assert_null(f->problem);
        assert_int_equal(f->seen->n_clients, 1);
        assert_int_equal(f->seen->clients[0].server, server);

        answer(f, "server list --format=csv,noheader", "in another form\n");
        answer(f, "client list --all --format=csv,noheader",
                "201,uid_1000,0,uid_1000/default (0),train\n"
                "202,uid_1000,0,uid_1000/default (0),train\n");
        answer(f, "client get 202 server", "uid_1000\n");
        answer(f, "client get 202 maws-ns", "uid_1000/default (0)\n");
        make_process(f, 202, 8, POD_B);
        for (int i = 0; i < 2; i++) {
                free(poll(f));
                assert_null(f->problem);
                assert_int_equal(f->seen->unread.count, 1);
                assert_int_equal(f->seen->n_servers, 1);
                assert_int_equal(f->seen->n_clients, 2);
                assert_int_equal(f->seen->clients[0].server, server);
                assert_int_equal(f->seen->clients[1].server, server);
        }
        assert_int_equal(kill(server, SIGKILL), 0);
        assert_int_equal(waitpid(server, NULL, 0), server);
        free(poll(f)); /* nothing says now what it is */
        assert_int_equal(f->seen->n_servers, 0);
        assert_int_equal(f->seen->n_clients, 2);
        assert_int_equal(f->seen->clients[1].server, 0);
}

/* ---- processes ---- */

static void test_a_process_is_read_once_in_its_life(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        free(poll(f));
        make_process(f, 201, 7, POD_B); /* whatever it says now */
        free(poll(f));
        has_two_clients(f);
        f->reads_again = true;
        free(poll(f));
        assert_string_equal(f->seen->clients[0].pod_uid, POD_B);
}

static void test_another_process_with_the_same_number_is_read(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        free(poll(f));
        make_process(f, 201, 9, POD_B);
        free(poll(f));
        assert_string_equal(f->seen->clients[0].pod_uid, POD_B);
        assert_int_equal(f->seen->clients[0].start_time, 9);
}

static void test_clients_that_change_their_places_keep_their_own(void **state)
{
        struct fixture *f = *state;

        make_one_server(f);
        free(poll(f));
        make_process(f, 203, 9, POD_A);
        answer(f, "get_client_list 100", "203\n202\n201\n");
        make_process(f, 201, 7, POD_B); /* not read */
        free(poll(f));
        assert_int_equal(f->seen->n_clients, 3);
        assert_string_equal(f->seen->clients[0].pod_uid, POD_A);
        assert_string_equal(f->seen->clients[1].pod_uid, POD_B);
        assert_string_equal(f->seen->clients[2].pod_uid, POD_A);
}

static void test_a_process_that_has_ended_has_no_facts(void **state)
{
        struct fixture *f = *state;
        _free_ char *path = xasprintf("%s/proc/201/stat", f->root);

        make_one_server(f);
        free(poll(f));
        assert_int_equal(unlink(path), 0);
        free(poll(f));
        assert_int_equal(f->seen->n_clients, 2);
        assert_null(f->seen->clients[0].pod_uid);
        assert_string_equal(f->seen->clients[1].pod_uid, POD_B);
}

/* ---- the fixture ---- */

static int set_up(void **state)
{
        static const char script[] =
                "#!/bin/sh\n"
                "[ $# -eq 0 ] || { printf '[%s]' \"$*\" >>\"$0.asked\"; exec cat \"${0%/*}/answers/$*\"; }\n"
                "said=\n"
                "while read -r line; do\n"
                "  case $line in\n"
                "  get_default_active_thread_percentage) echo 100.0 ;;\n"
                "  *) said=$said,$line; cat \"${0%/*}/answers/$line\" ;;\n"
                "  esac\n"
                "done\n"
                "printf '[%s]' \"${said#,}\" >>\"$0.asked\"\n";
        struct fixture *f = xcalloc(1, sizeof(*f));
        struct mps_control_options options = {.loop = &f->loop, .log_directory = "/log", .path = "/usr/bin:/bin"};
        _free_ char *program = NULL;
        struct error err;

        snprintf(f->root, sizeof(f->root), "/tmp/test-observe-XXXXXX");
        assert_non_null(mkdtemp(f->root));
        make_folder(f, "proc");
        make_folder(f, "answers");
        make_file(f, "program", script, 0755);
        program = xasprintf("%s/program", f->root);
        options.program = program;
        options.pipe_directory = f->root;
        options.timeout_ms = 60000;
        uv_loop_init(&f->loop);
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
        f->environments = environments_new(&f->loop, f->root);
        f->can = MPS_CAN_SERVER_STATUS;
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        _free_ char *command = xasprintf("rm -r %s", f->root);

        mps_control_close(f->control, NULL, NULL);
        environments_close(f->environments);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        mps_observation_free(f->seen);
        assert_int_equal(system(command), 0);
        free(f->problem);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_poll_that_finds_the_servers_of_the_last_one_is_one_front_end),
                TEST(test_a_daemon_without_clients_is_one_front_end),
                TEST(test_a_daemon_that_knows_no_states_is_not_asked_for_them),
                TEST(test_other_servers_than_those_of_the_last_poll_are_asked_about_again),
                TEST(test_a_server_that_has_come_is_asked_about_alone),
                TEST(test_many_servers_are_several_front_ends),
                TEST(test_a_slow_daemon_has_a_front_end_for_each_question),
                TEST(test_a_line_that_cannot_be_read_is_counted_and_hides_nobody),
                TEST(test_a_known_client_stays_while_lines_cannot_be_read_and_its_process_runs),
                TEST(test_clients_of_a_server_whose_line_cannot_be_read_stay_its_own),
                TEST(test_a_process_is_read_once_in_its_life),
                TEST(test_another_process_with_the_same_number_is_read),
                TEST(test_clients_that_change_their_places_keep_their_own),
                TEST(test_a_process_that_has_ended_has_no_facts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
