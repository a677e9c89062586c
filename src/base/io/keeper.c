// SPDX-License-Identifier: Apache-2.0
#include "base/io/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/macro.h"

#define ORPHANS_MS 5000      /* a process that does not end then waits for something that no signal interrupts */
#define SIGNALLED_STATUS 128 /* and the signal's number: what a shell would say */

/* The signals that are passed on. All but the first ask the agent to stop. */
static const int passed_on[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT};

struct keeper {
        const char *what;
        sigset_t before; /* the signals that were blocked when it was called */
        sigset_t signals;
        pid_t child; /* 0: none */
        int64_t started_ms;
        bool is_stopping;
        unsigned int quick_ends;
        struct keeper_crashes crashes;
};

int64_t keeper_wait_ms(unsigned int quick_ends)
{
        int64_t wait = 1000;

        if (quick_ends <= KEEPER_QUICK_STARTS)
                return 0;
        for (unsigned int i = KEEPER_QUICK_STARTS + 1; i < quick_ends && wait < KEEPER_WAIT_MAX_MS; i++)
                wait *= 2;
        return MIN(wait, KEEPER_WAIT_MAX_MS);
}

/* A parent in another mount namespace is the container runtime. */
static bool has_parent_outside(void)
{
        char path[40];
        struct stat ours;
        struct stat theirs;

        snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)getppid());
        return stat("/proc/self/ns/mnt", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino != theirs.st_ino;
}

bool keeper_is_wanted(const char *choice)
{
        if (strcmp(choice, "auto") == 0)
                return getpid() == 1 || has_parent_outside();
        return strcmp(choice, "always") == 0;
}

static bool asks_to_stop(int number)
{
        return number == SIGTERM || number == SIGINT || number == SIGQUIT;
}

/* A signal of |passed_on| that came, SIGCHLD, or 0 when none did until |deadline_ms|; -1: for ever. */
static int wait_signal(const struct keeper *keeper, int64_t deadline_ms)
{
        for (;;) {
                int64_t left = deadline_ms < 0 ? 1000 : MAX(deadline_ms - (int64_t)clock_now_ms(), INT64_C(0));
                struct timespec timeout = {.tv_sec = left / 1000, .tv_nsec = (left % 1000) * 1000000};
                int number = deadline_ms < 0 ? sigwaitinfo(&keeper->signals, NULL)
                                             : sigtimedwait(&keeper->signals, NULL, &timeout);

                if (number > 0)
                        return number;
                if (errno == EAGAIN)
                        return 0;
        }
}

/* ---- the child ---- */

/* Returns 1 in the child. */
static int start_child(struct keeper *keeper, struct error *err)
{
        pid_t parent = getpid();
        pid_t pid = fork();

        if (pid < 0)
                return error_errno(err, errno, "start %s in a child process", keeper->what);
        if (pid == 0) {
                /* Ends the child with its parent, which may not be PID 1. */
                prctl(PR_SET_PDEATHSIG, SIGTERM);
                if (getppid() != parent)
                        _exit(EXIT_SUCCESS);
                sigprocmask(SIG_SETMASK, &keeper->before, NULL);
                return 1;
        }
        keeper->child = pid;
        keeper->started_ms = (int64_t)clock_now_ms();
        return 0;
}

/*
 * Reaps all processes that have ended, since orphans of a container are PID 1's. True when |child| is one of them, with
 * its status as waitpid() has it.
 */
static bool keeper_reap(pid_t child, int *ret_status)
{
        bool is_over = false;
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
                if (pid != child)
                        continue;
                *ret_status = status;
                is_over = true;
        }
        return is_over;
}

/* Until it has ended; its status as waitpid() has it. */
static int await_child(struct keeper *keeper)
{
        int status = 0;

        while (!keeper_reap(keeper->child, &status)) {
                int number = wait_signal(keeper, -1);

                if (number == SIGCHLD)
                        continue;
                keeper->is_stopping = keeper->is_stopping || asks_to_stop(number);
                kill(keeper->child, number);
        }
        keeper->child = 0;
        return status;
}

static int exit_status(int status)
{
        return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALLED_STATUS + WTERMSIG(status);
}

/* ---- between two ---- */

