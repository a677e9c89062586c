// SPDX-License-Identifier: Apache-2.0
/*
 * A clock that somebody sets, and time that passes faster: preloaded into a program, for the programs that it starts,
 * too.
 *
 * The time of day is wrong by as many seconds as stand in the file that WARPSHARE_SIM_CLOCK names, from the moment at
 * which they are written there. No file, no error of the clock. As with a clock that is set, only the time of day is
 * another. Otherwise than there, what the kernel writes itself, the times of files, is not wrong.
 *
 * WARPSHARE_SIM_SPEED: how many times as fast the monotonic clock goes, 1 to 100; nothing: as fast as ever. What waits
 * for so long waits as much less: poll, epoll_wait, sleeps and alarms. So a program comes to its deadlines and
 * back-offs sooner, and all programs under one speed agree about the time. The time of day goes on as it is, and so do
 * CLOCK_BOOTTIME, by which the kernel says when a process began, and timers of the kernel (SO_RCVTIMEO, timerfd).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static long read_offset(void)
{
        const char *path = getenv("WARPSHARE_SIM_CLOCK");
        int before = errno;
        char text[32] = "";
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

        if (fd >= 0) {
                if (read(fd, text, sizeof(text) - 1) < 0)
                        text[0] = '\0';
                close(fd);
        }
        errno = before;
        return strtol(text, NULL, 10);
}

static int64_t read_speed(void)
{
        const char *text = getenv("WARPSHARE_SIM_SPEED");
        long speed = text ? strtol(text, NULL, 10) : 1;

        return speed >= 1 && speed <= 100 ? speed : 1;
}

static int64_t to_ns(const struct timespec *time)
{
        return time->tv_sec * NS_PER_S + time->tv_nsec;
}

static struct timespec from_ns(int64_t ns)
{
        return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

/*
 * How long to wait for what |time| of the program's clock is: never less, so that nobody wakes too early and waits
 * again.
 */
static struct timespec shorten(const struct timespec *time)
{
        int64_t speed = read_speed();

        return speed == 1 ? *time : from_ns((to_ns(time) + speed - 1) / speed);
}

static int shorten_ms(int timeout_ms)
{
        int64_t speed = read_speed();

        return timeout_ms <= 0 ? timeout_ms : (int)((timeout_ms + speed - 1) / speed);
}

static int is_monotonic(clockid_t clock)
{
        return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
}

#pragma GCC visibility push(default)

/* ---- clocks ---- */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;
        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
                ret->tv_sec += read_offset();
        else if (is_monotonic(clock))
                *ret = from_ns(to_ns(ret) * read_speed());
        return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
        struct timespec now;

        (void)zone;
        if (clock_gettime(CLOCK_REALTIME, &now) < 0)
                return -1;
        *ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
        return 0;
}

time_t time(time_t *ret)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        if (ret)
                *ret = now.tv_sec;
        return now.tv_sec;
}

/* ---- waits ---- */

int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout_ms, const sigset_t *mask)
{
        return (int)syscall(SYS_epoll_pwait, fd, events, max, shorten_ms(timeout_ms), mask, _NSIG / 8);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
        return epoll_pwait(fd, events, max, timeout_ms, NULL);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
        struct timespec timeout = from_ns(shorten_ms(timeout_ms) * INT64_C(1000000));

        return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &timeout, NULL, _NSIG / 8);
}

int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
        struct timespec shorter = timeout ? shorten(timeout) : (struct timespec){0};

        return (int)syscall(SYS_rt_sigtimedwait, set, info, timeout ? &shorter : NULL, _NSIG / 8);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
        struct timespec shorter = shorten(time);
        int result = (int)syscall(SYS_nanosleep, &shorter, left);

        if (result < 0 && errno == EINTR && left)
                *left = from_ns(to_ns(left) * read_speed());
        return result;
}

int usleep(useconds_t microseconds)
{
        struct timespec time = from_ns(microseconds * INT64_C(1000));

        return nanosleep(&time, NULL);
}

/* The result is the error, as that of a thread's function. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
        struct timespec shorter = is_monotonic(clock) ? shorten(time) : *time;

        if (syscall(SYS_clock_nanosleep, clock, flags, &shorter, left) == 0)
                return 0;
        if (errno == EINTR && is_monotonic(clock) && !(flags & TIMER_ABSTIME) && left)
                *left = from_ns(to_ns(left) * read_speed());
        return errno;
}

unsigned int alarm(unsigned int seconds)
{
        const struct timespec time = {.tv_sec = seconds};
        struct timespec shorter = shorten(&time);
        struct itimerval before;
        struct itimerval timer = {
                .it_value = {.tv_sec = shorter.tv_sec, .tv_usec = shorter.tv_nsec / 1000},
        };

        if (syscall(SYS_setitimer, ITIMER_REAL, &timer, &before) < 0)
                return 0;
        return (unsigned int)((before.it_value.tv_sec + (before.it_value.tv_usec > 0)) * read_speed());
}

#pragma GCC visibility pop
