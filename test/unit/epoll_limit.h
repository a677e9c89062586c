// SPDX-License-Identifier: Apache-2.0
/* epoll of a program (libuv's, other libraries') that takes no more sockets, as at a limit of the system. */
#pragma once

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static int watches_left = -1; /* how many more it takes before it refuses one; -1: all */

__attribute__((visibility("default"))) int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
        if (operation == EPOLL_CTL_ADD && watches_left >= 0 && watches_left-- == 0) {
                errno = ENOSPC;
                return -1;
        }
        return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}
