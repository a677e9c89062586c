/*
 * Private to share/grants*.c: what the books hold.
 */
#pragma once

#include "share/grants.h"

#define GRANTS_NO_UNIT UINT32_MAX

struct holding {
        struct grant grant;
        char *id;
        char *unit;        /* or NULL */
        char **devices;    /* the pointers and their texts in one block */
        int64_t entered;   /* grants_moment.clock */
        uint32_t position; /* of the unit in the resource, or GRANTS_NO_UNIT: not bound, or the unit is gone */
        bool is_matched;   /* during a sync: by an entry with just its ids */
        bool is_alive;     /* during a sync: in the list, or too new for it */
};

/* What the books say of one unit. */
struct place {
        bool is_sick;
        uint32_t used;   /* replicas of the grants bound to it */
        uint32_t held;   /* its own ids that are in a grant, wherever that is bound */
        uint32_t hidden; /* its own ids that are hidden; they are not held */
};

struct grants {
        const struct resource *resource;
        unsigned int max_per_request;
        struct place *places;     /* by position of the unit */
        struct holding **holders; /* by position of the device: the newest that has it, or NULL */
        bool *hidden;             /* by position of the device */
        bool was_refused;         /* the last request: the next is its second try */
        struct holding **all;     /* the oldest first */
        size_t n_all;
        size_t room;
};

/* Copies. |unit| may be NULL. */
struct holding *holding_new(
        const char *id, const char *unit, const char *const *devices, size_t n_devices, struct grants_moment granted);
struct holding *holding_free(struct holding *holding); /* accepts NULL, returns NULL */

/* Enters it as the newest and takes it over. Hidden ids are not chosen anew. */
void books_add(struct grants *grants, struct holding *holding);
/* Counts everything again from |all|, and chooses the hidden ids. */
void books_count(struct grants *grants);

/* ---- share/grants_hide.c ---- */

/* Replicas of a unit that no grant has, |moved| of those that one has left out; none where the unit is not healthy. */
uint32_t place_room(const struct grants *grants, size_t unit, uint32_t moved);
/* How many ids are safe to advertise: all units, or those that are not sick where |places| is not NULL. */
size_t books_safe_count(const struct resource *resource, unsigned int max_per_request, const struct place *places);
/* Chooses which free ids are hidden, as few changes as possible. */
void books_hide(struct grants *grants);
