// SPDX-License-Identifier: Apache-2.0
/*
 * A child is watched by libuv. Another process is watched by its pidfd, which becomes readable when it ends. Signals go
 * through the pidfd, since its PID may belong to another process by then.
 */
#include "mps/supervisor/launch.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io/child.h"
#include "mps/supervisor/process.h"

struct mps_launch {
        uv_process_t process; /* a child */
        uv_poll_t poll;       /* for an adopted process */
        int pidfd;            /* -1: a child */
        pid_t pid;
        uint64_t start_time;
        mps_exit_fn *exited; /* NULL: the owner has closed it, or the process has ended */
        void *data;
};

static void on_launch_closed(uv_handle_t *handle)
{
        struct mps_launch *launch = handle->data;

        if (launch->pidfd >= 0)
                close(launch->pidfd);
        free(launch);
}

static uv_handle_t *handle_of(struct mps_launch *launch)
{
        return launch->pidfd >= 0 ? (uv_handle_t *)&launch->poll : (uv_handle_t *)&launch->process;
}

/* The owner closes |launch| in this callback or later. */
static void launch_report(struct mps_launch *launch, int status, int signal)
{
        mps_exit_fn *exited = launch->exited;

        launch->exited = NULL;
        if (exited)
                exited(status, signal, launch->data);
        launch->pid = 0; /* the loop frees it later, not this call */
}

static void on_child_exit(uv_process_t *process, int64_t status, int signal)
{
        launch_report(process->data, signal ? -1 : (int)status, signal);
}

static void on_pidfd(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        uv_poll_stop(poll);
        launch_report(poll->data, -1, 0);
}

int mps_launch_start(struct mps_launch **ret, const struct mps_launch_options *options, struct error *err)
{
        struct mps_launch *launch = xcalloc(1, sizeof(*launch));
        int rc;

        launch->pidfd = -1;
        launch->process.data = launch;
        launch->exited = options->exited;
        launch->data = options->data;
        rc = spawn(options->loop, &launch->process,
                &(struct spawn_options){options->argv, options->environment, -1, options->log, on_child_exit});
        if (rc < 0) {
                uv_close((uv_handle_t *)&launch->process, on_launch_closed);
                return error_errno(err, -rc, "run '%s'", options->argv[0]);
        }
        launch->pid = launch->process.pid;
        launch->start_time = process_start_time("", launch->pid);
        *ret = launch;
        return 0;
}

int mps_launch_adopt(struct mps_launch **ret, uv_loop_t *loop, pid_t pid, uint64_t start_time, mps_exit_fn *exited,
        void *data, struct error *err)
{
        _close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct mps_launch *launch;
        int rc;

        if (pidfd < 0)
                return error_errno(err, errno, "watch the MPS control daemon with PID %d", (int)pid);
        /* The descriptor may belong to a later process with this PID. */
        if (!process_is_alive(pid, start_time))
                return error_set(err, ERROR_NOT_FOUND, "the MPS control daemon with PID %d has ended", (int)pid);
        launch = xcalloc(1, sizeof(*launch));
        rc = uv_poll_init(loop, &launch->poll, pidfd);
        if (rc < 0) {
                free(launch);
                return error_errno(err, -rc, "watch the MPS control daemon with PID %d", (int)pid);
        }
        launch->poll.data = launch;
        launch->pidfd = TAKE_FD(pidfd);
        launch->pid = pid;
        launch->start_time = start_time;
        launch->exited = exited;
        launch->data = data;
        uv_poll_start(&launch->poll, UV_READABLE, on_pidfd);
        *ret = launch;
        return 0;
}

pid_t mps_launch_pid(const struct mps_launch *launch)
{
        return launch ? launch->pid : 0;
}

uint64_t mps_launch_start_time(const struct mps_launch *launch)
{
        return launch ? launch->start_time : 0;
}

bool mps_launch_is_adopted(const struct mps_launch *launch)
{
        return launch && launch->pidfd >= 0;
}

static void kill_child(pid_t child, void *data UNUSED)
{
        kill(child, SIGKILL);
}

void mps_launch_kill(struct mps_launch *launch)
{
        if (!launch->pid)
                return;
        /* A stopped parent does not reap, so the PIDs of its children are not reused before it is gone. */
        if (launch->pidfd >= 0)
                syscall(SYS_pidfd_send_signal, launch->pidfd, SIGSTOP, NULL, 0);
        else
                kill(launch->pid, SIGSTOP);
        process_children(launch->pid, kill_child, NULL);
        if (launch->pidfd >= 0)
                syscall(SYS_pidfd_send_signal, launch->pidfd, SIGKILL, NULL, 0);
        else
                kill(launch->pid, SIGKILL);
}

struct mps_launch *mps_launch_forget(struct mps_launch *launch)
{
        if (launch) {
                launch->exited = NULL;
                uv_close(handle_of(launch), on_launch_closed);
        }
        return NULL;
}
