#include "cmd/mig/reset.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"

#define PROGRAM "/usr/bin/nvidia-smi"
#define EXIT_NOT_STARTED 127
#define KILL_MS 5000

/* Runs in the child. |root| is NULL for this process's own root. */
static void reset_start(const char *root, char **argv)
{
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                return;
        if (!root) {
                execvp(argv[0], argv);
                return;
        }
        if (chroot(root) == 0 && chdir("/") == 0)
                execv(PROGRAM, argv);
}

/* False: it has not within that time. A kernel without pidfds waits as long as it takes. */
static bool reset_has_ended(pid_t pid, int *ret_status, int timeout_ms)
{
        _close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

        if (fd >= 0 && poll(&poll_fd, 1, timeout_ms) == 0)
                return false;
        while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
                ;
        return true;
}

/* A process that is inside the driver may not react to the kill, and is left behind. */
static int reset_wait_for(pid_t pid, int *ret_status, int timeout_ms, struct error *err)
{
        if (reset_has_ended(pid, ret_status, timeout_ms))
                return 0;
        kill(pid, SIGKILL);
        return error_set(err, ERROR_TIMEOUT,
                "nvidia-smi --gpu-reset did not end within %d s and was %s: whether the GPUs were reset is not known; reboot "
                "the node",
                timeout_ms / 1000, reset_has_ended(pid, ret_status, KILL_MS) ? "killed" : "left behind");
}

int mig_reset(const char *const *uuids, size_t n_uuids, const char *driver_root, int timeout_ms, struct error *err)
{
        static char name[] = "nvidia-smi", reset[] = "--gpu-reset", flag[] = "--id";
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;
        _free_ char *in_root = xasprintf("%s%s", driver_root, PROGRAM);
        const bool has_root = *driver_root && strcmp(driver_root, "/") != 0 && access(in_root, X_OK) == 0;
        int status = 0;
        pid_t pid;

        for (size_t i = 0; i < n_uuids; i++)
                strbuf_printf(&list, "%s%s", i ? "," : "", uuids[i]);
        fflush(NULL);
        pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "start nvidia-smi");
        if (pid == 0) {
                char *argv[] = {name, reset, flag, list.data, NULL};

                reset_start(has_root ? driver_root : NULL, argv);
                _exit(EXIT_NOT_STARTED);
        }
        if (reset_wait_for(pid, &status, timeout_ms, err) < 0)
                return -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_STARTED)
                return error_set(err, ERROR_NOT_FOUND,
                        "GPUs have to be reset, and nvidia-smi cannot be started: put it into PATH, or reboot the node");
        return error_set(err, ERROR_UNAVAILABLE,
                "nvidia-smi --gpu-reset --id %s failed with status %d: a process uses a GPU of these (nvidia-persistenced and "
                "DCGM are such), or they are reset with all of their NVLink fabric only; end it, or reboot the node",
                list.data, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}
