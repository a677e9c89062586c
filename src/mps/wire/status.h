/*
 * What is going on in the MPS daemons of this node: the facts that `warpshare mps` gathers and the agent judges. Values only.
 *
 * A snapshot lives in one arena. Numbers are as the kernel and the control daemon say; nothing in here is believed from a
 * container except |allocation|, which is marked so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "mps/wire/shared_memory.h"

/*
 *   off ──► starting ──► configuring ──► ready ──► draining ──► off
 *              │              │            │
 *              └──────────────┴─────► fault (waits, longer each time) ──► starting
 */
enum mps_state {
        MPS_OFF,
        MPS_STARTING,    /* the process is there, no command was answered yet */
        MPS_CONFIGURING, /* it answers; limits are being set and read back */
        MPS_READY,       /* a command was answered, and all that was set reads back as it was set */
        MPS_DRAINING,    /* no new clients; it ends when the last one has left */
        MPS_FAULT,       /* dead, hung, refusing, or its server in FAULT; |reason| says which, a retry is due */
};
const char *mps_state_name(enum mps_state state); /* "off", "starting", … */

/* What a control program can do: mps/control/control.h finds out. */
enum {
        MPS_CAN_SERVER_STATUS = 1U << 0, /* get_server_status: r550 and newer */
        MPS_CAN_TERMINATE = 1U << 1,     /* terminate_client */
        /* 1U << 2 was another: records of older versions may have it. */
        MPS_CAN_MULTI_USER = 1U << 3, /* -multiuser-server */
        MPS_CAN_PARTITION = 1U << 4,  /* -S and sm_partition: r590 */
        MPS_CAN_NAMESPACE = 1U << 5,  /* the v3 interface: r615 */
};

struct mps_client {
        pid_t pid; /* in the PID namespace of `warpshare mps`; 0: not visible from there */
        pid_t server;
        uid_t uid;                   /* (uid_t)-1 unknown */
        const char *unit;            /* UUID, or NULL: the control daemon does not tell */
        const char *pod_uid;         /* of its cgroup, or NULL: not a pod's process */
        const char *container_id;    /* the same */
        const char *cgroup;          /* the container's folder: mps/supervisor/process.h; not told to the agent */
        const char *name_space;      /* v3: in which it is, as its control daemon says; or NULL */
        const char *allocation;      /* WARPSHARE_GRANT of its environment: the tenant may have changed it; or NULL */
        bool has_environment;        /* it could be read, so the next is known; the same caution */
        unsigned int asked_permille; /* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE when the program started; 0: none */
        uint64_t memory;             /* bytes that NVML accounts to it on |unit|; UINT64_MAX unknown */
        unsigned int
                threads_permille; /* that the server allows it, by its log; 0 unknown; in a namespace that of its server */
        uint64_t limit_mib;       /* the same; 0 unknown */
};

struct mps_server {
        pid_t pid;
        uid_t uid;
        const char *status; /* "INITIALIZING", "ACTIVE", "FAULT"; NULL: the control daemon cannot tell */
};

/* The limit of what all processes of one container have on a unit together: mps/supervisor/memory_limits.h. */
struct mps_container_limit {
        const char *allocation;
        const char *unit;
        const char *cgroup;
        uint64_t limit_mib;
        bool is_in_force;
        const char *problem; /* why not; NULL: it is, or was not tried yet */
};

struct mps_daemon_status {
        const char *name; /* share/mps_wanted.h */
        const char *resource;
        const char *const *units; /* UUIDs */
        size_t n_units;
        enum mps_state state;
        const char *reason;    /* why it is not ready, one sentence with the way out; NULL when ready */
        const char *notice;    /* what is wrong without its fault, or NULL: a client of another user waits */
        int64_t since;         /* of this state: seconds since the epoch */
        pid_t pid;             /* 0: no process */
        bool adopted;          /* it was alive already when `warpshare mps` started */
        unsigned int restarts; /* after faults, since `warpshare mps` started */
        unsigned int repairs;  /* settings that somebody had changed and that were set back, the same */
        uint64_t settings;     /* mps_daemon_digest() of what it runs with; 0: it does not run, or nobody says */
        unsigned int can;      /* MPS_CAN_* */
        enum mps_tier tier;    /* the best that both it and the configuration allow */
        unsigned int threads_permille; /* defaults, as read back */
        uint64_t limit_mib;            /* of the first unit, as read back; 0: none */
        const struct mps_server *servers;
        size_t n_servers;
        const struct mps_client *clients;
        size_t n_clients;
        unsigned int max_clients; /* of one unit */
        bool has_own_shm;   /* <root>/<name>/shm is its /dev/shm, and is to be that of its clients; else <root>/shm */
        struct mps_shm shm; /* its own */
        const struct mps_container_limit *limits;
        size_t n_limits;
};

struct mps_status {
        struct arena arena;
        uint64_t generation; /* of the wanted daemons in force, as whoever applied them counts; 0: none yet */
        const struct mps_daemon_status *daemons;
        size_t n_daemons;
        struct mps_shm shm; /* <root>/shm, of all daemons that have none of their own */
};

struct mps_status *mps_status_new(void);
struct mps_status *mps_status_free(struct mps_status *status); /* accepts NULL, returns NULL */

/* The daemon that serves the unit, or NULL. */
const struct mps_daemon_status *mps_status_find_unit(const struct mps_status *status, const char *uuid);
const struct mps_daemon_status *mps_status_find(const struct mps_status *status, const char *name);

/* One container's part that has to be made before it starts: a partition or a namespace. */
struct mps_allocation_request {
        const char *id;     /* of the allocation, [a-z0-9_]{1,64} */
        const char *daemon; /* its name */
        const char *unit;   /* UUID */
        unsigned int threads_permille;
        uint64_t limit_mib; /* 0: none */
        unsigned int sms;   /* partition tier */
};

/* What the container has to be given for it. */
struct mps_allocation {
        enum mps_tier tier;
        const char *pipe;      /* directory below the MPS root to mount at the usual place; NULL: that of the daemon */
        const char *partition; /* CUDA_MPS_SM_PARTITION, or NULL */
        unsigned int sms;      /* that the partition really has; 0 unknown */
};

/* Deep copies. */
void mps_allocation_request_copy(
        struct mps_allocation_request *ret, struct arena *arena, const struct mps_allocation_request *request);
void mps_allocation_copy(struct mps_allocation *ret, struct arena *arena, const struct mps_allocation *allocation);
void mps_container_limit_copy(
        struct mps_container_limit *ret, struct arena *arena, const struct mps_container_limit *limit);

/* How the supervisor answers a request, whether asked in its process or by a line: |err| is NULL on success. */
typedef void mps_done_fn(const struct error *err, void *data);
typedef void mps_granted_fn(const struct error *err, const struct mps_allocation *allocation, void *data);
