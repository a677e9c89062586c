// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/kube_name.h"
#include "plan/allocations.h"
#include "plan/plan_build.h"
#include "plan/share.h"

#define DEVICES_PER_MESSAGE "kubelet takes a list of at most 4 MiB"

void plan_warn(const struct plan_builder *builder, const char *format, ...)
{
        va_list args;

        if (!builder->warn)
                return;
        va_start(args, format);
        builder->warn(arena_vprintf(builder->arena, format, args), builder->warn_data);
        va_end(args);
}

const char *plan_entry_place(const struct plan_builder *builder, const struct shared_resource *entry)
{
        return arena_printf(
                builder->arena, "config '%.150s' line %d: %s", builder->config->path, entry->line, entry->path);
}

const char *plan_unit_text(const struct plan_builder *builder, const struct unit *unit)
{
        return arena_printf(builder->arena, "%s %s (%.60s)", unit->mig ? "MIG device" : "GPU", unit->index, unit->uuid);
}

struct unit unit_make(
        struct arena *arena, const struct inventory *inventory, size_t position, const struct mig_device *mig)
{
        const struct gpu *gpu = &inventory->gpus[position];
        struct unit unit = {.uuid = mig ? mig->uuid : gpu->uuid,
                .gpu = gpu,
                .mig = mig,
                .memory = mig ? mig->memory : gpu->memory,
                .replicas = 1,
                .position = position};

        if (mig)
                unit.index = arena_printf(arena, "%u:%u", gpu->index, mig->index);
        else
                unit.index = inventory->platform == PLATFORM_WSL ? "all" : arena_printf(arena, "%u", gpu->index);
        return unit;
}

/* ---- resources ---- */

static const char *individual_name(const struct plan_builder *builder, const struct unit *unit)
{
        const struct shared_resource *entry = unit->shared;
        const char *stem = entry->rename && !entry->is_suffixed ? entry->rename : unit->base_name;
        const char *suffix = entry->is_suffixed ? entry->rename + strlen(entry->name) : "";

        if (unit->mig)
                return arena_printf(builder->arena, "%s%u-%u%s", stem, unit->gpu->index, unit->mig->index, suffix);
        return arena_printf(builder->arena, "%s%u%s", stem, unit->gpu->index, suffix);
}

static int plan_name_unit(const struct plan_builder *builder, struct unit *unit)
{
        const struct shared_resource *entry = unit->shared;

        unit->name = entry && entry->rename ? entry->rename : unit->base_name;
        if (!entry || entry->section->scope != SCOPE_INDIVIDUAL)
                return 0;
        if (resource_name_check(individual_name(builder, unit), builder->arena, &unit->name, builder->err) < 0)
                return error_prefix(builder->err, "%s: scope individual", plan_entry_place(builder, entry));
        return 0;
}

static int count_unit(const struct plan_builder *builder, struct plan *plan, const char *name)
{
        for (size_t i = 0; i < plan->n_resources; i++) {
                if (strcmp(plan->resources[i].name, name) != 0)
                        continue;
                plan->resources[i].n_units++;
                return 0;
        }
        if (plan->n_resources == PLAN_MAX_RESOURCES)
                return error_set(builder->err, ERROR_INVALID,
                        "config '%.150s': more than %zu resources on this node: let resources.gpus, resources.mig and "
                        "rename give some of them the same name, or share them with scope aggregate",
                        builder->config->path, PLAN_MAX_RESOURCES);
        plan->resources[plan->n_resources++] = (struct resource){.name = name, .n_units = 1};
        return 0;
}

static int plan_compare_resources(const void *a, const void *b)
{
        const char *name_a = ((const struct resource *)a)->name;
        const char *name_b = ((const struct resource *)b)->name;
        bool is_gpu_a = strcmp(name_a, PLAN_GPU_RESOURCE) == 0;
        bool is_gpu_b = strcmp(name_b, PLAN_GPU_RESOURCE) == 0;

        return is_gpu_a != is_gpu_b ? is_gpu_b - is_gpu_a : strcmp(name_a, name_b);
}

