/*
 * Finds the violations of one moment, by allocations and processes: the part of the limit monitor that has no memory.
 * Each process is counted to an account: an allocation, all allocations of a pod on a unit together, a pod that has no
 * allocation there, or no pod. What stood before, and whether it is proved, limit_monitor.c adds.
 */
#pragma once

#include "node/ledger/limit_monitor.h"

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
