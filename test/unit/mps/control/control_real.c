// SPDX-License-Identifier: Apache-2.0
/*
 * NVIDIA's own nvidia-cuda-mps-control, each version that tools/fetch-nonfree has got, on a machine without a GPU: it
 * answers exactly what test/fixtures/mps-control has (with WARPSHARE_RECORD=1 that is written anew), and it behaves as
 * mps/control/control.h and mps/control/dialogue.h say.
 *
 *         WARPSHARE_REAL_MPS: <folder of a fetch>:<another one>…
 */
#include "until.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "mps/control/control.h"
#include "mps/control/dialogue.h"
#include "plan/mps_wanted.h"

#define TIMEOUT_MS UINT64_C(60000)

struct fixture {
        uv_loop_t loop;
        struct mps_control *control;
        char root[48];
        char *fetched; /* folder of the fetch */
        char *program;
        char *pipe;
        char *log;
        char *branch; /* "535" */
        pid_t daemon;
        /* The last answer. */
        struct error err;
        bool failed;
        char *answer;
        unsigned int answers;
};

/* ---- asking ---- */

static void on_answer(const struct error *err, const char *answer, void *data)
{
        struct fixture *f = data;

        free(f->answer);
        f->failed = err != NULL;
        if (err)
                f->err = *err;
        f->answer = xstrdup(err ? err->text : answer);
        f->answers++;
}

static const char *try_to_ask(struct fixture *f, const char *command)
{
        unsigned int before = f->answers;

        mps_control_ask(f->control, command, on_answer, f);
        UNTIL(&f->loop, f->answers != before);
        return f->answer;
}

static const char *ask(struct fixture *f, const char *command)
{
        try_to_ask(f, command);
        if (f->failed)
                fail_msg("%s (%s): %s", f->program, command, f->err.text);
        return f->answer;
}

static void answers(struct fixture *f, const char *command, const char *expected)
{
        assert_string_equal(ask(f, command), expected);
}

/* ---- the daemon ---- */

static pid_t start(const struct fixture *f, const char *pipe_directory, const char *const *options, const char *output)
{
        _free_ char *pipe = xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s", pipe_directory);
        _free_ char *log = xasprintf("CUDA_MPS_LOG_DIRECTORY=%s", f->log);
        _free_ char *path = xasprintf("PATH=%s/root/usr/sbin:/usr/bin:/bin", f->fetched); /* the server's folder */
        char *environment[] = {pipe, log, path, NULL};
        char *argv[] = {f->program, xstrdup(options[0]), options[0] && options[1] ? xstrdup(options[1]) : NULL, NULL};
        pid_t pid = fork();

        if (pid == 0) {
                int null = open("/dev/null", O_RDONLY);
                int out = open(output, O_CREAT | O_WRONLY | O_TRUNC, 0600);

                dup2(null, STDIN_FILENO);
                dup2(out, STDOUT_FILENO);
                dup2(out, STDERR_FILENO);
                for (int fd = 3; fd < 1024; fd++)
                        close(fd);
                execve(f->program, argv, environment);
                _exit(126);
        }
        free(argv[1]);
        free(argv[2]);
        assert_true(pid > 0);
        return pid;
}

