// SPDX-License-Identifier: Apache-2.0
#include "plan/mps_wanted.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "plan/capability.h"
#include "plan/share.h"

/* The name of the daemon that serves all GPUs; no UUID or resource has this name. */
#define NODE_DAEMON "node"

/* ---- names ---- */

static bool is_name_character(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
}

bool mps_has_own_daemon(enum daemon_scope scope, const char *unit)
{
        return scope == DAEMON_SCOPE_GPU || (scope == DAEMON_SCOPE_NODE && text_starts_with(unit, "MIG-"));
}

bool mps_daemon_is_common(enum daemon_scope a, const char *resource_a, enum daemon_scope b, const char *resource_b)
{
        if (a != b || a == DAEMON_SCOPE_GPU)
                return false;
        return a == DAEMON_SCOPE_NODE || strcmp(resource_a, resource_b) == 0;
}

const char *mps_daemon_name(struct arena *arena, const struct resource *resource, const struct unit *unit)
{
        char *name;

        if (!mps_has_own_daemon(resource->daemon_scope, unit->uuid))
                return resource->daemon_scope == DAEMON_SCOPE_NODE ? NODE_DAEMON : resource->name;
        name = arena_strdup(arena, unit->uuid);
        for (char *at = name; *at; at++)
                if (!is_name_character(*at))
                        *at = '-';
        return name;
}

/* ---- one daemon ---- */

/* A unit of a daemon, with the resource through which it is shared. */
struct served {
        const struct resource *resource;
        const struct unit *unit;
};

static struct mps_unit mps_unit_of(const struct plan *plan, const struct served *served)
{
        const struct unit *unit = served->unit;

        return (struct mps_unit){
                .uuid = unit->uuid,
                .gpu_uuid = unit->gpu->uuid,
                .index = unit->index,
                .name = unit->gpu->name,
                .is_mig = unit->mig != NULL,
                .memory = unit->memory,
                .replicas = unit->replicas,
                .sms = sm_count(unit),
                .chunk_sms = sm_chunk(unit->gpu),
                .chunks_needed = sm_chunks_needed(served->resource, unit),
                .limit_mib = share_largest(served->resource, unit).memory_mib,
                .replica_mib = share_of(served->resource, unit, 1).memory_mib,
                .clients = capability_clients(unit, plan->inventory->driver_version),
        };
}

static bool has_failed(const struct unit *unit)
{
        return unit->gpu->failure || (unit->mig && unit->mig->failure);
}

/*
 * True: the unit cannot be read now and was not before, so the limits of a daemon on it are not known. A daemon that
 * runs there drains meanwhile, and is wanted again with the limits that it has; with other limits, its clients would
 * keep the right daemon from starting.
 */
static bool unit_is_unread(const struct unit *unit)
{
        return !unit->memory && has_failed(unit);
}

static bool have_all_failed(const struct served *served, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (!has_failed(served[i].unit))
                        return false;
        return true;
}

/*
 * One percentage counts for all units of a daemon, including missing ones, so that it stays when they come back. Under
 * uniform it is NVIDIA's 100 / (devices / units); otherwise the largest that any of them allows.
 */
static unsigned int threads_of(const struct served *served, size_t count)
{
        unsigned int permille = 0;
        unsigned int replicas = 0;

        for (size_t i = 0; i < count; i++) {
                if (!unit_is_unread(served[i].unit))
                        permille = MAX(permille, share_largest(served[i].resource, served[i].unit).threads_permille);
                replicas += served[i].unit->replicas;
        }
        if (served[0].resource->provisioning != PROVISIONING_UNIFORM)
                return permille;
        assert(count > 0 && replicas >= count); /* no unit is shared into zero replicas */
        return 100 / (replicas / (unsigned int)count) * 10;
}

static const char *resources_of(struct arena *arena, const struct served *served, size_t count)
{
        _cleanup_(strbuf_done) struct strbuf names = STRBUF_INIT;

        for (size_t i = 0; i < count; i++) {
                bool is_new = true;

                for (size_t j = 0; is_new && j < i; j++)
                        is_new = strcmp(served[i].resource->name, served[j].resource->name) != 0;
                if (is_new)
                        strbuf_printf(&names, "%s%s", i ? "," : "", served[i].resource->name);
        }
        return arena_strdup(arena, names.data);
}