static void collect_units(const struct plan_builder *builder, struct resource *resource)
{
        struct unit *units = ARENA_ARRAY(builder->arena, struct unit, resource->n_units);
        size_t count = 0;

        for (size_t i = 0; i < builder->n_units; i++) {
                if (strcmp(builder->units[i].name, resource->name) != 0)
                        continue;
                units[count] = builder->units[i];
                units[count].first_device = resource->n_devices;
                resource->n_devices += units[count++].replicas;
        }
        resource->units = units;
        resource->base_name = units[0].base_name;
}

static enum placement placement_of(const struct plan_builder *builder, const struct shared_resource *entry)
{
        return entry->has_placement ? entry->placement : builder->config->placement;
}

/* The setting in which two entries differ though their units form one resource, or NULL. */
static const char *find_difference(
        const struct plan_builder *builder, const struct shared_resource *a, const struct shared_resource *b)
{
        if (a->section->strategy != b->section->strategy)
                return "strategy";
        if (a->section->provisioning != b->section->provisioning)
                return "provisioning";
        if (a->section->fail_requests_greater_than_one != b->section->fail_requests_greater_than_one)
                return "failRequestsGreaterThanOne";
        return placement_of(builder, a) != placement_of(builder, b) ? "placement" : NULL;
}

/* The largest request that is guaranteed to fit on one unit. */
static unsigned int max_per_request(const struct resource *resource, const struct sharing_section *section)
{
        bool is_costly = resource->reserves && resource->n_units > 1;
        unsigned int most = 0;

        if (resource->placement != PLACEMENT_SAME_GPU || section->fail_requests_greater_than_one)
                return 0;
        for (size_t i = 0; i < resource->n_units; i++)
                most = MAX(most, resource->units[i].replicas);
        if (section->max_per_request)
                return MIN(section->max_per_request, most);
        return is_costly ? (most + 1) / 2 : most;
}

static bool reserves(const struct sharing_section *section)
{
        if (section->reserve == RESERVE_AUTO)
                return section->strategy != SHARING_MPS || section->provisioning != PROVISIONING_UNIFORM;
        return section->reserve == RESERVE_STRICT;
}

/* Warns if the driver cannot isolate SMs. */
static void plan_warn_tier(const struct plan_builder *builder, const struct resource *resource)
{
        const struct plan plan = {.config = builder->config, .inventory = builder->inventory};

        for (size_t i = 0; resource->provisioning == PROVISIONING_SM && i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                enum mps_tier tier = share_tier(&plan, resource, unit);

                if (!unit->shared || tier == MPS_TIER_PARTITION)
                        continue;
                plan_warn(builder,
                        "%s: '%s' gets its SMs by percentages that a container can drop (tier %s): partitions need driver "
                        "590, compute capability 8.0, a whole GPU and tier partition or better, and %s does not have them all",
                        plan_entry_place(builder, unit->shared), resource->name, mps_tier_name(tier),
                        plan_unit_text(builder, unit));
                return;
        }
}

/* Warns of the first unit that may have fewer chunks of SMs than its entry gives out. */
static void plan_warn_chunks(const struct plan_builder *builder, const struct resource *resource)
{
        const struct plan plan = {.config = builder->config, .inventory = builder->inventory};

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                if (sm_chunks_needed(resource, unit) <= sm_chunks(unit) || unit->gpu->failure ||
                        share_tier(&plan, resource, unit) != MPS_TIER_PARTITION)
                        continue;
                plan_warn(builder,
                        "%s: '%s' needs %u chunks of %u SMs on %s, of which it may lack one: then the last partition is "
                        "refused; warpshare mps status says how many there are",
                        plan_entry_place(builder, unit->shared), resource->name, sm_chunks_needed(resource, unit),
                        sm_chunk(unit->gpu), plan_unit_text(builder, unit));
                return;
        }
}

/* Warns of the first unit of unknown memory: its shares have no limit in any tier. */
static void plan_warn_memory(const struct plan_builder *builder, const struct resource *resource)
{
        for (size_t i = 0; resource->strategy == SHARING_MPS && i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                if (!unit->shared || share_limits_memory(unit))
                        continue;
                plan_warn(builder,
                        "%s: '%s' has no memory limits on %s: NVML does not report its memory; set memory of this entry to "
                        "what its shares may have together, for example memory: 64Gi",
                        plan_entry_place(builder, unit->shared), resource->name, plan_unit_text(builder, unit));
                return;
        }
}

