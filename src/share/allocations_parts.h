/*
 * Private to share/allocations*.c: what the ledger holds.
 */
#pragma once

#include "share/allocations.h"

#define ALLOCATIONS_NO_UNIT UINT32_MAX

struct allocation_entry {
        struct allocation allocation;
        char *id;
        char *unit;        /* or NULL */
        char **devices;    /* the pointers and their texts in one block */
        int64_t entered;   /* allocations_moment.clock */
        uint32_t position; /* of the unit in the resource, or ALLOCATIONS_NO_UNIT: not bound, or the unit is gone */
        bool is_matched;   /* during a sync: by an entry with just its ids */
        bool is_alive;     /* during a sync: in the list, or too new for it */
};

/* What the ledger says of one unit. */
struct place {
        bool is_unhealthy;
        uint32_t used;     /* replicas of the allocations bound to it */
        uint32_t held;     /* its own ids that are in an allocation, wherever that is bound */
        uint32_t reserved; /* its own ids that are reserved; they are not held */
};

struct allocations {
        const struct resource *resource;
        unsigned int max_per_request;
        struct place *places;              /* by position of the unit */
        struct allocation_entry **holders; /* by position of the device: the newest that has it, or NULL */
        bool *reserved;                    /* by position of the device */
        bool was_refused;                  /* the last request: the next is its second try */
        struct allocation_entry **all;     /* the oldest first */
        size_t n_all;
        size_t room;
};

/* Copies. |unit| may be NULL. */
struct allocation_entry *allocation_entry_new(const char *id, const char *unit, const char *const *devices,
        size_t n_devices, struct allocations_moment granted);
struct allocation_entry *allocation_entry_free(struct allocation_entry *entry); /* accepts NULL, returns NULL */

/* Enters it as the newest and takes it over. Reserved ids are not chosen anew. */
void allocations_enter(struct allocations *allocations, struct allocation_entry *entry);
/* Counts everything again from |all|, and chooses the reserved ids. */
void allocations_recount(struct allocations *allocations);

/* ---- share/allocations_hide.c ---- */

/* Replicas of a unit that no allocation has, |moved| of those that one has left out; none where the unit is not healthy. */
uint32_t place_room(const struct allocations *allocations, size_t unit, uint32_t moved);
/* How many ids are safe to advertise: all units, or those that are not unhealthy where |places| is not NULL. */
size_t allocations_safe_count(
        const struct resource *resource, unsigned int max_per_request, const struct place *places);
/* Chooses which free ids are reserved, as few changes as possible. */
void allocations_reserve(struct allocations *allocations);