/*
 * Makes a daemon of |served|; it has no units if none of them was ever read. Failed units count as away, so that the
 * others are served; but if all have failed, they stay in, so that a running daemon is not changed.
 */
static struct mps_daemon_wanted daemon_of(
        struct arena *arena, const struct plan *plan, const struct served *served, size_t count)
{
        struct mps_unit *units = ARENA_ARRAY(arena, struct mps_unit, count);
        const char **away = ARENA_ARRAY(arena, const char *, count);
        const bool is_any_left = !have_all_failed(served, count);
        size_t n_units = 0, n_away = 0;

        for (size_t i = 0; i < count; i++)
                if (unit_is_unread(served[i].unit) || (is_any_left && has_failed(served[i].unit)))
                        away[n_away++] = served[i].unit->uuid;
                else
                        units[n_units++] = mps_unit_of(plan, &served[i]);
        return (struct mps_daemon_wanted){
                .name = mps_daemon_name(arena, served[0].resource, served[0].unit),
                .resource = resources_of(arena, served, count),
                .provisioning = served[0].resource->provisioning,
                .tier_limit = served[0].resource->tier_limit,
                .threads_permille = threads_of(served, count),
                .units = units,
                .n_units = n_units,
                .away = away,
                .n_away = n_away,
        };
}

/* ---- all daemons ---- */

struct collecting {
        struct arena *arena;
        const struct plan *plan;
        struct mps_daemon_wanted *daemons; /* at most one per unit */
        size_t n_daemons;
        struct served *served; /* units of the daemon that is being built */
        struct served *node;   /* units of the node's daemon */
        size_t n_node;
};

static void mps_wanted_add_daemon(struct collecting *collecting, const struct served *served, size_t count)
{
        if (count == 0)
                return;
        collecting->daemons[collecting->n_daemons] = daemon_of(collecting->arena, collecting->plan, served, count);
        collecting->n_daemons += collecting->daemons[collecting->n_daemons].n_units > 0;
}

static void wanted_add_resource(struct collecting *collecting, const struct resource *resource)
{
        size_t count = 0;

        for (size_t i = 0; resource->strategy == SHARING_MPS && i < resource->n_units; i++) {
                struct served served = {resource, &resource->units[i]};

                if (!served.unit->shared)
                        continue;
                if (mps_has_own_daemon(resource->daemon_scope, served.unit->uuid))
                        mps_wanted_add_daemon(collecting, &served, 1);
                else if (resource->daemon_scope == DAEMON_SCOPE_NODE)
                        collecting->node[collecting->n_node++] = served;
                else
                        collecting->served[count++] = served;
        }
        mps_wanted_add_daemon(collecting, collecting->served, count);
}

static int wanted_by_index(const void *a, const void *b)
{
        unsigned int left = ((const struct served *)a)->unit->gpu->index;
        unsigned int right = ((const struct served *)b)->unit->gpu->index;

        return (left > right) - (left < right);
}

void mps_wanted_of(struct mps_wanted *ret, struct arena *arena, const struct plan *plan)
{
        struct collecting collecting = {.arena = arena, .plan = plan};
        size_t n_units = 0;

        for (size_t i = 0; i < plan->n_resources; i++) {
                n_units += plan->resources[i].n_units;
                for (size_t j = 0; j < plan->resources[i].n_draining; j++)
                        n_units += plan->resources[i].draining[j].n_units;
        }
        collecting.daemons = ARENA_ARRAY(arena, struct mps_daemon_wanted, n_units);
        collecting.served = ARENA_ARRAY(arena, struct served, n_units);
        collecting.node = ARENA_ARRAY(arena, struct served, n_units);
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                wanted_add_resource(&collecting, resource);
                for (size_t j = 0; j < resource->n_draining; j++)
                        wanted_add_resource(&collecting, &resource->draining[j]);
        }
        if (collecting.n_node)
                qsort(collecting.node, collecting.n_node, sizeof(*collecting.node), wanted_by_index);
        mps_wanted_add_daemon(&collecting, collecting.node, collecting.n_node);
        *ret = (struct mps_wanted){.daemons = collecting.daemons, .n_daemons = collecting.n_daemons};
}

