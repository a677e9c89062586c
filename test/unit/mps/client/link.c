// SPDX-License-Identifier: Apache-2.0
/*
 * The link against a real listener, whose supervisor is a fake; or against nobody, with a fake control program.
 */
#include "until.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mps/fakes.h"
#include "base/io/lines.h"
#include "base/io/unix_socket.h"
#include "mps/client/link.h"
#include "mps/supervisor/listener.h"
#include "mps/wire/message.h"

static struct rig {
        char folder[64];
        char path[100];
        uv_loop_t loop;
        struct mps_listener *listener;
        struct mps_link *link;
        size_t n_reported;
        uint64_t generation; /* of the last status */
        enum mps_state states[2];
        unsigned int threads_permille;
        char fault[512];  /* reason of the first daemon */
        char reason[512]; /* why nobody is there, "": somebody is */
        size_t n_answered;
        struct error error; /* of the last answer */
        struct mps_allocation allocation;
        bool is_closed;
} rig;

static void on_status(const struct mps_status *status, const char *reason, void *data UNUSED)
{
        rig.n_reported++;
        snprintf(rig.reason, sizeof(rig.reason), "%s", reason ? reason : "");
        if (!status)
                return;
        rig.generation = status->generation;
        rig.fault[0] = '\0';
        for (size_t i = 0; i < MIN(status->n_daemons, ARRAY_SIZE(rig.states)); i++)
                rig.states[i] = status->daemons[i].state;
        if (status->n_daemons == 0)
                return;
        rig.threads_permille = status->daemons[0].threads_permille;
        if (status->daemons[0].reason)
                snprintf(rig.fault, sizeof(rig.fault), "%s", status->daemons[0].reason);
}

static void on_done(const struct error *err, void *data UNUSED)
{
        rig.n_answered++;
        rig.error = err ? *err : (struct error){.kind = ERROR_NONE};
}

static void on_granted(const struct error *err, const struct mps_allocation *allocation, void *data)
{
        on_done(err, data);
        if (allocation)
                rig.allocation = *allocation;
}

static void listen_with(const char *own_plan)
{
        const struct mps_listener_options options = {.loop = &rig.loop, .root = rig.folder, .own_plan = own_plan};
        struct error err;

        assert_ok(mps_listener_new(&rig.listener, &options, &err), &err);
}

static void start_link(void)
{
        const struct mps_link_options options = {.loop = &rig.loop,
                .directory = rig.folder,
                .control = "control",
                .retry_ms = 5,
                .on_status = on_status};
        struct error err;

        assert_ok(mps_link_new(&rig.link, &options, &err), &err);
}

static int start(void **state UNUSED)
{
        memset(&rig, 0, sizeof(rig));
        memset(&fakes, 0, sizeof(fakes));
        strcpy(rig.folder, "/tmp/warpshare-link-XXXXXX");
        assert_non_null(mkdtemp(rig.folder));
        snprintf(rig.path, sizeof(rig.path), "%s/" MPS_SOCKET, rig.folder);
        uv_loop_init(&rig.loop);
        start_link();
        return 0;
}

static void close_listener(void)
{
        if (rig.listener)
                mps_listener_close(rig.listener, NULL, NULL);
        rig.listener = NULL;
}

static void on_closed(void *data UNUSED)
{
        rig.is_closed = true;
}

static int stop(void **state UNUSED)
{
        close_listener();
        mps_link_close(rig.link, on_closed, NULL);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        assert_true(rig.is_closed);
        assert_int_equal(fakes.open, 0);
        assert_int_equal(uv_loop_close(&rig.loop), 0);
        unlink(rig.path);
        return rmdir(rig.folder);
}

static struct mps_unit units[] = {
        {.uuid = "GPU-1", .gpu_uuid = "GPU-1", .index = "0", .name = "V100", .clients = 48},
        {.uuid = "GPU-2", .gpu_uuid = "GPU-2", .index = "1", .name = "V100", .clients = 48},
};
static const struct mps_daemon_wanted daemons[] = {
        {.name = "GPU-1", .resource = "nvidia.com/gpu", .threads_permille = 50, .units = &units[0], .n_units = 1},
        {.name = "GPU-2", .resource = "nvidia.com/gpu", .threads_permille = 50, .units = &units[1], .n_units = 1},
};
static const struct mps_wanted wanted = {daemons, ARRAY_SIZE(daemons)};
static const struct mps_allocation_request request = {"g1", "GPU-1", "GPU-1", 350, 1000, 24};

