/*
 * The limit monitor: what containers were granted against what their processes really have, by the facts of mps/wire/status.h. Pure: it is
 * told what is granted, what is there and what time it is, and says what is wrong and who is to be ended for it.
 *
 * Whose a process is, its cgroup says; its environment (WARPSHARE_GRANT) the tenant may have changed. So a process is counted
 * to the allocation of its container where that is known, or to the one allocation that its pod has on the unit. Of several it is counted
 * to the one that it claims, if that is one of them, and to all of them together. A claim never leads to another pod's allocation.
 *
 *   memory    processes that are counted to an allocation have more memory on the unit than it allows, added up. The driver's own limit is
 *             for each process, so a container with two may have twice its share. Contexts count, as in the driver's limit;
 *             LIMIT_MONITOR_TOLERANCE_MIB a process are let pass, since the driver rounds up to blocks.
 *   limit     what the server allows a process, by its log, is above its allocation by more than rounding makes of it (LIMIT_MONITOR_TOLERANCE_MIB,
 *             LIMIT_MONITOR_TOLERANCE_PERMILLE); only in the default tier, where the server's limits are the allocation's. In the others a client's own variables, its partition or its namespace lower them, which no log tells. It never ends anybody.
 *   unallocated  processes of a pod that has no allocation on the unit, and that kubelet's record does not know
 *   claim     a process claims an allocation that is not its pod's
 *   variable  a program was started without the allocation's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or with a larger one, where nothing else
 *             keeps it to its threads (tier verified): it may have up to what the daemon allows. Told of what /proc shows,
 *             which is the environment at the start; what the program itself sets or unsets is not seen, and what it really
 *             uses nobody counts. It never ends anybody.
 *   unknown   a process of which cannot be told whose it is: no PID, no pod in its cgroup, no allocation that could be its own while
 *             the owner of some is not known yet, or one whose pod kubelet's record knows, but not with a share of this unit. Nothing
 *             is proved.
 *
 * What is known of allocations and their owners may be old: a process may be of a container that nobody has heard of yet. A container's
 * devices are in kubelet's record before it starts; so what speaks against a process counts only with an answer of kubelet to a question
 * that was asked after the process had been seen. Until then nothing is told (but unknown, as above), and |wants_list| says that kubelet
 * has to be asked. Without such answers there are no violations.
 *
 * A violation is one when it was there at every look for LIMIT_MONITOR_LASTING_MS, at two at least: then it is told once, and once more when
 * it is gone. With a look each 2 s that is within 5 s.
 *
 * Only memory and stranger can be certain (a line of the log anybody may write who reaches the daemon's socket): where the pod is the cgroup's, no claim was needed, no allocation of the pod is a guess,
 * the answer is newer than the newest allocation, too, and for memory, where all that was added up is of one container. Only what is certain
 * leads to an end, and right before it kubelet is asked once more: the answer must be to a question that was asked after the violation had
 * become certain, no older than LIMIT_MONITOR_FRESH_MS, and the violation certain by it. One process is ended at a time: the one with
 * most memory of those that were added up, the next no sooner than LIMIT_MONITOR_PATIENCE_MS later.
 */
#pragma once

#include "base/map.h"
#include "mps/wire/status.h"

#define LIMIT_MONITOR_TOLERANCE_MIB UINT64_C(16)
#define LIMIT_MONITOR_TOLERANCE_PERMILLE 10U /* some daemons take whole percents */
#define LIMIT_MONITOR_FRESH_MS INT64_C(5000)
#define LIMIT_MONITOR_LASTING_MS INT64_C(1000)
#define LIMIT_MONITOR_PATIENCE_MS INT64_C(10000)

/* What one container was granted of one unit. */
struct limit_monitor_allocation {
        const char *id;
        const char *unit;              /* UUID */
        const char *pod_uid;           /* NULL: not known (yet) */
        const char *pod;               /* "namespace/name", for people, or NULL */
        const char *container_id;      /* NULL: not known */
        uint64_t limit_mib;            /* 0: none */
        unsigned int threads_permille; /* 1000: no limit */
        enum mps_tier tier;
        bool is_guess; /* on which unit it is, its id, or its limits are not known for certain: its record was lost, or what it declares */
};

/* How much the allocations and their owners are worth. Times are on the clock of limit_monitor_poll(); INT64_MIN: never. */
struct limit_monitor_proof {
        int64_t listed_at; /* when kubelet was asked for the newest list that it has answered, and that is in the allocations */
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
        bool is_certain; /* whoever it is about is proved to be so */
        const char *daemon;
        const char *unit;         /* UUID, or NULL: the daemon does not tell */
        pid_t client;             /* the one with most memory of those it is about; 0: not visible */
        const char *pod_uid;      /* or NULL */
        const char *pod;          /* or NULL */
        const char *container_id; /* of |client|, or NULL */
        const char *allocation;   /* that counts, or is claimed; NULL: none, or several */
        uint64_t
                measured; /* memory, stranger: MiB; limit: MiB or permille; variable: permille; unknown: processes; else 0 */
        uint64_t granted; /* in the same measure */
        const char *text; /* one sentence with all of it */
        int64_t since;    /* milliseconds, on the clock of limit_monitor_poll() */
};

struct limit_monitor_report {
        const struct limit_violation *const *appeared;
        size_t n_appeared;
        const struct limit_violation *const *gone; /* as they were last */
        size_t n_gone;
        const struct limit_violation *const *ending; /* |client| of each is to be ended, through |daemon|, now */
        size_t n_ending;
        const struct limit_violation *const *standing; /* all that were told and are not gone, for metrics */
        size_t n_standing;
        bool wants_list; /* kubelet is to be asked, and then the next look is due at once */
};

struct limit_monitor;

struct limit_monitor *limit_monitor_new(void);
struct limit_monitor *limit_monitor_free(struct limit_monitor *limit_monitor); /* accepts NULL, returns NULL */

/*
 * One look. |now| is in milliseconds and never goes back. |*ret| and all in it are valid until the next look. With GUARD_OFF
 * there are no violations, and those told before are gone.
 */
void limit_monitor_poll(struct limit_monitor *limit_monitor, enum guard_mode mode,
        const struct limit_monitor_allocation *allocations, size_t n_allocations, const struct mps_status *status,
        const struct limit_monitor_proof *proof, int64_t now, struct limit_monitor_report *ret);