static bool has_unit(const struct mps_wanted *wanted, const char *uuid)
{
        for (size_t i = 0; i < wanted->n_daemons; i++)
                if (mps_daemon_unit(&wanted->daemons[i], uuid))
                        return true;
        return false;
}

bool mps_claimed_is_of_all(const struct unit *unit)
{
        return !unit->mig && (unit->memory || unit_is_unread(unit)) && !capability_is_before_volta(unit->gpu);
}

/*
 * A copy of |claimable| with that daemon scope. With one daemon for all GPUs no namespaces are used: a client is in one
 * namespace, but its container may have shares of several GPUs.
 */
static const struct resource *with_scope(struct arena *arena, const struct resource *claimable, enum daemon_scope scope)
{
        struct resource *copy = ARENA_NEW(arena, struct resource);

        *copy = *claimable;
        copy->daemon_scope = scope;
        if (scope == DAEMON_SCOPE_RESOURCE)
                copy->tier_limit = MIN(copy->tier_limit, MPS_TIER_VERIFIED);
        return copy;
}

const char *mps_claimed_daemon_name(struct arena *arena, const struct resource *claimable, const struct unit *unit)
{
        enum daemon_scope scope = mps_claimed_is_of_all(unit) ? claimable->daemon_scope : DAEMON_SCOPE_GPU;

        return mps_daemon_name(arena, with_scope(arena, claimable, scope), unit);
}

void mps_wanted_add_claimed(struct mps_wanted *wanted, struct arena *arena, const struct plan *plan,
        const struct unit *const *units, size_t n_units, enum daemon_scope scope)
{
        const struct resource *resource = with_scope(arena, plan->claimable, scope);
        struct mps_daemon_wanted *daemons = ARENA_ARRAY(arena, struct mps_daemon_wanted, wanted->n_daemons + n_units);
        struct served *served = ARENA_ARRAY(arena, struct served, n_units);
        struct collecting collecting = {arena, plan, daemons, wanted->n_daemons};
        size_t count = 0;

        if (wanted->n_daemons)
                memcpy(daemons, wanted->daemons, wanted->n_daemons * sizeof(*daemons));
        for (size_t i = 0; i < n_units; i++)
                if (!has_unit(wanted, units[i]->uuid))
                        served[count++] = (struct served){resource, units[i]};
        wanted->daemons = daemons;
        for (size_t i = 0; scope == DAEMON_SCOPE_GPU && i < count; i++)
                mps_wanted_add_daemon(&collecting, &served[i], 1);
        if (scope == DAEMON_SCOPE_RESOURCE)
                mps_wanted_add_daemon(&collecting, served, count);
        wanted->n_daemons = collecting.n_daemons;
}

/* ---- comparison and log ---- */

static bool mps_unit_is_same(const struct mps_unit *a, const struct mps_unit *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && a->limit_mib == b->limit_mib;
}

/* For the start and the settings of a daemon, half and weighted are the same. */
static bool provisioning_is_alike(enum provisioning a, enum provisioning b)
{
        return (a == PROVISIONING_UNIFORM) == (b == PROVISIONING_UNIFORM) &&
               (a == PROVISIONING_SM) == (b == PROVISIONING_SM);
}

static bool is_same_but_for_units(const struct mps_daemon_wanted *a, const struct mps_daemon_wanted *b)
{
        return strcmp(a->name, b->name) == 0 && provisioning_is_alike(a->provisioning, b->provisioning) &&
               a->tier_limit == b->tier_limit && a->threads_permille == b->threads_permille;
}

const struct mps_daemon_wanted *mps_wanted_find(const struct mps_wanted *wanted, const char *name)
{
        for (size_t i = 0; i < wanted->n_daemons; i++)
                if (strcmp(wanted->daemons[i].name, name) == 0)
                        return &wanted->daemons[i];
        return NULL;
}

const struct mps_unit *mps_daemon_unit(const struct mps_daemon_wanted *daemon, const char *uuid)
{
        for (size_t i = 0; i < daemon->n_units; i++)
                if (strcmp(daemon->units[i].uuid, uuid) == 0)
                        return &daemon->units[i];
        return NULL;
}

