// SPDX-License-Identifier: Apache-2.0
/*
 * The child's output is one pipe, read when the child has ended: what it wrote lies there by then; and, of one that is
 * still there after CHILD_BRIEF_MS, whenever there is something. The struct lives until the child is reaped, which may
 * be later than |on_end|.
 */
#include "base/io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io/loop.h"
#include "base/strbuf.h"

struct child {
        uv_process_t process;
        uv_poll_t poll;
        uv_timer_t timer; /* until its output is read as it comes, then until its deadline */
        uint64_t timeout_ms;
        struct closing closing;
        int fd; /* our end of its output */
        size_t limit;
        struct strbuf output;
        struct child_result result;
        bool is_reaped;
        bool is_reported; /* on_end was called, or must not be called any more */
        void (*on_end)(const struct child_result *result, void *data);
        void *data;
};

/* ---- ending ---- */

static void child_free(void *data)
{
        struct child *child = data;

        if (child->fd >= 0)
                close(child->fd);
        strbuf_done(&child->output);
        free(child);
}

static void close_once(struct child *child, void *handle)
{
        if (!uv_is_closing(handle))
                closing_close(&child->closing, handle);
}

/* No more output, no deadline. The process handle stays until the child is reaped: without it a zombie would. */
static void close_what_is_over(struct child *child)
{
        close_once(child, &child->poll);
        close_once(child, &child->timer);
        if (!child->is_reaped || uv_is_closing((uv_handle_t *)&child->process))
                return;
        closing_close(&child->closing, &child->process);
        closing_end(&child->closing, child_free, child);
}

static void child_report(struct child *child)
{
        if (!child->is_reported) {
                child->is_reported = true;
                child->result.output = child->output.data;
                child->result.length = child->output.size;
                child->on_end(&child->result, child->data);
        }
        close_what_is_over(child);
}

/* The number names the child's process group only until the child is reaped; afterwards another group may have it. */
static void child_kill_group(struct child *child)
{
        if (!child->is_reaped)
                kill(-child->process.pid, SIGKILL);
}

static void child_give_up(struct child *child)
{
        child_kill_group(child);
        child->result.status = -1;
        child->result.signal = SIGKILL;
        child_report(child);
}

/* ---- what it says ---- */

enum got { GOT_LATER, GOT_END, GOT_TOO_MUCH };

/* Reads what is there, at most up to the limit. */
static enum got child_read_output(struct child *child)
{
        for (;;) {
                ssize_t got;

                strbuf_reserve(&child->output, 4096);
                got = read(child->fd, child->output.data + child->output.size, 4096);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return got < 0 && errno == EAGAIN ? GOT_LATER : GOT_END;
                child->output.size += (size_t)got;
                child->output.data[child->output.size] = '\0';
                if (child->output.size > child->limit) {
                        child->output.size = child->limit;
                        child->output.data[child->output.size] = '\0';
                        child->result.too_long = true;
                        return GOT_TOO_MUCH;
                }
        }
}

static void on_child_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct child *child = poll->data;

        switch (child_read_output(child)) {
        case GOT_LATER:
                break;
        case GOT_END: /* it has closed its output, and may live on */
                uv_poll_stop(poll);
                break;
        case GOT_TOO_MUCH:
                child_give_up(child);
                break;
        }
}

static void on_reaped(uv_process_t *process, int64_t status, int signal)
{
        struct child *child = process->data;

        child->is_reaped = true;
        if (!child->is_reported) {
                child->result.status = signal ? -1 : (int)status;
                child->result.signal = signal;
                if (!child->result.too_long)
                        (void)child_read_output(child);
        }
        child_report(child);
}

static void on_child_deadline(uv_timer_t *timer)
{
        struct child *child = timer->data;

        child->result.timed_out = true;
        child_give_up(child);
}

static void child_arm_deadline(struct child *child, uint64_t passed_ms)
{
        if (child->timeout_ms)
                uv_timer_start(
                        &child->timer, on_child_deadline, child->timeout_ms - MIN(passed_ms, child->timeout_ms), 0);
}

static void on_brief_over(uv_timer_t *timer)
{
        struct child *child = timer->data;

        uv_poll_start(&child->poll, UV_READABLE, on_child_readable);
        child_arm_deadline(child, CHILD_BRIEF_MS);
}

