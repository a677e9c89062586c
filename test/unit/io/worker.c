#include "unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "io/loop.h"
#include "io/worker.h"

/* ---- a kernel that does what is rare ---- */

static bool has_no_process_left;
static bool ends_nobody;

__attribute__((visibility("default"))) pid_t fork(void)
{
        pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

        if (!has_no_process_left)
                return real();
        errno = EAGAIN;
        return -1;
}

__attribute__((visibility("default"))) pid_t waitpid(pid_t pid, int *status, int options)
{
        return ends_nobody && options & WNOHANG ? 0 : (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

/* ---- what the process does ---- */

enum deed {
        SAY_PID,
        HANG,
        CRASH,
        SAY_NOTHING,
        SAY_TOO_MUCH,
        LIST_DESCRIPTORS,
        SAY_SIZE,
        STEP_AND_HANG,
        REST_AND_STEP,
        REST
};

static void list_descriptors(struct strbuf *answer)
{
        DIR *folder = opendir("/proc/self/fd");
        const struct dirent *entry;

        while (folder && (entry = readdir(folder)))
                if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(folder))
                        strbuf_printf(answer, "%s ", entry->d_name);
        closedir(folder);
}

#define STEP_MS UINT64_C(100)

static void rest(uint64_t ms)
{
        const struct timespec pause = {.tv_nsec = (long)ms * 1000000};

        nanosleep(&pause, NULL);
}

static void tell_step(const char *name)
{
        struct worker_call *call = worker_own_call();

        call->call = name;
        call->since_ms = uv_hrtime() / 1000000;
}

static void serve(const void *message, size_t size, struct strbuf *answer, const void *data UNUSED)
{
        static char filler[WORKER_ANSWER_MAX + 1];
        const enum deed deed = ((const char *)message)[0];

        switch (deed) {
        case SAY_PID:
                strbuf_printf(answer, "%d", (int)getpid());
                break;
        case HANG:
                for (;;)
                        pause();
        case CRASH:
                signal(SIGABRT, SIG_DFL); /* no report of a sanitizer */
                kill(getpid(), SIGKILL);
                break;
        case SAY_NOTHING:
                break;
        case SAY_TOO_MUCH:
                strbuf_append(answer, filler, sizeof(filler));
                break;
        case LIST_DESCRIPTORS:
                list_descriptors(answer);
                break;
        case STEP_AND_HANG:
                worker_send_news("news ", 5);
                tell_step("a step");
                for (;;)
                        pause();
        case REST_AND_STEP:
                for (int i = 0; i < 5; i++) {
                        tell_step("a step");
                        tell_step(NULL);
                        rest(STEP_MS);
                }
                break;
        case REST:
                rest(STEP_MS * 2);
                break;
        case SAY_SIZE:
                strbuf_printf(answer, "%zu", size);
                break;
        }
}

/* ---- who asks ---- */

#define ASKED_MAX 8

struct fixture {
        uv_loop_t loop;
        struct worker *worker;
        struct asked {
                struct worker_request request;
                struct fixture *fixture;
                char message[2];
                bool is_done;
                struct error err;
                char *answer;
                size_t place; /* which of all answers it was */
                bool closes;
        } asked[ASKED_MAX];
        size_t n_asked;
        size_t n_answers;
};

static void on_answer(struct worker_request *request, const struct error *err, const void *answer, size_t size)
{
        struct asked *asked = container_of(request, struct asked, request);
        struct fixture *f = asked->fixture;

        assert_false(asked->is_done);
        asked->is_done = true;
        asked->place = f->n_answers++;
        if (err)
                asked->err = *err;
        else
                asked->answer = strndup(answer, size);
        if (asked->closes)
                f->worker = worker_close(f->worker);
}

static struct asked *ask_within(struct fixture *f, enum deed deed, uint64_t deadline_ms)
{
        struct asked *asked = &f->asked[f->n_asked++];

        asked->fixture = f;
        asked->message[0] = (char)deed;
        asked->request = (struct worker_request){.message = asked->message,
                .size = sizeof(asked->message),
                .deadline_ms = deadline_ms,
                .done = on_answer};
        worker_ask(f->worker, &asked->request);
        assert_false(asked->is_done);
        return asked;
}

static struct asked *ask(struct fixture *f, enum deed deed)
{
        return ask_within(f, deed, 30000);
}

static bool is_answered(void *data)
{
        return ((const struct asked *)data)->is_done;
}

static void wait_for(struct fixture *f, struct asked *asked)
{
        loop_run_until(&f->loop, is_answered, asked, 0);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        loop_init(&f->loop);
        f->worker = worker_new(&f->loop, "test-worker", serve, NULL);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        f->worker = worker_close(f->worker);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(syscall(SYS_wait4, -1, NULL, WNOHANG, NULL), -1); /* no process is left */
        for (size_t i = 0; i < f->n_asked; i++)
                free(f->asked[i].answer);
        free(f);
        return 0;
}

/* ---- */

static void test_another_process_answers_one_request_after_the_other(void **state)
{
        struct fixture *f = *state;
        struct asked *first = ask(f, SAY_PID);
        struct asked *second = ask(f, SAY_SIZE);
        struct asked *third = ask(f, SAY_PID);

        wait_for(f, third);
        assert_int_not_equal(atoi(first->answer), getpid());
        assert_string_equal(first->answer, third->answer);
        assert_string_equal(second->answer, "2");
        assert_int_equal(first->place, 0);
        assert_int_equal(second->place, 1);
}

static void test_one_that_hangs_is_killed_at_its_deadline_and_the_others_are_answered(void **state)
{
        struct fixture *f = *state;
        struct asked *before = ask(f, SAY_PID);
        struct asked *hung = ask_within(f, HANG, 50);
        struct asked *after = ask(f, SAY_PID);
        _free_ char *text = NULL;

        wait_for(f, after);
        text = xasprintf("no answer: process %s ('test-worker') hung and was killed", before->answer);
        assert_string_equal(hung->err.text, text);
        assert_int_equal(hung->err.kind, ERROR_TIMEOUT);
        assert_string_not_equal(before->answer, after->answer);
        f->worker = worker_close(f->worker);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(kill(atoi(before->answer), 0), -1);
        assert_int_equal(kill(atoi(after->answer), 0), -1);
}

static void test_one_that_crashes_fails_its_request_only(void **state)
{
        static const enum deed deeds[] = {CRASH, SAY_TOO_MUCH};

        for (size_t i = 0; i < ARRAY_SIZE(deeds); i++) {
                struct fixture *f = *state;
                struct asked *crashed = ask(f, deeds[i]);
                struct asked *after = ask(f, SAY_SIZE);

                wait_for(f, after);
                assert_int_equal(crashed->err.kind, ERROR_UNAVAILABLE);
                assert_non_null(strstr(crashed->err.text, "('test-worker') has ended"));
                assert_string_equal(after->answer, "2");
        }
}

static void test_a_process_that_is_killed_from_outside_is_made_again(void **state)
{
        struct fixture *f = *state;
        struct asked *first = ask(f, SAY_PID);
        struct asked *next;

        wait_for(f, first);
        kill(atoi(first->answer), SIGKILL);
        next = ask(f, SAY_PID);
        wait_for(f, next);
        if (next->err.kind) { /* it was asked before its end was seen */
                next = ask(f, SAY_PID);
                wait_for(f, next);
        }
        assert_string_not_equal(first->answer, next->answer);
}

static void test_a_signal_for_all_of_a_terminal_does_not_end_it(void **state)
{
        struct fixture *f = *state;
        struct asked *first = ask(f, SAY_PID);
        struct asked *next;

        wait_for(f, first);
        kill(atoi(first->answer), SIGINT);
        kill(atoi(first->answer), SIGTERM);
        next = ask(f, SAY_PID);
        wait_for(f, next);
        assert_string_equal(first->answer, next->answer);
}

static void test_it_has_none_of_our_descriptors(void **state)
{
        struct fixture *f = *state;
        int fd = open("/dev/null", O_RDONLY);
        struct asked *asked = ask(f, LIST_DESCRIPTORS);

        assert_true(fd >= 0);
        wait_for(f, asked);
        assert_string_equal(asked->answer, "0 1 2 3 ");
        close(fd);
}

static void test_what_is_cancelled_is_not_told_and_others_are(void **state)
{
        struct fixture *f = *state;
        struct asked *begun = ask(f, SAY_SIZE);
        struct asked *hung;
        struct asked *waits;
        struct asked *last;

        worker_cancel(f->worker, &begun->request);
        last = ask(f, SAY_SIZE);
        wait_for(f, last);
        hung = ask_within(f, HANG, 50);
        waits = ask(f, SAY_SIZE);
        last = ask(f, SAY_SIZE);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        worker_cancel(f->worker, &hung->request);
        worker_cancel(f->worker, &waits->request);
        wait_for(f, last);
        assert_false(begun->is_done);
        assert_false(hung->is_done);
        assert_false(waits->is_done);
        assert_string_equal(last->answer, "2");
}

static void test_one_that_is_cancelled_before_its_turn_leaves_a_worker_that_serves(void **state)
{
        struct fixture *f = *state;
        struct asked *cancelled = ask(f, SAY_SIZE);
        struct asked *after;

        worker_cancel(f->worker, &cancelled->request);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        after = ask(f, SAY_SIZE);
        wait_for(f, after);
        cancelled = ask(f, SAY_SIZE);
        worker_cancel(f->worker, &cancelled->request);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_false(cancelled->is_done);
        assert_string_equal(after->answer, "2");
}

static void test_whoever_is_told_may_close_it(void **state)
{
        struct fixture *f = *state;
        struct asked *closes = ask(f, SAY_SIZE);
        struct asked *never = ask(f, SAY_SIZE);

        closes->closes = true;
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(closes->is_done);
        assert_false(never->is_done);
}

static void test_a_program_that_waits_gets_its_answer(void **state UNUSED)
{
        struct strbuf answer = STRBUF_INIT;
        struct worker_alone alone;
        struct error err;

        worker_alone_begin(&alone, "test-worker", serve, NULL);
        assert_ok(worker_alone_ask(&alone, (char[]){SAY_SIZE, 0, 0}, 3, 30000, &answer, &err), &err);
        assert_string_equal(answer.data, "3");
        assert_int_equal(worker_alone_ask(&alone, (char[]){HANG}, 1, 50, &answer, &err), -1);
        assert_int_equal(err.kind, ERROR_TIMEOUT);
        worker_alone_end(&alone);
        strbuf_done(&answer);
}

static void test_a_deadline_is_of_what_it_is_said_to_be(void **state UNUSED)
{
        static const struct {
                enum worker_patience patience;
                enum deed deed;
                uint64_t deadline_ms;
                int rc;
        } rows[] = {
                {WORKER_EACH_STEP, REST_AND_STEP, STEP_MS / 2, -1}, /* its rest is too long */
                {WORKER_EACH_CALL, REST, STEP_MS / 2, 0},
                {WORKER_EACH_CALL, STEP_AND_HANG, STEP_MS / 2, -1},
                {WORKER_EACH_STEP, REST_AND_STEP, STEP_MS * 100, 0},
                {WORKER_IN_ALL, REST_AND_STEP, STEP_MS * 2, -1}, /* each of its steps is short */
                {WORKER_IN_ALL, REST_AND_STEP, STEP_MS * 100, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct strbuf answer = STRBUF_INIT;
                struct worker_alone alone;
                struct error err = {.kind = ERROR_NONE};

                worker_alone_begin(&alone, "test-worker", serve, NULL);
                alone.patience = rows[i].patience;
                assert_int_equal(
                        worker_alone_ask(&alone, (char[]){(char)rows[i].deed}, 1, rows[i].deadline_ms, &answer, &err),
                        rows[i].rc);
                assert_int_equal(err.kind, rows[i].rc ? ERROR_TIMEOUT : ERROR_NONE);
                worker_alone_end(&alone);
                strbuf_done(&answer);
        }
}

static void test_what_was_said_before_a_hang_is_not_lost(void **state UNUSED)
{
        struct strbuf answer = STRBUF_INIT;
        struct worker_alone alone;
        struct error err;

        worker_alone_begin(&alone, "test-worker", serve, NULL);
        assert_int_equal(worker_alone_ask(&alone, (char[]){STEP_AND_HANG}, 1, STEP_MS, &answer, &err), -1);
        assert_string_equal(answer.data, "news ");
        assert_string_equal(alone.lost.call, "a step");
        assert_int_equal(alone.signal, SIGKILL);
        assert_ok(worker_alone_ask(&alone, (char[]){SAY_SIZE}, 1, 30000, &answer, &err), &err);
        assert_string_equal(answer.data, "news 1");
        worker_alone_end(&alone);
        strbuf_done(&answer);
}

static void test_one_may_have_the_descriptors_of_its_program(void **state UNUSED)
{
        struct strbuf answer = STRBUF_INIT;
        const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
        struct worker_alone alone;
        struct error err;

        assert_int_equal(fd, 100);
        worker_alone_begin(&alone, "test-worker", serve, NULL);
        worker_keep_descriptors(alone.worker);
        assert_ok(worker_alone_ask(&alone, (char[]){LIST_DESCRIPTORS}, 1, 30000, &answer, &err), &err);
        assert_non_null(strstr(answer.data, " 100 "));
        worker_alone_end(&alone);
        close(fd);
        strbuf_done(&answer);
}

static void test_where_no_process_can_be_made_the_request_fails(void **state)
{
        struct fixture *f = *state;
        struct asked *fails;
        struct asked *after;

        has_no_process_left = true;
        fails = ask(f, SAY_SIZE);
        wait_for(f, fails);
        has_no_process_left = false;
        after = ask(f, SAY_SIZE);
        wait_for(f, after);
        assert_string_equal(fails->err.text, "make process 'test-worker': Resource temporarily unavailable");
        assert_int_equal(fails->err.kind, ERROR_EXHAUSTED);
        assert_string_equal(after->answer, "2");
}

static bool has_one_left(void *data)
{
        return worker_count_left() == *(size_t *)data;
}

static void test_one_that_does_not_end_is_left_behind_and_others_serve(void **state)
{
        struct fixture *f = *state;
        size_t count = 1;
        struct asked *hung;
        struct asked *after;

        ends_nobody = true;
        hung = ask_within(f, HANG, 50);
        after = ask(f, SAY_SIZE);
        wait_for(f, after);
        assert_int_equal(hung->err.kind, ERROR_TIMEOUT);
        assert_int_equal(worker_count_left(), 0); /* it has just been killed */
        loop_run_until(&f->loop, has_one_left, &count, 0);
        ends_nobody = false;
        count = 0;
        loop_run_until(&f->loop, has_one_left, &count, 0);
}

/* A program with a worker that hangs, which is ended as no program can prevent. */
static void test_it_ends_with_its_program(void **state UNUSED)
{
        char text[16] = "";
        int ends[2];
        pid_t program;
        pid_t worker;

        assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        program = fork();
        if (program == 0) {
                struct strbuf answer = STRBUF_INIT;
                struct worker_alone alone;
                struct error err;

                worker_alone_begin(&alone, "test-worker", serve, NULL);
                if (worker_alone_ask(&alone, (char[]){SAY_PID}, 1, 30000, &answer, &err) == 0)
                        dprintf(ends[1], "%s", answer.data);
                (void)!worker_alone_ask(&alone, (char[]){HANG}, 1, 600000, &answer, &err);
                _exit(0);
        }
        close(ends[1]);
        assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
        worker = atoi(text);
        assert_int_equal(kill(worker, 0), 0);
        kill(program, SIGKILL);
        assert_int_equal(syscall(SYS_wait4, program, NULL, 0, NULL), program);
        assert_int_equal(syscall(SYS_wait4, worker, NULL, 0, NULL), worker);
        close(ends[0]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

/* The last one, since it stays counted. That nothing of the loop is left is seen by the address sanitizer. */
static void test_a_program_that_waits_leaves_one_behind_and_ends_its_loop(void **state UNUSED)
{
        struct strbuf answer = STRBUF_INIT;
        struct worker_alone alone;
        struct error err;

        ends_nobody = true;
        worker_alone_begin(&alone, "test-worker", serve, NULL);
        assert_int_equal(worker_alone_ask(&alone, (char[]){HANG}, 1, 50, &answer, &err), -1);
        worker_alone_end(&alone);
        ends_nobody = false;
        assert_int_equal(worker_count_left(), 1);
        strbuf_done(&answer);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_another_process_answers_one_request_after_the_other),
                TEST(test_one_that_hangs_is_killed_at_its_deadline_and_the_others_are_answered),
                TEST(test_one_that_crashes_fails_its_request_only),
                TEST(test_a_process_that_is_killed_from_outside_is_made_again),
                TEST(test_a_signal_for_all_of_a_terminal_does_not_end_it),
                TEST(test_it_has_none_of_our_descriptors),
                TEST(test_what_is_cancelled_is_not_told_and_others_are),
                TEST(test_one_that_is_cancelled_before_its_turn_leaves_a_worker_that_serves),
                TEST(test_whoever_is_told_may_close_it),
                TEST(test_a_program_that_waits_gets_its_answer),
                TEST(test_a_deadline_is_of_what_it_is_said_to_be),
                TEST(test_what_was_said_before_a_hang_is_not_lost),
                TEST(test_one_may_have_the_descriptors_of_its_program),
                TEST(test_where_no_process_can_be_made_the_request_fails),
                TEST(test_one_that_does_not_end_is_left_behind_and_others_serve),
                TEST(test_it_ends_with_its_program),
                cmocka_unit_test(test_a_program_that_waits_leaves_one_behind_and_ends_its_loop),
        };

        log_setup(LOG_ERROR, LOG_TEXT);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