/* ---- with a supervisor ---- */

static void test_the_status_is_delivered_at_once_and_at_each_change(void **state UNUSED)
{
        fakes.status.generation = 1;
        listen_with(NULL);
        UNTIL(&rig.loop, rig.generation == 1);
        fakes.status.generation = 2;
        mps_listener_changed(rig.listener);
        UNTIL(&rig.loop, rig.generation == 2);
        assert_string_equal(rig.reason, "");
}

static void test_what_is_wanted_is_said_and_said_again_to_the_next_supervisor(void **state UNUSED)
{
        listen_with(NULL);
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.applied == 1);
        assert_int_equal(fakes.generation, 4);
        assert_string_equal(fakes.daemon, "GPU-1");
        mps_link_apply(rig.link, &wanted, 5);
        UNTIL(&rig.loop, fakes.applied == 2);
        assert_int_equal(fakes.generation, 5);
        close_listener();
        UNTIL(&rig.loop, *rig.reason);
        listen_with(NULL);
        UNTIL(&rig.loop, fakes.applied == 3);
        assert_int_equal(fakes.generation, 5);
}

/* An agent that cannot tell yet says nothing, so that nothing is taken away. */
static void test_what_is_granted_is_said_whole_and_again_to_the_next_supervisor(void **state UNUSED)
{
        static const struct mps_allocation_request allocations[] = {
                {.id = "g1", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .limit_mib = 1024},
                {.id = "g2", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .limit_mib = 1024},
                {.id = "g3", .daemon = "GPU-1", .unit = "GPU-1", .threads_permille = 250, .limit_mib = 1024},
        };
        struct error err;
        void *granting;

        listen_with(NULL);
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.applied == 1);
        assert_int_equal(fakes.holds, 0);
        mps_link_hold(rig.link, allocations, 2);
        UNTIL(&rig.loop, fakes.holds == 1);
        assert_string_equal(fakes.held, "g1 g2 ");
        mps_link_allocation(rig.link, &allocations[2], on_granted, NULL);
        UNTIL(&rig.loop, fakes.on_granted);
        granting = fakes.data;
        mps_link_release(rig.link, "g1", on_done, NULL);
        UNTIL(&rig.loop, *fakes.released);
        close_listener();
        UNTIL(&rig.loop, *rig.reason);
        error_raise(&err, ERROR_UNAVAILABLE, "it ends");
        fakes.on_granted(&err, NULL, granting); /* to nobody, as the next */
        fakes.on_done(NULL, fakes.data);
        listen_with(NULL);
        UNTIL(&rig.loop, fakes.holds == 2);
        assert_string_equal(fakes.held, "g3 g2 ");
        mps_link_forget(rig.link);
        mps_link_apply(rig.link, &wanted, 5);
        UNTIL(&rig.loop, fakes.applied == 4);
        assert_int_equal(fakes.holds, 2);
}

static void test_who_holds_what_is_said_when_it_changes_and_again_to_the_next_supervisor(void **state UNUSED)
{
        static const struct mps_holder holders[] = {
                {.unit = "GPU-1", .pod = "team/train"}, {.unit = "GPU-1", .claim = "team/serve"}};

        listen_with(NULL);
        mps_link_name_holders(rig.link, holders, 1);
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.applied == 1);
        assert_string_equal(fakes.holders, "GPU-1=team/train ");
        mps_link_name_holders(rig.link, holders, 1); /* nothing new: nothing is said */
        mps_link_name_holders(rig.link, holders, 2);
        UNTIL(&rig.loop, fakes.applied == 2);
        assert_string_equal(fakes.holders, "GPU-1=team/train GPU-1=team/serve ");
        close_listener();
        UNTIL(&rig.loop, *rig.reason);
        listen_with(NULL);
        UNTIL(&rig.loop, fakes.applied == 3);
        assert_string_equal(fakes.holders, "GPU-1=team/train GPU-1=team/serve ");
}

static void test_a_refused_plan_does_not_end_the_connection(void **state UNUSED)
{
        listen_with("it has a plan of its own");
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, rig.n_reported >= 1);
        mps_listener_changed(rig.listener);
        UNTIL(&rig.loop, rig.n_reported >= 2 && !*rig.reason);
        assert_int_equal(fakes.applied, 0);
}