void child_cancel(struct child *child)
{
        child->is_reported = true;
        child_kill_group(child);
        close_what_is_over(child);
}

/* ---- beginning ---- */

/* A pipe with all of the input in it, and its end. */
static int open_input(const struct child_options *options, int *ret, struct error *err)
{
        _close_ int read_end = -1;
        _close_ int write_end = -1;
        int ends[2];

        if (options->input_length > CHILD_INPUT_MAX)
                return error_set(err, ERROR_INVALID, "run '%s': an input of %zu bytes, at most %zu are possible",
                        options->argv[0], options->input_length, CHILD_INPUT_MAX);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "run '%s': make a pipe", options->argv[0]);
        read_end = ends[0];
        write_end = ends[1];
        if (options->input_length && write(write_end, options->input, options->input_length) < 0)
                return error_errno(err, errno, "run '%s': write its input", options->argv[0]);
        *ret = TAKE_FD(read_end);
        return 0;
}

/* After success only child_free() frees the child. */
static int init_handles(struct child *child, uv_loop_t *loop)
{
        int rc = uv_poll_init(loop, &child->poll, child->fd);

        if (rc < 0)
                return rc;
        uv_timer_init(loop, &child->timer);
        child->timer.data = child->poll.data = child->process.data = child;
        return 0;
}

int child_run(struct child **ret, uv_loop_t *loop, const struct child_options *options, struct error *err)
{
        _close_ int input = -1;
        _close_ int output = -1;
        struct child *child;
        int ends[2];
        int rc;

        if (open_input(options, &input, err) < 0)
                return -1;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "run '%s': make a pipe", options->argv[0]);
        output = ends[1];
        child = xcalloc(1, sizeof(*child));
        child->fd = ends[0];
        child->limit = options->output_limit ? options->output_limit : CHILD_OUTPUT_MAX;
        child->output = (struct strbuf)STRBUF_INIT;
        child->on_end = options->on_end;
        child->data = options->data;
        rc = init_handles(child, loop);
        if (rc < 0) {
                close(child->fd);
                free(child);
                return error_errno(err, -rc, "run '%s': watch its output", options->argv[0]);
        }
        rc = spawn(loop, &child->process,
                &(struct spawn_options){options->argv, options->environment, input, output, on_reaped});
        if (rc < 0) {
                child->is_reported = child->is_reaped = true;
                close_what_is_over(child);
                if (rc == UV_EAGAIN) /* a limit of processes */
                        return error_set(err, ERROR_EXHAUSTED, "run '%s': %s", options->argv[0], uv_strerror(rc));
                return error_errno(err, -rc, "run '%s'", options->argv[0]);
        }
        child->timeout_ms = options->timeout_ms;
        if (child->timeout_ms && child->timeout_ms <= CHILD_BRIEF_MS)
                child_arm_deadline(child, 0);
        else
                uv_timer_start(&child->timer, on_brief_over, CHILD_BRIEF_MS, 0);
        *ret = child;
        return 0;
}

/* ---- spawn ---- */

static char **copy_vector(const char *const *vector)
{
        size_t count = 0;
        char **copy;

        while (vector[count])
                count++;
        copy = xcalloc(count + 1, sizeof(*copy));
        memcpy(copy, vector, count * sizeof(*copy)); /* uv_spawn wants char **, and changes nothing */
        return copy;
}

int spawn(uv_loop_t *loop, uv_process_t *process, const struct spawn_options *options)
{
        _free_ char **argv = copy_vector(options->argv);
        _free_ char **environment = copy_vector(options->environment);
        uv_stdio_container_t stdio[3] = {
                {.flags = options->input < 0 ? UV_IGNORE : UV_INHERIT_FD, .data.fd = options->input},
                {.flags = UV_INHERIT_FD, .data.fd = options->output},
                {.flags = UV_INHERIT_FD, .data.fd = options->output},
        };
        const uv_process_options_t process_options = {
                .exit_cb = options->exited,
                .file = argv[0],
                .args = argv,
                .env = environment,
                .flags = UV_PROCESS_DETACHED,
                .stdio_count = 3,
                .stdio = stdio,
        };

        return uv_spawn(loop, process, &process_options);
}
