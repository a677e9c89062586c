// SPDX-License-Identifier: Apache-2.0
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
#include "base/io/loop.h"
#include "base/io/worker.h"

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

static int heirloom; /* a process has the value of when it began */

enum deed {
        SAY_PID,
        SAY_HEIRLOOM,
        HANG,
        HANG_IN_CALL,
        HANG_LONG_BY_DESIGN,
        HANG_BETWEEN_CALLS,
        CRASH,
        CRASH_IN_CALL,
        CRASH_AMID_RUBBISH,
        SAY_NOTHING,
        SAY_MUCH,
        SAY_TOO_MUCH,
        SAY_NEWS,
        MAKE_SLOW_CALLS,
        LIST_DESCRIPTORS,
        SAY_SIZE,
        STEP_AND_HANG,
        REST_AND_STEP,
        REST
};

#define CALL "aCallOfTheDriver"
#define SUBJECT 7U
#define NAME "a GPU"
#define MUCH_SIZE ((size_t)5 * 1024 * 1024 + 1)
#define SLOW_MS 600 /* each of the calls, which are several */
#define SLOW_CALLS 5
#define SLOW_DEADLINE_MS 2000

static void begin_call(uint64_t extra_ms)
{
        struct worker_call *step = worker_own_call();

        step->subject = SUBJECT;
        step->index = 3;
        strcpy(step->name, NAME);
        step->since_ms = uv_hrtime() / 1000000;
        step->extra_ms = extra_ms;
        snprintf(step->call, sizeof(step->call), CALL);
}

static void end_call(void)
{
        worker_own_call()->call[0] = '\0';
        worker_own_call()->since_ms = uv_hrtime() / 1000000;
}

/* The byte at |place| of an answer that is long. */
static char byte_at(size_t place)
{
        return (char)(place * 31 + place / 4096);
}

static void say_much(struct strbuf *answer)
{
        for (size_t i = 0; i < MUCH_SIZE; i++)
                strbuf_putc(answer, byte_at(i));
}

static void say_news(struct strbuf *answer)
{
        static char long_news[200 * 1024];

        memset(long_news, 'n', sizeof(long_news));
        worker_send_news("first", 5);
        worker_send_news(long_news, sizeof(long_news));
        worker_send_news("", 0);
        strbuf_puts(answer, "last");
}

static void make_slow_calls(struct strbuf *answer)
{
        for (unsigned int i = 0; i < SLOW_CALLS; i++) {
                begin_call(0);
                usleep(SLOW_MS * 1000);
                end_call();
        }
        strbuf_puts(answer, "all");
}

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

        snprintf(call->call, sizeof(call->call), "%s", name);
        call->since_ms = uv_hrtime() / 1000000;
}

