/*
 * A clock that somebody sets: preloaded into a program, it is wrong by as many seconds as stand in the file that
 * WARPSHARE_SIM_CLOCK names, from the moment at which they are written there. No file, no error of the clock.
 *
 * As with a clock that is set, only the time of day is another: CLOCK_MONOTONIC and CLOCK_BOOTTIME go on. Otherwise
 * than there, what the kernel writes itself, the times of files, is not wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

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

#pragma GCC visibility push(default)

int clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;
        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
                ret->tv_sec += read_offset();
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

#pragma GCC visibility pop
