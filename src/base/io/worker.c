// SPDX-License-Identifier: Apache-2.0
/*
 * Two objects: a worker has the requests, a process has the socket and its end. A process that is of no use any more
 * leaves its worker at once, and lives on alone until the kernel has ended it.
 */
#include "base/io/worker.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/io/loop.h"

#define SOCKET 3 /* the descriptor of a process that has none but this and the three that every program has */
#define FIRST_REAP_MS UINT64_C(1)
#define LAST_REAP_MS UINT64_C(60000)
#define READ_SIZE ((size_t)64 * 1024)

/* Bounds of what a process may claim about its call. */
#define EXTRA_MAX_MS (UINT64_C(3600) * 1000)
#define TIMES_MAX 10U

/* Precedes each message, in both directions. */
struct frame {
        uint32_t size;
        uint32_t is_news;
};

struct worker_process {
        struct worker *worker; /* NULL: it has to end */
        struct worker *origin; /* whose it was, or NULL */
        const char *name;
        pid_t pid;
        int fd;
        struct worker_call *step; /* both share it */
        struct strbuf input;      /* of an answer that is not whole yet */
        uv_poll_t poll;
        uv_timer_t reap;
        struct closing closing;
        uint64_t reap_ms;   /* the next pause */
        uint64_t killed_at; /* of the loop's clock */
        bool is_left;       /* it is counted */
        struct list link;   /* in |ending| */
};

struct worker {
        uv_loop_t *loop;
        const char *name;
        worker_serve_fn *serve;
        const void *data;
        struct worker_process *process; /* NULL: none */
        struct list waiting;
        struct worker_request *current; /* what the process is at, or NULL */
        bool is_in_callback;            /* in |done| */
        bool is_closed;
        bool keeps_descriptors;
        int signal; /* that has ended the last process */
        uint64_t idle_ms;
        uint64_t asked_at_ms; /* CLOCK_MONOTONIC */
        uv_timer_t timer;     /* the next turn, the deadline of what the process is at, or the end of an idle one */
};

static size_t n_left;
static struct list ending = {&ending, &ending}; /* processes that were killed */
static struct worker_call unread_call;
static struct worker_call *own_call = &unread_call;
static int own_socket = SOCKET; /* in the process */

struct worker_call *worker_own_call(void)
{
        return own_call;
}

size_t worker_count_left(void)
{
        return n_left;
}

/* ---- in the process ---- */

/* A lock of ours, held by a process that cannot be ended, would keep our successor from starting. */
static void worker_close_descriptors(int fd)
{
        if (fd != SOCKET && dup2(fd, SOCKET) < 0)
                _exit(EXIT_FAILURE);
        file_close_from(SOCKET + 1, false);
}

/* The program decides when it ends, and not who sends a signal to all processes of a terminal. */
static void worker_reset_signals(void)
{
        static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                signal(number, SIG_DFL); /* fails for some, which have no handler */
        for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
                signal(ignored[i], SIG_IGN);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
}

static void worker_receive(void *bytes, size_t size)
{
        for (size_t done = 0; done < size;) {
                const ssize_t part = recv(own_socket, (char *)bytes + done, size - done, MSG_WAITALL);

                if (part < 0 && errno == EINTR)
                        continue;
                if (part <= 0)
                        _exit(EXIT_SUCCESS);
                done += (size_t)part;
        }
}

static void worker_send(const void *bytes, size_t size)
{
        for (size_t done = 0; done < size;) {
                const ssize_t part = send(own_socket, (const char *)bytes + done, size - done, MSG_NOSIGNAL);

                if (part < 0 && errno == EINTR)
                        continue;
                if (part < 0)
                        _exit(EXIT_FAILURE);
                done += (size_t)part;
        }
}

static void worker_send_message(const void *message, size_t size, bool is_news)
{
        const struct frame frame = {.size = (uint32_t)size, .is_news = is_news};

        if (size > WORKER_ANSWER_MAX)
                _exit(EXIT_FAILURE);
        worker_send(&frame, sizeof(frame));
        worker_send(message, size);
}

void worker_send_news(const void *news, size_t size)
{
        worker_send_message(news, size, true);
}

