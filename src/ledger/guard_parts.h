/*
 * Private to ledger/guard*.c.
 */
#pragma once

#include "ledger/guard.h"

struct guard_entry {
        struct guard_finding finding; /* |is_certain|: as far as it does not depend on the proof */
        const char *key;              /* the same for the same finding at another look */
        bool needs_proof;
        int64_t seen; /* the newest of the processes that it is about, for the first time */
        bool is_told;
        bool is_suspect; /* certain, and kubelet is being asked once more, since |suspected| */
        int64_t suspected;
        bool has_ended; /* somebody, at |ended| */
        int64_t ended;
};

struct guard_entries {
        struct guard_entry *entries;
        size_t count;
};

/* What is known at this moment. */
struct guard_facts {
        const struct guard_allocation *allocations;
        size_t n_allocations;
        const struct mps_status *status;
        const struct map *pods; /* of the proof */
        const struct map *seen; /* guard_client_key() → const int64_t *: the first look at it */
};

const char *guard_client_key(
        struct arena *arena, const struct mps_daemon_status *daemon, const struct mps_client *client);

/* What is wrong at this moment, each once. */
void guard_judge(struct guard_entries *ret, struct arena *arena, const struct guard_facts *facts);