/* Warns of the first unit that cannot be shared as a whole, since the GPU is divided. */
static void plan_warn_mig(const struct plan_builder *builder, const struct resource *resource)
{
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                if (!unit->shared || !unit_is_divided(unit) ||
                        (unit->replicas == 1 && resource->strategy == SHARING_TIME_SLICING))
                        continue;
                plan_warn(builder,
                        "%s: '%s' shares %s as a whole, but it is in MIG mode: a container sees at most one MIG device of "
                        "it, whatever its share; set migStrategy: mixed or single to share MIG devices, or switch MIG off",
                        plan_entry_place(builder, unit->shared), resource->name, plan_unit_text(builder, unit));
                return;
        }
}

static void plan_warn_reserve(
        const struct plan_builder *builder, const struct resource *resource, const struct shared_resource *entry)
{
        const size_t reserved = allocations_n_reserved(resource);
        struct allocations_way ways[ALLOCATIONS_WAYS];
        const size_t n_ways = allocations_ways_out(resource, ways);
        const char *text = "";

        if (!allocations_reserved_is_much(resource))
                return;
        for (size_t i = 0; i < n_ways; i++)
                text = arena_printf(builder->arena, "%s%s maxPerRequest: %u it advertises %zu", text,
                        i ? ", with" : " with", ways[i].max_per_request, ways[i].advertised);
        plan_warn(builder,
                "%s: '%s' reserves %zu of %zu replicas (%zu %%), so that each request for up to %u finds one unit with room:"
                "%s; reserve: none (then a pod may be refused), scope: individual and DRA reserve none",
                plan_entry_place(builder, entry), resource->name, reserved, resource->n_devices,
                reserved * 100 / resource->n_devices, resource->max_per_request, text);
}

/* The resource takes the settings that its shared units have in common. */
static int plan_settle(const struct plan_builder *builder, struct resource *resource)
{
        const struct shared_resource *first = NULL;
        size_t n_shared = 0;

        resource->placement = builder->config->placement;
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct shared_resource *entry = resource->units[i].shared;
                const char *difference;

                if (!entry)
                        continue;
                n_shared++;
                first = first ? first : entry;
                difference = entry == first ? NULL : find_difference(builder, first, entry);
                if (difference)
                        return error_set(builder->err, ERROR_INVALID,
                                "%s: its %s differs from the one of %s (line %d), and both are named '%s': give one "
                                "of them a rename of its own",
                                plan_entry_place(builder, entry), difference, first->path, first->line, resource->name);
        }
        if (!first)
                return 0;
        if (first->section->scope == SCOPE_INDIVIDUAL && resource->n_units > 1)
                return error_set(builder->err, ERROR_INVALID,
                        "%s: scope individual: '%s' would be %s and %s: give one of them a rename of its own",
                        plan_entry_place(builder, first), resource->name, plan_unit_text(builder, &resource->units[0]),
                        plan_unit_text(builder, &resource->units[1]));
        if (n_shared < resource->n_units)
                plan_warn(builder,
                        "%s: '%s' mixes shared and whole units (%zu and %zu), and pods cannot say which they want: give "
                        "the shared ones a name of their own with rename",
                        plan_entry_place(builder, first), resource->name, n_shared, resource->n_units - n_shared);
        resource->strategy = first->section->strategy;
        resource->provisioning = first->section->provisioning;
        resource->placement = placement_of(builder, first);
        resource->fail_requests_greater_than_one = first->section->fail_requests_greater_than_one;
        resource->daemon_scope = first->section->daemon_scope;
        resource->tier_limit = first->section->tier_limit;
        resource->reserves = reserves(first->section);
        resource->max_per_request = max_per_request(resource, first->section);
        plan_warn_tier(builder, resource);
        plan_warn_chunks(builder, resource);
        plan_warn_memory(builder, resource);
        plan_warn_mig(builder, resource);
        plan_warn_reserve(builder, resource, first);
        return 0;
}

