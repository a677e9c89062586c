// SPDX-License-Identifier: Apache-2.0
/*
 * The status of the MPS daemons of this node: facts that `warpshare mps` collects and the agent acts on. Values only.
 *
 * A status lives in one arena. Its numbers come from the kernel and the control daemon. Only |allocation| and the
 * thread percentage of a client come from its container, and are marked as claims.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"

/* ---- shared memory ---- */

/*
 * How full the tmpfs is that MPS servers and their clients have as /dev/shm, and whose files fill it;
 * mps/supervisor/shm.h measures them.
 */
#define MPS_SHM_OWNERS 3U          /* the largest users, by bytes and by files */
#define MPS_SHM_FULL_PERMILLE 900U /* at or above this it is full, */
#define MPS_SHM_FREE_PERMILLE 800U /* until it falls below this */

struct mps_shm_owner {
        uid_t uid; /* as the files show it, in the node's user namespace */
        uint64_t bytes;
        uint64_t files; /* including folders and links */
};

struct mps_shm {
        uint64_t size; /* bytes; 0: the tmpfs does not exist, and all other fields are 0 */
        uint64_t used;
        uint64_t files_max; /* 0: no bound */
        uint64_t files;
        bool is_full; /* since it reached MPS_SHM_FULL_PERMILLE of its bytes or files */

        /* Only while it is full, from the last count: the largest user first. */
        struct mps_shm_owner owners[MPS_SHM_OWNERS];
        size_t n_owners;
        uint64_t nameless; /* bytes */
};

/* The larger of the two used parts, bytes or files, in permille. */
unsigned int mps_shm_permille(const struct mps_shm *shm);

/* |before| is the previous poll: between the two bounds it decides whether the tmpfs is full. Its owners are kept. */
void mps_shm_mark_full(struct mps_shm *shm, const struct mps_shm *before);

/* The difference is too small to report: equally full, to one percent. */
bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b);

/* "123 of 1024 MiB and 7 of 100 files are used; user 1000 has 120 MiB in 5 files, …"; the caller frees it. */
char *mps_shm_text(const struct mps_shm *shm);

/* ---- daemons ---- */

/*
 *   off ──► starting ──► configuring ──► ready ──► draining ──► off
 *              │              │            │
 *              └──────────────┴─────► fault (waits, longer each time) ──► starting
 */
enum mps_state {
        MPS_OFF,
        MPS_STARTING,    /* the process runs, no command was answered yet */
        MPS_CONFIGURING, /* it answers; limits are being set and read back */
        MPS_READY,       /* a command was answered, and every setting reads back as it was set */
        MPS_DRAINING,    /* no new clients; it ends when the last one has left */
        MPS_FAULT,       /* dead, hung, refusing, or its server in FAULT; |reason| says which; a retry is scheduled */
};
const char *mps_state_name(enum mps_state state); /* "off", "starting", … */

/* The capabilities of a control program: mps/control/dialogue.h finds them out. */
enum {
        MPS_CAN_SERVER_STATUS = 1U << 0, /* get_server_status: r550 and newer */
        MPS_CAN_TERMINATE = 1U << 1,     /* terminate_client */
        MPS_CAN_MULTI_USER = 1U << 3,    /* -multiuser-server */
        MPS_CAN_PARTITION = 1U << 4,     /* -S and sm_partition: r590 */
        MPS_CAN_NAMESPACE = 1U << 5,     /* the v3 interface: r615 */
};

struct mps_client {
        pid_t pid; /* in the PID namespace of `warpshare mps`; 0: not visible from there */
        pid_t server;
        uint64_t start_time;         /* of the process, in ticks since boot; 0 unknown; not sent to the agent */
        uid_t uid;                   /* (uid_t)-1 unknown */
        const char *unit;            /* UUID, or NULL: the control daemon does not say */
        const char *pod_uid;         /* of its cgroup, or NULL: not a pod's process */
        const char *container_id;    /* the same */
        const char *cgroup;          /* the container's folder: base/proc.h; not sent to the agent */
        const char *name_space;      /* v3: its namespace, according to its control daemon; or NULL */
        const char *allocation;      /* WARPSHARE_GRANT of its environment, a claim that the tenant may have changed; or
                                      * NULL */
        bool has_environment;        /* the environment could be read, so the next field is known; also a claim */
        unsigned int asked_permille; /* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE when the program started; 0: none */
        uint64_t memory;             /* bytes that NVML accounts to it on |unit|; UINT64_MAX unknown */
        unsigned int
                threads_permille; /* the limit that the server allows it, by its log; 0: unknown; in a namespace that of
                                   * its server */
        uint64_t limit_mib;       /* the same; 0 unknown */
};