/* True if |other| has each unit of |daemon| with the same values, or has it as away. */
static bool are_units_in(const struct mps_daemon_wanted *daemon, const struct mps_daemon_wanted *other)
{
        for (size_t i = 0; i < daemon->n_units; i++) {
                const struct mps_unit *unit = mps_daemon_unit(other, daemon->units[i].uuid);
                bool is_away = false;

                for (size_t j = 0; !unit && !is_away && j < other->n_away; j++)
                        is_away = strcmp(other->away[j], daemon->units[i].uuid) == 0;
                if (unit ? !mps_unit_is_same(unit, &daemon->units[i]) : !is_away)
                        return false;
        }
        return true;
}

bool mps_daemon_serves(const struct mps_daemon_wanted *started, const struct mps_daemon_wanted *wanted)
{
        return is_same_but_for_units(started, wanted) && are_units_in(started, wanted) && are_units_in(wanted, started);
}

const char *mps_daemon_lacks(const struct mps_daemon_wanted *started, const struct mps_daemon_wanted *wanted)
{
        for (size_t i = 0; i < wanted->n_units; i++)
                if (!mps_daemon_unit(started, wanted->units[i].uuid))
                        return wanted->units[i].uuid;
        return NULL;
}

static void digest(uint64_t *sum, const char *text)
{
        hash_add(sum, text, strlen(text) + 1);
}

static void digest_number(uint64_t *sum, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        digest(sum, text);
}

uint64_t mps_daemon_digest(const struct mps_daemon_wanted *daemon)
{
        uint64_t sum = HASH_INIT;

        digest(&sum, daemon->name);
        digest_number(&sum, daemon->provisioning == PROVISIONING_UNIFORM);
        digest_number(&sum, daemon->provisioning == PROVISIONING_SM);
        digest_number(&sum, (uint64_t)daemon->tier_limit);
        digest_number(&sum, daemon->threads_permille);
        for (size_t i = 0; i < daemon->n_units; i++) {
                digest(&sum, daemon->units[i].uuid);
                digest_number(&sum, daemon->units[i].limit_mib);
        }
        for (size_t i = 0; i < daemon->n_away; i++)
                digest(&sum, daemon->away[i]);
        return MAX(sum & INT64_MAX, UINT64_C(1));
}

bool mps_daemon_is_same(const struct mps_daemon_wanted *a, const struct mps_daemon_wanted *b)
{
        return mps_daemon_digest(a) == mps_daemon_digest(b);
}

void mps_limit_line(struct strbuf *text, const struct mps_unit *unit)
{
        if (unit->memory == 0)
                return;
        strbuf_printf(text,
                "Set device pinned memory limit: device=%s, total_memory_gb=%.2f, replicas=%u, limit_per_replica_mib=%llu",
                unit->index, (double)unit->memory / (1024.0 * 1024 * 1024), unit->replicas,
                (unsigned long long)unit->replica_mib);
}

void mps_daemon_wanted_copy(struct mps_daemon_wanted *ret, struct arena *arena, const struct mps_daemon_wanted *wanted)
{
        struct mps_unit *units = ARENA_ARRAY(arena, struct mps_unit, wanted->n_units);
        const char **away = ARENA_ARRAY(arena, const char *, wanted->n_away);

        for (size_t i = 0; i < wanted->n_away; i++)
                away[i] = arena_strdup(arena, wanted->away[i]);
        for (size_t i = 0; i < wanted->n_units; i++) {
                units[i] = wanted->units[i];
                units[i].uuid = arena_strdup(arena, wanted->units[i].uuid);
                units[i].gpu_uuid = arena_strdup(arena, wanted->units[i].gpu_uuid);
                units[i].index = arena_strdup(arena, wanted->units[i].index);
                units[i].name = arena_strdup(arena, wanted->units[i].name);
        }
        *ret = *wanted;
        ret->name = arena_strdup(arena, wanted->name);
        ret->resource = arena_strdup(arena, wanted->resource);
        ret->units = units;
        ret->away = away;
}