static void serve(const void *message, size_t size, struct strbuf *answer, const void *data UNUSED)
{
        static char filler[WORKER_ANSWER_MAX + 1];
        const enum deed deed = ((const unsigned char *)message)[0];

        switch (deed) {
        case SAY_PID:
                strbuf_printf(answer, "%d", (int)getpid());
                break;
        case SAY_HEIRLOOM:
                strbuf_printf(answer, "%d", heirloom);
                break;
        case HANG_BETWEEN_CALLS:
                begin_call(600000);
                end_call();
                for (;;)
                        pause();
        case HANG_IN_CALL:
        case HANG_LONG_BY_DESIGN:
                begin_call(deed == HANG_IN_CALL ? 0 : 600000);
                for (;;)
                        pause();
        case HANG:
                for (;;)
                        pause();
        case CRASH_AMID_RUBBISH:
                memset(worker_own_call(), 'x', sizeof(struct worker_call));
                kill(getpid(), SIGKILL);
                break;
        case CRASH_IN_CALL:
                begin_call(0);
                kill(getpid(), SIGKILL);
                break;
        case CRASH:
                signal(SIGABRT, SIG_DFL); /* no report of a sanitizer */
                kill(getpid(), SIGKILL);
                break;
        case SAY_NOTHING:
                break;
        case SAY_MUCH:
                say_much(answer);
                break;
        case SAY_NEWS:
                say_news(answer);
                break;
        case MAKE_SLOW_CALLS:
                make_slow_calls(answer);
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
                        tell_step("");
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
                char *answer; /* ends with a zero beyond |size| */
                size_t size;
                struct strbuf news; /* the size of each, and its first byte */
                size_t place;       /* which of all answers it was */
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
        asked->size = size;
        asked->place = f->n_answers++;
        if (err) {
                asked->err = *err;
        } else {
                asked->answer = calloc(1, size + 1);
                memcpy(asked->answer, answer, size);
        }
        if (asked->closes)
                f->worker = worker_close(f->worker);
}

static void on_news(struct worker_request *request, const void *news, size_t size)
{
        struct asked *asked = container_of(request, struct asked, request);

        assert_false(asked->is_done);
        strbuf_printf(&asked->news, "%zu%.*s ", size, size ? 1 : 0, (const char *)news);
}

static struct asked *ask_within(struct fixture *f, enum deed deed, uint64_t deadline_ms)
{
        struct asked *asked = &f->asked[f->n_asked++];

        asked->fixture = f;
        asked->news = (struct strbuf)STRBUF_INIT;
        asked->message[0] = (char)deed;
        asked->request = (struct worker_request){.message = asked->message,
                .size = sizeof(asked->message),
                .deadline_ms = deadline_ms,
                .done = on_answer,
                .news = on_news};
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
        for (size_t i = 0; i < f->n_asked; i++) {
                free(f->asked[i].answer);
                strbuf_done(&f->asked[i].news);
        }
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

static bool has_ended(void *data)
{
        return worker_has_ended(((struct fixture *)data)->worker);
}

static void assert_has_heirloom(struct fixture *f, int value)
{
        struct asked *asked;

        heirloom = 2;
        asked = ask(f, SAY_HEIRLOOM);
        wait_for(f, asked);
        assert_int_equal(atoi(asked->answer), value);
}

static void test_its_process_begins_in_the_turn_in_which_it_is_asked(void **state)
{
        struct fixture *f = *state;
        struct asked *asked;

        heirloom = 1;
        asked = ask(f, SAY_HEIRLOOM);
        heirloom = 2;
        wait_for(f, asked);
        assert_int_equal(atoi(asked->answer), 1);
}

static void test_its_process_may_begin_before_it_is_asked(void **state)
{
        struct fixture *f = *state;

        heirloom = 1;
        worker_begin(f->worker);
        assert_has_heirloom(f, 1);
        worker_begin(f->worker); /* it has one */
        assert_has_heirloom(f, 1);
}

static void test_a_process_that_was_begun_and_is_not_asked_ends(void **state)
{
        struct fixture *f = *state;

        worker_set_idle(f->worker, 1);
        worker_begin(f->worker);
        assert_false(worker_has_ended(f->worker));
        loop_run_until(&f->loop, has_ended, f, 0);
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

static void test_an_answer_may_be_empty(void **state)
{
        struct fixture *f = *state;
        struct asked *asked = ask(f, SAY_NOTHING);

        wait_for(f, asked);
        assert_int_equal(asked->err.kind, ERROR_NONE);
        assert_int_equal(asked->size, 0);
}

static void test_an_answer_of_several_megabytes_arrives_whole(void **state)
{
        struct fixture *f = *state;
        struct asked *asked = ask(f, SAY_MUCH);
        struct asked *after = ask(f, SAY_SIZE);

        wait_for(f, after);
        assert_int_equal(asked->size, MUCH_SIZE);
        for (size_t i = 0; i < MUCH_SIZE; i++)
                if (asked->answer[i] != byte_at(i))
                        fail_msg("byte %zu is another", i);
        assert_string_equal(after->answer, "2");
}

static void test_news_arrive_before_the_answer_and_in_order(void **state)
{
        struct fixture *f = *state;
        struct asked *asked = ask(f, SAY_NEWS);
        struct asked *unheard = ask(f, SAY_NEWS);

        unheard->request.news = NULL;
        wait_for(f, unheard);
        assert_string_equal(asked->news.data, "5f 204800n 0 ");
        assert_string_equal(asked->answer, "last");
        assert_string_equal(unheard->answer, "last");
}

static void test_a_process_that_tells_its_calls_has_its_deadline_anew_with_each(void **state)
{
        struct fixture *f = *state;
        struct asked *asked = ask_within(f, MAKE_SLOW_CALLS, SLOW_DEADLINE_MS);

        wait_for(f, asked);
        assert_int_equal(asked->err.kind, ERROR_NONE);
        assert_string_equal(asked->answer, "all");
}

static void expect_lost_in_call(const struct asked *asked, const char *what)
{
        const struct worker_call *lost = &asked->request.lost;

        assert_non_null(strstr(asked->err.text, what));
        assert_string_equal(lost->call, CALL);
        assert_int_equal(lost->subject, SUBJECT);
        assert_int_equal(lost->index, 3);
        assert_string_equal(lost->name, NAME);
        assert_true(lost->since_ms > 0);
}

static void test_what_a_process_was_in_that_hung_or_crashed_is_told(void **state)
{
        struct fixture *f = *state;
        struct asked *hung = ask_within(f, HANG_IN_CALL, 50);
        struct asked *crashed = ask(f, CRASH_IN_CALL);
        struct asked *after = ask(f, SAY_SIZE);

        wait_for(f, after);
        assert_int_equal(hung->err.kind, ERROR_TIMEOUT);
        expect_lost_in_call(hung, "('test-worker') hung in " CALL " and was killed");
        assert_int_equal(crashed->err.kind, ERROR_UNAVAILABLE);
        expect_lost_in_call(crashed, "('test-worker') has ended in " CALL);
        assert_string_equal(after->answer, "2");
}

static void test_rubbish_that_a_process_writes_over_its_step_is_a_text_with_an_end(void **state)
{
        struct fixture *f = *state;
        struct asked *crashed = ask(f, CRASH_AMID_RUBBISH);
        const struct worker_call *lost = &crashed->request.lost;

        wait_for(f, crashed);
        assert_int_equal(crashed->err.kind, ERROR_UNAVAILABLE);
        assert_int_equal(strspn(lost->call, "x"), sizeof(lost->call) - 1);
        assert_int_equal(strspn(lost->name, "x"), sizeof(lost->name) - 1);
        assert_true(lost->since_ms <= uv_hrtime() / 1000000);
}

static void test_a_process_that_hangs_between_calls_was_in_none(void **state)
{
        struct fixture *f = *state;
        struct asked *between = ask_within(f, HANG_BETWEEN_CALLS, 50);
        struct asked *silent = ask_within(f, HANG, 50);

        wait_for(f, silent);
        assert_string_equal(between->request.lost.call, "");
        assert_true(between->request.lost.since_ms > 0);
        assert_non_null(strstr(between->err.text, "('test-worker') hung and was killed"));
        assert_string_equal(silent->request.lost.call, "");
        assert_true(silent->request.lost.since_ms == 0);
}

static void test_a_call_that_waits_by_design_is_given_that_time(void **state)
{
        struct fixture *f = *state;
        struct asked *waits = ask_within(f, HANG_LONG_BY_DESIGN, 50);

        loop_run_until(&f->loop, is_answered, waits, 500);
        assert_false(waits->is_done);
        worker_cancel(f->worker, &waits->request);
}

static void test_after_a_renewal_another_process_serves(void **state)
{
        struct fixture *f = *state;
        struct asked *first;
        struct asked *busy;
        struct asked *next;

        worker_renew(f->worker); /* there is none */
        first = ask(f, SAY_PID);
        wait_for(f, first);
        worker_renew(f->worker);
        loop_run_until(&f->loop, has_ended, f, 0);
        assert_int_equal(kill(atoi(first->answer), 0), -1);
        busy = ask(f, SAY_PID);
        next = ask(f, SAY_PID);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        worker_renew(f->worker); /* it is at a request, which gets its answer */
        wait_for(f, next);
        assert_string_not_equal(first->answer, busy->answer);
        assert_string_equal(busy->answer, next->answer);
}

static void test_a_worker_has_ended_when_the_kernel_has_ended_its_process(void **state)
{
        struct fixture *f = *state;
        struct asked *asked;

        assert_true(worker_has_ended(f->worker));
        asked = ask(f, SAY_PID);
        wait_for(f, asked);
        assert_false(worker_has_ended(f->worker));
        ends_nobody = true;
        worker_renew(f->worker);
        loop_run_until(&f->loop, has_ended, f, 100);
        assert_false(worker_has_ended(f->worker));
        ends_nobody = false;
        loop_run_until(&f->loop, has_ended, f, 0);
        assert_int_equal(kill(atoi(asked->answer), 0), -1);
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

static void test_what_a_process_is_in_that_does_not_end_is_found(void **state)
{
        struct fixture *f = *state;
        size_t count = 1;
        struct worker_call step;
        struct asked *hung;

        ends_nobody = true;
        hung = ask_within(f, HANG_IN_CALL, 50);
        wait_for(f, hung);
        assert_false(worker_find_left(SUBJECT, NAME, NULL)); /* it has just been killed */
        loop_run_until(&f->loop, has_one_left, &count, 0);
        assert_true(worker_find_left(SUBJECT, NAME, &step));
        assert_string_equal(step.call, CALL);
        assert_false(worker_find_left(SUBJECT, "another GPU", NULL));
        assert_false(worker_find_left(SUBJECT + 1, NAME, NULL));
        ends_nobody = false;
        count = 0;
        loop_run_until(&f->loop, has_one_left, &count, 0);
        assert_false(worker_find_left(SUBJECT, NAME, NULL));
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
                TEST(test_its_process_begins_in_the_turn_in_which_it_is_asked),
                TEST(test_its_process_may_begin_before_it_is_asked),
                TEST(test_a_process_that_was_begun_and_is_not_asked_ends),
                TEST(test_one_that_hangs_is_killed_at_its_deadline_and_the_others_are_answered),
                TEST(test_one_that_crashes_fails_its_request_only),
                TEST(test_an_answer_may_be_empty),
                TEST(test_an_answer_of_several_megabytes_arrives_whole),
                TEST(test_news_arrive_before_the_answer_and_in_order),
                TEST(test_a_process_that_tells_its_calls_has_its_deadline_anew_with_each),
                TEST(test_what_a_process_was_in_that_hung_or_crashed_is_told),
                TEST(test_rubbish_that_a_process_writes_over_its_step_is_a_text_with_an_end),
                TEST(test_a_process_that_hangs_between_calls_was_in_none),
                TEST(test_a_call_that_waits_by_design_is_given_that_time),
                TEST(test_after_a_renewal_another_process_serves),
                TEST(test_a_worker_has_ended_when_the_kernel_has_ended_its_process),
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
                TEST(test_what_a_process_is_in_that_does_not_end_is_found),
                TEST(test_it_ends_with_its_program),
                cmocka_unit_test(test_a_program_that_waits_leaves_one_behind_and_ends_its_loop),
        };

        log_setup(LOG_ERROR, LOG_TEXT);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
