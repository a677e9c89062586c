/*
 * What the kernel knows of a process: whose container it is, and what it said of itself when it started. Reads
 * <root>/proc/<pid>; |root| is "" or a folder made up by a test.
 *
 * The cgroup is the container runtime's word, which a tenant cannot change. Forms that are known (kubelet's cgroup
 * drivers cgroupfs and systemd, with containerd, CRI-O and Docker, in cgroup v1 and v2, also nested as in kind):
 *
 *   /kubepods/burstable/pod<uid>/<container>
 *   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<container>.scope
 *           ('_' for the '-' of the UID)
 *   …/crio-<container>.scope, docker-<container>.scope, and cgroups of the tenant's own below these
 *
 * The environment is the tenant's: whatever is taken from it is a claim. And it is that with which the program was started: what a
 * program sets or unsets for itself before it comes to CUDA is not to be seen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"

#define PROCESS_CGROUP_MAX ((size_t)64 * 1024)
#define PROCESS_ENVIRONMENT_MAX ((size_t)1024 * 1024) /* what lies beyond is not looked at */
#define PROCESS_ALLOCATION_VARIABLE "WARPSHARE_GRANT"
#define PROCESS_THREADS_VARIABLE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"

struct process {
        pid_t pid;
        uint64_t start_time;         /* ticks since boot: with the PID, it names the process */
        uid_t uid;                   /* effective; (uid_t)-1 unknown */
        uint64_t pid_namespace;      /* inode; 0 unknown */
        const char *pod_uid;         /* "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b", or NULL: not a pod's process */
        const char *container_id;    /* 64 hexadecimal digits, or NULL */
        const char *cgroup;          /* the container's own folder in cgroup v2, "/kubepods.slice/…", or NULL */
        const char *allocation;      /* WARPSHARE_GRANT, if it looks like one; a claim of the tenant; or NULL */
        bool has_environment;        /* it could be read: what is unknown of it was not there */
        unsigned int asked_permille; /* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; 0: none that CUDA would take */
};

/*
 * Strings live in |arena|. ERROR_NOT_FOUND: there is no such process (any more), or while it was looked at the PID went
 * to another one. What else cannot be read is unknown.
 */
int process_read(struct process *ret, struct arena *arena, const char *root, pid_t pid, struct error *err) MUST_USE;

/* From the text of a stat file (proc(5)); false: it is none. The name in it may hold anything, ')' and blanks too. */
struct process_stat {
        char state; /* 'Z': a zombie; 'X': gone */
        pid_t parent;
        pid_t group;
        uint64_t start_time; /* ticks since boot */
};
bool process_parse_stat(const char *text, struct process_stat *ret);

/*
 * From the text of a cgroup file: pod_uid, container_id and cgroup of |ret|, NULL where it is no pod's. A path with ".." is that of
 * a reader in a cgroup namespace of its own: it cannot be opened here, so |cgroup| is NULL.
 */
void process_parse_cgroup(const char *text, struct arena *arena, struct process *ret);
