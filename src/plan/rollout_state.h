// SPDX-License-Identifier: Apache-2.0
/*
 * The first half of a rollout: the effect of the held devices on each unit of the wanted plan, and which units wait.
 * rollout.c makes the plan from this state, and the texts for people.
 */
#pragma once

#include "plan/rollout.h"

/* A unit of the wanted plan. */
struct site {
        const struct resource *resource;
        const struct unit *unit;
        bool waits;
        size_t n_here;      /* held devices among its new ids, under its new name */
        size_t n_elsewhere; /* held under other ids or another name */
};

/* One held device. Devices of the same name, and in it of the same unit, are adjacent. */
struct hold {
        const char *resource;
        const char *id;
        const char *uuid;
        int64_t replica; /* -1: the whole unit */
        const char *holder;
        const struct sharing_policy *policy; /* NULL: not under MPS */
        const struct sharing_policy *bound;  /* of the unit that it is bound to; NULL: that is the one of its id */
        const struct sharing_policy *absent; /* of its id's unit, where the inventory lacks that */
        struct site *site;                   /* NULL: the wanted plan does not have the unit */
        bool is_here;
        bool is_draining; /* its unit keeps its sharing policy */
};

struct rollout_state {
        const struct plan *wanted;
        const struct rollout_previous *previous;
        struct arena *arena;
        struct site *sites; /* one per unit of the wanted plan */
        size_t n_sites;
        struct map by_uuid; /* → struct site * */
        struct hold *holds;
        size_t n_holds;
        bool *stays; /* by position in previous->policies: the unit keeps it */
};

/* Everything is in |arena|. */
void rollout_state_make(struct rollout_state *ret, struct arena *arena, const struct plan *wanted,
        const struct rollout_previous *previous, const struct rollout_held *held, size_t n_held);
void rollout_state_done(struct rollout_state *state);

/* True if no unit of the wanted plan must wait, and all held devices are of the wanted plan. */
bool rollout_state_is_settled(const struct rollout_state *state);

struct site *rollout_state_site(const struct rollout_state *state, const char *uuid);

/* The holds of one name, adjacent, and within them those of one unit. */
struct span {
        const struct hold *holds;
        size_t count;
};

/* The first of the |count| holds, and those after it that are of the same unit. */
struct span holds_of_unit(const struct hold *holds, size_t count);
