/* Identifies processes. PIDs are reused, so a process is identified by its PID and start time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The start time of |pid| in kernel ticks since boot; 0: no such process, or a zombie. */
uint64_t identity_start_time(pid_t pid);

/* The process is alive, and |start_time| is its start time. */
bool identity_is_alive(pid_t pid, uint64_t start_time);

/* The process has certainly ended: false as well while this process has no descriptor left to look at it. */
bool identity_has_ended(pid_t pid, uint64_t start_time);

/*
 * The PID that holds the lock on |pipe_directory|; 0: none. NVIDIA's control daemon locks the file control_lock in it
 * (fcntl, seen with 535 and 550), and the kernel says who holds it. That need not be a control daemon: every process
 * that can open the file can lock it.
 */
pid_t identity_of_lock(const char *pipe_directory);

enum identity_daemon {
        IDENTITY_DAEMON,     /* a control daemon of this node */
        IDENTITY_PRIVILEGED, /* not ours, but it has all rights on this node (CAP_SYS_ADMIN): perhaps NVIDIA's own
                              * daemon */
        IDENTITY_STRANGER,   /* a tenant, or any other process */
        IDENTITY_GONE,
};
/*
 * Whether |pid| may be adopted as a control daemon. Nothing that the process says about itself counts. It must have our
 * user, our PID namespace and the executable |program|, and must not be in a pod other than our own. (A tenant can have
 * the executable, too: NVIDIA's container toolkit mounts it.) |*ret_start_time| is the start time of the process that
 * was checked. If it may not be adopted, |err| names the process and its pod.
 */
enum identity_daemon identity_check_daemon(pid_t pid, const char *program, uint64_t *ret_start_time, struct error *err);

/*
 * A control daemon that runs with a pipe directory below |root|. Texts are of its environment: who started it has
 * said so.
 */
struct identity_found {
        pid_t pid;
        uint64_t start_time;
        const char *name;  /* its pipe directory is <root>/<name>/pipe */
        const char *units; /* CUDA_VISIBLE_DEVICES; "": it has none */
};
/*
 * Calls |found| for each control daemon of this node, as identity_check_daemon() says, that was started with -f (a
 * front end is the same program) and with such a directory, and has |root|, an absolute path, where we have it. Files
 * in the directory do not count: tenants may write there.
 */
void identity_find_daemons(const char *root, const char *program,
        void (*found)(const struct identity_found *found, void *data), void *data);

/*
 * A pidfd of |pid| if it is proven to be a server of the control daemon |daemon|, which started at |start_time|: a
 * child of it, or a member of the process group that it leads, and in its cgroups. -1: it is not, or nothing proves it,
 * or it has ended. The answer of a daemon's socket does not prove it: a tenant could answer there.
 */
int identity_open_server(pid_t pid, pid_t daemon, uint64_t start_time);
/* Kills the process of a pidfd with SIGKILL; does nothing if it is -1. */
void identity_kill(int pidfd);

/* True if |pid| was started with |variable| set to |value|. False also if its environment cannot be read. */
bool identity_has_variable(pid_t pid, const char *variable, const char *value);
/* "": it was started without, or its environment cannot be read. The caller frees. */
char *identity_variable(pid_t pid, const char *variable);

/*
 * Kills the servers that a killed control daemon left, since they would block the GPU. These are the processes of the
 * group that it led (no process of another session can join it) that started after it and whose CUDA_MPS_PIPE_DIRECTORY
 * is |pipe_directory|. Each is held by a pidfd before it is checked. Does nothing if the daemon with this |start_time|
 * is alive. Returns the number of killed servers.
 */
unsigned int identity_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory);

/* 0: the process does not exist. */
pid_t identity_parent(pid_t pid);

/* Calls |found| for each child of |pid| that the kernel lists. */
void identity_children(pid_t pid, void (*found)(pid_t child, void *data), void *data);