static void __attribute__((noreturn))
worker_serve(const struct worker *worker, struct worker_call *step, int fd, pid_t program)
{
        char *message;

        own_call = step;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, worker->name);
        if (getppid() != program)
                _exit(EXIT_SUCCESS);
        worker_reset_signals();
        if (worker->keeps_descriptors)
                own_socket = fd;
        else
                worker_close_descriptors(fd);
        message = xmalloc(WORKER_MESSAGE_MAX);
        for (;;) {
                struct strbuf answer = STRBUF_INIT;
                struct frame frame;

                worker_receive(&frame, sizeof(frame));
                worker_receive(message, frame.size);
                worker->serve(message, frame.size, &answer, worker->data);
                worker_send_message(answer.data, answer.size, false);
                strbuf_done(&answer);
                malloc_trim(0); /* free() alone keeps pages that lie between others */
        }
}

/* ---- the end of a process ---- */

static void process_free(void *data)
{
        struct worker_process *process = data;

        list_remove(&process->link);
        munmap(process->step, sizeof(*process->step));
        strbuf_done(&process->input);
        free(process);
}

static void close_process(struct worker_process *process)
{
        closing_close(&process->closing, &process->reap);
        closing_end(&process->closing, process_free, process);
}

static void note_left(struct worker_process *process)
{
        if (process->is_left || uv_now(process->reap.loop) - process->killed_at < WORKER_END_MS)
                return;
        process->is_left = true;
        n_left++;
        uv_unref((uv_handle_t *)&process->reap); /* the program may end without it */
        log_warn("a process that was killed does not end, and is left behind", LOG_STR("name", process->name),
                LOG_INT("pid", process->pid), LOG_UINT("left", n_left));
}

static void on_reap(uv_timer_t *timer)
{
        struct worker_process *process = timer->data;
        int status = 0;

        if (waitpid(process->pid, &status, WNOHANG) == 0) {
                note_left(process);
                uv_timer_start(timer, on_reap, process->reap_ms, 0);
                process->reap_ms = MIN(process->reap_ms * 2, LAST_REAP_MS);
                return;
        }
        if (process->origin)
                process->origin->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (process->is_left) {
                process->is_left = false;
                n_left--;
                log_info("a process that was left behind has ended", LOG_STR("name", process->name),
                        LOG_INT("pid", process->pid));
        }
        close_process(process);
}

/* Detaches the process from its worker, and kills it. */
static void end_process(struct worker_process *process)
{
        process->worker = NULL;
        list_append(&ending, &process->link);
        kill(process->pid, SIGKILL);
        process->killed_at = uv_now(process->reap.loop);
        process->reap_ms = FIRST_REAP_MS;
        closing_close(&process->closing, &process->poll);
        close(process->fd);
        uv_timer_start(&process->reap, on_reap, FIRST_REAP_MS, 0);
}

/* ---- requests ---- */

static void free_worker(uv_handle_t *handle)
{
        free(container_of((uv_timer_t *)(void *)handle, struct worker, timer));
}

static void worker_next(struct worker *worker);

/* Ends the current request; its |done| may do anything, close the worker too. */
static void worker_finish(
        struct worker *worker, const struct error *err, const struct worker_call *lost, const void *answer, size_t size)
{
        struct worker_request *request = TAKE_PTR(worker->current);

        if (lost)
                request->lost = *lost;
        uv_timer_stop(&worker->timer);
        worker->is_in_callback = true;
        request->done(request, err, answer, size);
        worker->is_in_callback = false;
        if (worker->is_closed)
                uv_close((uv_handle_t *)&worker->timer, free_worker);
        else
                worker_next(worker);
}

/* Copies the step, since a process that still runs replaces it with its next steps. */
static struct worker_call copy_step(const struct worker_process *process)
{
        struct worker_call step = *process->step;

        step.call[sizeof(step.call) - 1] = step.name[sizeof(step.name) - 1] = '\0';
        step.since_ms = MIN(step.since_ms, clock_now_ms());
        step.extra_ms = MIN(step.extra_ms, EXTRA_MAX_MS);
        step.times = MIN(step.times, TIMES_MAX);
        return step;
}

static void worker_lose_process(struct worker *worker, const struct error *err)
{
        const struct worker_call step = copy_step(worker->process);

        end_process(TAKE_PTR(worker->process));
        if (worker->current) {
                worker_finish(worker, err, &step, NULL, 0);
                return;
        }
        uv_timer_stop(&worker->timer); /* it was idle */
        worker_next(worker);
}

static void raise_lost(struct error *err, enum error_kind kind, const struct worker *worker, const char *what)
{
        const struct worker_call step = copy_step(worker->process);

        error_raise(err, kind, "no answer: process %d ('%s') %s%s%s%s", (int)worker->process->pid, worker->name, what,
                *step.call ? " in " : "", step.call, kind == ERROR_TIMEOUT ? " and was killed" : "");
}

