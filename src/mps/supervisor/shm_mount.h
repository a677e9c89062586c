/*
 * A tmpfs that is /dev/shm for MPS servers and their clients: mounting it, entering it, and who has it.
 *
 * Two layouts. <root>/shm is one for all daemons of the node, mounted by `warpshare mps mount-shm` as NVIDIA's mps-control-daemon mounts it.
 * <root>/<daemon>/shm belongs to one daemon and its clients alone: a tenant that fills it harms nobody on another GPU. The supervisor mounts
 * that one itself, and its control daemon is started with it as /dev/shm.
 *
 * Whichever it is, it is mounted once and stays: to mount it anew would take it from every client that runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* `warpshare mps exec-in-shm SHM PIPE PROGRAM ARGUMENT…`: mps_shm_enter(), and becomes the program. */
#define MPS_EXEC_IN_SHM "exec-in-shm"

/* The most that all of them together may hold, in KiB: half of MemTotal of |meminfo|, as NVIDIA's; 65536 where that cannot be read. Pure. */
uint64_t mps_shm_size_kib(const char *meminfo);
uint64_t mps_shm_machine_kib(void); /* the same of this machine */

/*
 * Mounts it at |path|, of |kib|, where it is not there; one that is there is given that size, unless more is used. |*ret_mounted| tells which.
 * The folder above has to exist. Errors: ERROR_DENIED without the right to mount, ERROR_INVALID where something else is mounted.
 */
int mps_shm_mount(const char *path, uint64_t kib, bool *ret_mounted, struct error *err) MUST_USE;

/*
 * Takes it away where nobody uses it: no process of another mount namespace that we can see has it as /dev/shm, and the kernel
 * lets go of it. 0: it is gone, or was never there; 1: it is in use, |*ret_user| is one who does, 0 unknown.
 */
int mps_shm_unmount(const char *path, pid_t *ret_user, struct error *err) MUST_USE;

/*
 * What this process mounts below |root| is seen by container runtimes, by |mountinfo| (/proc/self/mountinfo): the mount that |root| lies in is shared, as
 * in a container with `mountPropagation: Bidirectional`; or this is no container, but the mount namespace of the first process, and |root| is no mount
 * of its own. Pure.
 */
bool mps_shm_is_seen_by_others(const char *mountinfo, const char *root, bool is_in_first_namespace);

/*
 * Gives the calling process a mount namespace of its own, in which |path| is /dev/shm, and no symbolic link in |pipe| is followed (from Linux 5.10 on):
 * tenants may be able to put some there while a control daemon begins.
 */
int mps_shm_enter(const char *path, const char *pipe, struct error *err) MUST_USE;

/* /dev/shm of |pid| is what is mounted at |path|. False also where that cannot be seen. */
bool mps_shm_is_of(pid_t pid, const char *path);

/* The mount namespace of |pid|, by its inode; 0: unknown. */
ino_t mps_shm_mounts_of(pid_t pid);

/*
 * A process that has the file system with this |device| as /dev/shm, or of which we may not see that; 0: none. Processes of our own mount namespace do
 * not count, nor those of |except|'s (0: nobody's).
 */
pid_t mps_shm_find_user(dev_t device, pid_t except);
