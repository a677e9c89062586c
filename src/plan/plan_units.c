// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "config/kube_name.h"
#include "gpu/mig_profile.h"
#include "plan/plan_build.h"
#include "plan/share.h"

/* ---- names ---- */

bool plan_pattern_matches(const char *pattern, const char *text)
{
        const char *star = NULL; /* the last '*': only its run can still grow */
        const char *run = NULL;

        while (*text) {
                if (*pattern == '*') {
                        star = pattern++;
                        run = text;
                } else if (*pattern == *text) {
                        pattern++;
                        text++;
                } else if (star) {
                        pattern = star + 1;
                        text = ++run;
                } else {
                        return false;
                }
        }
        while (*pattern == '*')
                pattern++;
        return *pattern == '\0';
}

static const char *pattern_name(const struct resource_pattern *patterns, size_t n_patterns, const char *text)
{
        for (size_t i = 0; i < n_patterns; i++)
                if (plan_pattern_matches(patterns[i].pattern, text))
                        return patterns[i].name;
        return NULL;
}

static const char *plan_name_gpu(const struct plan_builder *builder, const struct gpu *gpu)
{
        const char *product = builder->inventory->platform == PLATFORM_TEGRA ? "tegra" : gpu->name;
        const char *name =
                pattern_name(builder->config->patterns.gpu, builder->config->patterns.n_gpu, product ? product : "");

        return name ? name : PLAN_GPU_RESOURCE;
}

/* "1c.3g.20gb": a compute instance with only some slices of its GPU instance. */
static bool has_some_slices(const char *profile)
{
        return profile[strspn(profile, "0123456789")] == 'c';
}

/* "nvidia.com/mig-1g.10gb.me" for "1g.10gb+me". */
static int plan_name_profile(
        const struct plan_builder *builder, const struct mig_device *mig, const char **ret, struct error *err)
{
        const char *profile = mig->profile;
        const char *name;

        if (!profile)
                return error_set(err, ERROR_UNSUPPORTED,
                        "its profile is unknown%s%s; run the agent privileged if NVML refuses it the permission",
                        mig->profile_failure ? ": " : "", mig->profile_failure ? mig->profile_failure : "");
        if (has_some_slices(profile))
                return error_set(err, ERROR_UNSUPPORTED, "it does not have all compute slices of its GPU instance");
        name = arena_printf(builder->arena, PLAN_MIG_RESOURCE "%s", mig_profile_dotted(builder->arena, profile));
        return resource_name_check(name, builder->arena, ret, err);
}

/* NULL, with a warning, for a MIG device without a name. */
static const char *name_mig(const struct plan_builder *builder, const struct unit *unit)
{
        const struct config *config = builder->config;
        const char *profile = unit->mig->profile;
        const char *name = pattern_name(config->patterns.mig, config->patterns.n_mig, profile ? profile : "");
        struct error err;

        if (name)
                return name;
        if (config->mig_strategy == MIG_STRATEGY_SINGLE)
                return PLAN_GPU_RESOURCE;
        if (plan_name_profile(builder, unit->mig, &name, &err) == 0)
                return name;
        plan_warn(builder, "%s%s%.50s%s is left out: %s; a pattern in resources.mig can give it a name",
                plan_unit_text(builder, unit), profile ? " of profile '" : "", profile ? profile : "",
                profile ? "'" : "", err.text);
        return NULL;
}

/* ---- the rules of the MIG strategy single ---- */

#define N_ATTRIBUTES 9

static const char *const attribute_names[N_ATTRIBUTES] = {"GPU slices", "compute slices", "multiprocessors",
        "copy engines", "decoders", "encoders", "JPEG engines", "OFA engines", "memory in MiB"};

/* False: the attributes were not read. */
static bool attribute_values(const struct mig_attributes *attributes, uint64_t values[N_ATTRIBUTES])
{
        const uint64_t all[N_ATTRIBUTES] = {attributes->gpu_slices, attributes->compute_slices,
                attributes->multiprocessors, attributes->copy_engines, attributes->decoders, attributes->encoders,
                attributes->jpegs, attributes->ofas, attributes->memory_mib};

        memcpy(values, all, sizeof(all));
        return attributes->gpu_slices > 0;
}

static int check_alike(const struct plan_builder *builder, const struct unit *a, const struct unit *b)
{
        uint64_t values_a[N_ATTRIBUTES];
        uint64_t values_b[N_ATTRIBUTES];

        /* Unknown values of a failing GPU must not stop the other GPUs. */
        if (!attribute_values(&a->mig->attributes, values_a) || !attribute_values(&b->mig->attributes, values_b))
                return 0;
        for (size_t i = 0; i < N_ATTRIBUTES; i++)
                if (values_a[i] != values_b[i])
                        return error_set(builder->err, ERROR_INVALID,
                                "migStrategy single: all MIG devices must be alike, but %s and %s differ in %s (%llu "
                                "and %llu): create equal ones, or use migStrategy mixed",
                                plan_unit_text(builder, a), plan_unit_text(builder, b), attribute_names[i],
                                (unsigned long long)values_a[i], (unsigned long long)values_b[i]);
        return 0;
}

