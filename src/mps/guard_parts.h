/*
 * Private to mps/guard*.c.
 */
#pragma once

#include "mps/guard.h"

struct guard_entry {
        struct guard_finding finding;
        const char *key; /* the same for the same finding at another look */
        bool is_told;
        bool has_ended; /* somebody, at |ended| */
        int64_t ended;
};

struct guard_entries {
        struct guard_entry *entries;
        size_t count;
};

/* What is wrong at this moment, each once. */
void guard_judge(struct guard_entries *ret, struct arena *arena, const struct guard_grant *grants, size_t n_grants,
        const struct mps_status *status);