static int plan_check_devices(const struct plan_builder *builder, const struct resource *resource)
{
        const struct shared_resource *most = NULL;

        if (resource->n_devices <= PLAN_MAX_DEVICES)
                return 0;
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct shared_resource *entry = resource->units[i].shared;

                if (entry && (!most || entry->replicas > most->replicas))
                        most = entry;
        }
        if (!most || resource->n_units > PLAN_MAX_DEVICES)
                return error_set(builder->err, ERROR_INVALID, "'%s': %zu units, at most %zu (" DEVICES_PER_MESSAGE ")",
                        resource->name, resource->n_units, PLAN_MAX_DEVICES);
        return error_set(builder->err, ERROR_INVALID,
                "%s.replicas: %u, which makes %zu devices of the %zu units of '%s', at most %zu (" DEVICES_PER_MESSAGE
                "): use at most %zu",
                plan_entry_place(builder, most), most->replicas, resource->n_devices, resource->n_units, resource->name,
                PLAN_MAX_DEVICES, PLAN_MAX_DEVICES / resource->n_units);
}

/* ---- devices ---- */

/* "<uuid>::<n>", without printf, which takes longer than the rest for tens of thousands of ids. */
static const char *replica_id(struct arena *arena, const char *uuid, size_t length, unsigned int replica)
{
        char digits[12];
        size_t at = sizeof(digits);
        char *id;

        do
                digits[--at] = (char)('0' + replica % 10);
        while (replica /= 10);
        id = arena_alloc(arena, 1, length + 2 + sizeof(digits) - at + 1);
        memcpy(id, uuid, length);
        memcpy(id + length, "::", 2);
        memcpy(id + length + 2, digits + at, sizeof(digits) - at);
        return id;
}

static void collect_devices(struct arena *arena, struct resource *resource)
{
        struct device *devices = ARENA_ARRAY(arena, struct device, resource->n_devices);
        struct device *device = devices;

        map_reserve(&resource->by_id, resource->n_devices);
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                size_t length = strlen(unit->uuid);

                for (unsigned int replica = 0; replica < unit->replicas; replica++, device++) {
                        bool is_new;

                        device->id = unit->shared ? replica_id(arena, unit->uuid, length, replica) : unit->uuid;
                        device->unit = (uint32_t)i;
                        device->replica = replica;
                        is_new = map_add(&resource->by_id, device->id, device);
                        assert(is_new); /* each UUID occurs once: plan_find_units() */
                }
        }
        resource->devices = devices;
}

static int fill_resource(const struct plan_builder *builder, struct resource *resource)
{
        collect_units(builder, resource);
        if (plan_settle(builder, resource) < 0 || plan_check_devices(builder, resource) < 0)
                return -1;
        collect_devices(builder->arena, resource);
        return 0;
}

void resource_set_units(struct resource *resource, struct arena *arena, struct unit *units, size_t n_units)
{
        resource->units = units;
        resource->n_units = n_units;
        resource->n_devices = 0;
        for (size_t i = 0; i < n_units; i++) {
                units[i].first_device = resource->n_devices;
                resource->n_devices += units[i].replicas;
        }
        resource->by_id = (struct map)MAP_INIT;
        collect_devices(arena, resource);
}

bool unit_is_divided(const struct unit *unit)
{
        return unit->gpu->mig_enabled && !unit->mig;
}

size_t device_id_split(const char *id, int64_t *ret_replica)
{
        size_t length = strlen(id);
        const char *colons = strstr(id, "::");
        uint64_t replica;

        *ret_replica = -1;
        if (!colons || colons == id || !text_to_uint(colons + 2, UINT32_MAX, &replica))
                return length;
        *ret_replica = (int64_t)replica;
        return (size_t)(colons - id);
}

/* ---- the plan ---- */

static int build(struct plan_builder *builder, struct plan *plan)
{
        if (plan_find_units(builder) < 0 || plan_claim_units(builder) < 0 || plan_check_shares(builder) < 0)
                return -1;
        for (size_t i = 0; i < builder->n_units; i++) {
                if (plan_name_unit(builder, &builder->units[i]) < 0)
                        return -1;
                if (count_unit(builder, plan, builder->units[i].name) < 0)
                        return -1;
        }
        qsort(plan->resources, plan->n_resources, sizeof(*plan->resources), plan_compare_resources);
        for (size_t i = 0; i < plan->n_resources; i++)
                if (fill_resource(builder, &plan->resources[i]) < 0)
                        return -1;
        return 0;
}

unsigned int plan_device_lists(const struct plan *plan)
{
        return plan->config->devices.lists | (plan->adds_cdi ? DEVICE_LIST_CDI_CRI : 0U);
}

