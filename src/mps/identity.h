/*
 * Which process is which: a PID alone is not a process, since numbers are used again. A PID and the time of its start are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The start of |pid| in the kernel's ticks since boot; 0: there is no such process, or it is a zombie. */
uint64_t identity_start_time(pid_t pid);

/* It is alive, and |start_time| is its own. */
bool identity_is_alive(pid_t pid, uint64_t start_time);

/*
 * The control daemon that has |pipe_directory|, whoever started it; 0: none. NVIDIA's program locks the file control_lock in it
 * (fcntl, seen with 535 and 550), and the kernel tells by whom.
 */
pid_t identity_of_lock(const char *pipe_directory);

/* The value of |variable| in the environment that |pid| was started with is |value|. False also where it cannot be read. */
bool identity_has_variable(pid_t pid, const char *variable, const char *value);

/*
 * Ends what a control daemon that was killed has left: its servers, which would keep the GPU. They are the processes of the group
 * that it led (nobody gets into it from another session), which began after it, and whose CUDA_MPS_PIPE_DIRECTORY is
 * |pipe_directory|; each is held by a pidfd before it is looked at. Nothing where the daemon, by its |start_time|, is alive.
 * Returns how many there were.
 */
unsigned int identity_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory);

/* Calls |found| for each child of |pid|, as far as the kernel tells. */
void identity_children(pid_t pid, void (*found)(pid_t child, void *data), void *data);