/* The process may have gone on to another step since the timer was started. */
static uint64_t worker_time_left(const struct worker *worker)
{
        const struct worker_call step = copy_step(worker->process);
        const struct worker_request *request = worker->current;
        const uint64_t now = clock_now_ms();
        uint64_t due = worker->asked_at_ms + request->deadline_ms;

        if (request->patience == WORKER_EACH_CALL && !*step.call)
                return request->deadline_ms;
        if (request->patience != WORKER_IN_ALL)
                due = MAX(due, step.since_ms + request->deadline_ms);
        if (request->patience != WORKER_IN_ALL && *step.call)
                due = step.since_ms + request->deadline_ms * MAX(step.times, 1U) + step.extra_ms;
        return due > now ? due - now : 0;
}

static void on_worker_deadline(uv_timer_t *timer)
{
        struct worker *worker = container_of(timer, struct worker, timer);
        const uint64_t left = worker_time_left(worker);
        struct error err;

        if (left) {
                uv_timer_start(timer, on_worker_deadline, left, 0);
                return;
        }
        raise_lost(&err, ERROR_TIMEOUT, worker, "hung");
        worker_lose_process(worker, &err);
}

static void on_idle(uv_timer_t *timer)
{
        struct worker *worker = container_of(timer, struct worker, timer);

        end_process(TAKE_PTR(worker->process));
}

/* A message that is whole, or NULL. */
static const char *find_message(const struct worker_process *process, struct frame *frame)
{
        if (process->input.size < sizeof(*frame))
                return NULL;
        memcpy(frame, process->input.data, sizeof(*frame));
        return process->input.size >= sizeof(*frame) + frame->size ? process->input.data + sizeof(*frame) : NULL;
}

static bool has_bad_frame(const struct worker_process *process)
{
        struct frame frame = {0};

        (void)find_message(process, &frame);
        return frame.size > WORKER_ANSWER_MAX || !process->worker->current;
}

/*
 * A callback may ask, cancel or close the worker. |process| still exists afterwards, but |process->worker| may be NULL.
 */
static void worker_deliver(struct worker_process *process)
{
        struct frame frame;
        const char *message;

        while (process->worker && (message = find_message(process, &frame))) {
                struct worker_request *request = process->worker->current;
                struct strbuf input = process->input;

                process->input = (struct strbuf)STRBUF_INIT;
                strbuf_append(&process->input, message + frame.size, input.size - sizeof(frame) - frame.size);
                if (!frame.is_news)
                        worker_finish(process->worker, NULL, NULL, message, frame.size);
                else if (request->news)
                        request->news(request, message, frame.size);
                strbuf_done(&input);
                if (!frame.is_news)
                        return;
        }
}

static void on_worker_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct worker_process *process = poll->data;
        struct worker *worker = process->worker;
        struct error err;
        ssize_t size;

        strbuf_reserve(&process->input, READ_SIZE);
        size = recv(process->fd, process->input.data + process->input.size, READ_SIZE, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (size > 0) {
                process->input.size += (size_t)size;
                process->input.data[process->input.size] = '\0';
                if (!has_bad_frame(process)) {
                        worker_deliver(process);
                        return;
                }
        }
        raise_lost(&err, ERROR_UNAVAILABLE, worker, "has ended");
        worker_lose_process(worker, &err);
}

/* ---- the beginning of a process ---- */

static int watch_process(struct worker *worker, struct worker_process *process, struct error *err)
{
        int rc = uv_poll_init(worker->loop, &process->poll, process->fd);

        if (rc < 0)
                return error_errno(err, -rc, "watch process '%s'", worker->name);
        uv_timer_init(worker->loop, &process->reap);
        process->poll.data = process->reap.data = process;
        rc = uv_poll_start(&process->poll, UV_READABLE, on_worker_readable);
        assert(rc == 0);                         /* the descriptor is in the loop's epoll only later */
        uv_unref((uv_handle_t *)&process->poll); /* an idle process does not keep the loop running */
        return 0;
}

