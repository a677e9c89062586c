// SPDX-License-Identifier: Apache-2.0
/* The front end's place is taken by shell scripts; the real one answers in control_real.c. */
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
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
        const char *path; /* of the program */
        void (*slow)(void *data);
        void (*refused)(void *data);
        struct strbuf said; /* "(answer)" and "[kind: text]", in the order in which they came */
        char root[64];
        unsigned int closed;
};

/* ---- finding the program ---- */

static void make_file(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
        _free_ char *path = xasprintf("%s/%s", f->root, name);
        int fd;

        for (char *slash = strchr(path + strlen(f->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                mkdir(path, 0755);
                *slash = '/';
        }
        fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, mode);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
}

static void make_program(const struct fixture *f, const char *name)
{
        make_file(f, name, "#!/bin/sh\n", 0755);
}

/* |path| and |expected| are below the fixture's folder. */
static void finds(const struct fixture *f, const char *path, const char *expected)
{
        _free_ char *full_path = *path ? xasprintf("%s/%s", f->root, path) : xstrdup("");
        _free_ char *full_expected = xasprintf("%s/%s", f->root, expected);
        _free_ char *found = NULL;
        struct error err;

        assert_ok(mps_control_find(&found, "nvidia-cuda-mps-control", full_path, f->root, &err), &err);
        assert_string_equal(found, full_expected);
}

static void test_the_program_is_found_where_distributions_have_it(void **state)
{
        struct fixture *f = *state;
        static const char *const places[][2] = {
                {"usr/bin", "usr/sbin"}, /* Debian */
                {"usr/bin", "usr/bin"},
                {"usr/local/bin", "usr/local/bin"},               /* Talos */
                {"usr/local/nvidia/bin", "usr/local/nvidia/bin"}, /* GKE */
                {"run/nvidia/driver/usr/bin", "run/nvidia/driver/usr/bin"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                _free_ char *control = xasprintf("%s/nvidia-cuda-mps-control", places[i][0]);
                _free_ char *server = xasprintf("%s/nvidia-cuda-mps-server", places[i][1]);
                char command[96];

                make_program(f, control);
                make_program(f, server);
                finds(f, "", control);
                snprintf(command, sizeof(command), "rm -r %s/*", f->root);
                assert_int_equal(system(command), 0);
        }
}

static void test_the_path_comes_before_the_usual_places(void **state)
{
        struct fixture *f = *state;

        make_program(f, "usr/bin/nvidia-cuda-mps-control");
        make_program(f, "mine/nvidia-cuda-mps-control");
        make_program(f, "usr/bin/nvidia-cuda-mps-server");
        finds(f, "mine", "mine/nvidia-cuda-mps-control");
}

static void finds_without_a_path(const struct fixture *f, const char *expected)
{
        _free_ char *full_expected = xasprintf("%s/%s", f->root, expected);
        _free_ char *found = NULL;
        struct error err;

        assert_ok(mps_control_find(&found, "nvidia-cuda-mps-control", NULL, f->root, &err), &err);
        assert_string_equal(found, full_expected);
}

static void test_without_a_path_the_one_in_the_environment_is_used_if_there_is_one(void **state)
{
        struct fixture *f = *state;
        _free_ char *before = xstrdup(getenv("PATH"));
        _free_ char *own = xasprintf("%s/mine", f->root);

        make_program(f, "mine/nvidia-cuda-mps-control");
        make_program(f, "usr/bin/nvidia-cuda-mps-control");
        make_program(f, "usr/bin/nvidia-cuda-mps-server");
        setenv("PATH", own, 1);
        finds_without_a_path(f, "mine/nvidia-cuda-mps-control");
        unsetenv("PATH");
        finds_without_a_path(f, "usr/bin/nvidia-cuda-mps-control");
        setenv("PATH", before, 1);
}

static void test_what_is_no_program_is_passed_over_when_there_is_one(void **state)
{
        struct fixture *f = *state;

        make_file(f, "mine/nvidia-cuda-mps-control", "", 0644);
        make_program(f, "usr/bin/nvidia-cuda-mps-control/a-folder");
        make_program(f, "usr/sbin/nvidia-cuda-mps-control");
        make_program(f, "usr/sbin/nvidia-cuda-mps-server");
        finds(f, "mine", "usr/sbin/nvidia-cuda-mps-control");
}

static void test_a_program_that_may_not_be_executed_is_named(void **state)
{
        struct fixture *f = *state;
        _free_ char *found = NULL;
        _free_ char *path = xasprintf("%s/usr/bin/nvidia-cuda-mps-control", f->root);
        _free_ char *expected =
                xasprintf("MPS control program: '%s' is no program that may be executed: see its mode, and whether "
                          "its file system is mounted noexec",
                        path);
        struct error err;

        make_file(f, "usr/bin/nvidia-cuda-mps-control", "", 0644);
        assert_fails(
                mps_control_find(&found, "nvidia-cuda-mps-control", "", f->root, &err), &err, ERROR_DENIED, expected);
        assert_fails(mps_control_find(&found, path, "", f->root, &err), &err, ERROR_DENIED, expected);
}

static void test_a_missing_program_is_an_error_that_lists_the_places(void **state)
{
        struct fixture *f = *state;
        _free_ char *found = NULL;
        struct error err;

        assert_int_equal(mps_control_find(&found, "nvidia-cuda-mps-control", "/one:/two", f->root, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_non_null(strstr(err.text, "MPS control program: there is no nvidia-cuda-mps-control in the PATH "
                                         "(/one:/two), nor in the usual places below '"));
        assert_non_null(strstr(err.text, "--mps-control"));
        assert_fails(mps_control_find(&found, "/nowhere/x", "/one", f->root, &err), &err, ERROR_NOT_FOUND,
                "MPS control program: there is no '/nowhere/x'");
}

/* The daemon starts without it, and every client then waits for ever. */
static void test_a_control_program_without_its_server_is_refused(void **state)
{
        struct fixture *f = *state;
        _free_ char *found = NULL;
        struct error err;

        make_program(f, "usr/bin/nvidia-cuda-mps-control");
        assert_int_equal(mps_control_find(&found, "nvidia-cuda-mps-control", "", f->root, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_non_null(strstr(err.text, "nvidia-cuda-mps-server"));
        assert_non_null(strstr(err.text, "usr/bin"));
}

static void test_a_server_beside_a_program_with_a_path_of_its_own_is_enough(void **state)
{
        struct fixture *f = *state;
        _free_ char *path = xasprintf("%s/opt/mps/control", f->root);
        _free_ char *found = NULL;
        struct error err;

        make_program(f, "opt/mps/control");
        make_program(f, "opt/mps/nvidia-cuda-mps-server");
        assert_ok(mps_control_find(&found, path, "", "/nowhere", &err), &err);
        assert_string_equal(found, path);
}

static void test_the_search_path_of_a_daemon_has_all_places(void **state UNUSED)
{
        _free_ char *path = mps_control_search_path("/opt/mps/control", "/one:/two", "/driver");

        assert_true(strncmp(path, "/opt/mps:/one:/two:/driver/usr/bin:/driver/usr/sbin:", 50) == 0);
        assert_null(strstr(path, "::"));
}

/* ---- asking ---- */

static void on_answer(const struct error *err, const char *answer, void *data)
{
        struct fixture *f = data;

        if (err)
                strbuf_printf(&f->said, "[%s: %s]", error_kind_name(err->kind), err->text);
        else
                strbuf_printf(&f->said, "(%s)", answer);
}

/* A control with |script| for a program. */
/*
 * |script| has the command as its input. What is asked behind it is answered for it, unless it ends with 99: that is a
 * front end to which the daemon has not listened, and which ends with status 0.
 */
static void open_control(struct fixture *f, const char *script, uint64_t timeout_ms)
{
        static const char *const more[] = {"CUDA_VISIBLE_DEVICES=GPU-1", NULL};
        _free_ char *program = xasprintf("%s/program", f->root);
        _free_ char *text =
                xasprintf("#!/bin/sh\nscript() {\n%s\n}\n"
                          "if read -r first; then echo \"$first\" | (script \"$@\"); else (script \"$@\"); fi\n"
                          "status=$?\n"
                          "[ $status = 99 ] && exit 0\n"
                          "[ $status = 0 ] && while read -r next; do echo 25.0; done\n"
                          "exit $status\n",
                        script);
        const struct mps_control_options options = {
                .loop = &f->loop,
                .program = program,
                .pipe_directory = "/run/mps/pipe",
                .log_directory = "/run/mps/log",
                .path = f->path,
                .environment = more,
                .timeout_ms = timeout_ms,
                .slow = f->slow,
                .refused = f->refused,
                .data = f,
        };
        struct error err;

        make_file(f, "program", text, 0755);
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
}

/* All that was asked, answered; the folder's name is written "<root>". */
static void answers(struct fixture *f, const char *expected)
{
        struct strbuf said = STRBUF_INIT;
        const char *at = f->said.data;

        uv_run(&f->loop, UV_RUN_DEFAULT);
        at = f->said.data;
        for (const char *next; (next = strstr(at, f->root)); at = next + strlen(f->root)) {
                strbuf_append(&said, at, (size_t)(next - at));
                strbuf_puts(&said, "<root>");
        }
        strbuf_puts(&said, at);
        assert_string_equal(said.data, expected);
        strbuf_done(&said);
        strbuf_clear(&f->said);
}

static void ask(struct fixture *f, const char *command)
{
        mps_control_ask(f->control, command, on_answer, f);
}

static void test_a_command_goes_in_as_a_line_and_its_answer_loses_one_newline(void **state)
{
        struct fixture *f = *state;

        open_control(f, "read line; echo \"<$line>\"; read line || echo end; echo", 0);
        ask(f, "get_server_list");
        assert_string_equal(f->said.data, ""); /* nobody is called back from within */
        answers(f, "(<get_server_list>\nend\n)");
}

static void test_an_answer_may_be_empty(void **state)
{
        struct fixture *f = *state;

        open_control(f, "exit 0", 0);
        ask(f, "get_server_list");
        answers(f, "()");
}

static void test_the_environment_has_the_directories_and_nothing_of_ours(void **state)
{
        struct fixture *f = *state;

        setenv("CUDA_MPS_PIPE_DIRECTORY", "/of/somebody/else", 1);
        setenv("OURS", "1", 1);
        open_control(f, "env | grep -v '^\\(PWD\\|SHLVL\\|_\\|OLDPWD\\)=' | sort", 0);
        ask(f, "x");
        answers(f, "(CUDA_MPS_LOG_DIRECTORY=/run/mps/log\nCUDA_MPS_PIPE_DIRECTORY=/run/mps/pipe\n"
                   "CUDA_VISIBLE_DEVICES=GPU-1\nPATH=/usr/bin:/bin)");
}

static void test_the_programs_path_may_be_that_of_the_process_or_empty(void **state)
{
        struct fixture *f = *state;
        _free_ char *before = xstrdup(getenv("PATH"));

        f->path = NULL;
        setenv("PATH", "/bin:/ours", 1);
        open_control(f, "echo \"path <$PATH>\"", 0);
        ask(f, "x");
        answers(f, "(path </bin:/ours>)");
        mps_control_close(TAKE_PTR(f->control), NULL, NULL);
        unsetenv("PATH");
        open_control(f, "echo \"path <$PATH>\"", 0);
        ask(f, "x");
        answers(f, "(path <>)");
        setenv("PATH", before, 1);
}

static void test_commands_run_one_at_a_time_in_their_order(void **state)
{
        struct fixture *f = *state;

        open_control(f,
                "mkdir \"$0.lock\" || exit 9; read line; echo $line; [ $line = 0 ] && sleep 0.2; rmdir \"$0.lock\"", 0);
        for (char name[] = "0"; name[0] < '5'; name[0]++)
                ask(f, name);
        answers(f, "(0)(1)(2)(3)(4)");
}

static void test_each_word_is_an_argument(void **state)
{
        struct fixture *f = *state;

        open_control(f, "cat; for word; do printf '<%s>' \"$word\"; done", 0);
        mps_control_run(f->control, "server create a_b --uid=1", on_answer, f);
        answers(f, "(<server><create><a_b><--uid=1>)");
}

static void test_a_daemon_that_is_not_there_is_said_to_be_so(void **state)
{
        struct fixture *f = *state;

        open_control(f, "echo 'Cannot find MPS control daemon process' >&2; exit 1", 0);
        ask(f, "get_server_list");
        answers(f, "[not found: 'get_server_list': no MPS control daemon answers in '/run/mps/pipe']");
}

/* The name of a tenant's process stands in the answer to "ps". */
static void test_the_words_for_a_missing_daemon_in_an_answer_are_only_words(void **state)
{
        struct fixture *f = *state;

        open_control(f, "echo 'Cannot find MPS control daemon process'", 0);
        ask(f, "ps");
        answers(f, "(Cannot find MPS control daemon process)");
}

static void test_a_daemon_that_hangs_costs_the_deadline_and_the_next_command_is_asked(void **state)
{
        struct fixture *f = *state;

        open_control(f, "read line; [ $line = ps ] && sleep 600; echo $line", 1000);
        ask(f, "ps");
        ask(f, "again");
        answers(f, "[timeout: 'ps': the MPS control daemon in '/run/mps/pipe' did not answer within 1000 ms](again)");
}

static void on_slow(void *data)
{
        struct fixture *f = data;

        strbuf_puts(&f->said, "slow ");
}

static void test_a_slow_answer_is_reported_once(void **state)
{
        struct fixture *f = *state;

        f->slow = on_slow;
        open_control(f, "sleep 1; echo late", 0);
        ask(f, "ps");
        ask(f, "ps");
        answers(f, "slow (late)slow (late)");
}

static void on_refused(void *data)
{
        struct fixture *f = data;

        strbuf_puts(&f->said, "refused ");
}

/* A folder counts how often the program ran. */
static void test_what_the_daemon_does_not_listen_to_is_asked_again(void **state)
{
        struct fixture *f = *state;

        f->refused = on_refused;
        open_control(f,
                "mkdir $0.1 2>/dev/null && { echo 'Cannot send command to MPS control daemon process' >&2; exit 1; }\n"
                "mkdir $0.2 2>/dev/null && exit 1\n"
                "mkdir $0.3 2>/dev/null && exit 99\n"
                "cat",
                0);
        ask(f, "ps");
        ask(f, "again");
        answers(f, "refused refused refused (ps)(again)");
}

/* A command that always has an answer proves by it that it was heard. */
static void test_a_command_that_has_an_answer_needs_no_second_one(void **state)
{
        struct fixture *f = *state;

        f->refused = on_refused;
        open_control(f, "mkdir $0.1 2>/dev/null && exit 99; echo 33.3", 0);
        ask(f, "get_default_active_thread_percentage");
        answers(f, "refused (33.3)");
}

static void test_after_a_quit_no_further_command_is_sent(void **state)
{
        struct fixture *f = *state;

        f->refused = on_refused;
        open_control(f, "exit 99", 0);
        ask(f, "quit -t 1");
        answers(f, "()");
}

static void test_an_answer_of_a_daemon_that_then_breaks_off_counts(void **state)
{
        struct fixture *f = *state;

        open_control(f, "echo 4711; echo 4712; exit 99", 0);
        ask(f, "get_server_list");
        answers(f, "(4711\n4712)");
}

static void test_a_daemon_that_never_listens_costs_the_deadline(void **state)
{
        struct fixture *f = *state;

        open_control(f, "exit 1", 200);
        ask(f, "ps");
        answers(f, "[unavailable: 'ps': the MPS control daemon in '/run/mps/pipe' has another front end]");
}

static void test_an_unexpected_exit_status_is_reported_with_the_output(void **state)
{
        struct fixture *f = *state;

        open_control(f, "read line; [ $line = quit ] && exit 3; echo no memory; kill -SEGV $$", 0);
        ask(f, "quit");
        ask(f, "ps");
        answers(f, "[unavailable: 'quit': '<root>/program' ended with status 3: ]"
                   "[unavailable: 'ps': '<root>/program' was ended by signal 11: no memory]");
}

static void test_an_answer_without_end_is_refused(void **state)
{
        struct fixture *f = *state;

        open_control(f, "exec cat /dev/zero", 0);
        ask(f, "ps");
        answers(f, "[invalid: 'ps': the MPS control daemon in '/run/mps/pipe' answered with more than 262144 bytes]");
}

static void test_a_program_that_went_away_is_an_error_of_each_command(void **state)
{
        struct fixture *f = *state;
        _free_ char *program = xasprintf("%s/program", f->root);

        open_control(f, "exit 0", 0);
        unlink(program);
        ask(f, "ps");
        ask(f, "quit");
        answers(f, "[not found: 'ps': run '<root>/program': No such file or directory]"
                   "[not found: 'quit': run '<root>/program': No such file or directory]");
}

/* Two commands where one was meant could be anything, from a name that somebody else chose. */
static void test_a_command_of_two_lines_is_refused(void **state)
{
        struct fixture *f = *state;

        open_control(f, "cat", 0);
        ask(f, "ps\nquit");
        answers(f, "[invalid: 'ps': an MPS command has to be one line]");
}

static void on_answer_ask_more(const struct error *err, const char *answer, void *data)
{
        struct fixture *f = data;

        on_answer(err, answer, data);
        ask(f, "second");
}

static void test_an_answer_may_be_followed_by_a_question(void **state)
{
        struct fixture *f = *state;

        open_control(f, "cat", 0);
        mps_control_ask(f->control, "first", on_answer_ask_more, f);
        answers(f, "(first)(second)");
}

static void on_closed(void *data)
{
        struct fixture *f = data;

        f->closed++;
}

static void on_answer_close(const struct error *err, const char *answer, void *data)
{
        struct fixture *f = data;

        on_answer(err, answer, data);
        mps_control_close(TAKE_PTR(f->control), on_closed, f);
}

static void test_closing_from_an_answer_ends_the_rest(void **state)
{
        struct fixture *f = *state;

        open_control(f, "cat", 0);
        mps_control_ask(f->control, "first", on_answer_close, f);
        ask(f, "second");
        answers(f, "(first)");
        assert_int_equal(f->closed, 1);
}

static void test_closing_kills_what_runs_without_a_callback(void **state)
{
        struct fixture *f = *state;

        open_control(f, "sleep 600", UINT64_C(600000));
        ask(f, "first");
        ask(f, "second");
        uv_run(&f->loop, UV_RUN_NOWAIT);
        mps_control_close(TAKE_PTR(f->control), on_closed, f);
        assert_int_equal(f->closed, 0);
        answers(f, "");
        assert_int_equal(f->closed, 1);
}

static void test_a_pipe_directory_whose_sockets_do_not_fit_is_refused(void **state)
{
        struct fixture *f = *state;
        static const char longest[] =
                "/3456789_123456789_123456789_123456789_123456789_123456789_123456789_123456789_12345678";
        _free_ char *too_long = xasprintf("%s9", longest);
        _free_ char *expected =
                xasprintf("MPS pipe directory '%s': 88 bytes, at most 87 leave room for the sockets in it", too_long);
        struct mps_control_options options = {
                .loop = &f->loop, .program = "/x", .pipe_directory = too_long, .log_directory = "/x", .path = ""};
        struct error err;

        assert_fails(mps_control_new(&f->control, &options, &err), &err, ERROR_INVALID, expected);
        options.pipe_directory = "run/mps";
        assert_fails(mps_control_new(&f->control, &options, &err), &err, ERROR_INVALID,
                "MPS pipe directory 'run/mps': must be an absolute path");
        options.pipe_directory = longest;
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
}

/* ---- */

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        strcpy(f->root, "/tmp/warpshare-mps-control-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        uv_loop_init(&f->loop);
        f->path = "/usr/bin:/bin";
        f->said = (struct strbuf)STRBUF_INIT;
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        if (f->control)
                mps_control_close(f->control, NULL, NULL);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        strbuf_done(&f->said);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_program_is_found_where_distributions_have_it),
                TEST(test_the_path_comes_before_the_usual_places),
                TEST(test_without_a_path_the_one_in_the_environment_is_used_if_there_is_one),
                TEST(test_what_is_no_program_is_passed_over_when_there_is_one),
                TEST(test_a_program_that_may_not_be_executed_is_named),
                TEST(test_a_missing_program_is_an_error_that_lists_the_places),
                TEST(test_a_control_program_without_its_server_is_refused),
                TEST(test_a_server_beside_a_program_with_a_path_of_its_own_is_enough),
                cmocka_unit_test(test_the_search_path_of_a_daemon_has_all_places),
                TEST(test_a_command_goes_in_as_a_line_and_its_answer_loses_one_newline),
                TEST(test_an_answer_may_be_empty),
                TEST(test_the_environment_has_the_directories_and_nothing_of_ours),
                TEST(test_the_programs_path_may_be_that_of_the_process_or_empty),
                TEST(test_commands_run_one_at_a_time_in_their_order),
                TEST(test_each_word_is_an_argument),
                TEST(test_a_daemon_that_is_not_there_is_said_to_be_so),
                TEST(test_the_words_for_a_missing_daemon_in_an_answer_are_only_words),
                TEST(test_a_daemon_that_hangs_costs_the_deadline_and_the_next_command_is_asked),
                TEST(test_a_slow_answer_is_reported_once),
                TEST(test_what_the_daemon_does_not_listen_to_is_asked_again),
                TEST(test_a_command_that_has_an_answer_needs_no_second_one),
                TEST(test_after_a_quit_no_further_command_is_sent),
                TEST(test_an_answer_of_a_daemon_that_then_breaks_off_counts),
                TEST(test_a_daemon_that_never_listens_costs_the_deadline),
                TEST(test_an_unexpected_exit_status_is_reported_with_the_output),
                TEST(test_an_answer_without_end_is_refused),
                TEST(test_a_program_that_went_away_is_an_error_of_each_command),
                TEST(test_a_command_of_two_lines_is_refused),
                TEST(test_an_answer_may_be_followed_by_a_question),
                TEST(test_closing_from_an_answer_ends_the_rest),
                TEST(test_closing_kills_what_runs_without_a_callback),
                TEST(test_a_pipe_directory_whose_sockets_do_not_fit_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
