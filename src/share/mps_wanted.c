#include "share/mps_wanted.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "share/capability.h"
#include "share/share.h"
#include "share/sm.h"

/* ---- names ---- */

static bool is_plain(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
}

const char *mps_daemon_name(struct arena *arena, const struct resource *resource, const struct unit *unit)
{
        char *name;

        if (resource->daemon_scope == DAEMON_SCOPE_RESOURCE)
                return resource->name;
        name = arena_strdup(arena, unit->uuid);
        for (char *at = name; *at; at++)
                if (!is_plain(*at))
                        *at = '-';
        return name;
}

/* ---- one daemon ---- */

static struct mps_unit unit_of(const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
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
                .limit_mib = share_largest(resource, unit).memory_mib,
                .replica_mib = share_of(resource, unit, 1).memory_mib,
                .clients = capability_clients(unit, plan->inventory->driver_version),
        };
}

/*
 * One percentage counts for all units of a daemon. Under uniform it is NVIDIA's 100 / (devices / units); else the most that
 * any of them allows.
 */
static unsigned int threads_of(const struct resource *resource, const struct unit *const *units, size_t n_units)
{
        unsigned int permille = 0;
        unsigned int replicas = 0;

        for (size_t i = 0; i < n_units; i++) {
                permille = MAX(permille, share_largest(resource, units[i]).threads_permille);
                replicas += units[i]->replicas;
        }
        if (resource->provisioning != PROVISIONING_UNIFORM)
                return permille;
        assert(n_units > 0 && replicas >= n_units); /* none is shared into nothing */
        return 100 / (replicas / (unsigned int)n_units) * 10;
}

static struct mps_daemon_wanted daemon_of(struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct unit *const *units, size_t n_units)
{
        struct mps_unit *list = ARENA_ARRAY(arena, struct mps_unit, n_units);

        for (size_t i = 0; i < n_units; i++)
                list[i] = unit_of(plan, resource, units[i]);
        return (struct mps_daemon_wanted){
                .name = mps_daemon_name(arena, resource, units[0]),
                .resource = resource->name,
                .provisioning = resource->provisioning,
                .tier_limit = resource->tier_limit,
                .threads_permille = threads_of(resource, units, n_units),
                .units = list,
                .n_units = n_units,
        };
}

/* ---- all of them ---- */

/* Appends the daemons of |resource| to |daemons|, at most one a unit. */
static size_t add_daemons(struct mps_daemon_wanted *daemons, struct arena *arena, const struct plan *plan,
        const struct resource *resource)
{
        const struct unit **units = ARENA_ARRAY(arena, const struct unit *, resource->n_units);
        size_t n_units = 0;

        if (resource->strategy != SHARING_MPS)
                return 0;
        for (size_t i = 0; i < resource->n_units; i++)
                if (resource->units[i].shared)
                        units[n_units++] = &resource->units[i];
        if (resource->daemon_scope == DAEMON_SCOPE_RESOURCE) {
                *daemons = daemon_of(arena, plan, resource, units, n_units);
                return 1;
        }
        for (size_t i = 0; i < n_units; i++)
                daemons[i] = daemon_of(arena, plan, resource, &units[i], 1);
        return n_units;
}

void mps_wanted_of(struct mps_wanted *ret, struct arena *arena, const struct plan *plan)
{
        struct mps_daemon_wanted *daemons;
        size_t n_units = 0;

        for (size_t i = 0; i < plan->n_resources; i++) {
                n_units += plan->resources[i].n_units;
                for (size_t j = 0; j < plan->resources[i].n_leaving; j++)
                        n_units += plan->resources[i].leaving[j].n_units;
        }
        daemons = ARENA_ARRAY(arena, struct mps_daemon_wanted, n_units);
        *ret = (struct mps_wanted){.daemons = daemons};
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                ret->n_daemons += add_daemons(&daemons[ret->n_daemons], arena, plan, resource);
                for (size_t j = 0; j < resource->n_leaving; j++)
                        ret->n_daemons += add_daemons(&daemons[ret->n_daemons], arena, plan, &resource->leaving[j]);
        }
}

/* ---- comparison and log ---- */

static bool unit_is_same(const struct mps_unit *a, const struct mps_unit *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && a->limit_mib == b->limit_mib;
}

/* By how a daemon is started and spoken to, half and weighted are one. */
static bool is_alike(enum provisioning a, enum provisioning b)
{
        return (a == PROVISIONING_UNIFORM) == (b == PROVISIONING_UNIFORM) &&
               (a == PROVISIONING_SM) == (b == PROVISIONING_SM);
}

bool mps_daemon_is_same(const struct mps_daemon_wanted *a, const struct mps_daemon_wanted *b)
{
        if (strcmp(a->name, b->name) != 0 || !is_alike(a->provisioning, b->provisioning) ||
                a->tier_limit != b->tier_limit || a->threads_permille != b->threads_permille ||
                a->n_units != b->n_units)
                return false;
        for (size_t i = 0; i < a->n_units; i++)
                if (!unit_is_same(&a->units[i], &b->units[i]))
                        return false;
        return true;
}

/* FNV-1a, 64 bits. */
static void digest(uint64_t *sum, const char *text)
{
        do
                *sum = (*sum ^ (unsigned char)*text) * UINT64_C(1099511628211);
        while (*text++);
}

static void digest_number(uint64_t *sum, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        digest(sum, text);
}

uint64_t mps_daemon_digest(const struct mps_daemon_wanted *daemon)
{
        uint64_t sum = UINT64_C(14695981039346656037);

        digest(&sum, daemon->name);
        digest_number(&sum, daemon->provisioning == PROVISIONING_UNIFORM);
        digest_number(&sum, daemon->provisioning == PROVISIONING_SM);
        digest_number(&sum, (uint64_t)daemon->tier_limit);
        digest_number(&sum, daemon->threads_permille);
        for (size_t i = 0; i < daemon->n_units; i++) {
                digest(&sum, daemon->units[i].uuid);
                digest_number(&sum, daemon->units[i].limit_mib);
        }
        return MAX(sum & INT64_MAX, UINT64_C(1));
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
