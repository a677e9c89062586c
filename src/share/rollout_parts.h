/*
 * Private to share/rollout*.c: what is held, and what that means for each unit of the wanted plan.
 */
#pragma once

#include "share/rollout.h"

/* What the wanted plan has of one unit. */
struct site {
        const struct resource *resource;
        const struct unit *unit;
        bool waits;
        size_t n_here;      /* of its new ids, by its new name: held */
        size_t n_elsewhere; /* held by other ids or another name */
};

/* One device that is held. Those of one name, and in it of one unit, are neighbours. */
struct hold {
        const char *resource;
        const char *id;
        const char *uuid;
        int64_t replica; /* -1: the whole unit */
        const char *holder;
        const struct sharing_policy *policy; /* NULL: not under MPS */
        struct site *site;                   /* NULL: the wanted plan does not have the unit */
        bool is_here;
        bool is_draining; /* its unit keeps its sharing policy */
};

struct judgement {
        const struct plan *wanted;
        const struct rollout_previous *previous;
        struct arena *arena;
        struct site *sites; /* one a unit of the wanted plan */
        size_t n_sites;
        struct map by_uuid; /* → struct site * */
        struct hold *holds;
        size_t n_holds;
        bool *stays; /* by position in previous->policies: the unit keeps it */
};

/* |arena| gets all of it. */
void judgement_make(struct judgement *ret, struct arena *arena, const struct plan *wanted,
        const struct rollout_previous *previous, const struct rollout_held *held, size_t n_held);
void judgement_done(struct judgement *judgement);

/* Nothing of the wanted plan has to wait, and nothing else is held. */
bool judgement_is_settled(const struct judgement *judgement);

struct site *judgement_site(const struct judgement *judgement, const char *uuid);

/* The holds of one name, and within them of one unit: neighbours. */
struct span {
        const struct hold *holds;
        size_t count;
};

/* Those at the beginning of |holds|, which are |count|, that are of one unit. */
struct span holds_of_unit(const struct hold *holds, size_t count);

/* ---- rollout_pending.c ---- */

void rollout_describe_pending(struct rollout *rollout, const struct judgement *judgement);
bool rollout_pending_is_same(const struct rollout *a, const struct rollout *b); /* to the operator */
