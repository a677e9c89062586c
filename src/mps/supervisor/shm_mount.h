// SPDX-License-Identifier: Apache-2.0
/*
 * The tmpfs that is /dev/shm for MPS servers and their clients: mounts it, enters it, and finds the processes that use
 * it.
 *
 * Two layouts. <root>/shm is one for all daemons of the node, mounted by `warpshare mps mount-shm` as NVIDIA's
 * mps-control-daemon mounts it. <root>/<daemon>/shm belongs to one daemon and its clients: a tenant that fills it harms
 * no client on another GPU. The supervisor mounts it and starts the control daemon with it as /dev/shm.
 *
 * Both are mounted once and stay: a new mount would cut off every running client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* `warpshare mps exec-in-shm SHM PIPE PROGRAM ARGUMENT…`: calls mps_shm_enter(), then executes PROGRAM. */
#define MPS_EXEC_IN_SHM "exec-in-shm"

/* The largest total size, in KiB: half of MemTotal in |meminfo|, as NVIDIA does; 65536 if that cannot be read. Pure. */
uint64_t mps_shm_size_kib(const char *meminfo);
uint64_t mps_shm_machine_kib(void); /* the same of this machine */

/* The name of the tmpfs in the folder of the node, or of a daemon. */
#define MPS_SHM_NAME "shm"

/*
 * Mounts the tmpfs in |folder|, which exists, with |kib|. If it is mounted already, it gets that size, unless more is
 * used. |*ret_mounted|: it was mounted now. Errors: ERROR_DENIED without the right to mount, ERROR_INVALID if something
 * else is mounted or stands there, a link for example.
 */
int mps_shm_mount(const char *folder, uint64_t kib, bool *ret_mounted, struct error *err) MUST_USE;

/* True if the tmpfs is mounted in the open |folder|. */
bool mps_shm_is_mounted(int folder);

/*
 * For commands: waits up to half a minute. Unmounts the tmpfs in the open |folder|, which messages call |path|, and
 * removes its mount point, if no visible process of another mount namespace has it as /dev/shm and the kernel allows
 * it. What else stands there, a link for example, is not touched. 0: it is gone, or never existed; 1: it is in use,
 * |*ret_user| is the PID of one user, 0: unknown.
 */
int mps_shm_unmount(int folder, const char *path, pid_t *ret_user, struct error *err) MUST_USE;

/*
 * True if container runtimes see what this process mounts below |root|, according to |mountinfo|
 * (/proc/self/mountinfo). Either the mount that contains |root| is shared, as in a container with `mountPropagation:
 * Bidirectional`; or this process is in the mount namespace of the first process and |root| is not a mount of its own.
 * Pure.
 */
bool mps_shm_is_seen_by_others(const char *mountinfo, const char *root, bool is_in_first_namespace);
/* mps_shm_is_seen_by_others() for this process. False is logged, unless that cannot be found out. */
bool mps_shm_mounts_are_seen(const char *root);

/*
 * Gives the calling process a mount namespace of its own, in which |path| is /dev/shm, and no symbolic link in that and
 * in |pipe| is followed (from Linux 5.10 on): tenants write in the one, and may be able to in the other, while a
 * control daemon and its servers work there.
 */
int mps_shm_enter(const char *path, const char *pipe, struct error *err) MUST_USE;

/* True if /dev/shm of |pid| is the file system mounted at |path|. False also if that cannot be read. */
bool mps_shm_is_of(pid_t pid, const char *path);

/* The inode of the mount namespace of |pid|; 0: unknown. */
ino_t mps_shm_mounts_of(pid_t pid);

/*
 * A process that has the file system |device| as /dev/shm, or whose mounts cannot be read; 0: none. Processes of our
 * own mount namespace and of that of |except| (0: no exception) do not count. Each other mount namespace is read once:
 * a tenant can make that long, so this is for a worker (base/io/worker.h), and for commands.
 */
pid_t mps_shm_find_user(dev_t device, pid_t except);