static void note_crash(struct keeper *keeper, int number)
{
        keeper->crashes.total++;
        keeper->crashes.signal = number;
        keeper->crashes.lived_ms = (int64_t)clock_now_ms() - keeper->started_ms;
        keeper->quick_ends = keeper->crashes.lived_ms < KEEPER_STEADY_MS ? keeper->quick_ends + 1 : 1;
}

/* Orphans are reaped meanwhile. False: a signal asked to stop. */
static bool wait_for_next(const struct keeper *keeper)
{
        int64_t wait = keeper_wait_ms(keeper->quick_ends);
        int64_t deadline = (int64_t)clock_now_ms() + wait;
        int status;

        if (wait)
                log_error("ended by a signal again and again; waiting before the next start",
                        LOG_STR("process", keeper->what), LOG_STR("signal", strsignal(keeper->crashes.signal)),
                        LOG_UINT("in_a_row", keeper->quick_ends), LOG_INT("wait_ms", wait));
        for (;;) {
                int number = wait_signal(keeper, deadline);

                if (number == 0)
                        return true;
                if (asks_to_stop(number))
                        return false;
                (void)keeper_reap(keeper->child, &status);
        }
}

static void keeper_begin(struct keeper *keeper, const char *what)
{
        *keeper = (struct keeper){.what = what};
        sigemptyset(&keeper->signals);
        sigaddset(&keeper->signals, SIGCHLD);
        for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
                sigaddset(&keeper->signals, passed_on[i]);
        sigprocmask(SIG_BLOCK, &keeper->signals, &keeper->before);
        prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int keeper_run(const char *what, struct keeper_crashes *ret, int *ret_status, struct error *err)
{
        struct keeper keeper;

        keeper_begin(&keeper, what);
        for (;;) {
                int rc = start_child(&keeper, err);
                int status;

                if (rc != 0) {
                        if (rc < 0) /* no child was started, so the caller handles signals itself, SIGCHLD included */
                                sigprocmask(SIG_SETMASK, &keeper.before, NULL);
                        *ret = keeper.crashes;
                        return rc;
                }
                status = await_child(&keeper);
                *ret_status = exit_status(status);
                if (WIFEXITED(status) || keeper.is_stopping)
                        return 0;
                note_crash(&keeper, WTERMSIG(status));
                if (!wait_for_next(&keeper))
                        return 0;
        }
}

/* ---- once ---- */

/* A child that is not reaped keeps its PID, so each of these is still the process that the kernel named. */
static void kill_children(void)
{
        FILE *children = fopen("/proc/thread-self/children", "re");
        int pid;

        while (children && fscanf(children, "%d", &pid) == 1)
                kill(pid, SIGKILL);
        if (children)
                fclose(children);
}

/* The children of a killed process become children of this one, and are killed in the next turn. */
static void keeper_end_orphans(const struct keeper *keeper)
{
        const int64_t end = (int64_t)clock_now_ms() + ORPHANS_MS;
        int status;

        while (waitpid(-1, &status, WNOHANG) >= 0 && (int64_t)clock_now_ms() < end) {
                kill_children();
                (void)wait_signal(keeper, (int64_t)clock_now_ms() + 10);
        }
}

int keeper_run_once(const char *what, int *ret_status, struct error *err)
{
        struct keeper keeper;
        int rc;

        keeper_begin(&keeper, what);
        rc = start_child(&keeper, err);
        if (rc != 0) {
                if (rc < 0)
                        sigprocmask(SIG_SETMASK, &keeper.before, NULL);
                return rc;
        }
        *ret_status = exit_status(await_child(&keeper));
        keeper_end_orphans(&keeper);
        return 0;
}

/* ---- the first process of a container ---- */

void init_if_first(void)
{
        struct keeper keeper = {.what = "the program"};
        struct error err;
        int rc;

        if (getpid() != 1)
                return;
        sigfillset(&keeper.signals);
        sigprocmask(SIG_BLOCK, &keeper.signals, &keeper.before);
        rc = start_child(&keeper, &err);
        if (rc > 0)
                return;
        if (rc < 0) {
                log_error("cannot start a second process", LOG_ERR(&err));
                _exit(EXIT_FAILED);
        }
        _exit(exit_status(await_child(&keeper)));
}