struct mps_server {
        pid_t pid;
        uid_t uid;
        const char *status; /* "INITIALIZING", "ACTIVE", "FAULT"; NULL: unknown to the daemon */
};

/* A limit for all processes of one container together on one unit: mps/supervisor/memory_limits.h. */
struct mps_container_limit {
        const char *allocation;
        const char *unit;
        const char *cgroup;
        uint64_t limit_mib;
        bool is_in_force;
        const char *problem; /* why it is not set; NULL: it is, or was not tried yet */
};

struct mps_daemon_status {
        const char *name; /* plan/mps_wanted.h */
        const char *resource;
        const char *const *units; /* UUIDs */
        size_t n_units;
        enum mps_state state;
        const char *reason;    /* why it is not ready, one sentence with the way out; NULL when ready */
        const char *notice;    /* a problem that others cause, or NULL: for example, a client of another user waits */
        int64_t since;         /* of this state: seconds since the epoch */
        pid_t pid;             /* 0: no process */
        bool adopted;          /* it already ran when `warpshare mps` started */
        unsigned int restarts; /* after faults, since `warpshare mps` started */
        unsigned int repairs;  /* settings changed by others and restored, since `warpshare mps` started */
        uint64_t settings; /* mps_daemon_digest() of its present settings; 0: it does not run, or is not Warpshare's */
        /* UUIDs of the units whose clients have no memory limit, because the size of their memory is unknown. */
        const char *const *unlimited;
        size_t n_unlimited;
        unsigned int can;              /* MPS_CAN_* */
        enum mps_tier tier;            /* the best that both the daemon and the configuration allow */
        unsigned int threads_permille; /* defaults, as read back */
        uint64_t limit_mib;            /* of the first unit, as read back; 0: none */
        const struct mps_server *servers;
        size_t n_servers;
        const struct mps_client *clients;
        size_t n_clients;
        unsigned int max_clients; /* of one unit */
        bool has_own_shm;         /* its /dev/shm, and that of its clients, is <root>/<name>/shm; false: <root>/shm */
        struct mps_shm shm;       /* its own */
        const struct mps_container_limit *limits;
        size_t n_limits;
};

/* A holder of a share of a unit, as the agent names it: one of |pod| and |claim|, "namespace/name". */
struct mps_holder {
        const char *unit;
        const char *pod;
        const char *claim; /* a ResourceClaim, which pods use */
};

struct mps_status {
        struct arena arena;
        uint64_t generation; /* of the wanted daemons that are applied, as the client that applied them counts; 0: none
                              * yet */
        const struct mps_daemon_status *daemons;
        size_t n_daemons;
        struct mps_shm shm;               /* <root>/shm, of all daemons without their own */
        const struct mps_holder *holders; /* as far as the agent has said */
        size_t n_holders;
};

struct mps_status *mps_status_new(void);
struct mps_status *mps_status_free(struct mps_status *status); /* accepts NULL, returns NULL */

/* The daemon that serves the unit, or NULL. */
const struct mps_daemon_status *mps_status_find_unit(const struct mps_status *status, const char *uuid);
const struct mps_daemon_status *mps_status_find(const struct mps_status *status, const char *name);

/* mps_tier_promise() for clients on that unit; NULL: on any of its units. */
const char *mps_daemon_promise(const struct mps_daemon_status *daemon, const char *uuid);

/* In |arena|. */
struct mps_holder *mps_holders_copy(struct arena *arena, const struct mps_holder *holders, size_t n_holders);

/* A container's part that must be created before it starts: a partition or a namespace. */
struct mps_allocation_request {
        const char *id;     /* of the allocation, [a-z0-9_]{1,64} */
        const char *daemon; /* its name */
        const char *unit;   /* UUID */
        unsigned int threads_permille;
        uint64_t limit_mib; /* 0: none */
        unsigned int sms;   /* partition tier */
};

/* The part that the container gets for the request. */
struct mps_allocation {
        enum mps_tier tier;
        const char *pipe;      /* directory below the MPS root to mount at the usual place; NULL: the daemon's */
        const char *partition; /* CUDA_MPS_SM_PARTITION, or NULL */
        unsigned int sms;      /* SMs that the partition really has; 0: unknown */
};

/* Deep copies. */
void mps_allocation_request_copy(
        struct mps_allocation_request *ret, struct arena *arena, const struct mps_allocation_request *request);
void mps_allocation_copy(struct mps_allocation *ret, struct arena *arena, const struct mps_allocation *allocation);
void mps_container_limit_copy(
        struct mps_container_limit *ret, struct arena *arena, const struct mps_container_limit *limit);

/* The supervisor's answer to a request, from its own process or over the socket: |err| is NULL on success. */
typedef void mps_done_fn(const struct error *err, void *data);
typedef void mps_granted_fn(const struct error *err, const struct mps_allocation *allocation, void *data);
