// SPDX-License-Identifier: Apache-2.0
#include "plan/mps_limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "plan/mps_wanted.h"

const char *mps_limits_pipe(struct arena *arena, const struct resource *resource, const struct unit *unit)
{
        return arena_printf(arena, "/mps/%s/pipe", mps_daemon_name(arena, resource, unit));
}

const char *mps_limits_threads(struct arena *arena, unsigned int permille)
{
        if (permille % 10)
                return arena_printf(arena, "%u.%u", permille / 10, permille % 10);
        return arena_printf(arena, "%u", permille / 10);
}

static bool are_equal(const uint64_t *mib, size_t n_units)
{
        for (size_t i = 1; i < n_units; i++)
                if (mib[i] != mib[0])
                        return false;
        return true;
}

const char *mps_limits_memory(struct arena *arena, const uint64_t *mib, size_t n_units)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (n_units > 1 && mib[0] && are_equal(mib, n_units))
                return arena_printf(arena, "%lluM", (unsigned long long)mib[0]);
        for (size_t i = 0; i < n_units; i++)
                if (mib[i])
                        strbuf_printf(&text, "%s%zu=%lluM", text.size ? "," : "", i, (unsigned long long)mib[i]);
        return text.size ? arena_strdup(arena, text.data) : NULL;
}

/* ---- all parts of a container ---- */

bool mps_limits_at_start(const struct plan *plan, const struct resource *resource)
{
        bool depends = resource->daemon_scope == DAEMON_SCOPE_NODE || resource->provisioning == PROVISIONING_DECLARED;

        return resource->strategy == SHARING_MPS && depends && resource->provisioning != PROVISIONING_UNIFORM &&
               plan_device_lists(plan) & DEVICE_LIST_CDI;
}

static int part_by_index(const void *a, const void *b)
{
        unsigned int left = ((const struct mps_part *)a)->unit->gpu->index;
        unsigned int right = ((const struct mps_part *)b)->unit->gpu->index;

        return (left > right) - (left < right);
}

void mps_parts_sort(struct mps_part *parts, size_t n_parts)
{
        qsort(parts, n_parts, sizeof(*parts), part_by_index);
}

unsigned int mps_parts_threads(const struct mps_part *parts, size_t n_parts)
{
        unsigned int permille = 1000;

        for (size_t i = 0; i < n_parts; i++)
                permille = MIN(permille, parts[i].share.threads_permille);
        return permille;
}

const char *mps_parts_memory(struct arena *arena, const struct mps_part *parts, size_t n_parts)
{
        uint64_t *mib = ARENA_ARRAY(arena, uint64_t, n_parts);

        for (size_t i = 0; i < n_parts; i++)
                mib[i] = parts[i].share.memory_mib;
        return mps_limits_memory(arena, mib, n_parts);
}

size_t mps_limits_variables(
        struct arena *arena, const struct mps_part *parts, size_t n_parts, unsigned int omits, const char ***ret)
{
        const char **variables = ARENA_ARRAY(arena, const char *, 4);
        const char *memory = omits & MPS_LIMITS_NO_MEMORY ? NULL : mps_parts_memory(arena, parts, n_parts);
        size_t count = 0;

        variables[count++] = arena_printf(
                arena, "CUDA_MPS_PIPE_DIRECTORY=%s", mps_limits_pipe(arena, parts[0].resource, parts[0].unit));
        if (!(omits & MPS_LIMITS_NO_THREADS))
                variables[count++] = arena_printf(arena, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s",
                        mps_limits_threads(arena, mps_parts_threads(parts, n_parts)));
        if (memory)
                variables[count++] = arena_printf(arena, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", memory);
        if (n_parts > 1)
                variables[count++] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        *ret = variables;
        return count;
}

/* ---- names ---- */

unsigned int mps_limits_most(const struct resource *resource, const struct unit *unit)
{
        if (resource->provisioning == PROVISIONING_UNIFORM || resource->provisioning == PROVISIONING_DECLARED ||
                !mps_has_own_daemon(resource->daemon_scope, unit->uuid))
                return 0;
        return share_most(resource, unit);
}

const char *mps_limits_device(
        struct arena *arena, const struct resource *resource, const struct unit *unit, unsigned int k)
{
        char *name = arena_strdup(arena, mps_daemon_name(arena, resource, unit));

        for (char *at = name; *at; at++)
                if (*at == '/')
                        *at = '_';
        return k && k <= mps_limits_most(resource, unit) ? arena_printf(arena, "%s-%u", name, k) : name;
}

/* ---- the share, for the container ---- */

#define FRACTION_PARTS UINT64_C(10000)

/* The part that |mib| is of |memory| bytes, rounded down. */
static uint64_t fraction_of(uint64_t mib, uint64_t memory)
{
        return memory ? (mib << 20) * FRACTION_PARTS / memory : 0;
}

static const char *fraction_text(struct arena *arena, uint64_t parts)
{
        char *text;
        size_t length;

        if (parts == 0)
                return NULL;
        text = arena_printf(
                arena, "%u.%04u", (unsigned int)(parts / FRACTION_PARTS), (unsigned int)(parts % FRACTION_PARTS));
        length = strlen(text);
        while (text[length - 1] == '0')
                text[--length] = '\0';
        if (text[length - 1] == '.')
                text[--length] = '\0';
        return text;
}

const char *mps_limits_fraction(struct arena *arena, uint64_t mib, uint64_t memory)
{
        return fraction_text(arena, fraction_of(mib, memory));
}

const char *mps_parts_fraction(struct arena *arena, const struct mps_part *parts, size_t n_parts)
{
        uint64_t least = FRACTION_PARTS;

        for (size_t i = 0; i < n_parts; i++)
                least = MIN(least, fraction_of(parts[i].share.memory_mib,
                                           share_memory_of(0, parts[i].unit->gpu, parts[i].unit->mig)));
        return fraction_text(arena, least);
}

size_t mps_facts(struct mps_fact *ret, struct arena *arena, const struct mps_part *parts, size_t n_parts,
        enum mps_tier tier, unsigned int sms)
{
        const struct mps_part *part = &parts[0];
        const struct share *share = &part->share;
        const char *fraction = mps_parts_fraction(arena, parts, n_parts);
        size_t count = 0;

        if (n_parts == 1)
                ret[count++] = (struct mps_fact){
                        "WARPSHARE_REPLICAS", arena_printf(arena, "%u/%u", part->replicas, part->unit->replicas)};
        if (fraction)
                ret[count++] = (struct mps_fact){"WARPSHARE_FRACTION", fraction};
        if (n_parts > 1)
                return count;
        if (!sms)
                sms = share_sms(part->unit, share);
        if (share->memory_mib)
                ret[count++] = (struct mps_fact){"WARPSHARE_MEMORY_LIMIT_MIB",
                        arena_printf(arena, "%llu", (unsigned long long)share->memory_mib)};
        ret[count++] = (struct mps_fact){"WARPSHARE_THREAD_PERCENTAGE",
                arena_printf(arena, "%u.%u", share->threads_permille / 10, share->threads_permille % 10)};
        if (sms)
                ret[count++] = (struct mps_fact){"WARPSHARE_SMS", arena_printf(arena, "%u", sms)};
        ret[count++] = (struct mps_fact){
                "WARPSHARE_TIER", mps_tier_promise(tier, share->memory_mib || share_limits_memory(part->unit))};
        return count;
}
