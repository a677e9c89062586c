// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "config/kube_name.h"
#include "plan/capability.h"
#include "plan/plan_build.h"
#include "plan/share.h"

#define N_SECTIONS 2

static int plan_claim_unit(const struct plan_builder *builder, struct unit *unit, const struct shared_resource *entry)
{
        const struct shared_resource *other = unit->shared;

        if (other && other != entry)
                return error_set(builder->err, ERROR_INVALID,
                        "%s.devices: %s is shared already by %s (line %d): let only one of them name it",
                        plan_entry_place(builder, entry), plan_unit_text(builder, unit), other->path, other->line);
        unit->shared = entry;
        unit->replicas = entry->replicas;
        unit->memory = share_memory_of(entry->memory_mib, unit->gpu, unit->mig);
        return 0;
}

/* ---- devices: [0, "0:1", GPU-…] ---- */

/*
 * "MIG-GPU-<uuid>/<gi>/<ci>": what drivers before 470.42 called a MIG device, and what configurations may still have.
 */
static bool is_legacy_uuid(const char *uuid, const struct unit *unit)
{
        char legacy[128];

        if (!unit->mig || !text_starts_with(uuid, "MIG-GPU-"))
                return false;
        snprintf(legacy, sizeof(legacy), "MIG-%s/%u/%u", unit->gpu->uuid, unit->mig->gpu_instance,
                unit->mig->compute_instance);
        return strcmp(uuid, legacy) == 0;
}

static bool unit_is_named(const struct device_ref *ref, const struct unit *unit)
{
        if (ref->uuid)
                return strcmp(ref->uuid, unit->uuid) == 0 || is_legacy_uuid(ref->uuid, unit);
        if (ref->gpu != unit->gpu->index)
                return false;
        return unit->mig ? ref->mig >= 0 && (unsigned int)ref->mig == unit->mig->index : ref->mig < 0;
}

static struct unit *claim_find_unit(
        const struct plan_builder *builder, const struct shared_resource *entry, const struct device_ref *ref)
{
        for (size_t i = 0; i < builder->n_units; i++) {
                struct unit *unit = &builder->units[i];

                if (unit_is_named(ref, unit) && strcmp(unit->base_name, entry->name) == 0)
                        return unit;
        }
        return NULL;
}

/* The GPU for DRA that |ref| means, or a MIG device of which it means. */
static const struct gpu *find_for_dra(const struct plan_builder *builder, const struct device_ref *ref)
{
        const struct inventory *inventory = builder->inventory;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];
                struct unit unit = {.uuid = gpu->uuid, .gpu = gpu};

                if (!plan_is_for_dra(builder->config, inventory, gpu))
                        continue;
                if (unit_is_named(ref, &unit))
                        return gpu;
                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        unit.mig = &gpu->mig_devices[j];
                        unit.uuid = unit.mig->uuid;
                        if (unit_is_named(ref, &unit))
                                return gpu;
                }
        }
        return NULL;
}

static int check_not_for_dra(const struct plan_builder *builder, const struct shared_resource *entry)
{
        for (size_t i = 0; builder->n_for_dra > 0 && i < entry->devices.n_refs; i++) {
                const struct gpu *gpu = find_for_dra(builder, &entry->devices.refs[i]);

                if (gpu)
                        return error_set(builder->err, ERROR_INVALID,
                                "%s.devices: '%s': GPU %u (%.60s) belongs to DRA: remove it here, or list only other GPUs "
                                "in dra.devices",
                                plan_entry_place(builder, entry),
                                device_ref_text(builder->arena, &entry->devices.refs[i]), gpu->index, gpu->uuid);
        }
        return 0;
}

/*
 * One configuration file serves many nodes, and a ref names a unit of one node: refs to units of other nodes are logged
 * in one line, not as an error.
 */
static int claim_list(const struct plan_builder *builder, const struct shared_resource *entry)
{
        const struct device_selector *selector = &entry->devices;
        const struct device_ref *absent = NULL;
        size_t n_absent = 0;

        for (size_t i = 0; i < selector->n_refs; i++) {
                struct unit *unit = claim_find_unit(builder, entry, &selector->refs[i]);

                if (unit && plan_claim_unit(builder, unit, entry) < 0)
                        return -1;
                if (unit)
                        continue;
                absent = absent ? absent : &selector->refs[i];
                n_absent++;
        }
        if (absent)
                plan_warn(builder, "%s.devices: %zu of %zu mean no unit of %s on this node; the first is '%s'",
                        plan_entry_place(builder, entry), n_absent, selector->n_refs, entry->name,
                        device_ref_text(builder->arena, absent));
        return 0;
}

/* ---- devices: 2 and devices: all ---- */

