// SPDX-License-Identifier: Apache-2.0
/*
 * The data behind plan/allocations.h: the allocations of one resource with the counts that follow from them.
 * allocations.c enters requests, allocations_sync.c compares with kubelet's list and has the record, and
 * allocations_reserve.c chooses the reserved ids.
 */
#pragma once

#include "plan/allocations.h"

#define ALLOCATIONS_NO_UNIT UINT32_MAX

struct allocation_entry {
        struct allocation allocation;
        char *id;
        char *unit;        /* or NULL */
        char **devices;    /* the pointers and their texts are one block */
        int64_t entered;   /* allocations_moment.clock */
        uint32_t position; /* position of the unit in the resource, or ALLOCATIONS_NO_UNIT: not bound, or the unit is
                            * gone */
        bool is_matched;   /* during a sync: an entry has exactly its ids */
        bool is_alive;     /* during a sync: it is in the list, or newer than the list */
};

/* The counts of one unit. */
struct place {
        bool is_unhealthy;
        uint32_t used;     /* replicas of the allocations bound to it */
        uint32_t held;     /* its own ids that are in an allocation, even one bound to another unit */
        uint32_t reserved; /* its own ids that are reserved, and not held */
};

struct allocations {
        const struct resource *resource;
        unsigned int max_per_request;
        struct place *places;              /* by position of the unit */
        struct allocation_entry **holders; /* by position of the device: the newest allocation that has it, or NULL */
        bool *reserved;                    /* by position of the device */
        struct allocation_entry **all;     /* from the oldest to the newest */
        size_t n_all;
        size_t room;
        size_t n_unknown; /* ids in |all| that the resource does not have */
};

/* Copies. |unit| may be NULL. */
struct allocation_entry *allocation_entry_new(const char *id, const char *unit, const char *const *devices,
        size_t n_devices, struct allocations_moment granted);
struct allocation_entry *allocation_entry_free(struct allocation_entry *entry); /* accepts NULL, returns NULL */

/* Enters it as the newest and takes it over. Does not choose the reserved ids again. */
void allocations_enter(struct allocations *allocations, struct allocation_entry *entry);
/* Counts everything again from |all|, forgets what piles up there, and chooses the reserved ids. */
void allocations_recount(struct allocations *allocations);

/* ---- plan/allocations_reserve.c ---- */

/* Replicas of a unit that are in no allocation, plus |moved| of those in one; 0 if the unit is unhealthy. */
uint32_t place_room(const struct allocations *allocations, size_t unit, uint32_t moved);
/* How many ids are safe to advertise: of all units, or, if |places| is not NULL, of the healthy ones. */
size_t allocations_safe_count(
        const struct resource *resource, unsigned int max_per_request, const struct place *places);
/* Chooses the reserved ids, with as few changes as possible. */
void allocations_reserve(struct allocations *allocations);
