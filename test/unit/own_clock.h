// SPDX-License-Identifier: Apache-2.0
/*
 * The monotonic clock of the program is the test's: a loop that runs sees only the time that the test lets go by, and
 * what waits for seconds takes none. Sockets and files are the kernel's, and at once. For one file of a program.
 */
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/macro.h"

static int64_t own_clock_ms = 1000000;

/* libuv and all others call this one. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
                return (int)syscall(SYS_clock_gettime, clock, ret);
        *ret = (struct timespec){own_clock_ms / 1000, own_clock_ms % 1000 * 1000000};
        return 0;
}

/* Everything that is due, or has come. */
static inline void own_clock_settle(uv_loop_t *loop)
{
        struct pollfd events = {.fd = uv_backend_fd(loop), .events = POLLIN};

        /* What was armed in a turn is polled for in the next. */
        for (unsigned int quiet = 0; quiet < 2 && uv_loop_alive(loop); quiet++) {
                if (uv_backend_timeout(loop) == 0)
                        quiet = 0;
                uv_run(loop, UV_RUN_NOWAIT);
                if (poll(&events, 1, 0) > 0)
                        quiet = 0;
        }
}

static inline void own_clock_pass(uv_loop_t *loop, int64_t ms)
{
        int64_t end = own_clock_ms + ms;

        for (;;) {
                int due;

                own_clock_settle(loop);
                due = uv_backend_timeout(loop);
                if (due < 0 || own_clock_ms + due > end)
                        break;
                own_clock_ms += MAX(due, 1);
        }
        own_clock_ms = MAX(end, own_clock_ms);
        own_clock_settle(loop);
}
