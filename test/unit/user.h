// SPDX-License-Identifier: Apache-2.0
/*
 * Whether this machine lets a test become another user: root of a container that has no other user does not.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool user_can_be(uid_t uid)
{
        const pid_t pid = fork();
        int status = -1;

        if (pid == 0)
                _exit(geteuid() == 0 && setuid(uid) == 0 ? 0 : 1);
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
