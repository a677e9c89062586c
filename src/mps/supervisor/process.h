// SPDX-License-Identifier: Apache-2.0
/*
 * Reads what the kernel itself knows about a process, such as which container it runs in, and recognises control
 * daemons and their servers. PIDs are reused, so a process is identified by its PID and start time. Nothing
 * here waits for the process, except where that is said. Reads <root>/proc/<pid>; |root| is "" or a folder that a test
 * provides.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define PROCESS_ENVIRONMENT_MAX ((size_t)1024 * 1024) /* a longer environment is cut here */

struct process {
        pid_t pid;
        uint64_t start_time;    /* ticks since boot: identifies the process together with the PID */
        uid_t uid;              /* effective; (uid_t)-1 unknown */
        uint64_t pid_namespace; /* inode; 0 unknown */
        const char *pod_uid;    /* this and the next two as in base/proc.h */
        const char *container_id;
        const char *cgroup;
};

/*
 * Strings live in |arena|. ERROR_NOT_FOUND: the process does not exist (any more), or another process got the PID
 * meanwhile. Any other error says nothing of it, as without descriptors. What is not its start and cannot be read is
 * unknown.
 */
int process_read(struct process *ret, struct arena *arena, const char *root, pid_t pid, struct error *err) MUST_USE;

/* The start time alone, in kernel ticks since boot; 0: no such process, or a zombie, or it cannot be read. */
uint64_t process_start_time(const char *root, pid_t pid);

/*
 * The environment with which its program started, cut at PROCESS_ENVIRONMENT_MAX; empty if it cannot be read. It lies
 * in memory of the process, whose owner can let a reader wait for ever: only for a worker (base/io/worker.h).
 */
void process_read_environment(struct strbuf *ret, const char *root, pid_t pid, uint64_t start_time);

/* The value of a variable in it, or NULL. The first of several counts, as with getenv(). */
static inline const char *process_find_variable(const struct strbuf *environment, const char *name)
{
        const size_t length = strlen(name);

        for (const char *at = environment->data; at < environment->data + environment->size; at += strlen(at) + 1)
                if (strncmp(at, name, length) == 0 && at[length] == '=')
                        return at + length + 1;
        return NULL;
}

/*
 * Parses the text of a stat file (proc(5)); false if it is malformed. The process name in it may contain any character,
 * also ')' and blanks.
 */
struct process_stat {
        char state; /* 'Z': a zombie; 'X': gone */
        pid_t parent;
        pid_t group;
        uint64_t start_time; /* ticks since boot */
};

/* ---- processes of this node ---- */

/* The process is alive, and |start_time| is its start time. */
bool process_is_alive(pid_t pid, uint64_t start_time);

/* The process has certainly ended: false as well while this process has no descriptor left to look at it. */
bool process_has_ended(pid_t pid, uint64_t start_time);

/*
 * The PID that holds the lock on |pipe_directory|; 0: none. NVIDIA's control daemon locks the file control_lock in it
 * (fcntl, seen with 535 and 550), and the kernel says who holds it. That need not be a control daemon: every process
 * that can open the file can lock it.
 */
pid_t process_of_lock(const char *pipe_directory);

enum process_daemon {
        PROCESS_DAEMON,     /* a control daemon of this node */
        PROCESS_PRIVILEGED, /* not ours, but it has all rights on this node (CAP_SYS_ADMIN): perhaps NVIDIA's own
                              * daemon */
        PROCESS_STRANGER,   /* a tenant, or any other process */
        PROCESS_GONE,
};
/*
 * Whether |pid| may be adopted as a control daemon. Nothing that the process says about itself counts. It must have our
 * user, our PID namespace and the executable |program|, and must not be in a pod other than our own. (A tenant can have
 * the executable, too: NVIDIA's container toolkit mounts it.) |*ret_start_time| is the start time of the process that
 * was checked. If it may not be adopted, |err| names the process and its pod.
 */
enum process_daemon process_check_daemon(pid_t pid, const char *program, uint64_t *ret_start_time, struct error *err);

/*
 * A control daemon that runs with a pipe directory below |root|. Texts are of its environment: who started it has
 * said so.
 */
struct process_found {
        pid_t pid;
        uint64_t start_time;
        const char *name;  /* its pipe directory is <root>/<name>/pipe */
        const char *units; /* CUDA_VISIBLE_DEVICES; "": it has none */
};
/*
 * The control daemons of this node, as process_check_daemon() says, that were started with -f (a front end is the same
 * program) and with such a directory, and have |root|, an absolute path, where we have it. Files in the directory do
 * not count: tenants may write there. Returns how many; |*ret| is in |arena|.
 */
size_t process_find_daemons(
        const char *root, const char *program, struct arena *arena, const struct process_found **ret);

/*
 * A pidfd of |pid| if it is proven to be a server of the control daemon |daemon|, which started at |start_time|: a
 * child of it, or a member of the process group that it leads, and in its cgroups. -1: it is not, or nothing proves it,
 * or it has ended. The answer of a daemon's socket does not prove it: a tenant could answer there.
 */
int process_open_server(pid_t pid, pid_t daemon, uint64_t start_time);
/* Kills the process of a pidfd with SIGKILL; does nothing if it is -1. */
void process_kill(int pidfd);

/* True if |pid| was started with |variable| set to |value|. False also if its environment cannot be read. */
bool process_has_variable(pid_t pid, const char *variable, const char *value);
/* "": it was started without, or its environment cannot be read. The caller frees. */
char *process_variable(pid_t pid, const char *variable);

/*
 * Kills the servers that a killed control daemon left, since they would block the GPU. These are the processes of the
 * group that it led (no process of another session can join it) that started after it and whose CUDA_MPS_PIPE_DIRECTORY
 * is |pipe_directory|. Each is held by a pidfd before it is checked. Does nothing if the daemon with this |start_time|
 * is alive. Returns the number of killed servers.
 */
unsigned int process_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory);

/* 0: the process does not exist. */
pid_t process_parent(pid_t pid);

/* Calls |found| for each child of |pid| that the kernel lists. */
void process_children(pid_t pid, void (*found)(pid_t child, void *data), void *data);