static int begin_process(struct worker *worker, struct error *err)
{
        _close_ int ours = -1;
        _close_ int its = -1;
        const pid_t program = getpid();
        struct worker_process *process;
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return error_errno(err, errno, "make a socket for process '%s'", worker->name);
        ours = ends[0];
        its = ends[1];
        process = xcalloc(1, sizeof(*process));
        process->worker = process->origin = worker;
        process->name = worker->name;
        process->fd = ours;
        process->input = (struct strbuf)STRBUF_INIT;
        list_init(&process->link);
        process->step = mmap(NULL, sizeof(*process->step), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (process->step == MAP_FAILED || watch_process(worker, process, err) < 0) {
                if (process->step == MAP_FAILED)
                        alloc_fail();
                munmap(process->step, sizeof(*process->step));
                free(process);
                return -1;
        }
        process->pid = fork();
        if (process->pid == 0)
                worker_serve(worker, process->step, its, program);
        if (process->pid < 0) {
                const int problem = errno;

                closing_close(&process->closing, &process->poll);
                close_process(process);
                return error_set(err, ERROR_EXHAUSTED, "make process '%s': %s", worker->name, strerror(problem));
        }
        TAKE_FD(ours);
        worker->process = process;
        return 0;
}

/* ---- asking ---- */

/* The socket is empty, and takes a whole request. */
static int send_request(const struct worker *worker, const struct worker_request *request, struct error *err)
{
        struct frame frame = {.size = (uint32_t)request->size};
        struct iovec parts[] = {{&frame, sizeof(frame)}, {(void *)(uintptr_t)request->message, request->size}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
        const ssize_t size = sendmsg(worker->process->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (size == (ssize_t)(sizeof(frame) + request->size))
                return 0;
        return error_errno(
                err, size < 0 ? errno : EMSGSIZE, "ask process %d ('%s')", (int)worker->process->pid, worker->name);
}

static void worker_begin_next(struct worker *worker)
{
        struct error err;

        worker->current = container_of(worker->waiting.next, struct worker_request, link);
        list_remove(&worker->current->link);
        if (!worker->process && begin_process(worker, &err) < 0) {
                worker_finish(worker, &err, NULL, NULL, 0);
                return;
        }
        *worker->process->step = (struct worker_call){0};
        if (send_request(worker, worker->current, &err) < 0) {
                worker_lose_process(worker, &err);
                return;
        }
        worker->asked_at_ms = clock_now_ms();
        uv_update_time(worker->loop); /* what the caller did before is not of its time */
        uv_timer_start(&worker->timer, on_worker_deadline, worker->current->deadline_ms, 0);
        uv_ref((uv_handle_t *)&worker->timer);
}

/* The requests may have been cancelled since the timer was set. */
static void on_worker_turn(uv_timer_t *timer)
{
        struct worker *worker = container_of(timer, struct worker, timer);

        if (list_is_empty(&worker->waiting))
                worker_next(worker);
        else
                worker_begin_next(worker);
}

/* Uses a later turn of the loop, so that no callback runs inside worker_ask(). */
static void worker_next(struct worker *worker)
{
        if (worker->current || worker->is_in_callback)
                return;
        if (!list_is_empty(&worker->waiting)) {
                uv_timer_start(&worker->timer, on_worker_turn, 0, 0);
                uv_ref((uv_handle_t *)&worker->timer);
        } else if (worker->process) {
                uv_timer_start(&worker->timer, on_idle, worker->idle_ms, 0);
                uv_unref((uv_handle_t *)&worker->timer);
        }
}

void worker_begin(struct worker *worker)
{
        struct error ignored; /* the first request has it */

        if (!worker->process && begin_process(worker, &ignored) == 0)
                worker_next(worker);
}

void worker_ask(struct worker *worker, struct worker_request *request)
{
        assert(request->size && request->size <= WORKER_MESSAGE_MAX && request->deadline_ms);
        list_append(&worker->waiting, &request->link);
        worker_begin(worker);
        worker_next(worker);
}

void worker_cancel(struct worker *worker, struct worker_request *request)
{
        list_remove(&request->link);
        if (worker->current != request)
                return;
        worker->current = NULL;
        uv_timer_stop(&worker->timer);
        end_process(TAKE_PTR(worker->process));
        worker_next(worker);
}

void worker_renew(struct worker *worker)
{
        if (!worker->process || worker->current)
                return;
        end_process(TAKE_PTR(worker->process));
        if (list_is_empty(&worker->waiting))
                uv_timer_stop(&worker->timer);
}

struct worker_call worker_current_call(const struct worker *worker)
{
        return worker->process ? copy_step(worker->process) : (struct worker_call){0};
}

bool worker_is_ending(const struct worker *worker)
{
        LIST_FOR_EACH(link, &ending) {
                const struct worker_process *process = container_of(link, struct worker_process, link);

                if (process->origin == worker && !process->is_left)
                        return true;
        }
        return false;
}

bool worker_is_one_ending(const char *name)
{
        LIST_FOR_EACH(link, &ending)
                if (strcmp(container_of(link, struct worker_process, link)->name, name) == 0)
                        return true;
        return false;
}

bool worker_has_ended(const struct worker *worker)
{
        if (worker->process)
                return false;
        LIST_FOR_EACH(link, &ending)
                if (container_of(link, struct worker_process, link)->origin == worker)
                        return false;
        return true;
}

bool worker_find_left(unsigned int subject, const char *name, struct worker_call *ret)
{
        LIST_FOR_EACH(link, &ending) {
                const struct worker_process *process = container_of(link, struct worker_process, link);
                const struct worker_call step = copy_step(process);

                if (!process->is_left || !*step.call || step.subject != subject || strcmp(step.name, name) != 0)
                        continue;
                if (ret)
                        *ret = step;
                return true;
        }
        return false;
}

struct worker *worker_new(uv_loop_t *loop, const char *name, worker_serve_fn *serve, const void *data)
{
        struct worker *worker = xcalloc(1, sizeof(*worker));

        worker->loop = loop;
        worker->name = name;
        worker->serve = serve;
        worker->data = data;
        worker->idle_ms = WORKER_IDLE_MS;
        list_init(&worker->waiting);
        uv_timer_init(loop, &worker->timer);
        return worker;
}

void worker_set_idle(struct worker *worker, uint64_t idle_ms)
{
        worker->idle_ms = idle_ms;
}

void worker_keep_descriptors(struct worker *worker)
{
        worker->keeps_descriptors = true;
}

struct worker *worker_close(struct worker *worker)
{
        if (!worker)
                return NULL;
        worker->is_closed = true;
        worker->current = NULL;
        while (!list_is_empty(&worker->waiting))
                list_remove(worker->waiting.next);
        if (worker->process)
                end_process(TAKE_PTR(worker->process));
        LIST_FOR_EACH(link, &ending) {
                struct worker_process *process = container_of(link, struct worker_process, link);

                if (process->origin == worker)
                        process->origin = NULL;
        }
        if (!worker->is_in_callback)
                uv_close((uv_handle_t *)&worker->timer, free_worker);
        return NULL;
}

/* ---- alone ---- */

struct wait {
        struct worker_request request;
        struct strbuf *answer;
        struct error err;
        bool is_done;
};

static void on_waited(struct worker_request *request, const struct error *err, const void *answer, size_t size)
{
        struct wait *wait = container_of(request, struct wait, request);

        wait->is_done = true;
        if (err)
                wait->err = *err;
        else
                strbuf_append(wait->answer, answer, size);
}

static void on_waited_news(struct worker_request *request, const void *news, size_t size)
{
        struct wait *wait = container_of(request, struct wait, request);

        if (size <= WORKER_ANSWER_MAX - MIN(wait->answer->size, WORKER_ANSWER_MAX))
                strbuf_append(wait->answer, news, size);
}

static bool is_done(void *data)
{
        return ((const struct wait *)data)->is_done;
}

static bool io_worker_has_ended(void *data)
{
        return worker_has_ended(data);
}

int worker_alone_ask(struct worker_alone *alone, const void *message, size_t size, uint64_t deadline_ms,
        struct strbuf *answer, struct error *err)
{
        struct wait wait = {.request = {.message = message,
                                    .size = size,
                                    .deadline_ms = deadline_ms,
                                    .patience = alone->patience,
                                    .done = on_waited,
                                    .news = on_waited_news},
                .answer = answer};

        worker_ask(alone->worker, &wait.request);
        loop_run_until(&alone->loop, is_done, &wait, 0);
        if (wait.err.kind == ERROR_NONE)
                return 0;
        alone->lost = wait.request.lost;
        loop_run_until(&alone->loop, io_worker_has_ended, alone->worker, WORKER_END_MS);
        alone->signal = alone->worker->signal;
        *err = wait.err;
        return -1;
}

void worker_alone_begin(struct worker_alone *alone, const char *name, worker_serve_fn *serve, const void *data)
{
        *alone = (struct worker_alone){.patience = WORKER_EACH_STEP};
        loop_init(&alone->loop);
        alone->worker = worker_new(&alone->loop, name, serve, data);
}

void worker_close_loop(uv_loop_t *loop)
{
        uv_run(loop, UV_RUN_DEFAULT);
        LIST_FOR_EACH(link, &ending) {
                struct worker_process *process = container_of(link, struct worker_process, link);

                if (process->reap.loop == loop)
                        close_process(process);
        }
        uv_run(loop, UV_RUN_DEFAULT);
        uv_loop_close(loop);
}

void worker_alone_end(struct worker_alone *alone)
{
        alone->worker = worker_close(alone->worker);
        worker_close_loop(&alone->loop);
}
