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
#pragma once

#include <stddef.h>

#include "base/alloc.h"

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
