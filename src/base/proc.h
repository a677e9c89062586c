// SPDX-License-Identifier: Apache-2.0
/*
 * Texts of /proc: the pod and the container of a process by its cgroup, mounts, and the id of the boot; and how a child
 * is waited for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/macro.h"

/* ---- boot id ---- */

/* The id of a boot: a record that has another one was written before the node was started last. */
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* Reads the id, "6f1c3d3e-…", from the first line of the file |path|; for the caller to free. */
int boot_id_read(char **ret, const char *path, struct error *err) MUST_USE;

/* ---- the end of a child ---- */

/* Waits for it. False: it has not ended within that time. */
bool child_has_ended(pid_t pid, int *ret_status, uint64_t timeout_ms);

/* ---- PID namespaces ---- */

/* True if |link| is the first PID namespace, the host's: "pid:[4026531836]", as /proc/self/ns/pid reads. */
bool pid_namespace_is_host(const char *link);

/*
 * Whether this process is in a PID namespace other than the host's, by the link below |root|, which has /proc. False if
 * that cannot be read.
 */
bool pid_namespace_is_own(const char *root);

/* ---- mountinfo ---- */

/*
 * Mounts in the text of /proc/<pid>/mountinfo (proc(5)). Pure. A line: "id parent major:minor root point options
 * [optional field…] - type source options". Characters that the kernel escapes in paths stay escaped.
 */

struct mountinfo_line {
        dev_t device;
        const char *point; /* points into the text; a blank follows it */
        size_t length;
        bool is_shared; /* other mount namespaces see what is mounted below it */
};

/* Reads the line at |*at|, and moves |*at| to the next one; invalid lines are skipped. False: no line is left. */
bool mountinfo_next(const char **at, struct mountinfo_line *ret);

/* Whether the mount point is |path| itself, not a folder above or below. */
bool mountinfo_is_at(const struct mountinfo_line *mount, const char *path);

/* ---- cgroup ---- */

/*
 * Finds the pod and the container of a process by its cgroup file (/proc/<pid>/cgroup). Pure: text in, names out.
 *
 * The container runtime sets the cgroup, and a tenant cannot change it. Known forms (kubelet's cgroup drivers cgroupfs
 * and systemd, with containerd, CRI-O and Docker, in cgroup v1 and v2, also nested as in kind):
 *
 *   /kubepods/burstable/pod<uid>/<container>
 *   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<container>.scope
 *           ('_' for the '-' of the UID)
 *   …/crio-<container>.scope, docker-<container>.scope, and cgroups of the tenant's own below these
 *   /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>
 *           (containerd with the cgroup driver cgroupfs below a kubelet with systemd)
 *
 *   /kubepods/besteffort/pod<uid>
 *           (gVisor with cgroupfs: the sandbox, with the processes of all containers)
 *
 * With gVisor and systemd the container is the sandbox's, which no status of a pod names.
 *
 * The UID of a static pod is the 32 digits of its configuration's hash here, not the UID that the API server gave its
 * mirror.
 */
#define CGROUP_FILE_MAX ((size_t)64 * 1024)

struct cgroup_owner {
        const char *pod_uid;      /* "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b", or NULL: not a pod's process */
        const char *container_id; /* 64 hexadecimal digits, or NULL */
        const char *folder;       /* the container's own folder in cgroup v2, "/kubepods.slice/…", or NULL */
};

/*
 * Names are in |arena|. A path with ".." was read in another cgroup namespace and cannot be opened here, so it has no
 * |folder|.
 */
struct cgroup_owner cgroup_parse(const char *text, struct arena *arena);