int plan_build(struct plan **ret, struct arena *arena, const struct config *config, const struct inventory *inventory,
        config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct plan_builder builder = {.arena = arena,
                .config = config,
                .inventory = inventory,
                .warn = warn,
                .warn_data = warn_data,
                .err = err};
        struct plan *plan = ARENA_NEW(arena, struct plan);

        plan->config = config;
        plan->inventory = inventory;
        plan->adds_cdi = inventory->platform == PLATFORM_NVML && config_adds_cdi(config);
        plan->resources = ARENA_ARRAY(arena, struct resource, PLAN_MAX_RESOURCES);
        if (build(&builder, plan) < 0) {
                plan_done(plan);
                return -1;
        }
        plan->claimable = plan_claimable(arena, config, inventory);
        *ret = plan;
        return 0;
}

void plan_done(struct plan *plan)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                map_done(&plan->resources[i].by_id);
        plan->n_resources = 0;
}

const struct resource *plan_find(const struct plan *plan, const char *name)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                if (strcmp(plan->resources[i].name, name) == 0)
                        return &plan->resources[i];
        return NULL;
}

const struct unit *resource_find_unit(const struct resource *resource, const char *uuid)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (strcmp(resource->units[i].uuid, uuid) == 0)
                        return &resource->units[i];
        return NULL;
}

const struct unit *resource_unit_of(const struct resource *resource, const char *device_id)
{
        const struct device *device = map_find(&resource->by_id, device_id);

        return device ? &resource->units[device->unit] : NULL;
}

/* The profile, and the capabilities that select its device nodes. */
static bool unit_mig_is_same(const struct mig_device *a, const struct mig_device *b)
{
        if (!a || !b)
                return a == b;
        return text_is_same(a->profile, b->profile) && a->gpu_instance_cap == b->gpu_instance_cap &&
               a->compute_instance_cap == b->compute_instance_cap;
}

/* Compares the share of all replicas together, which shows a difference that rounding hides for one replica. */
static bool share_is_same(
        const struct resource *a, const struct unit *unit_a, const struct resource *b, const struct unit *unit_b)
{
        struct share share_a = share_of(a, unit_a, unit_a->replicas);
        struct share share_b = share_of(b, unit_b, unit_b->replicas);

        return share_a.memory_mib == share_b.memory_mib && share_a.threads_permille == share_b.threads_permille &&
               share_a.sms == share_b.sms;
}

/* Ids are derived from UUID, replicas and whether it is shared, so they need no comparison. */
static bool unit_is_same(const struct unit *a, const struct unit *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && strcmp(a->index, b->index) == 0 && a->memory == b->memory &&
               a->replicas == b->replicas && !a->shared == !b->shared && a->is_kept == b->is_kept &&
               a->gpu->numa_node == b->gpu->numa_node && a->gpu->minor == b->gpu->minor &&
               unit_mig_is_same(a->mig, b->mig);
}

/* In a rollout ids are not derived from the units alone, and some are unavailable. */
static bool unavailable_is_same(const struct resource *a, const struct resource *b)
{
        if (a->n_draining != b->n_draining || !a->unavailable != !b->unavailable)
                return false;
        for (size_t i = 0; i < a->n_draining; i++)
                if (!resource_is_same(&a->draining[i], &b->draining[i]))
                        return false;
        if (!a->unavailable)
                return true;
        if (a->n_devices != b->n_devices)
                return false;
        for (size_t i = 0; i < a->n_devices; i++)
                if (a->unavailable[i] != b->unavailable[i] || strcmp(a->devices[i].id, b->devices[i].id) != 0)
                        return false;
        return true;
}

bool resource_is_same(const struct resource *a, const struct resource *b)
{
        if (strcmp(a->name, b->name) != 0 || strcmp(a->base_name, b->base_name) != 0)
                return false;
        if (a->strategy != b->strategy || a->provisioning != b->provisioning || a->placement != b->placement ||
                a->fail_requests_greater_than_one != b->fail_requests_greater_than_one ||
                a->daemon_scope != b->daemon_scope || a->tier_limit != b->tier_limit ||
                a->max_per_request != b->max_per_request || a->reserves != b->reserves || a->n_units != b->n_units)
                return false;
        for (size_t i = 0; i < a->n_units; i++)
                if (!unit_is_same(&a->units[i], &b->units[i]) || !share_is_same(a, &a->units[i], b, &b->units[i]))
                        return false;
        return unavailable_is_same(a, b);
}