/* Who waits until the supervisor has heard of what is wanted would wait for ever. */
static void test_a_supervisor_with_a_plan_of_its_own_counts_as_up_to_date(void **state UNUSED)
{
        size_t n_reported;

        fakes.status.generation = 9;
        listen_with("it has a plan of its own");
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, rig.generation == 4);
        mps_link_apply(rig.link, &wanted, 5);
        UNTIL(&rig.loop, rig.generation == 5);
        n_reported = rig.n_reported;
        mps_listener_changed(rig.listener);
        UNTIL(&rig.loop, rig.n_reported > n_reported);
        assert_int_equal(rig.generation, 5);
        close_listener();
        UNTIL(&rig.loop, *rig.reason);
        listen_with(NULL);
        UNTIL(&rig.loop, rig.generation == 9);
}

static void test_an_allocation_comes_back(void **state UNUSED)
{
        const struct mps_allocation made = {.tier = MPS_TIER_PARTITION, .sms = 24};

        listen_with(NULL);
        UNTIL(&rig.loop, rig.n_reported > 0 && !*rig.reason);
        mps_link_allocation(rig.link, &request, on_granted, NULL);
        UNTIL(&rig.loop, fakes.on_granted);
        assert_string_equal(fakes.granted.id, "g1");
        fakes.on_granted(NULL, &made, fakes.data);
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_NONE);
        assert_int_equal(rig.allocation.tier, MPS_TIER_PARTITION);
        assert_int_equal(rig.allocation.sms, 24);
}

static void test_release_and_terminate_come_back(void **state UNUSED)
{
        struct error err;

        listen_with(NULL);
        UNTIL(&rig.loop, rig.n_reported > 0 && !*rig.reason);
        mps_link_release(rig.link, "g1", on_done, NULL);
        UNTIL(&rig.loop, fakes.on_done);
        fakes.on_done(NULL, fakes.data);
        fakes.on_done = NULL;
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_NONE);
        mps_link_terminate(rig.link, "GPU-1", 4711, "0a", on_done, NULL);
        UNTIL(&rig.loop, fakes.on_done);
        error_raise(&err, ERROR_NOT_FOUND, "no client 4711");
        fakes.on_done(&err, fakes.data);
        UNTIL(&rig.loop, rig.n_answered == 2);
        assert_int_equal(rig.error.kind, ERROR_NOT_FOUND);
        assert_string_equal(rig.error.text, "no client 4711");
}

static void test_a_look_comes_back_behind_its_status(void **state UNUSED)
{
        listen_with(NULL);
        UNTIL(&rig.loop, rig.n_reported > 0 && !*rig.reason);
        fakes.status.generation = 7;
        mps_link_look(rig.link, on_done, NULL);
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_NONE);
        assert_int_equal(rig.generation, 8);
}

static void test_what_was_asked_fails_when_the_supervisor_goes_and_it_is_said(void **state UNUSED)
{
        listen_with(NULL);
        UNTIL(&rig.loop, rig.n_reported > 0 && !*rig.reason);
        mps_link_release(rig.link, "g1", on_done, NULL);
        UNTIL(&rig.loop, fakes.on_done);
        close_listener();
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_UNAVAILABLE);
        assert_string_equal(
                rig.error.text, "the connection to the MPS supervisor ended: the peer closed the connection");
        UNTIL(&rig.loop, strstr(rig.reason, "connect to '")); /* again and again */
        fakes.on_done(NULL, fakes.data);                      /* to nobody */
}

static void test_without_a_supervisor_a_request_fails_from_the_loop(void **state UNUSED)
{
        mps_link_release(rig.link, "g1", on_done, NULL);
        assert_int_equal(rig.n_answered, 0);
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_UNAVAILABLE);
}

static void test_a_link_that_closes_answers_what_is_open(void **state UNUSED)
{
        listen_with(NULL);
        UNTIL(&rig.loop, rig.n_reported > 0 && !*rig.reason);
        mps_link_release(rig.link, "g1", on_done, NULL);
        UNTIL(&rig.loop, fakes.on_done);
        mps_link_close(rig.link, on_closed, NULL);
        assert_int_equal(rig.n_answered, 0);
        UNTIL(&rig.loop, rig.is_closed);
        assert_int_equal(rig.n_answered, 1);
        assert_string_equal(rig.error.text, "the link to the MPS supervisor is closing");
        fakes.on_done(NULL, fakes.data); /* to nobody */
        start_link();                    /* for the end of the test */
        rig.is_closed = false;
}

/* ---- somebody else on the socket ---- */

