// SPDX-License-Identifier: Apache-2.0
/*
 * The allocations of one resource: which container holds which replicas, and of which unit. A request is put whole on
 * one unit, and a request that was promised is never refused. Pure: no clock and no I/O; the caller passes in what
 * kubelet lists.
 *
 * Example of the reserve: 4 GPUs with 20 replicas each, requests of up to 5 replicas (U = 4, N = 20, R = 5). The
 * scheduler counts only the node's replicas. If all 80 were advertised and 16 were in use on each GPU, it would see 16
 * free replicas and admit a request for 5, but each GPU would have only 4 left. So no more than 4·20 − 3·4 = 68 are
 * advertised and 12 are reserved. With 16 in use on each GPU, 64 of 68 are in use, and the scheduler admits a request
 * for at most 4, which fits.
 *
 * The rule of the reserve:
 *
 *   1. U·N − (U−1)·(R−1) ids are advertised as healthy. The rest is reserved: listed as unhealthy, so never allocated.
 *   2. For units of N₁, N₂, … replicas that is (R−1) + Σ max(0, Nᵢ−(R−1)), with R no larger than the largest Nᵢ.
 *   3. An unhealthy unit is left out of the sum. If every unit that could hold R is unhealthy, no more ids are
 *      advertised than the largest healthy unit has.
 *   4. Only free ids are reserved: those of the emptiest units, so that small requests fill the fullest.
 *   5. The unit with the most room keeps as many visible as the largest request needs.
 *   6. Reserved ids stay reserved as long as they are enough, because kubelet writes a file for each list that it gets.
 *   7. With `reserve: none` all ids are advertised and nothing is promised: who finds no unit with room is refused.
 *
 * Why it is enough: if a request of s ≤ R that the scheduler admits fitted on no unit, each unit would have at most s−1
 * free replicas, and the replicas in use plus s would exceed what is advertised. (A larger s adds 1 and takes 1 from
 * each unit with Nᵢ ≥ s, of which there is at least one, so the largest s gives the smallest bound.)
 *
 * The promise holds however late scheduler and kubelet learn of a change, with two exceptions, both after a unit has
 * failed or the configuration has changed: the scheduler may still count by the previous list, and more ids may be in
 * use than are now safe to advertise. A request may then find no unit until some of them are free.
 *
 * An id is a token. kubelet may choose ids of two units, before it has our newest list, although one unit has room for
 * all. The allocation is then bound to that unit, although some ids name another. Example: GPU-0::3 and GPU-1::7 may
 * become two replicas of GPU-1.
 *
 * A container may ask for ids that another allocation has: its pod's init container held them, or that container has
 * ended and kubelet has not said so yet. The newer allocation then has these ids, on the same unit if that has room.
 * The older allocation keeps its other ids, perhaps none, until allocations_sync() ends it. All containers of a pod are
 * allocated before its first init container runs, so an init container whose ids a later container has taken over still
 * runs; if it is bound to another unit, that unit is fuller than the ledger says until the init container ends.
 */
#pragma once

#include "base/error.h"
#include "plan/plan.h"

/* The longest text of allocations_read(): all ids of the largest plan. */
#define ALLOCATIONS_TEXT_MAX ((size_t)16 * 1024 * 1024)

struct allocations;

/* One container's share of one resource. */
struct allocation {
        const char *id;             /* "g" and hexadecimal digits, unique on this node */
        const char *unit;           /* UUID of the unit it is bound to; NULL: each id counts for its own unit */
        const char *const *devices; /* as kubelet knows them, each once; a newer allocation may have some of them now */
        size_t n_devices;
        int64_t since; /* seconds since the epoch, for people; 0: not known */
        bool is_guess; /* the record of it was lost, and |unit| is the one of most of its ids */
        bool is_read;  /* read from the record, and not confirmed by kubelet's list since */
};

/* The time of day may be set back or forward at any moment, so nothing is decided by it. */
struct allocations_moment {
        int64_t clock; /* on any clock that never goes back; that of allocations_sync() */
        int64_t date;  /* seconds since the epoch */
};

/* A container and the devices of this resource that it holds, as kubelet says. */
struct allocations_held {
        const char *const *devices;
        size_t n_devices;
        const char *
                /* what was answered for it, as kubelet's record has it (plan/checkpoint.h), or NULL; not looked at */
                answer;
        const char *id;    /* of the allocation, by that answer: then its ids do not count; NULL: not known */
        const char *texts; /* of that answer, in which the UUID of its unit is; NULL: not known */
        const char *away;  /* the UUID that they name, of a unit that the node does not have now; NULL: none */
};

/*
 * |max_per_request|: R; 0: no guarantee is kept, every id is advertised and each id of a request counts for its own
 * unit.
 */
struct allocations *allocations_new(const struct resource *resource, unsigned int max_per_request);
struct allocations *allocations_free(struct allocations *allocations); /* accepts NULL, returns NULL */

/*
 * The plan changed: allocations stay, also those on units that it lacks; so does the health of units that are in both.
 * The old resource must be valid during the call.
 */
void allocations_set_resource(
        struct allocations *allocations, const struct resource *resource, unsigned int max_per_request);