static int claim_count(const struct plan_builder *builder, const struct shared_resource *entry)
{
        unsigned int count = 0;

        for (size_t i = 0; i < builder->n_units && count < entry->devices.count; i++) {
                struct unit *unit = &builder->units[i];

                if (unit->shared || strcmp(unit->base_name, entry->name) != 0)
                        continue;
                if (plan_claim_unit(builder, unit, entry) < 0)
                        return -1;
                count++;
        }
        if (count < entry->devices.count)
                plan_warn(builder, "%s.devices: %u, but this node has only %u of %s left for it",
                        plan_entry_place(builder, entry), entry->devices.count, count, entry->name);
        return 0;
}

/* Selects all units that no list and no number selected. A second such entry is an error in plan_claim_unit(). */
static int claim_all(const struct plan_builder *builder, const struct shared_resource *entry)
{
        for (size_t i = 0; i < builder->n_units; i++) {
                struct unit *unit = &builder->units[i];

                if ((unit->shared && unit->shared->devices.kind != SELECT_ALL) ||
                        strcmp(unit->base_name, entry->name) != 0)
                        continue;
                if (plan_claim_unit(builder, unit, entry) < 0)
                        return -1;
        }
        return 0;
}

/* ---- all entries ---- */

static bool is_here(const struct plan_builder *builder, const char *name)
{
        for (size_t i = 0; i < builder->n_units; i++)
                if (strcmp(builder->units[i].base_name, name) == 0)
                        return true;
        return false;
}

static int claim_by(const struct plan_builder *builder, const struct shared_resource *entry)
{
        if (check_not_for_dra(builder, entry) < 0)
                return -1;
        if (builder->n_for_dra > 0 && builder->n_for_dra == builder->inventory->n_gpus)
                plan_warn(builder, "%s: shares nothing, since all GPUs of this node belong to DRA: dra.devices",
                        plan_entry_place(builder, entry));
        if (!is_here(builder, entry->name))
                return 0; /* warn_of_names() reports it */
        switch (entry->devices.kind) {
        case SELECT_LIST:
                return claim_list(builder, entry);
        case SELECT_COUNT:
                return claim_count(builder, entry);
        case SELECT_ALL:
                break;
        }
        return claim_all(builder, entry);
}

/* ---- names that mean nothing ---- */

static bool is_pattern_name(const struct resource_pattern *patterns, size_t n_patterns, const char *name)
{
        for (size_t i = 0; i < n_patterns; i++)
                if (strcmp(patterns[i].name, name) == 0)
                        return true;
        return false;
}

/* Whether a node can have the resource |name|: that of GPUs, of a MIG profile, or of one of the patterns. */
static bool name_is_possible(const struct plan_builder *builder, const char *name)
{
        const struct config_patterns *patterns = &builder->config->patterns;
        int length = 0;

        if (strcmp(name, PLAN_GPU_RESOURCE) == 0 || is_pattern_name(patterns->gpu, patterns->n_gpu, name) ||
                is_pattern_name(patterns->mig, patterns->n_mig, name))
                return true;
        sscanf(name, PLAN_MIG_RESOURCE "%*2[0-9]g.%*4[0-9]gb%n", &length);
        return length > 0 && (!name[length] || name[length] == '.' || name[length] == '-');
}

/* ", did you mean 'nvidia.com/gpu'?", of the names that this node has and those of patterns; or "". */
static const char *suggest_name(const struct plan_builder *builder, const char *name)
{
        const struct config_patterns *patterns = &builder->config->patterns;
        const size_t prefix = strlen(RESOURCE_NAME_PREFIX);
        const char **candidates =
                ARENA_ARRAY(builder->arena, const char *, builder->n_units + patterns->n_gpu + patterns->n_mig + 1);
        const char *nearest;
        size_t count = 0;

        for (size_t i = 0; i < builder->n_units; i++)
                candidates[count++] = builder->units[i].base_name + prefix;
        for (size_t i = 0; i < patterns->n_gpu; i++)
                candidates[count++] = patterns->gpu[i].name + prefix;
        for (size_t i = 0; i < patterns->n_mig; i++)
                candidates[count++] = patterns->mig[i].name + prefix;
        if (builder->n_units == 0)
                candidates[count++] = &PLAN_GPU_RESOURCE[prefix];
        nearest = text_nearest(name + prefix, candidates, count);
        return nearest ? arena_printf(builder->arena, ", did you mean '" RESOURCE_NAME_PREFIX "%s'?", nearest) : "";
}

/* "nvidia.com/gpu, nvidia.com/mig-1g.10gb". */
static const char *list_unit_names(const struct plan_builder *builder)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < builder->n_units; i++) {
                const char *name = builder->units[i].base_name;
                size_t j = 0;

                while (strcmp(builder->units[j].base_name, name) != 0)
                        j++;
                if (j == i)
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", name);
        }
        return arena_strdup(builder->arena, text.data);
}