static int check_not_both(const struct plan_builder *builder, const struct unit *whole, const struct unit *mig)
{
        return error_set(builder->err, ERROR_INVALID,
                "migStrategy single: %s is not in MIG mode, but there is %s: enable MIG on all GPUs or on none, or use "
                "migStrategy mixed",
                plan_unit_text(builder, whole), plan_unit_text(builder, mig));
}

/* Requires MIG devices only, of one kind, or whole GPUs only, since pods cannot say which they want. */
static int check_single(struct plan_builder *builder)
{
        const struct unit *first_mig = NULL;
        size_t kept = 0;

        for (size_t i = 0; i < builder->n_units && !first_mig; i++)
                if (builder->units[i].mig)
                        first_mig = &builder->units[i];
        if (!first_mig)
                return 0;
        for (size_t i = 0; i < builder->n_units; i++) {
                const struct unit *unit = &builder->units[i];

                if (unit->mig && check_alike(builder, first_mig, unit) < 0)
                        return -1;
                if (!unit->mig && !unit->gpu->failure)
                        return check_not_both(builder, unit, first_mig);
        }
        /* Only failing GPUs are whole: they may be in MIG mode without reporting it. */
        for (size_t i = 0; i < builder->n_units; i++) {
                if (builder->units[i].mig)
                        builder->units[kept++] = builder->units[i];
                else
                        plan_warn(builder, "%s is left out: it fails, and the others have MIG devices",
                                plan_unit_text(builder, &builder->units[i]));
        }
        builder->n_units = kept;
        return 0;
}

/* ---- units ---- */

static void plan_add_gpu(struct plan_builder *builder, size_t position)
{
        struct unit *unit = &builder->units[builder->n_units++];

        *unit = unit_make(builder->arena, builder->inventory, position, NULL);
        unit->base_name = plan_name_gpu(builder, unit->gpu);
}

static int compare_mig(const void *a, const void *b)
{
        const struct unit *unit_a = a;
        const struct unit *unit_b = b;

        return (unit_a->mig->index > unit_b->mig->index) - (unit_a->mig->index < unit_b->mig->index);
}

static void add_mig_devices(struct plan_builder *builder, size_t position)
{
        const struct gpu *gpu = &builder->inventory->gpus[position];
        size_t first = builder->n_units;

        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                const struct mig_device *mig = &gpu->mig_devices[i];
                struct unit unit = unit_make(builder->arena, builder->inventory, position, mig);

                unit.base_name = mig->is_withdrawn ? NULL : name_mig(builder, &unit);
                if (unit.base_name)
                        builder->units[builder->n_units++] = unit;
        }
        qsort(builder->units + first, builder->n_units - first, sizeof(*builder->units), compare_mig);
        for (size_t i = 0; i < gpu->n_mig_failures; i++)
                plan_warn(builder, "left out of GPU %u (%s): %s", gpu->index, gpu->uuid, gpu->mig_failures[i]);
        if (gpu->n_mig_devices + gpu->n_mig_failures == 0 && !gpu->failure && !gpu->is_withdrawn)
                plan_warn(builder,
                        "GPU %u (%s) is in MIG mode but has no MIG devices, so it is not advertised: create some, or "
                        "disable MIG",
                        gpu->index, gpu->uuid);
}

bool plan_is_for_dra(const struct config *config, const struct inventory *inventory, const struct gpu *gpu)
{
        return config->dra.enabled && inventory->platform == PLATFORM_NVML &&
               config_dra_selects(&config->dra, gpu->index, gpu->uuid);
}

/* True if the device plugin gets no part of |gpu|: it belongs to DRA, or did and is still used by claims. */
static bool plan_leaves_to_dra(const struct config *config, const struct inventory *inventory, const struct gpu *gpu)
{
        return plan_is_for_dra(config, inventory, gpu) || gpu->is_claimed;
}

static bool plan_has_gpu(const struct inventory *inventory, const struct device_ref *ref)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (ref->uuid ? strcmp(ref->uuid, inventory->gpus[i].uuid) == 0 : ref->gpu == inventory->gpus[i].index)
                        return true;
        return false;
}

static void warn_of_absent_for_dra(const struct plan_builder *builder)
{
        const struct device_selector *devices = &builder->config->dra.devices;

        for (size_t i = 0; i < devices->n_refs; i++) {
                const struct device_ref *ref = &devices->refs[i];

                if (plan_has_gpu(builder->inventory, ref))
                        continue;
                plan_warn(builder, "config '%.150s' line %d: dra.devices: '%s' means no GPU of this node",
                        builder->config->path, ref->line,
                        ref->uuid ? ref->uuid : arena_printf(builder->arena, "%u", ref->gpu));
                return;
        }
}

