/*
 * <root>/shm: the tmpfs that is /dev/shm for MPS servers and their clients. It is mounted once, by a container with the right
 * to, and stays: to mount it anew would take it from every client that runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Mounts it where it is not there; |*ret_mounted| tells which. Errors: ERROR_DENIED without the right to, ERROR_INVALID where
 * something else is mounted.
 */
int shm_mount(const char *root, bool *ret_mounted, struct error *err) MUST_USE;

/*
 * Takes it away where nobody uses it: no process of another mount namespace that we can see has it as /dev/shm, and the kernel
 * lets go of it. 0: it is gone, or was never there; 1: it is in use, |*ret_user| is one who does, 0 unknown.
 */
int shm_unmount(const char *root, pid_t *ret_user, struct error *err) MUST_USE;

/* The size in KiB as mount options have it: half of MemTotal of |meminfo|; 65536 where that cannot be read. Pure. */
uint64_t shm_size_kib(const char *meminfo);
