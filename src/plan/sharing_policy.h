// SPDX-License-Identifier: Apache-2.0
/*
 * How a unit is shared under MPS: the share that its containers were promised, stored independently of the plan. So the
 * policy can be compared with a newer plan, be made a resource again while the containers run, and survive the agent in
 * a file. Pure.
 *
 * Only MPS needs this: for a whole or time-sliced unit, the form of its ids shows what a container has.
 */
#pragma once

#include "plan/plan.h"

/* A file of the agent, below the MPS root. */
#define SHARING_POLICY_FILE "terms.json"
/* The longest text of sharing_policy_read(): every unit of the largest node several times. */
#define SHARING_POLICY_TEXT_MAX ((size_t)1024 * 1024)
#define SHARING_POLICY_MAX ((size_t)4096)

struct sharing_policy {
        const char *resource; /* as advertised */
        const char *base_name;
        const char *unit; /* UUID */
        unsigned int replicas;
        unsigned int sms;    /* provisioning sm; 0: by the replicas */
        uint64_t memory_mib; /* of the unit, if NVML does not report it; 0: unknown */
        enum placement placement;
        /* what is promised of it; |max_per_request| is that of the resource, and nothing else of it counts */
        struct sharing_section section;
};

struct sharing_policy_list {
        const struct sharing_policy *items;
        size_t count;
};

/*
 * The policies of all units that |plan| shares under MPS, including draining ones. Everything is copied into |arena|.
 */
void sharing_policy_of(struct sharing_policy_list *ret, struct arena *arena, const struct plan *plan);

/* |first| and then |second|, copied into |arena|. */
void sharing_policy_join(struct sharing_policy_list *ret, struct arena *arena, const struct sharing_policy_list *first,
        const struct sharing_policy_list *second);

const struct sharing_policy *sharing_policy_find(
        const struct sharing_policy_list *list, const char *resource, const char *unit);

/*
 * True if a container with a part of the unit under |policy| gets the same from |unit| of |resource|, and so does its
 * daemon.
 */
bool sharing_policy_is_kept(
        const struct sharing_policy *policy, const struct resource *resource, const struct unit *unit);

/* True if both can be in one resource: all settings of the resource are equal. */
bool sharing_policy_agrees(const struct sharing_policy *a, const struct sharing_policy *b);

/*
 * Makes a resource of units that |inventory| has and whose policies agree, with all their devices. It lives in |arena|,
 * except for the index, and borrows from |inventory|.
 */
void sharing_policy_resource(struct resource *ret, struct arena *arena, const struct inventory *inventory,
        const struct sharing_policy *const *policy, size_t n_policies);

/* As JSON, with the names of all advertised resources; the caller frees. */
char *sharing_policy_write(const struct sharing_policy_list *list, const char *const *names, size_t n_names);
/* Reads it back; malformed entries are left out. An error if the text is not such JSON. */
int sharing_policy_read(struct sharing_policy_list *ret, const char *const **ret_names, size_t *ret_n_names,
        struct arena *arena, const char *text, size_t length, struct error *err) MUST_USE;
