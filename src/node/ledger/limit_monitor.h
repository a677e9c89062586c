// SPDX-License-Identifier: Apache-2.0
/*
 * The limit monitor compares the allocations of containers with what their processes really have, by the facts of
 * mps/wire/status.h. It says which limits are violated and which client is to be terminated. Pure: the caller passes in
 * allocations, status and time.
 *
 * Example: a container of pod team/a holds 2 of 10 replicas of a GPU with 40960 MiB: 8192 MiB. It runs two processes
 * with 5000 MiB each. The driver limits each process to 8192 MiB and sees no violation; the monitor adds up 10000 MiB,
 * lets 2·LIMIT_MONITOR_TOLERANCE_MIB pass, and has a violation of kind memory. It is reported at a poll at least
 * LIMIT_MONITOR_LASTING_MS later, if it still stands and kubelet has answered a question asked after both processes
 * were seen. With `guard: terminate` kubelet is asked once more; then one client, one with the most memory, is
 * terminated. If the other one still violated the limit, it would be terminated LIMIT_MONITOR_PATIENCE_MS later.
 *
 * A process belongs to the pod of its cgroup; the tenant may have changed its environment (WARPSHARE_GRANT). So a
 * process is counted to the one allocation that its pod has on the unit. If there are several, it is counted to the one
 * it claims, if that is one of them, and to all of them together. A claim never leads to the allocation of another pod.
 *
 *   memory    The processes counted to an allocation have more memory on the unit than it allows, added up. Contexts
 *             count, as in the driver's limit; LIMIT_MONITOR_TOLERANCE_MIB a process are let pass, because the driver
 *             rounds up to blocks. In every tier: a client can lift each limit of the driver, the namespace's included,
 *             by an entry of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT for a GPU that it does not see (recorded, 615.71.09). So a
 *             process above its limit is a violation like any other, and no fault of the driver.
 *   limit     By its log, the server allows a process more than the allocation, by more than rounding explains
 *             (LIMIT_MONITOR_TOLERANCE_MIB, LIMIT_MONITOR_TOLERANCE_PERMILLE). Only in the default tier, where the
 *             server's limits are the allocation's: elsewhere the client's variables, its partition or its namespace
 *             lower them, which no log shows. Never terminates.
 *   unallocated  Processes of a pod that has no allocation on the unit and is not in kubelet's record.
 *   claim     A process claims an allocation that is not its pod's.
 *   variable  A program was started without the allocation's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or with a larger one,
 *             where nothing else enforces its threads (tier verified): it may use up to what the daemon allows. This is
 *             what /proc shows, the environment at the start; what the program sets or unsets later is not seen, and
 *             its real use is not measured. Never terminates.
 *   unknown   A process whose owner is unknown: no PID, no pod in its cgroup, no allocation that could be its own while
 *             some allocations have no known owner yet, or a pod that kubelet's record has without a share of this
 *             unit. It proves nothing, and violates no limit: it is reported as what it is.
 *
 * Allocations and their owners may be out of date: a process may be of a container that kubelet has not listed to us
 * yet. kubelet records a container's devices before it starts; so evidence against a process counts only with an answer
 * of kubelet to a question that was asked after the process had been seen. Until then nothing but unknown is reported,
 * and |wants_list| asks for kubelet's list. Without such answers no other kind is reported. Where kubelet could name
 * the owner, unknown waits for its answer as well, for LIMIT_MONITOR_UNLISTED_MS at most: a program may run before
 * kubelet has been asked whose the newest allocation is.
 *
 * What the supervisor says may be old, too: it may have stood still, or a daemon may hang that has not said yet who has
 * left; and whose a process was is forgotten when its pod has ended. So a violation counts only with a look of the
 * supervisor at the processes themselves (mps_supervisor_look()) that was asked for after the violation had lasted;
 * |wants_look| asks for it.
 *
 * A violation has lasted when every poll for LIMIT_MONITOR_LASTING_MS, two at least, has seen it. It is reported once,
 * and once more when it is gone. With a poll every 2 s that is within 5 s.
 *
 * Only memory and unallocated can be certain (any process that reaches the daemon's socket can write a line of its
 * log): the pod must be the cgroup's, no claim was needed, no allocation of the pod is a guess, kubelet's answer is
 * newer than the newest allocation, and, for memory, all processes that were added up are of one container. A client is
 * terminated only for a certain violation, after another answer of kubelet to a question that was asked after the
 * violation had become certain and no older than LIMIT_MONITOR_FRESH_MS. One client is terminated at a time.
 */
#pragma once

#include "base/alloc.h"
#include "base/map.h"
#include "mps/wire/status.h"

#define LIMIT_MONITOR_TOLERANCE_MIB UINT64_C(16)
#define LIMIT_MONITOR_TOLERANCE_PERMILLE 10U /* some daemons take whole percents */
#define LIMIT_MONITOR_FRESH_MS INT64_C(5000)
#define LIMIT_MONITOR_LASTING_MS INT64_C(1000)
#define LIMIT_MONITOR_PATIENCE_MS INT64_C(10000)
#define LIMIT_MONITOR_UNLISTED_MS INT64_C(10000)