/* "nvidia.com/gpu" of "nvidia.com/gpu.shared", the name that renameByDefault makes of it; NULL: not such a name. */
static const char *without_suffix(const struct plan_builder *builder, const char *name)
{
        const size_t length = strlen(name);
        const size_t suffix = strlen(RESOURCE_NAME_SHARED);

        if (length <= suffix || strcmp(name + length - suffix, RESOURCE_NAME_SHARED) != 0)
                return NULL;
        return arena_strndup(builder->arena, name, length - suffix);
}

/* Warns if no node can have the name of |entry|. */
static bool warn_of_nonsense(const struct plan_builder *builder, const struct shared_resource *entry)
{
        const char *base = without_suffix(builder, entry->name);

        if (base && (is_here(builder, base) || strcmp(base, PLAN_GPU_RESOURCE) == 0)) {
                plan_warn(builder,
                        "%s: shares nothing: '%s' is the name that renameByDefault gives to '%s': name that one to share it",
                        plan_entry_place(builder, entry), entry->name, base);
                return true;
        }
        if (name_is_possible(builder, entry->name))
                return false;
        plan_warn(builder, "%s: shares nothing: no GPU and no MIG device has the name '%s'%s%s%s",
                plan_entry_place(builder, entry), entry->name, suggest_name(builder, entry->name),
                builder->n_units ? "; this node has " : "",
                builder->n_units
                        ? list_unit_names(builder)
                        : "; GPUs are " PLAN_GPU_RESOURCE ", MIG devices " PLAN_MIG_RESOURCE
                          "1g.10gb and the like with migStrategy: mixed, unless patterns below resources name them");
        return true;
}

/*
 * One configuration file serves many nodes, so names of other nodes are not an error, as with NVIDIA's plugin, and all
 * of them are one warning.
 */
static void warn_of_names(const struct plan_builder *builder)
{
        const struct sharing_section *sections[N_SECTIONS] = {
                builder->config->sharing.mps, builder->config->sharing.time_slicing};
        _cleanup_(strbuf_done) struct strbuf others = STRBUF_INIT;
        const struct shared_resource *first = NULL;
        bool needs_mixed;

        for (size_t s = 0; s < N_SECTIONS; s++)
                for (size_t i = 0; sections[s] && i < sections[s]->n_resources; i++) {
                        const struct shared_resource *entry = &sections[s]->resources[i];

                        if (is_here(builder, entry->name) || warn_of_nonsense(builder, entry))
                                continue;
                        if (first)
                                strbuf_printf(&others, ", and no '%s'", entry->name);
                        else
                                first = entry;
                }
        if (!first || builder->n_units == 0)
                return; /* why a node has no unit at all is reported elsewhere */
        needs_mixed =
                text_starts_with(first->name, PLAN_MIG_RESOURCE) && builder->config->mig_strategy != MIG_STRATEGY_MIXED;
        plan_warn(builder, "%s: shares nothing here: this node has no '%s'%s, only %s%s%s%s",
                plan_entry_place(builder, first), first->name, others.data, list_unit_names(builder),
                suggest_name(builder, first->name),
                needs_mixed ? "; MIG devices have such names with migStrategy: mixed, and it is " : "",
                needs_mixed ? mig_strategy_name(builder->config->mig_strategy) : "");
}

static int check_clients(const struct plan_builder *builder)
{
        const char *version = builder->inventory->driver_version;

        for (size_t i = 0; i < builder->n_units; i++) {
                const struct unit *unit = &builder->units[i];
                const char *name = unit->gpu->name ? unit->gpu->name : "unknown GPU";
                unsigned int most;

                if (!unit->shared || unit->shared->section->strategy != SHARING_MPS)
                        continue;
                most = capability_clients(unit, version);
                if (unit->replicas > most)
                        return error_set(builder->err, ERROR_INVALID,
                                "%s.replicas: %u, at most %u for this %s and driver (%s%s%.100s, %.50s)",
                                plan_entry_place(builder, unit->shared), unit->replicas, most,
                                unit->mig ? "MIG device" : "GPU", unit->mig ? unit->index : "", unit->mig ? " of " : "",
                                name, version ? version : "unknown driver");
        }
        return 0;
}

int plan_claim_units(const struct plan_builder *builder)
{
        static const int order[] = {SELECT_LIST, SELECT_COUNT, SELECT_ALL};
        const struct sharing_section *sections[N_SECTIONS] = {
                builder->config->sharing.mps, builder->config->sharing.time_slicing};

        for (size_t o = 0; o < ARRAY_SIZE(order); o++)
                for (size_t s = 0; s < N_SECTIONS; s++)
                        for (size_t i = 0; sections[s] && i < sections[s]->n_resources; i++) {
                                const struct shared_resource *entry = &sections[s]->resources[i];

                                if ((int)entry->devices.kind == order[o] && claim_by(builder, entry) < 0)
                                        return -1;
                        }
        warn_of_names(builder);
        return check_clients(builder);
}

