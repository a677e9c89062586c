// SPDX-License-Identifier: Apache-2.0
/*
 * A program that makes a file and goes on running, as one that discovers GPUs does: how long until the file is there,
 * what that took of the processor, and what memory it has a moment later. bench/peers compares such programs. A link
 * to /dev/null is no file yet: NVIDIA's config manager makes one before it knows the node. What it says goes nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "bench/figure.h"
#include "bench/process.h"

#define TIMEOUT_MS 20000
#define SETTLE_US 500000
#define END_US 3000000
#define STEP_US 10000

static bool is_there(const char *path)
{
        struct stat status;

        return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Events of its folder say when to look; whether it is there, the file itself. */
static int wait_for_file(const char *path, int events, int64_t started, struct error *err)
{
        while (!is_there(path)) {
                struct pollfd ready = {.fd = events, .events = POLLIN};
                char ignored[4096];
                int64_t left = TIMEOUT_MS - (clock_ns() - started) / 1000000;

                if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
                        return error_set(err, ERROR_TIMEOUT, "'%s' was not there within %d ms", path, TIMEOUT_MS);
                (void)!read(events, ignored, sizeof(ignored));
        }
        return 0;
}

static void end(pid_t pid)
{
        kill(pid, SIGTERM);
        for (int i = 0; i < END_US / STEP_US; i++) {
                if (waitpid(pid, NULL, WNOHANG) != 0)
                        return;
                usleep(STEP_US);
        }
        kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
}

static int measure(const char *path, pid_t pid, int events, int64_t started, struct error *err)
{
        struct process_memory memory;
        uint64_t ran;
        double took;

        if (wait_for_file(path, events, started, err) < 0)
                return -1;
        took = (double)(clock_ns() - started) / 1e6;
        if (process_cpu(pid, &ran, err) < 0)
                return -1;
        usleep(SETTLE_US);
        if (process_memory(pid, NULL, &memory, err) < 0)
                return -1;
        figure_print_one("start_to_file", "ms", took);
        figure_print_one("cpu_file", "ms", (double)ran / 1e6);
        figure_print_one("pss", "KiB", memory.pss_kib);
        figure_print_one("rss", "KiB", memory.rss_kib);
        return 0;
}

static int run(const char *path, char **command, struct error *err)
{
        _free_ char *folder = file_folder(path);
        _close_ int events = inotify_init1(IN_CLOEXEC);
        posix_spawn_file_actions_t actions;
        int64_t started;
        pid_t pid;
        int rc;

        if (events < 0 || inotify_add_watch(events, folder, IN_CREATE | IN_MOVED_TO) < 0)
                return error_errno(err, errno, "watch '%s'", folder);
        if (is_there(path))
                return error_set(err, ERROR_INVALID, "'%s' is there already", path);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        started = clock_ns();
        rc = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
        posix_spawn_file_actions_destroy(&actions);
        if (rc != 0)
                return error_errno(err, rc, "start '%s'", command[0]);
        rc = measure(path, pid, events, started, err);
        end(pid);
        return rc;
}

int main(int argc, char **argv)
{
        struct error err;

        if (argc < 3) {
                printf("usage: bench-program FILE PROGRAM [ARGUMENT...]\n\n"
                       "Starts PROGRAM, which makes FILE, and prints figures (bench/figure.h): when it is there, and memory.\n");
                return 2;
        }
        if (run(argv[1], argv + 2, &err) == 0)
                return 0;
        fprintf(stderr, "bench-program: %s\n", err.text);
        return 1;
}