/* The number of ids that are advertised as healthy while all units are healthy. */
size_t allocations_capacity(const struct resource *resource, unsigned int max_per_request);

/* The number of reserved ids (see the rule of the reserve above); and whether that is more than a third of all. */
size_t allocations_n_reserved(const struct resource *resource);
bool allocations_reserved_is_much(const struct resource *resource);

/*
 * With which smaller maxPerRequest more would be advertised, and how much: at most ALLOCATIONS_WAYS, the largest first.
 * The other ways out reserve nothing: reserve none, scope individual, and DRA.
 */
#define ALLOCATIONS_WAYS 2
struct allocations_way {
        unsigned int max_per_request;
        size_t advertised;
};
size_t allocations_ways_out(const struct resource *resource, struct allocations_way ret[static ALLOCATIONS_WAYS]);

/*
 * A request: decides the unit, and enters it into the ledger under |id|. |*ret| is valid until the allocations change.
 * Errors: no id, more than |max_per_request| or than any unit has (ERROR_INVALID, a fault of the request);
 * ERROR_NOT_FOUND for an id that the resource does not have; ERROR_EXHAUSTED where by the ledger no unit has room, or
 * more is in use than is advertised: they may be old, so the caller asks kubelet, calls allocations_sync() for all, and
 * tries this request once more with ALLOCATIONS_AFTER_KUBELET: then only room counts.
 */
enum allocations_try { ALLOCATIONS_BEFORE_KUBELET, ALLOCATIONS_AFTER_KUBELET };
int allocations_make(struct allocations *allocations, const char *const *devices, size_t n_devices,
        struct allocations_moment now, const char *id, enum allocations_try which, const struct allocation **ret,
        struct error *err) MUST_USE;

/* The allocation of that id, if there is one, counts as made at |clock|: its request was not answered before. */
void allocations_renew(struct allocations *allocations, const char *id, int64_t clock);

/*
 * Takes kubelet's whole list, as of |as_of| on the clock of the allocations: allocations made before |as_of| that the
 * list lacks have ended. |released| gets their ids; it must not change the allocations.
 *
 * Allocations in the list that the ledger lacks (the agent restarted without its record) are added by what was answered
 * for them; if the answer is unknown, with an id of their own and the unit of most of their ids. An allocation whose
 * ids the text of allocations_read() has for another one is added the same way, and the other one ends. If that text
 * has another unit or other ids for an allocation than the answer, the answer counts.
 *
 * kubelet records a request only after our answer has reached it, so |as_of| lies some seconds before the question.
 * Exception: kubelet sends an Allocate only after it has recorded the previous one. So a list that was requested for an
 * Allocate that found no room is complete: |as_of| is INT64_MAX.
 *
 * pod-resources has no init containers, and is empty while kubelet starts: |held| must also have the containers that
 * only the checkpoint has (plan/checkpoint.h) and whose pod may be alive.
 *
 * True: an allocation has changed.
 */
bool allocations_sync(struct allocations *allocations, const struct allocations_held *held, size_t n_held,
        int64_t as_of, void (*released)(const char *id, void *data), void *data);

/*
 * Sets the health of the unit. Ids of an unhealthy unit are neither advertised nor counted as room. All units are
 * healthy at first.
 */
void allocations_set_unit_health(struct allocations *allocations, const char *uuid, bool healthy);

/* The id consists of small letters, digits and '_', and is not long: it may be a part of a file's name. */
bool allocations_is_id(const char *id);

/* By position in resource->devices: ids of healthy units that are free and not advertised now. */
const bool *allocations_reserved_ids(const struct allocations *allocations);

/* From the oldest to the newest. */
size_t allocations_count(const struct allocations *allocations);
const struct allocation *allocations_get(const struct allocations *allocations, size_t position);
/* The allocation of that id, or NULL. */
const struct allocation *allocations_find(const struct allocations *allocations, const char *id);
/* The newest allocation that has the device's id, or NULL. */
const struct allocation *allocations_of_device(const struct allocations *allocations, const char *device);

/* Moves allocations from one resource to another. */
enum allocations_which {
        ALLOCATIONS_ALL,
        ALLOCATIONS_OF_TARGET, /* whose unit |to| has; of an unbound one its first id counts */
        /* whose unit |from| lacks and whose first id |to| has: the record may be damaged, or the unit is away */
        ALLOCATIONS_STRAY,
};
void allocations_move(struct allocations *from, struct allocations *to, enum allocations_which which);

/* The ledger as JSON text, of several resources of one name in one, to survive the agent; the caller frees. */
char *allocations_write_all(const struct allocations *const *allocations, size_t count);
/*
 * allocations_read() adds the allocations of such a text, except malformed ones and those whose id exists already.
 * Fails without a change if the text is not a JSON object with a list of allocations or is longer than
 * ALLOCATIONS_TEXT_MAX. The allocations count as granted at |clock|, since the previous agent may have answered a
 * moment ago. allocations_each() calls |each| with each allocation of a text; it is valid during the call.
 */
int allocations_each(const char *text, size_t length, void (*each)(const struct allocation *allocation, void *data),
        void *data, struct error *err) MUST_USE;
int allocations_read(
        struct allocations *allocations, const char *text, size_t length, int64_t clock, struct error *err) MUST_USE;