/* An id means one unit; that of MIG devices is what NVML says, and kubelet would refuse a list that has it twice. */
static void drop_twins(struct plan_builder *builder)
{
        struct map seen = MAP_INIT;
        size_t kept = 0;

        for (size_t i = 0; i < builder->n_units; i++) {
                if (map_add(&seen, builder->units[i].uuid, &builder->units[i]))
                        builder->units[kept++] = builder->units[i];
                else
                        plan_warn(builder, "%s is left out: another GPU has the same UUID",
                                plan_unit_text(builder, &builder->units[i]));
        }
        builder->n_units = kept;
        map_done(&seen);
}

int plan_find_units(struct plan_builder *builder)
{
        const struct inventory *inventory = builder->inventory;
        enum mig_strategy strategy = builder->config->mig_strategy;
        size_t room = 0;

        for (size_t i = 0; i < inventory->n_unnamed_failures; i++)
                plan_warn(builder, "a GPU is left out, since NVML does not report its UUID: %s",
                        inventory->unnamed_failures[i]);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                room += 1 + inventory->gpus[i].n_mig_devices;
        builder->units = ARENA_ARRAY(builder->arena, struct unit, room);
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                if (plan_leaves_to_dra(builder->config, inventory, &inventory->gpus[i]))
                        builder->n_for_dra++;
                else if (inventory->gpus[i].mig_enabled && strategy != MIG_STRATEGY_NONE)
                        add_mig_devices(builder, i);
                else if (!inventory->gpus[i].is_withdrawn)
                        plan_add_gpu(builder, i);
        }
        if (builder->config->dra.enabled && inventory->n_gpus > 0)
                warn_of_absent_for_dra(builder);
        drop_twins(builder);
        return strategy == MIG_STRATEGY_SINGLE ? check_single(builder) : 0;
}

/* ---- for DRA claims ---- */

/* A sharing section with one replica, so that a client may have the whole unit at most. */
static const struct shared_resource *share_for(struct arena *arena, const struct config *config)
{
        struct sharing_section *section = ARENA_NEW(arena, struct sharing_section);
        struct shared_resource *shared = ARENA_NEW(arena, struct shared_resource);

        *section = (struct sharing_section){
                .strategy = SHARING_MPS,
                .provisioning = PROVISIONING_WEIGHTED,
                .daemon_scope = config->dra.daemon_scope,
                .guard = config->sharing.mps ? config->sharing.mps->guard : GUARD_REPORT,
                .tier_limit = config->sharing.mps ? config->sharing.mps->tier_limit : MPS_TIER_NAMESPACE,
                .has_memory_reserve = config->dra.has_memory_reserve,
                .memory_reserve_mib = config->dra.memory_reserve_mib,
        };
        *shared = (struct shared_resource){
                .section = section, .path = "dra", .name = config->dra.driver_name, .replicas = 1};
        return shared;
}

static void claimable_add_unit(struct arena *arena, const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position, const struct mig_device *mig, struct unit *ret)
{
        *ret = unit_make(arena, inventory, position, mig);
        ret->base_name = ret->name = config->dra.driver_name;
        ret->shared = shared;
        ret->memory = share_memory_of(config->dra.memory_mib, ret->gpu, mig);
}

static size_t claimable_add_gpu(struct arena *arena, const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position, struct unit *ret)
{
        const struct gpu *gpu = &inventory->gpus[position];

        if (!gpu->mig_enabled) {
                claimable_add_unit(arena, config, shared, inventory, position, NULL, ret);
                return 1;
        }
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                claimable_add_unit(arena, config, shared, inventory, position, &gpu->mig_devices[i], &ret[i]);
        return gpu->n_mig_devices;
}

const struct resource *plan_claimable(
        struct arena *arena, const struct config *config, const struct inventory *inventory)
{
        const struct shared_resource *shared;
        struct resource *resource;
        struct unit *units;
        size_t count = 0;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                count += 1 + inventory->gpus[i].n_mig_devices;
        units = ARENA_ARRAY(arena, struct unit, count);
        shared = share_for(arena, config);
        count = 0;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (plan_leaves_to_dra(config, inventory, &inventory->gpus[i]))
                        count += claimable_add_gpu(arena, config, shared, inventory, i, &units[count]);
        if (count == 0 && !config->dra.enabled)
                return NULL;
        resource = ARENA_NEW(arena, struct resource);
        *resource = (struct resource){
                .name = config->dra.driver_name,
                .base_name = config->dra.driver_name,
                .strategy = SHARING_MPS,
                .provisioning = shared->section->provisioning,
                .daemon_scope = shared->section->daemon_scope,
                .tier_limit = shared->section->tier_limit,
                .units = units,
                .n_units = count,
                .by_id = MAP_INIT,
        };
        return resource;
}
