// SPDX-License-Identifier: Apache-2.0
/* Several commands in one front end, whose place is taken by a shell script. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "mps/control/control.h"

struct fixture {
        uv_loop_t loop;
        struct mps_control *control;
        size_t n_asked;
        struct strbuf said; /* "(first)(second)" or "[kind: text]" */
        char root[64];
};

static void on_answers(const struct error *err, const char *const *answers, void *data)
{
        struct fixture *f = data;

        if (err)
                strbuf_printf(&f->said, "[%s: %s]", error_kind_name(err->kind), err->text);
        for (size_t i = 0; !err && i < f->n_asked; i++)
                strbuf_printf(&f->said, "(%s)", answers[i]);
}

/* What |script| makes of |commands|, which it has as lines of its input. */
static void says(struct fixture *f, const char *script, const char *const *commands, size_t n, const char *expected)
{
        _free_ char *program = xasprintf("%s/program", f->root);
        _free_ char *text = xasprintf("#!/bin/sh\n%s\n", script);
        const struct mps_control_options options = {.loop = &f->loop,
                .program = program,
                .pipe_directory = "/run/mps/pipe",
                .log_directory = "/run/mps/log",
                .path = "/usr/bin:/bin",
                .timeout_ms = 60000};
        struct error err;
        int fd = open(program, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
        f->n_asked = n;
        mps_control_ask_all(f->control, commands, n, on_answers, f);
        assert_string_equal(f->said.data, ""); /* nobody is called back from within */
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_string_equal(f->said.data, expected);
        strbuf_clear(&f->said);
        mps_control_close(f->control, NULL, NULL);
        uv_run(&f->loop, UV_RUN_DEFAULT);
}

/* The daemon's part: what is asked to see that it listens has an answer. */
#define LISTENS "while read -r line; do case $line in get_default_*) echo 100.0 ;; *) answer $line ;; esac; done"

static const char *const three[] = {"get_server_list", "get_server_status 7", "get_client_list 7"};

static void test_each_command_has_its_answer(void **state)
{
        says(*state, "answer() { case $1 in *_list) echo 7; echo 8 ;; *) echo \"$2 is ACTIVE\" ;; esac; }\n" LISTENS,
                three, 3, "(7\n8)(7 is ACTIVE)(7\n8)");
}

static void test_an_answer_may_be_empty(void **state)
{
        says(*state, "answer() { [ $1 != get_server_status ] || echo ACTIVE; }\n" LISTENS, three, 3, "()(ACTIVE)()");
        says(*state, "answer() { :; }\n" LISTENS, three, 3, "()()()");
}

static void test_one_command_alone_is_one_answer(void **state)
{
        says(*state, "answer() { echo 7; echo; }\n" LISTENS, three, 1, "(7\n)");
}

static void test_there_is_one_front_end(void **state)
{
        says(*state, "mkdir \"$0.lock\" || exit 9; answer() { echo 7; }\n" LISTENS, three, 3, "(7)(7)(7)");
}

static void test_a_daemon_that_breaks_off_has_answered_none(void **state)
{
        says(*state, "answer() { [ $1 != get_client_list ] || exit 0; echo 7; }\n" LISTENS, three, 3,
                "[unavailable: 'get_server_list': the MPS control daemon in '/run/mps/pipe' answered 2 of 3 commands, "
                "then broke off]");
        says(*state, "echo 7; echo 8; exit 0", three, 3,
                "[unavailable: 'get_server_list': the MPS control daemon in '/run/mps/pipe' answered 0 of 3 commands, "
                "then broke off]");
}

static void test_what_the_daemon_does_not_listen_to_is_asked_again(void **state)
{
        says(*state,
                "mkdir $0.1 2>/dev/null && { echo 'Cannot send command to MPS control daemon process' >&2; exit 1; }\n"
                "mkdir $0.2 2>/dev/null && exit 0\n"
                "mkdir $0.3 2>/dev/null && exit 1\n"
                "answer() { echo 7; }\n" LISTENS,
                three, 3, "(7)(7)(7)");
}

static void test_as_many_as_may_be_asked_at_once_fit(void **state)
{
        char longest[MPS_COMMAND_MAX + 1];
        const char *commands[MPS_ASK_MAX];
        struct strbuf expected = STRBUF_INIT;

        memset(longest, 'x', MPS_COMMAND_MAX);
        longest[MPS_COMMAND_MAX] = '\0';
        for (size_t i = 0; i < MPS_ASK_MAX; i++) {
                commands[i] = longest;
                strbuf_printf(&expected, "(%s)", longest);
        }
        says(*state, "answer() { echo $1; }\n" LISTENS, commands, MPS_ASK_MAX, expected.data);
        strbuf_done(&expected);
}

static int set_up(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));

        snprintf(f->root, sizeof(f->root), "/tmp/test-ask-all-XXXXXX");
        assert_non_null(mkdtemp(f->root));
        f->said = (struct strbuf)STRBUF_INIT;
        uv_loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        _free_ char *command = xasprintf("rm -r %s", f->root);

        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(system(command), 0);
        strbuf_done(&f->said);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_each_command_has_its_answer),
                TEST(test_an_answer_may_be_empty),
                TEST(test_one_command_alone_is_one_answer),
                TEST(test_there_is_one_front_end),
                TEST(test_a_daemon_that_breaks_off_has_answered_none),
                TEST(test_what_the_daemon_does_not_listen_to_is_asked_again),
                TEST(test_as_many_as_may_be_asked_at_once_fit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
