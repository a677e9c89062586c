/*
 * Which process is which: a PID alone is not a process, since numbers are used again. A PID and the time of its start are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The start of |pid| in the kernel's ticks since boot; 0: there is no such process, or it is a zombie. */
uint64_t identity_start_time(pid_t pid);

/* It is alive, and |start_time| is its own. */
bool identity_is_alive(pid_t pid, uint64_t start_time);

/*
 * Who holds the lock on |pipe_directory|; 0: nobody. NVIDIA's control daemon locks the file control_lock in it (fcntl, seen with 535
 * and 550), and the kernel tells who does. It need not be a control daemon: whoever reaches the file can lock it.
 */
pid_t identity_of_lock(const char *pipe_directory);

enum identity_daemon {
        IDENTITY_DAEMON, /* a control daemon of this node */
        IDENTITY_PRIVILEGED, /* none of ours, but it may do with this node what it likes (CAP_SYS_ADMIN): perhaps NVIDIA's own */
        IDENTITY_STRANGER, /* a tenant, or anybody else */
        IDENTITY_GONE,
};
/*
 * Whether |pid| may be taken over as a control daemon, judged by nothing that it could say of itself: it has our user, our PID namespace,
 * the executable |program| (a tenant may have that, too: NVIDIA's container toolkit mounts it), and is in no container of a pod other
 * than our own. |*ret_start_time| is that of the process which was judged. Of others |err| names the process and its pod.
 */
enum identity_daemon identity_judge_daemon(pid_t pid, const char *program, uint64_t *ret_start_time, struct error *err);

/*
 * A pidfd of |pid| if that is proven to be a server of the control daemon |daemon|, which began at |start_time|: a child of it, or in the
 * group that it leads, and in its cgroups. -1: it is not, or nothing proves it, or it has ended. What a daemon's socket answers
 * proves nothing: a tenant can answer there.
 */
int identity_open_server(pid_t pid, pid_t daemon, uint64_t start_time);
/* Ends the process of a pidfd with SIGKILL; nothing where that is -1. */
void identity_kill(int pidfd);

/* The value of |variable| in the environment that |pid| was started with is |value|. False also where it cannot be read. */
bool identity_has_variable(pid_t pid, const char *variable, const char *value);

/*
 * Ends what a control daemon that was killed has left: its servers, which would keep the GPU. They are the processes of the group
 * that it led (nobody gets into it from another session), which began after it, and whose CUDA_MPS_PIPE_DIRECTORY is
 * |pipe_directory|; each is held by a pidfd before it is looked at. Nothing where the daemon, by its |start_time|, is alive.
 * Returns how many there were.
 */
unsigned int identity_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory);

/* 0: there is no such process. */
pid_t identity_parent(pid_t pid);

/* Calls |found| for each child of |pid|, as far as the kernel tells. */
void identity_children(pid_t pid, void (*found)(pid_t child, void *data), void *data);
