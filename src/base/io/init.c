#include "base/io/init.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/exit_status.h"
#include "base/io/keeper.h"

static int init_status_of(int status)
{
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void init_if_first(void)
{
        sigset_t all;
        sigset_t before;
        int status = 0;
        int number;
        pid_t child;

        if (getpid() != 1)
                return;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        child = fork();
        if (child < 0) {
                log_error("cannot start a second process", LOG_STR("error", strerror(errno)));
                _exit(EXIT_FAILED);
        }
        if (child == 0) {
                sigprocmask(SIG_SETMASK, &before, NULL);
                return;
        }
        for (;;) {
                if (sigwait(&all, &number) != 0)
                        continue;
                if (number != SIGCHLD)
                        kill(child, number);
                else if (keeper_reap(child, &status))
                        _exit(init_status_of(status));
        }
}