static const char *product(const struct unit *unit)
{
        return unit->gpu->name && *unit->gpu->name ? unit->gpu->name : "unknown product";
}

/* ---- whether the replicas get enough: memory ---- */

static int shares_check_memory(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int most = share_most_replicas(unit);
        unsigned long long usable = share_usable_mib(unit);

        if (unit->replicas <= most)
                return 0;
        if (most == 0)
                return error_set(builder->err, ERROR_INVALID,
                        "%s: %s (%.100s) has %llu MiB beyond the reserve of %llu MiB, and a replica needs at least %llu: "
                        "lower memoryReserve, or leave it out by devices",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit), usable,
                        (unsigned long long)share_reserve_mib(unit), (unsigned long long)SHARE_LEAST_MIB);
        return error_set(builder->err, ERROR_INVALID,
                "%s.replicas: %u, at most %u for %s (%.100s): each needs at least %llu MiB of the %llu that are left of it "
                "beyond the reserve",
                plan_entry_place(builder, unit->shared), unit->replicas, most, plan_unit_text(builder, unit),
                product(unit), (unsigned long long)SHARE_LEAST_MIB, usable);
}

/* ---- SMs ---- */

/* A configuration with sms may rely on all the chunks that fit; plan.c warns that one may be missing. */
static int shares_check_chunks(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int total = sm_count(unit);
        unsigned int chunk = sm_chunk(unit->gpu);
        unsigned int chunks = unit->shared->sms ? total / chunk : sm_chunks(unit);

        if (unit->replicas <= chunks)
                return 0;
        if (chunks == 0)
                return error_set(builder->err, ERROR_INVALID,
                        "%s: provisioning sm: %s (%.100s) has %u SMs, less than the %u of one chunk: leave it out by "
                        "devices, or use provisioning weighted",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit), total,
                        chunk);
        return error_set(builder->err, ERROR_INVALID,
                "%s.replicas: %u, at most %u for %s (%.100s), which has %u SMs in whole chunks of %u%s",
                plan_entry_place(builder, unit->shared), unit->replicas, chunks, plan_unit_text(builder, unit),
                product(unit), total, chunk, chunks < total / chunk ? ", of which it may lack one" : "");
}

static int check_entry_sms(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int chunk = sm_chunk(unit->gpu);
        unsigned int whole = sm_count(unit) / chunk * chunk;
        unsigned int most = whole / chunk / unit->replicas * chunk;
        unsigned int sms = unit->shared->sms;

        if (sms % chunk)
                return error_set(builder->err, ERROR_INVALID,
                        "%s.sms: %u, must be a multiple of %u, the SMs of one chunk of %s (%.100s)",
                        plan_entry_place(builder, unit->shared), sms, chunk, plan_unit_text(builder, unit),
                        product(unit));
        if (sms > most)
                return error_set(builder->err, ERROR_INVALID,
                        "%s.sms: %u, at most %u for each of %u replicas of %s (%.100s), which has %u SMs in whole chunks "
                        "of %u",
                        plan_entry_place(builder, unit->shared), sms, most, unit->replicas,
                        plan_unit_text(builder, unit), product(unit), whole, chunk);
        return 0;
}

static int shares_check_sms(const struct plan_builder *builder, const struct unit *unit)
{
        /* Unknown values of a failing GPU must not stop the other GPUs. */
        if (sm_count(unit) == 0 && unit->gpu->failure)
                return 0;
        if (sm_count(unit) == 0)
                return error_set(builder->err, ERROR_UNSUPPORTED,
                        "%s: provisioning sm: %s (%.100s) does not report how many SMs it has: use provisioning "
                        "weighted, or leave it out by devices",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit));
        if (shares_check_chunks(builder, unit) < 0)
                return -1;
        return unit->shared->sms ? check_entry_sms(builder, unit) : 0;
}

int plan_check_shares(const struct plan_builder *builder)
{
        for (size_t i = 0; i < builder->n_units; i++) {
                const struct unit *unit = &builder->units[i];

                if (!unit->shared || unit->shared->section->strategy != SHARING_MPS ||
                        unit->shared->section->provisioning == PROVISIONING_UNIFORM)
                        continue;
                if (shares_check_memory(builder, unit) < 0)
                        return -1;
                if (unit->shared->section->provisioning == PROVISIONING_SM && shares_check_sms(builder, unit) < 0)
                        return -1;
        }
        return 0;
}