static int wait_for(pid_t pid)
{
        int status = 0;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void start_daemon(struct fixture *f)
{
        static const char *const foreground[] = {"-f", NULL};
        _free_ char *output = xasprintf("%s/control.log", f->root);

        f->daemon = start(f, f->pipe, foreground, output);
        for (uint64_t since = uv_hrtime(); uv_hrtime() - since < TIMEOUT_MS * 1000000; usleep(10000)) {
                try_to_ask(f, "get_server_list");
                if (!f->failed)
                        return;
                if (f->err.kind != ERROR_NOT_FOUND)
                        fail_msg("%s: %s", f->program, f->err.text);
        }
        fail_msg("%s does not come up", f->program);
}

static void quit(struct fixture *f)
{
        answers(f, "quit", "");
        assert_int_equal(wait_for(f->daemon), 0);
        f->daemon = 0;
}

/* Runs a second program to its end; what it printed comes back, for the caller to free. */
static char *run(const struct fixture *f, const char *pipe, const char *const *options, int *ret_status)
{
        _free_ char *path = xasprintf("%s/output", f->root);
        struct strbuf output = STRBUF_INIT;
        struct error err;
        int status = wait_for(start(f, pipe, options, path));

        assert_true(WIFEXITED(status));
        *ret_status = WEXITSTATUS(status);
        assert_ok(file_read(path, 65536, &output, &err), &err);
        return strbuf_take(&output);
}

/* ---- what it answers ---- */

static char *fixture_path(const struct fixture *f)
{
        return xasprintf("%s/%s.txt", getenv("WARPSHARE_MPS_FIXTURES"), f->branch);
}

/* Asks every command of |expected|, and writes commands and answers as the file has them. */
static void replay(struct fixture *f, const char *expected, struct strbuf *said)
{
        for (const char *line = expected; *line; line += strcspn(line, "\n") + 1) {
                int length = (int)strcspn(line, "\n");
                _free_ char *command = NULL;
                const char *answer;

                if (*line == '#')
                        strbuf_printf(said, "%.*s\n", length, line);
                if (!text_starts_with(line, "> "))
                        continue;
                command = xasprintf("%.*s", length - 2, line + 2);
                answer = ask(f, command);
                strbuf_printf(said, "> %s\n%s%s", command, answer, *answer ? "\n" : "");
        }
}

static void test_its_answers_are_those_on_record(void **state)
{
        struct fixture *f = *state;
        _cleanup_(strbuf_done) struct strbuf expected = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf said = STRBUF_INIT;
        _free_ char *path = fixture_path(f);
        struct error err;

        assert_ok(file_read(path, 65536, &expected, &err), &err);
        start_daemon(f);
        replay(f, expected.data, &said);
        assert_int_equal(wait_for(f->daemon), 0); /* the last command is "quit" */
        f->daemon = 0;
        if (getenv("WARPSHARE_RECORD"))
                assert_ok(file_write(path, said.data, said.size, &err), &err);
        else
                assert_string_equal(said.data, expected.data);
}

static void test_what_is_set_is_read_back(void **state)
{
        struct fixture *f = *state;
        static const unsigned int permille[] = {1, 3, 50, 51, 333, 334, 666, 999, 1000};
        static const uint64_t mib[] = {1, 1023, 1024, 1630, 2048, 81559, 0};
        struct error err;

        start_daemon(f);
        for (size_t i = 0; i < ARRAY_SIZE(permille); i++) {
                _cleanup_(strbuf_done) struct strbuf command = STRBUF_INIT;
                unsigned int again = 0;

                strbuf_printf(
                        &command, "set_default_active_thread_percentage %u.%u", permille[i] / 10, permille[i] % 10);
                assert_ok(dialogue_read_percentage(ask(f, command.data), &again, &err), &err);
                assert_int_equal(again, permille[i]);
                assert_ok(dialogue_read_percentage(ask(f, "get_default_active_thread_percentage"), &again, &err), &err);
                assert_int_equal(again, permille[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(mib); i++) {
                _cleanup_(strbuf_done) struct strbuf command = STRBUF_INIT;
                uint64_t again = 7;

                strbuf_printf(&command, "set_default_device_pinned_mem_limit 0 %lluM", (unsigned long long)mib[i]);
                answers(f, command.data, "");
                assert_ok(dialogue_read_limit(ask(f, "get_default_device_pinned_mem_limit 0"), &again, &err), &err);
                assert_true(again == dialogue_limit_shown(mib[i]));
        }
        quit(f);
}

static void test_the_probe_proves_what_the_branch_is_known_for(void **state)
{
        struct fixture *f = *state;
        struct dialogue_probe probe = {0};

        start_daemon(f);
        for (const char *command; (command = dialogue_probe_next(&probe));)
                dialogue_probe_answer(&probe, ask(f, command));
        assert_int_equal(probe.can, dialogue_capabilities(f->branch));
        answers(f, "get_default_device_pinned_mem_limit 0", "");
        quit(f);
}

static void on_three_answers(const struct error *err, const char *const *answers, void *data)
{
        struct fixture *f = data;

        free(f->answer);
        f->answer = err ? xstrdup(err->text) : xasprintf("(%s)(%s)(%s)", answers[0], answers[1], answers[2]);
        f->answers++;
}

static void test_several_commands_in_one_front_end_have_their_answers(void **state)
{
        static const char *const commands[] = {
                "get_server_list", "get_default_device_pinned_mem_limit 0", "get_client_list 4711"};
        struct fixture *f = *state;
        _free_ char *expected = NULL;
        unsigned int before;

        start_daemon(f);
        answers(f, "set_default_device_pinned_mem_limit 0 2G", "");
        expected = xasprintf("()(2G)(%s)", ask(f, "get_client_list 4711"));
        before = f->answers;
        mps_control_ask_all(f->control, commands, ARRAY_SIZE(commands), on_three_answers, f);
        while (f->answers == before)
                uv_run(&f->loop, UV_RUN_ONCE);
        assert_string_equal(f->answer, expected);
        quit(f);
}

static void test_no_daemon_answers_before_and_after(void **state)
{
        struct fixture *f = *state;

        try_to_ask(f, "get_server_list");
        assert_true(f->failed);
        assert_int_equal(f->err.kind, ERROR_NOT_FOUND);
        start_daemon(f);
        quit(f);
        try_to_ask(f, "get_server_list");
        assert_true(f->failed);
        assert_int_equal(f->err.kind, ERROR_NOT_FOUND);
}

/* Sockets, lock and PID file stay, and prove nothing. */
static void test_a_killed_daemon_is_known_by_its_silence_and_another_starts_over_its_files(void **state)
{
        struct fixture *f = *state;
        _free_ char *socket = xasprintf("%s/control", f->pipe);
        struct stat before;
        struct stat after;

        start_daemon(f);
        assert_int_equal(stat(f->pipe, &before), 0);
        kill(f->daemon, SIGKILL);
        assert_true(WIFSIGNALED(wait_for(f->daemon)));
        assert_int_equal(access(socket, F_OK), 0);
        try_to_ask(f, "get_server_list");
        assert_true(f->failed);
        assert_int_equal(f->err.kind, ERROR_NOT_FOUND);
        start_daemon(f);
        assert_int_equal(stat(f->pipe, &after), 0);
        assert_true(before.st_ino == after.st_ino);
        answers(f, "get_default_active_thread_percentage", "100.0");
        quit(f);
}

static void test_a_daemon_that_does_not_answer_costs_the_deadline(void **state)
{
        struct fixture *f = *state;
        struct mps_control_options options = {
                .loop = &f->loop,
                .program = f->program,
                .pipe_directory = f->pipe,
                .log_directory = f->log,
                .path = "/usr/bin:/bin",
                .timeout_ms = 500,
        };
        struct error err;

        start_daemon(f);
        mps_control_close(TAKE_PTR(f->control), NULL, NULL);
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
        kill(f->daemon, SIGSTOP);
        try_to_ask(f, "get_server_list");
        assert_true(f->failed);
        assert_int_equal(f->err.kind, ERROR_TIMEOUT);
        mps_control_close(TAKE_PTR(f->control), NULL, NULL);
        options.timeout_ms = TIMEOUT_MS;
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
        kill(f->daemon, SIGCONT);
        answers(f, "get_default_active_thread_percentage", "100.0"); /* the abandoned question harms nothing */
        quit(f);
}

static void test_a_second_daemon_in_one_directory_is_refused(void **state)
{
        struct fixture *f = *state;
        static const char *const foreground[] = {"-f", NULL};
        _free_ char *said = NULL;
        int status;

        start_daemon(f);
        said = run(f, f->pipe, foreground, &status);
        assert_int_equal(status, 1);
        assert_string_equal(said, "An instance of this daemon is already running\n");
        answers(f, "get_server_list", "");
        quit(f);
}

static void test_the_longest_pipe_directory_works_and_one_byte_more_does_not(void **state)
{
        struct fixture *f = *state;
        static const char *const foreground[] = {"-f", NULL};
        _free_ char *longer = NULL;
        _free_ char *said = NULL;
        size_t length = strlen(f->pipe);
        struct mps_control_options options;
        struct error err;
        int status;

        f->pipe = xrealloc(f->pipe, 128);
        memset(f->pipe + length, 'x', MPS_PIPE_PATH_MAX - length);
        f->pipe[MPS_PIPE_PATH_MAX] = '\0';
        longer = xasprintf("%sx", f->pipe);
        options = (struct mps_control_options){
                .loop = &f->loop,
                .program = f->program,
                .pipe_directory = f->pipe,
                .log_directory = f->log,
                .path = "/usr/bin:/bin",
                .timeout_ms = TIMEOUT_MS,
        };
        mps_control_close(TAKE_PTR(f->control), NULL, NULL);
        assert_ok(mps_control_new(&f->control, &options, &err), &err);
        start_daemon(f);
        quit(f);
        said = run(f, longer, foreground, &status);
        assert_int_equal(status, 1);
}

static void test_options_of_newer_releases_are_known_to_be_unknown(void **state)
{
        struct fixture *f = *state;
        static const char *const options[][3] = {{"-f", "-multiuser-server", NULL}, {"-f", "-S", NULL},
                {"-multiuser-server", "-f", NULL}, {"-S", "-f", NULL}};

        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                int status;
                _free_ char *said = run(f, f->pipe, options[i], &status);

                assert_true(dialogue_is_unknown_option(status, said));
        }
}

/* As without a GPU, or where the driver's files are not what they should be: nothing but the log tells. */
static void test_a_server_that_cannot_start_is_reported_only_in_the_log(void **state)
{
        struct fixture *f = *state;
        _free_ char *command = xasprintf("start_server -uid %u", getuid());
        _free_ char *log = xasprintf("%s/control.log", f->root);
        bool seen = false;

        if (access("/proc/driver/nvidia", F_OK) == 0)
                return; /* here it would start */
        start_daemon(f);
        answers(f, command, "");
        for (uint64_t since = uv_hrtime(); !seen && uv_hrtime() - since < TIMEOUT_MS * 1000000; usleep(10000)) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                struct error err;

                assert_ok(file_read(log, 1024 * 1024, &text, &err), &err);
                seen = strstr(text.data, "exited with status 1") != NULL;
        }
        assert_true(seen);
        answers(f, "get_server_list", "");
        try_to_ask(f, "quit"); /* its status may be that of the server, too */
        assert_int_equal(WEXITSTATUS(wait_for(f->daemon)), 1);
        f->daemon = 0;
}

/* ---- */

static int set_up_in(struct fixture *f, const char *fetched)
{
        _cleanup_(strbuf_done) struct strbuf version = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/version", fetched);
        struct mps_control_options options = {.loop = &f->loop, .path = "/usr/bin:/bin", .timeout_ms = TIMEOUT_MS};
        struct error err;

        strcpy(f->root, "/tmp/warpshare-mps-real-XXXXXX");
        if (!mkdtemp(f->root) || file_read(path, 256, &version, &err) < 0)
                return -1;
        uv_loop_init(&f->loop);
        f->fetched = xstrdup(fetched);
        f->branch = xasprintf("%.*s", (int)strcspn(version.data, ".\n"), version.data);
        f->program = xasprintf("%s/root/usr/bin/nvidia-cuda-mps-control", fetched);
        f->pipe = xasprintf("%s/pipe", f->root);
        f->log = xasprintf("%s/log", f->root);
        options.program = f->program;
        options.pipe_directory = f->pipe;
        options.log_directory = f->log;
        return mps_control_new(&f->control, &options, &err);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        const char *fetched = *state; /* of the group */

        *state = f;
        return set_up_in(f, fetched);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        if (f->daemon) { /* of a test that failed */
                kill(f->daemon, SIGKILL);
                waitpid(f->daemon, NULL, 0);
        }
        mps_control_close(f->control, NULL, NULL);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        free(f->fetched);
        free(f->branch);
        free(f->program);
        free(f->pipe);
        free(f->log);
        free(f->answer);
        free(f);
        return 0;
}

#define TEST(function)                                                                                                 \
        {                                                                                                              \
                .name = #function, .test_func = function, .setup_func = set_up, .teardown_func = tear_down,            \
                .initial_state = fetched                                                                               \
        }

static int test_version(char *fetched)
{
        const struct CMUnitTest tests[] = {
                TEST(test_its_answers_are_those_on_record),
                TEST(test_what_is_set_is_read_back),
                TEST(test_the_probe_proves_what_the_branch_is_known_for),
                TEST(test_several_commands_in_one_front_end_have_their_answers),
                TEST(test_no_daemon_answers_before_and_after),
                TEST(test_a_killed_daemon_is_known_by_its_silence_and_another_starts_over_its_files),
                TEST(test_a_daemon_that_does_not_answer_costs_the_deadline),
                TEST(test_a_second_daemon_in_one_directory_is_refused),
                TEST(test_the_longest_pipe_directory_works_and_one_byte_more_does_not),
                TEST(test_options_of_newer_releases_are_known_to_be_unknown),
                TEST(test_a_server_that_cannot_start_is_reported_only_in_the_log),
        };

        return cmocka_run_group_tests_name(fetched, tests, NULL, NULL);
}

int main(void)
{
        _free_ char *folders = xstrdup(getenv("WARPSHARE_REAL_MPS") ? getenv("WARPSHARE_REAL_MPS") : "");
        unsigned int versions = 0;
        char *rest = NULL;
        int failed = 0;

        for (char *fetched = strtok_r(folders, ":", &rest); fetched; fetched = strtok_r(NULL, ":", &rest)) {
                _free_ char *version = xasprintf("%s/version", fetched);

                if (access(version, R_OK) == 0) {
                        failed += test_version(fetched);
                        versions++;
                }
        }
        if (versions == 0) {
                fprintf(stderr, "no nvidia-cuda-mps-control from tools/fetch-nonfree in %s\n",
                        getenv("WARPSHARE_REAL_MPS"));
                return 77;
        }
        return failed != 0;
}
