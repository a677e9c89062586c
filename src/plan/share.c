// SPDX-License-Identifier: Apache-2.0
#include "plan/share.h"

#include <assert.h>
#include <limits.h>

#include "plan/capability.h"
#include "plan/mps_wanted.h"

#define MIB ((uint64_t)1024 * 1024)
#define HOPPER_CHUNK 8U
#define AMPERE_CHUNK 4U

/* ---- memory ---- */

/* The driver's part of |gpu|'s memory. */
static uint64_t driver_mib(const struct gpu *gpu)
{
        uint64_t step = SHARE_DRIVER_STEP_MIB * MIB;

        if (gpu->memory_reserved == 0)
                return SHARE_DRIVER_MIB;
        return (gpu->memory_reserved + step - 1) / step * SHARE_DRIVER_STEP_MIB;
}

uint64_t share_estimated_reserve_mib(const struct gpu *gpu, bool is_mig)
{
        return is_mig ? SHARE_SERVER_MIB : driver_mib(gpu) + SHARE_SERVER_MIB;
}

uint64_t share_reserve_mib(const struct unit *unit)
{
        const struct sharing_section *section = unit->shared->section;

        if (section->provisioning == PROVISIONING_UNIFORM)
                return 0;
        if (section->has_memory_reserve)
                return section->memory_reserve_mib;
        return share_estimated_reserve_mib(unit->gpu, unit->mig != NULL);
}

uint64_t share_usable_mib(const struct unit *unit)
{
        uint64_t total = unit->memory / MIB;
        uint64_t reserve = share_reserve_mib(unit);

        return total > reserve ? total - reserve : 0;
}

uint64_t share_memory_mib(const struct unit *unit, unsigned int k)
{
        return k * share_usable_mib(unit) / unit->replicas;
}

unsigned int share_most_replicas(const struct unit *unit)
{
        if (unit->memory == 0)
                return UINT_MAX;
        return (unsigned int)MIN(share_usable_mib(unit) / SHARE_LEAST_MIB, (uint64_t)UINT_MAX);
}

/* ---- SMs ---- */

unsigned int sm_chunk(const struct gpu *gpu)
{
        if (gpu->compute_major > 0)
                return gpu->compute_major >= 9 ? HOPPER_CHUNK : AMPERE_CHUNK;
        if (gpu->architecture == GPU_ARCHITECTURE_UNKNOWN)
                return HOPPER_CHUNK;
        return gpu->architecture >= GPU_ARCHITECTURE_HOPPER ? HOPPER_CHUNK : AMPERE_CHUNK;
}

unsigned int sm_count(const struct unit *unit)
{
        return unit->mig ? unit->mig->attributes.multiprocessors : unit->gpu->multiprocessors;
}

unsigned int sm_chunks(const struct unit *unit)
{
        const unsigned int chunk = sm_chunk(unit->gpu);
        const unsigned int fit = sm_count(unit) / chunk;

        return chunk == HOPPER_CHUNK && !unit->mig && fit > 1 ? fit - 1 : fit;
}

/* SMs of one replica of |unit|, which is shared: as configured, or else an equal part of the unit's whole chunks. */
static unsigned int sm_of_replica(const struct unit *unit)
{
        return unit->shared->sms ? unit->shared->sms : sm_chunks(unit) / unit->replicas * sm_chunk(unit->gpu);
}

unsigned int sm_chunks_needed(const struct resource *resource, const struct unit *unit)
{
        if (resource->provisioning != PROVISIONING_SM || !unit->shared || unit->mig)
                return 0;
        return unit->replicas * sm_of_replica(unit) / sm_chunk(unit->gpu);
}

/*
 * The smallest permille of |total| that is at least |sms| after the driver has rounded it down; 1000 if |total| is 0.
 */
static unsigned int sm_permille(unsigned int sms, unsigned int total)
{
        return total ? (1000 * sms + total - 1) / total : 1000;
}

/* ---- shares ---- */

static struct share share_by_sm(const struct unit *unit, unsigned int k)
{
        unsigned int sms = k * sm_of_replica(unit);