static void on_stranger(uv_stream_t *stream, int status)
{
        static const char text[] = "220 mail.example.org ESMTP\n";
        uv_pipe_t *pipe = stream->data;
        uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)text, sizeof(text) - 1);

        assert_int_equal(status, 0);
        if (uv_handle_get_type((uv_handle_t *)pipe) == UV_NAMED_PIPE)
                return; /* only the first is answered */
        uv_pipe_init(stream->loop, pipe, 0);
        assert_int_equal(uv_accept(stream, (uv_stream_t *)pipe), 0);
        assert_int_equal(uv_try_write((uv_stream_t *)pipe, &buffer, 1), sizeof(text) - 1);
}

static void test_the_client_leaves_a_server_that_is_no_supervisor(void **state UNUSED)
{
        uv_pipe_t listener;
        uv_pipe_t pipe = {.type = UV_UNKNOWN_HANDLE};
        struct error err;
        int fd;

        uv_pipe_init(&rig.loop, &listener, 0);
        listener.data = &pipe;
        assert_ok(unix_socket_bind(&fd, rig.path, 0600, &err), &err);
        assert_int_equal(uv_pipe_open(&listener, fd), 0);
        assert_int_equal(uv_listen((uv_stream_t *)&listener, 5, on_stranger), 0);
        UNTIL(&rig.loop, strstr(rig.reason, "the MPS supervisor: answer: no JSON"));
        uv_close((uv_handle_t *)&listener, NULL);
        uv_close((uv_handle_t *)&pipe, NULL);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        listen_with(NULL);
        UNTIL(&rig.loop, !*rig.reason);
}

/* ---- NVIDIA's daemons ---- */

static void test_nvidias_daemons_are_asked_where_there_is_no_socket(void **state UNUSED)
{
        struct error err;
        char pipe[200];

        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.control);
        snprintf(pipe, sizeof(pipe), "%s/GPU-1/pipe", rig.folder);
        assert_string_equal(fakes.pipe, pipe);
        assert_string_equal(fakes.command, "get_default_active_thread_percentage");
        error_raise(&err, ERROR_NOT_FOUND, "no daemon answers");
        fakes_answer(&err, NULL);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(NULL, "5.0");
        UNTIL(&rig.loop, rig.generation == 4);
        assert_int_equal(rig.states[0], MPS_FAULT);
        assert_string_equal(rig.fault, "no daemon answers");
        assert_int_equal(rig.states[1], MPS_READY);
        assert_string_equal(rig.reason, "");
}

static void answer_all(const char *text)
{
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(NULL, text);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(NULL, text);
}

static void test_nvidias_daemons_have_limits_for_all_and_no_more(void **state UNUSED)
{
        mps_link_apply(rig.link, &wanted, 4);
        answer_all("5.0");
        UNTIL(&rig.loop, rig.generation == 4);
        assert_int_equal(rig.threads_permille, 50);
        mps_link_allocation(rig.link, &request, on_granted, NULL);
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_UNSUPPORTED);
        assert_string_equal(rig.error.text,
                "the MPS control daemons here are not Warpshare's, and have no partitions or namespaces");
        mps_link_terminate(rig.link, "GPU-1", 4711, "0a", on_done, NULL);
        UNTIL(&rig.loop, rig.n_answered == 2);
        assert_int_equal(rig.error.kind, ERROR_UNSUPPORTED);
        mps_link_release(rig.link, "g1", on_done, NULL);
        UNTIL(&rig.loop, rig.n_answered == 3);
        assert_int_equal(rig.error.kind, ERROR_NONE); /* there is nothing to be released */
}

static void test_an_answer_that_is_none_is_a_fault(void **state UNUSED)
{
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(NULL, "Insufficient privileges");
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(NULL, "100.0");
        UNTIL(&rig.loop, rig.generation == 4);
        assert_int_equal(rig.states[0], MPS_FAULT);
        assert_non_null(strstr(rig.fault, "Insufficient privileges"));
}

static void test_a_missing_supervisor_is_logged_once(void **state UNUSED)
{
        struct error err;
        char reason[300];

        snprintf(reason, sizeof(reason),
                "nothing listens at '%s', and no other MPS control daemon answers: no daemon answers", rig.path);
        error_raise(&err, ERROR_NOT_FOUND, "no daemon answers");
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(&err, NULL);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(&err, NULL);
        UNTIL(&rig.loop, strcmp(rig.reason, reason) == 0);
        rig.n_reported = 0;
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(&err, NULL);
        UNTIL(&rig.loop, fakes.control);
        fakes_answer(&err, NULL);
        assert_int_equal(rig.n_reported, 0);
        assert_true(mps_link_is_absent(rig.link));
}