/* A container's share of one unit. */
struct limit_monitor_allocation {
        const char *id;
        const char *unit;              /* UUID */
        const char *pod_uid;           /* NULL: not known (yet) */
        const char *pod;               /* "namespace/name", for people, or NULL */
        uint64_t limit_mib;            /* 0: none */
        unsigned int threads_permille; /* 1000: no limit */
        enum mps_tier tier;
        /*
         * on which unit it is, its id, or its limits are not known for certain: its record was lost, or what it
         * declares
         */
        bool is_guess;
};

/*
 * How recent the allocations and their owners are. Times are on the clock of limit_monitor_poll(); INT64_MIN: never.
 */
struct limit_monitor_proof {
        /* time of the request for kubelet's newest list that is in the allocations */
        int64_t listed_at;
        int64_t looked_at;      /* time of the request for the supervisor's newest look that is in the status */
        int64_t allocated_at;   /* when the newest allocation was given */
        const struct map *pods; /* UIDs of the pods in kubelet's record; NULL: none */
};

enum limit_violation_kind {
        LIMIT_VIOLATION_MEMORY,
        LIMIT_VIOLATION_LIMIT,
        LIMIT_VIOLATION_STRANGER,
        LIMIT_VIOLATION_CLAIM,
        LIMIT_VIOLATION_VARIABLE,
        LIMIT_VIOLATION_UNKNOWN
};
#define LIMIT_VIOLATION_KINDS ((size_t)LIMIT_VIOLATION_UNKNOWN + 1)

const char *limit_violation_kind_name(
        enum limit_violation_kind kind); /* "memory", "limit", "unallocated", "claim", "variable", "unknown" */

struct limit_violation {
        enum limit_violation_kind kind;
        bool is_certain; /* it is proved whom it is about */
        const char *daemon;
        const char *unit;         /* UUID, or NULL: the daemon does not say */
        pid_t client;             /* the one with most memory of those it is about; 0: not visible */
        const char *pod_uid;      /* or NULL */
        const char *pod;          /* or NULL */
        const char *container_id; /* of |client|, or NULL */
        const char *allocation;   /* that counts, or is claimed; NULL: none, or several */
        uint64_t
                /* memory, stranger: MiB; limit: MiB or permille; variable: permille; unknown: processes; else 0 */
                measured;
        uint64_t granted; /* in the same measure */
        const char *text; /* one sentence with all of it */
        int64_t since;    /* milliseconds, on the clock of limit_monitor_poll() */
};

struct limit_monitor_report {
        const struct limit_violation **appeared;
        size_t n_appeared;
        const struct limit_violation **gone; /* as they were last */
        size_t n_gone;
        const struct limit_violation **ending; /* |client| of each is to be ended, through |daemon|, now */
        size_t n_ending;
        const struct limit_violation **standing; /* all that were reported and still stand, for metrics */
        size_t n_standing;
        bool wants_list; /* kubelet is to be asked, and then the next poll is due at once */
        bool wants_look; /* the supervisor is to look at the processes, and then the next poll is due at once */
};

/* A violation, and what the monitor remembers of it from poll to poll. */
struct limit_monitor_entry {
        struct limit_violation violation; /* |is_certain|: as far as it does not depend on the proof */
        const char *key;                  /* identifies the violation from poll to poll */
        bool needs_proof;
        bool proof_may_lack; /* after LIMIT_MONITOR_UNLISTED_MS it counts without */
        int64_t seen;        /* the newest of the processes that it is about, for the first time */
        bool is_reported;
        bool is_being_verified; /* certain, and kubelet is being asked once more, since |verified_since| */
        int64_t verified_since;
        bool has_ended; /* a client was terminated, at |ended| */
        int64_t ended;
};

struct limit_monitor_entries {
        struct limit_monitor_entry *entries;
        size_t count;
};

/* Zeroed at first. */
struct limit_monitor {
        struct arena arenas[2]; /* of this poll and the previous one */
        unsigned int turn;
        struct limit_monitor_entries last; /* of the previous poll */
        struct map seen; /* processes, and since when each has been seen, in the arena of the last look */
};

/* Forgets everything. */
void limit_monitor_done(struct limit_monitor *limit_monitor);

/*
 * One poll. |now| is in milliseconds and never decreases. |*ret| and all in it are valid until the next poll. With
 * GUARD_OFF there are no violations, and those reported before are in |gone|.
 */
void limit_monitor_poll(struct limit_monitor *limit_monitor, enum guard_mode mode,
        const struct limit_monitor_allocation *allocations, size_t n_allocations, const struct mps_status *status,
        const struct limit_monitor_proof *proof, int64_t now, struct limit_monitor_report *ret);

/*
 * ---- limit_check.c ----
 *
 * Finds the violations of one moment, by allocations and processes: the part of the limit monitor that has no memory.
 * Each process is counted to an account: an allocation, all allocations of a pod on a unit together, a pod that has no
 * allocation there, or no pod. What stood before, and whether it is proved, limit_monitor.c adds.
 */

/* The facts of this moment. */
struct limit_monitor_facts {
        const struct limit_monitor_allocation *allocations;
        size_t n_allocations;
        const struct mps_status *status;
        const struct map *pods; /* of the proof */
        const struct map *seen; /* limit_monitor_client_key() → const int64_t *: the first look at it */
};

const char *limit_monitor_client_key(
        struct arena *arena, const struct mps_daemon_status *daemon, const struct mps_client *client);

/* Finds the violations, each once. */
void limit_check(struct limit_monitor_entries *ret, struct arena *arena, const struct limit_monitor_facts *facts);