        return (struct share){.memory_mib = share_memory_mib(unit, k),
                .threads_permille = sm_permille(sms, sm_count(unit)),
                .sms = sms};
}

uint64_t share_memory_of(uint64_t configured_mib, const struct gpu *gpu, const struct mig_device *mig)
{
        const uint64_t reported = mig ? mig->memory : gpu->memory;
        const bool has_failed = gpu->failure || (mig && mig->failure);

        return reported || has_failed ? reported : configured_mib * MIB;
}

struct share share_below_ceilings(const struct unit *unit, struct share share)
{
        const struct sharing_section *section = unit->shared->section;

        if (section->max_memory_mib)
                share.memory_mib = MIN(share.memory_mib, section->max_memory_mib);
        if (section->max_threads)
                share.threads_permille = MIN(share.threads_permille, section->max_threads * 10);
        return share;
}

struct share share_of(const struct resource *resource, const struct unit *unit, unsigned int k)
{
        unsigned int n = unit->replicas;

        assert(k >= 1 && k <= n);
        if (!unit->shared || resource->strategy != SHARING_MPS)
                return (struct share){.memory_mib = 0, .threads_permille = 1000};
        switch (resource->provisioning) {
        case PROVISIONING_UNIFORM:
                break;
        case PROVISIONING_HALF:
                return (struct share){
                        .memory_mib = share_memory_mib(unit, k), .threads_permille = MIN(2000 * k / n, 1000U)};
        case PROVISIONING_WEIGHTED:
                return (struct share){.memory_mib = share_memory_mib(unit, k), .threads_permille = 1000 * k / n};
        case PROVISIONING_SM:
                return share_by_sm(unit, k);
        case PROVISIONING_DECLARED:
                return share_below_ceilings(unit,
                        (struct share){.memory_mib = share_memory_mib(unit, k), .threads_permille = 1000 * k / n});
        }
        /* NVIDIA's formula has whole percent only. */
        return (struct share){.memory_mib = unit->memory / n / MIB, .threads_permille = 100 / n * 10};
}

unsigned int share_most(const struct resource *resource, const struct unit *unit)
{
        unsigned int most = resource->max_per_request ? resource->max_per_request : unit->replicas;

        if (resource->fail_requests_greater_than_one)
                most = 1;
        return MIN(most, unit->replicas);
}

unsigned int share_sms(const struct unit *unit, const struct share *share)
{
        return share->sms ? share->sms : sm_count(unit) * share->threads_permille / 1000;
}

struct share share_largest(const struct resource *resource, const struct unit *unit)
{
        if (resource->provisioning == PROVISIONING_DECLARED && unit->shared)
                return share_below_ceilings(
                        unit, (struct share){.memory_mib = unit->memory / MIB, .threads_permille = 1000});
        return share_of(resource, unit, share_most(resource, unit));
}

enum mps_tier share_tier(const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
        const char *version = plan->inventory->driver_version;
        enum mps_tier limit = resource->tier_limit;

        if (resource->provisioning == PROVISIONING_UNIFORM)
                return MPS_TIER_DEFAULT;
        /* A container's declaration is known when it starts, but its namespace must be created before. */
        if (resource->provisioning == PROVISIONING_DECLARED)
                return MPS_TIER_VERIFIED;
        /* A client is in one namespace, but a container may have several shares there. */
        if (resource->daemon_scope == DAEMON_SCOPE_NODE && !mps_has_own_daemon(DAEMON_SCOPE_NODE, unit->uuid))
                return MPS_TIER_VERIFIED;
        if (resource->provisioning == PROVISIONING_SM)
                return limit >= MPS_TIER_PARTITION && capability_partitions(unit, version) ? MPS_TIER_PARTITION
                                                                                           : MPS_TIER_VERIFIED;
        return limit >= MPS_TIER_NAMESPACE && capability_namespaces(version) ? MPS_TIER_NAMESPACE : MPS_TIER_VERIFIED;
}

bool share_limits_memory(const struct unit *unit)
{
        return unit->memory || unit->gpu->failure || (unit->mig && unit->mig->failure);
}

const char *share_promise(const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
        return mps_tier_promise(share_tier(plan, resource, unit), share_limits_memory(unit));
}
