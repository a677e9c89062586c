// SPDX-License-Identifier: Apache-2.0
/*
 * The MPS control daemons that a plan needs, with their defaults. `warpshare mps` gets them from the agent, or computes
 * them from the same configuration. Pure: a plan in, a list out.
 *
 * With daemonScope gpu each shared unit has a daemon of its own, named by its UUID: a fault, a user ID or a hang
 * affects only that unit. With daemonScope resource there is one daemon per resource, named like the resource, as in
 * NVIDIA's components: a fault affects all its units, and a container may hold replicas of several of them. With
 * daemonScope node one daemon, called "node", serves all shared GPUs of all resources, so that a container may hold
 * shares of several resources; MIG devices have a daemon each there, too, since MPS serves no two of them with one.
 *
 * The name is a relative path below the MPS root: <root>/<name>/pipe, <root>/<name>/log. Characters that a UUID of an
 * old driver has beyond letters, digits, '.', '-' and '_' (MIG-GPU-…/1/0) are written '-'; those of a resource name
 * stay.
 *
 * Daemon defaults hold for every client, and a client cannot raise them. So under uniform they are the share, by
 * NVIDIA's formulas (with one daemon for several units, the percentage is 100 divided by the units' mean number of
 * replicas, all rounded down). Under the other provisionings they are the largest share that any container may have
 * there, and each container lowers them for itself.
 */
#pragma once

#include "plan/plan.h"

/*
 * The longest path of a pipe directory. sun_path would have room for its longest socket, control_privileged, with one
 * byte more, but the control daemon refuses a path that fills it (tried with 535 and 550).
 */
#define MPS_PIPE_PATH_MAX ((size_t)87)

struct mps_unit {
        const char *uuid;     /* of the GPU or the MIG device: CUDA_VISIBLE_DEVICES */
        const char *gpu_uuid; /* of the GPU itself */
        const char *index;    /* "0", "0:1" */
        const char *name;     /* product name, for people */
        bool is_mig;
        uint64_t memory; /* bytes, total; 0 unknown */
        unsigned int replicas;
        unsigned int sms;           /* of the whole unit; 0 unknown */
        unsigned int chunk_sms;     /* SMs of one chunk, the unit of static partitions */
        unsigned int chunks_needed; /* by all partitions together; 0: there are none, or it is unknown */
        uint64_t limit_mib;         /* default pinned device memory limit of a client; 0: none */
        uint64_t replica_mib;       /* the memory of one replica, for people; 0 unknown */
        unsigned int clients;       /* the largest number of clients on this unit */
};

struct mps_daemon_wanted {
        const char *name;     /* directory below the MPS root, and the daemon's name everywhere */
        const char *resource; /* "nvidia.com/gpu"; of several: "nvidia.com/gpu0,nvidia.com/gpu1" */
        enum provisioning provisioning;
        enum mps_tier tier_limit;      /* use no better tier */
        unsigned int threads_permille; /* default active thread percentage × 10; 1000: not set */
        const struct mps_unit *units;  /* of several resources: sorted by index, since CUDA must count them so */
        size_t n_units;
        /*
         * UUIDs of units of a daemon for several that are unusable now: a running daemon keeps them, a new one starts
         * without them.
         */
        const char *const *away;
        size_t n_away;
};

struct mps_wanted {
        const struct mps_daemon_wanted *daemons; /* in the order of the plan */
        size_t n_daemons;
        /*
         * True: daemons that are not in |daemons| end within the supervisor's grace period, with their clients; false:
         * each ends with its last client.
         */
        bool ends_clients;
};

/*
 * |ret| points into |arena| and the plan's arena. A unit that was never read has no daemon, since its limits are
 * unknown: its own daemon is not in |ret|, and a daemon for several has it in |away|.
 */
void mps_wanted_of(struct mps_wanted *ret, struct arena *arena, const struct plan *plan);

/*
 * Adds daemons for those of these units of plan->claimable that have none: DAEMON_SCOPE_GPU one for each of them,
 * DAEMON_SCOPE_RESOURCE one for all, named like that resource.
 */
void mps_wanted_add_claimed(struct mps_wanted *wanted, struct arena *arena, const struct plan *plan,
        const struct unit *const *units, size_t n_units, enum daemon_scope scope);

/*
 * Whether |unit| of plan->claimable is one of those that one daemon for all GPUs serves: not a MIG device, which always
 * has its own, since MPS serves no two of them with one; nor a GPU that MPS holds no limits on. One that could not be
 * read yet is taken for one of them.
 */
bool mps_claimed_is_of_all(const struct unit *unit);

/* The name of the daemon that serves |unit| of plan->claimable, as its daemon_scope says. */
const char *mps_claimed_daemon_name(struct arena *arena, const struct resource *claimable, const struct unit *unit);

/* True if the unit with the UUID |unit| has a daemon of its own. */
bool mps_has_own_daemon(enum daemon_scope scope, const char *unit);

/* Two units of these resources share one daemon. */
bool mps_daemon_is_common(enum daemon_scope a, const char *resource_a, enum daemon_scope b, const char *resource_b);

/* The name of the daemon that serves |unit| of |resource|. */
const char *mps_daemon_name(struct arena *arena, const struct resource *resource, const struct unit *unit);

/*
 * "Set device pinned memory limit: device=0, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630", the log
 * line that admins search for, without its newline. Nothing is written if the memory is unknown.
 */
struct strbuf;
void mps_limit_line(struct strbuf *text, const struct mps_unit *unit);

/*
 * By their digests: they differ only in values that a daemon does not use, for example the number of replicas or the
 * resource's name.
 */
bool mps_daemon_is_same(const struct mps_daemon_wanted *a, const struct mps_daemon_wanted *b);

/*
 * True if a daemon that was started as |started| need not be changed while it has clients: it differs at most in units
 * that are away, or were.
 */
bool mps_daemon_serves(const struct mps_daemon_wanted *started, const struct mps_daemon_wanted *wanted);

/* The one of that name; NULL: none. */
const struct mps_daemon_wanted *mps_wanted_find(const struct mps_wanted *wanted, const char *name);

/* The unit of that UUID; NULL: it is none of the daemon's, or is away. */
const struct mps_unit *mps_daemon_unit(const struct mps_daemon_wanted *daemon, const char *uuid);

/* The first unit of |wanted| that |started| lacks, or NULL. The daemon takes it in once it has no clients. */
const char *mps_daemon_lacks(const struct mps_daemon_wanted *started, const struct mps_daemon_wanted *wanted);

/*
 * A hash of all that a daemon uses: of two daemons that differ in any of it, the digests differ with high probability.
 * 1 to INT64_MAX. With it an agent that takes over recognises a daemon that need not be changed before the supervisor
 * has its list.
 */
uint64_t mps_daemon_digest(const struct mps_daemon_wanted *daemon);

/* A deep copy. */
void mps_daemon_wanted_copy(struct mps_daemon_wanted *ret, struct arena *arena, const struct mps_daemon_wanted *wanted);