static void test_a_missing_program_is_reported(void **state UNUSED)
{
        fakes.is_missing = true;
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, strstr(rig.reason, "answers: there is no 'control'"));
        assert_int_equal(fakes.asked, 0);
}

static void test_our_own_supervisor_takes_over_from_nvidias(void **state UNUSED)
{
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, fakes.control); /* a question is open */
        fakes.status.generation = 8;
        listen_with(NULL);
        UNTIL(&rig.loop, rig.generation == 8);
        assert_int_equal(fakes.open, 0);
        assert_int_equal(fakes.applied, 1);
        assert_false(mps_link_is_absent(rig.link));
}

static void test_a_socket_without_a_supervisor_is_not_nvidias(void **state UNUSED)
{
        struct error err;
        int fd;

        assert_ok(unix_socket_bind(&fd, rig.path, 0600, &err), &err); /* as one that was killed leaves it */
        close(fd);
        mps_link_apply(rig.link, &wanted, 4);
        UNTIL(&rig.loop, strstr(rig.reason, "Connection refused"));
        assert_false(mps_link_is_absent(rig.link));
        assert_int_equal(fakes.asked, 0);
        mps_link_allocation(rig.link, &request, on_granted, NULL);
        UNTIL(&rig.loop, rig.n_answered == 1);
        assert_int_equal(rig.error.kind, ERROR_UNAVAILABLE);
}

static void test_a_directory_that_is_too_long_is_refused(void **state UNUSED)
{
        char directory[120];
        const struct mps_link_options options = {
                .loop = &rig.loop, .directory = directory, .control = "control", .on_status = on_status};
        struct mps_link *link;
        struct error err;

        memset(directory, 'd', sizeof(directory));
        directory[sizeof(directory) - 1] = '\0';
        assert_int_equal(mps_link_new(&link, &options, &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_non_null(strstr(err.text, "is too long: a socket's path has at most 107 bytes"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_status_is_delivered_at_once_and_at_each_change, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_what_is_wanted_is_said_and_said_again_to_the_next_supervisor, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_what_is_granted_is_said_whole_and_again_to_the_next_supervisor, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_who_holds_what_is_said_when_it_changes_and_again_to_the_next_supervisor, start, stop),
                cmocka_unit_test_setup_teardown(test_a_refused_plan_does_not_end_the_connection, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_a_supervisor_with_a_plan_of_its_own_counts_as_up_to_date, start, stop),
                cmocka_unit_test_setup_teardown(test_an_allocation_comes_back, start, stop),
                cmocka_unit_test_setup_teardown(test_release_and_terminate_come_back, start, stop),
                cmocka_unit_test_setup_teardown(test_a_look_comes_back_behind_its_status, start, stop),
                cmocka_unit_test_setup_teardown(
                        test_what_was_asked_fails_when_the_supervisor_goes_and_it_is_said, start, stop),
                cmocka_unit_test_setup_teardown(test_without_a_supervisor_a_request_fails_from_the_loop, start, stop),
                cmocka_unit_test_setup_teardown(test_a_link_that_closes_answers_what_is_open, start, stop),
                cmocka_unit_test_setup_teardown(test_the_client_leaves_a_server_that_is_no_supervisor, start, stop),
                cmocka_unit_test_setup_teardown(test_nvidias_daemons_are_asked_where_there_is_no_socket, start, stop),
                cmocka_unit_test_setup_teardown(test_nvidias_daemons_have_limits_for_all_and_no_more, start, stop),
                cmocka_unit_test_setup_teardown(test_an_answer_that_is_none_is_a_fault, start, stop),
                cmocka_unit_test_setup_teardown(test_a_missing_supervisor_is_logged_once, start, stop),
                cmocka_unit_test_setup_teardown(test_a_missing_program_is_reported, start, stop),
                cmocka_unit_test_setup_teardown(test_our_own_supervisor_takes_over_from_nvidias, start, stop),
                cmocka_unit_test_setup_teardown(test_a_socket_without_a_supervisor_is_not_nvidias, start, stop),
                cmocka_unit_test_setup_teardown(test_a_directory_that_is_too_long_is_refused, start, stop),
        };

        signal(SIGPIPE, SIG_IGN); /* as the program has it */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
