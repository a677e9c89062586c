// SPDX-License-Identifier: Apache-2.0
/* The start of a control daemon: its directories and files, the lock, the sockets, the logs. */
#include "sim/mps/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

char *daemon_path(const struct daemon *daemon, const char *name)
{
        return xasprintf("%s/%s", daemon->pipe_directory, name);
}

static void make_file(const char *path, mode_t mode, int fd)
{
        if (fd < 0 || fchmod(fd, mode) < 0)
                fprintf(stderr, "cannot create %s\n", path);
}

/* A POSIX lock, as NVIDIA's daemon has: a server that outlives the daemon does not hold it. */
static int take_lock(const struct daemon *daemon, struct error *err)
{
        _free_ char *path = daemon_path(daemon, "control_lock");
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666); /* held until the process ends */

        if (fd < 0)
                return error_set(err, ERROR_DENIED, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s", daemon->pipe_directory);
        if (fcntl(fd, F_SETLK, &lock) < 0) {
                close(fd);
                return error_set(err, ERROR_UNAVAILABLE, "An instance of this daemon is already running");
        }
        make_file(path, 0666, fd);
        return 0; /* NOLINT(clang-analyzer-unix.Malloc) */
}

static void write_pid(const struct daemon *daemon)
{
        _free_ char *path = daemon_path(daemon, "nvidia-cuda-mps-control.pid");
        _close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        make_file(path, 0666, fd);
        if (fd >= 0)
                dprintf(fd, "%d\n", (int)getpid());
}

static void open_logs(struct daemon *daemon)
{
        _free_ char *control = xasprintf("%s/control.log", daemon->log_directory);
        _free_ char *server = xasprintf("%s/server.log", daemon->log_directory);

        mkdir(daemon->log_directory, 0700);
        if (daemon->foreground) {
                daemon->journal.fd = daemon->server_log = STDOUT_FILENO;
        } else {
                daemon->journal.fd = open(control, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
                daemon->server_log = open(server, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        }
        if (access(daemon->log_directory, W_OK) < 0)
                fprintf(stderr, "Warning: Failed writing log files to directory [%s]. No logs will be available.\n",
                        daemon->log_directory);
}

/*
 * NVIDIA's daemon and servers send their log lines through this pipe. The simulated ones do not, so bytes in it come
 * from another program, and NVIDIA's daemon crashes on those.
 */
static int open_log_pipe(struct daemon *daemon, struct error *err)
{
        _free_ char *path = daemon_path(daemon, "log");
        int fd;

        unlink(path);
        if (mkfifo(path, 0777) < 0 || (fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
                return error_errno(err, errno, "create '%s'", path);
        watch_add(daemon, &daemon->log, fd, on_log);
        return 0;
}

static int open_listeners(struct daemon *daemon, struct error *err)
{
        static const struct {
                const char *name;
                mode_t mode;
        } listeners[] = {{"control", 0666}, {"control_privileged", 0755}};

        for (size_t i = 0; i < ARRAY_SIZE(listeners); i++) {
                _free_ char *path = daemon_path(daemon, listeners[i].name);
                int fd = channel_listen(path, listeners[i].mode, err);

                if (fd < 0)
                        return -1;
                watch_add(daemon, &daemon->listeners[i], fd, on_connection);
                daemon->listeners[i].paused = daemon->scenario.daemon == MPS_DAEMON_UNRESPONSIVE;
        }
        return 0;
}

static void read_environment(struct daemon *daemon)
{
        const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        const char *priority = getenv("CUDA_MPS_CLIENT_PRIORITY");

        if (percentage && !limits_read_percentage(&daemon->limits.percentage, percentage))
                journal_line(&daemon->journal, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE should be between (0.0, 100.0]");
        if (priority && strcmp(priority, "0") != 0 && strcmp(priority, "1") != 0)
                journal_line(&daemon->journal, "CUDA_MPS_CLIENT_PRIORITY should be between [0,1]");
        else
                daemon->limits.priority = priority && priority[0] == '1';
}

int daemon_open(struct daemon *daemon, struct error *err)
{
        _free_ char *control = daemon_path(daemon, "control");

        list_init(&daemon->watches);
        list_init(&daemon->peers);
        list_init(&daemon->instances);
        list_init(&daemon->blueprints);
        list_init(&daemon->partitions);
        daemon->limits = (struct limits)LIMITS_INIT;
        daemon->wanted_uid = -1;
        umask(0);
        if (mkdir(daemon->pipe_directory, 0777) < 0 && errno != EEXIST)
                return error_set(err, ERROR_DENIED, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s", daemon->pipe_directory);
        open_logs(daemon);
        if (take_lock(daemon, err) < 0)
                return -1;
        if (open_log_pipe(daemon, err) < 0)
                return -1;
        if (open_listeners(daemon, err) < 0) {
                err->text[0] = '\0'; /* NVIDIA's daemon prints nothing */
                return -1;
        }
        umask(022);
        if (daemon->scenario.version >= 550)
                write_pid(daemon);
        journal_line(&daemon->journal, "Starting control daemon using socket %s", control);
        journal_line(&daemon->journal,
                "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=%s",
                daemon->pipe_directory);
        if (daemon->scenario.version >= 580)
                journal_line(&daemon->journal, "CUDA MPS Control binary version: %u000",
                        daemon->scenario.version < 615 ? 13U : 14U);
        read_environment(daemon);
        return 0;
}
