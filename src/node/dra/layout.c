// SPDX-License-Identifier: Apache-2.0
/*
 * First the units are listed, each with the counters that exclude others; then every form of each unit, in the order
 * that packs.
 */
#include "node/dra/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "node/dra/candidates.h"
#include "net/kube/object.h"
#include "plan/capability.h"
#include "plan/plan.h"
#include "plan/share.h"

#define MIB (UINT64_C(1) << 20)
#define TIMESLICE_SUFFIX "-timeslice"
#define PROFILE_TEXT_MAX 24 /* of a profile in a name; known profiles have at most 17 */

static const char *const kind_names[] = {
        [DRA_DEVICE_WHOLE] = "whole",
        [DRA_DEVICE_SHARED] = "shared",
        [DRA_DEVICE_TIMESLICE] = "timeslice",
        [DRA_DEVICE_SHARE] = "share",
        [DRA_DEVICE_MIG] = "mig",
        [DRA_DEVICE_MIG_CANDIDATE] = "mig-candidate",
};

struct builder {
        struct arena *arena;
        const struct dra_options *options;
        struct dra_layout *layout;
        struct dra_units units;
        struct dra_device *devices;
        size_t room;
        struct dra_counter_set *sets; /* at most one for each GPU */
        const char **notes;
        size_t notes_room;
        bool by_minor; /* GPUs are named by their minor numbers */
};

/* ---- growing arrays ---- */

static void *layout_grow(struct arena *arena, void *items, size_t count, size_t *room, size_t size)
{
        void *larger;

        if (count < *room)
                return items;
        *room = MAX(*room * 2, (size_t)16);
        larger = arena_alloc(arena, *room, size);
        if (items)
                memcpy(larger, items, count * size);
        return larger;
}

static void note(struct builder *builder, const char *who, const char *what)
{
        struct dra_layout *layout = builder->layout;

        builder->notes = layout_grow(
                builder->arena, builder->notes, layout->n_notes, &builder->notes_room, sizeof(*builder->notes));
        builder->notes[layout->n_notes++] = arena_printf(builder->arena, "%s: %s", who, what);
}

struct dra_unit *dra_units_add(struct dra_units *units, struct dra_unit unit)
{
        units->items = layout_grow(units->arena, units->items, units->count, &units->room, sizeof(*units->items));
        units->items[units->count] = unit;
        return &units->items[units->count++];
}

bool dra_counters_add(struct dra_counters *counters, const char *name, uint64_t value)
{
        if (value == 0)
                return true;
        if (counters->count == DRA_MAX_COUNTERS)
                return false;
        counters->items[counters->count++] = (struct dra_counter){.name = name, .value = value};
        return true;
}

const struct dra_counter *dra_counters_keep(struct arena *arena, const struct dra_counters *counters)
{
        struct dra_counter *kept = ARENA_ARRAY(arena, struct dra_counter, counters->count);

        if (counters->count > 0)
                memcpy(kept, counters->items, counters->count * sizeof(*kept));
        return kept;
}

/* ---- names ---- */

static bool minors_name_gpus(const struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                if (inventory->gpus[i].minor < 0)
                        return false;
                for (size_t j = 0; j < i; j++)
                        if (inventory->gpus[i].minor == inventory->gpus[j].minor)
                                return false;
        }
        return true;
}

const char *dra_profile_name(struct arena *arena, const char *profile)
{
        char text[PROFILE_TEXT_MAX + 1];
        size_t length = 0;

        for (const char *at = profile; *at && length < PROFILE_TEXT_MAX - 3; at++) {
                bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9');

                text[length++] = is_plain ? *at : '-';
                if (*at == '-') {
                        memcpy(text + length, "no-", 3);
                        length += 3;
                }
        }
        return arena_strndup(arena, text, length);
}

/* ---- units ---- */

static bool is_ours_to_offer(const struct builder *builder, const struct gpu *gpu)
{
        const struct dra_options *options = builder->options;

        if (!options->devices)
                return true;
        for (size_t i = 0; i < options->n_devices; i++)
                if (strcmp(options->devices[i], gpu->uuid) == 0)
                        return true;
        return false;
}

static bool may_change(const struct builder *builder, const struct gpu *gpu)
{
        return gpu->n_mig_instance_profiles > 0 && builder->options->config.dynamic_mig && !builder->layout->is_safe;
}

/* If the MIG geometry cannot be read, instances of ours are known by their recorded MIG device. */
static bool was_made_by_us(const struct dra_options *options, const struct gpu *gpu, const struct mig_device *mig)
{
        for (size_t i = 0; i < gpu->n_mig_placed; i++)
                if (gpu->mig_placed[i].gpu_instance == mig->gpu_instance)
                        return dra_instance_placed(options, gpu, &gpu->mig_placed[i]);
        for (size_t i = 0; gpu->mig_geometry_failure && i < options->n_instances; i++)
                if (options->instances[i].uuid && strcmp(options->instances[i].uuid, mig->uuid) == 0)
                        return true;
        return false;
}

static bool has_several_forms(const struct dra_options *options)
{
        return options->config.whole + options->config.mps + options->config.time_slicing > 1;
}

/* Whether a unit is offered in more than one form: then counters are needed so that the forms exclude each other. */
static bool needs_counters(const struct builder *builder)
{
        const struct dra_layout *layout = builder->layout;

        return !layout->is_safe && !layout->one_form && has_several_forms(builder->options);
}

static void add_mig_device(struct builder *builder, struct dra_counters *counters, const struct gpu *gpu,
        const char *gpu_name, const struct mig_device *mig)
{
        const char *profile = mig->profile ? dra_profile_name(builder->arena, mig->profile) : "";
        struct dra_unit unit = {.whole = {.uuid = mig->uuid, .gpu = gpu, .mig = mig},
                .total_mib = share_memory_of(builder->options->config.memory_mib, gpu, mig) / MIB,
                .attributes = mig->attributes};
        struct dra_counters own = {0};

        unit.whole.name = arena_printf(builder->arena, "%s-mig-%s%sgi%u-ci%u", gpu_name, profile, *profile ? "-" : "",
                mig->gpu_instance, mig->compute_instance);
        if (needs_counters(builder)) {
                (void)dra_counters_add(
                        &own, arena_printf(builder->arena, "gi%u-ci%u", mig->gpu_instance, mig->compute_instance), 1);
                unit.whole.consumes = dra_counters_keep(builder->arena, &own);
                unit.whole.n_consumes = own.count;
                if (counters->count + 1 == DRA_MAX_COUNTERS || !dra_counters_add(counters, own.items[0].name, 1)) {
                        note(builder, mig->uuid, "not offered: a GPU can have no more counters");
                        return;
                }
        }
        dra_units_add(&builder->units, unit);
}

static void add_whole_gpu(struct builder *builder, struct dra_counters *counters, const struct gpu *gpu,
        const char *gpu_name, bool has_candidates)
{
        if (!has_candidates && needs_counters(builder))
                (void)dra_counters_add(counters, "unit", 1);
        dra_units_add(&builder->units,
                (struct dra_unit){.whole = {.name = gpu_name,
                                          .uuid = gpu->uuid,
                                          .gpu = gpu,
                                          .consumes = dra_counters_keep(builder->arena, counters),
                                          .n_consumes = counters->count},
                        .total_mib = share_memory_of(builder->options->config.memory_mib, gpu, NULL) / MIB});
}

/*
 * The part of the GPU's memory that |unit| has for itself. Compute instances of one GPU instance share its memory: each
 * counts with its part of the slices, so that all of them together count it once.
 */
static uint64_t own_mib(const struct dra_unit *unit)
{
        const struct mig_attributes *of = &unit->attributes;

        return unit->whole.mig && of->compute_slices > 0 && of->compute_slices < of->gpu_slices
                       ? unit->total_mib * of->compute_slices / of->gpu_slices
                       : unit->total_mib;
}

/*
 * Gives each unit that consumes counters one more, its memory, and returns how much of it the set needs so that this
 * counter never forbids what the others allow: they alone exclude. It is there to be counted, by quotas.
 */
static uint64_t add_memory_counters(struct builder *builder, size_t first)
{
        uint64_t whole = 0, parts = 0, slice = 0, slices = 0;

        for (size_t i = first; i < builder->units.count; i++) {
                struct dra_unit *unit = &builder->units.items[i];
                const struct mig_instance_profile *profile = unit->whole.profile;
                uint64_t mib = own_mib(unit);
                struct dra_counters own = {.count = unit->whole.n_consumes};

                if (own.count == 0)
                        continue;
                memcpy(own.items, unit->whole.consumes, own.count * sizeof(*own.items));
                (void)dra_counters_add(&own, DRA_COUNTER_MEMORY, mib * MIB);
                unit->whole.consumes = dra_counters_keep(builder->arena, &own);
                unit->whole.n_consumes = own.count;
                if (profile) {
                        slice = MAX(slice, (mib + profile->size - 1) / profile->size);
                        slices = MAX(slices, (uint64_t)unit->whole.start + profile->size);
                } else if (unit->whole.mig) {
                        parts += mib;
                } else {
                        whole = mib;
                }
        }
        return MAX(whole, parts + slice * slices) * MIB;
}

static void add_counter_set(struct builder *builder, struct dra_counters *counters, const char *gpu_name, size_t first)
{
        struct dra_counter_set *set;

        if (counters->count == 0)
                return;
        (void)dra_counters_add(counters, DRA_COUNTER_MEMORY, add_memory_counters(builder, first));
        set = &builder->sets[builder->layout->n_counter_sets++];
        *set = (struct dra_counter_set){.name = arena_printf(builder->arena, "%s-counters", gpu_name),
                .counters = dra_counters_keep(builder->arena, counters),
                .n_counters = counters->count};
        for (size_t i = first; i < builder->units.count; i++)
                if (builder->units.items[i].whole.n_consumes > 0)
                        builder->units.items[i].whole.counter_set = set;
}

static void layout_add_gpu(struct builder *builder, const struct gpu *gpu)
{
        const struct dra_options *options = builder->options;
        bool has_candidates = may_change(builder, gpu);
        struct dra_counters counters = {0};
        size_t first = builder->units.count;
        const char *name;

        if (gpu->failure && gpu->memory == 0) {
                note(builder, gpu->uuid, "not offered: nothing is known of it");
                return;
        }
        name = arena_printf(builder->arena, "gpu-%u", builder->by_minor ? (unsigned int)gpu->minor : gpu->index);
        if (options->config.dynamic_mig && gpu->mig_geometry_failure)
                note(builder, gpu->uuid,
                        arena_printf(builder->arena, "no MIG devices are made on it: %s", gpu->mig_geometry_failure));
        if (has_candidates && !gpu->is_withdrawn)
                dra_candidates(&builder->units, &counters, options, gpu, name);
        if (!gpu->mig_enabled && !gpu->is_withdrawn)
                add_whole_gpu(builder, &counters, gpu, name, has_candidates);
        for (size_t i = 0; gpu->mig_enabled && i < gpu->n_mig_devices; i++)
                if (!gpu->mig_devices[i].is_withdrawn && !was_made_by_us(options, gpu, &gpu->mig_devices[i]))
                        add_mig_device(builder, &counters, gpu, name, &gpu->mig_devices[i]);
        add_counter_set(builder, &counters, name, first);
        if (builder->units.count == first)
                note(builder, gpu->uuid,
                        gpu->is_withdrawn ? "not offered: its MIG geometry is being changed, or is not decided yet"
                                          : "not offered: it is in MIG mode and has no MIG devices");
}

static unsigned int media_of(const struct dra_unit *unit)
{
        const struct mig_attributes *of = &unit->attributes;

        return of->ofas + of->jpegs + of->decoders + of->encoders;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Order: MIG devices and candidates from small to large, then GPUs; within each, by the position of the GPU. */
static int compare_units(const void *first, const void *second)
{
        const struct dra_unit *of_a = first;
        const struct dra_unit *of_b = second;
        const struct dra_device *a = &of_a->whole;
        const struct dra_device *b = &of_b->whole;
        int order = ORDER(!a->mig && !a->profile, !b->mig && !b->profile);

        if (order == 0 && (a->mig || a->profile)) {
                order = ORDER(of_a->total_mib, of_b->total_mib);
                order = order ? order : ORDER(of_a->attributes.multiprocessors, of_b->attributes.multiprocessors);
                order = order ? order : ORDER(media_of(of_a), media_of(of_b));
        }
        order = order ? order : ORDER(a->gpu, b->gpu);
        if (order == 0 && a->profile && b->profile) {
                order = ORDER(a->profile->id, b->profile->id);
                order = order ? order : ORDER(of_a->rank, of_b->rank);
        }
        if (order == 0 && a->mig && b->mig) {
                order = ORDER(a->mig->gpu_instance, b->mig->gpu_instance);
                order = order ? order : ORDER(a->mig->compute_instance, b->mig->compute_instance);
        }
        return order ? order : strcmp(a->name, b->name);
}

/* ---- devices ---- */

static struct dra_overhead overhead_of(const struct builder *builder, const struct dra_device *device)
{
        const struct config_dra *config = &builder->options->config;

        if (!builder->options->features.node_allocatable)
                return (struct dra_overhead){0};
        if (dra_device_kind_is_by_mps(device->kind))
                return config->shared_overhead;
        return device->mig || device->profile ? config->mig_overhead : config->gpu_overhead;
}

static void layout_add_device(struct builder *builder, const struct dra_unit *unit, enum dra_device_kind kind,
        const char *suffix, const struct dra_capacity *capacities, size_t n_capacities)
{
        struct dra_layout *layout = builder->layout;
        struct dra_device device = unit->whole;
        struct dra_capacity *kept;

        device.name = arena_printf(builder->arena, "%s%s", unit->whole.name, suffix);
        if (strlen(device.name) >= DRA_DEVICE_NAME_SIZE) {
                note(builder, device.name, "not offered: the name is too long");
                return;
        }
        kept = ARENA_ARRAY(builder->arena, struct dra_capacity, n_capacities);
        if (n_capacities > 0)
                memcpy(kept, capacities, n_capacities * sizeof(*kept));
        device.kind = kind;
        device.overhead = overhead_of(builder, &device);
        device.allows_multiple = kind == DRA_DEVICE_SHARED || kind == DRA_DEVICE_TIMESLICE;
        device.capacities = kept;
        device.n_capacities = n_capacities;
        builder->devices = layout_grow(
                builder->arena, builder->devices, layout->n_devices, &builder->room, sizeof(*builder->devices));
        builder->devices[layout->n_devices++] = device;
}

static void add_whole(struct builder *builder, const struct dra_unit *unit)
{
        const struct mig_attributes *of = &unit->attributes;
        const struct dra_capacity capacities[] = {
                {.name = DRA_CAPACITY_MEMORY, .value = unit->total_mib * MIB, .is_binary = true},
                {.name = "multiprocessors", .value = of->multiprocessors},
                {.name = "copyEngines", .value = of->copy_engines},
                {.name = "decoders", .value = of->decoders},
                {.name = "encoders", .value = of->encoders},
                {.name = "jpegEngines", .value = of->jpegs},
                {.name = "ofaEngines", .value = of->ofas},
        };
        enum dra_device_kind kind =
                unit->whole.profile ? DRA_DEVICE_MIG_CANDIDATE : (unit->whole.mig ? DRA_DEVICE_MIG : DRA_DEVICE_WHOLE);

        if (kind == DRA_DEVICE_WHOLE)
                layout_add_device(builder, unit, kind, "", capacities, unit->total_mib > 0 ? 1 : 0);
        else
                layout_add_device(builder, unit, kind, "", capacities, ARRAY_SIZE(capacities));
}

/*
 * The memory of |unit| that MPS clients can have. Compute instances of one GPU instance share its memory: each counts
 * with its part of the slices.
 */
static uint64_t usable_mib(const struct dra_options *options, const struct dra_unit *unit)
{
        const struct mig_attributes *of = &unit->attributes;
        uint64_t reserve = options->config.has_memory_reserve
                                   ? options->config.memory_reserve_mib
                                   : share_estimated_reserve_mib(unit->whole.gpu, unit->whole.mig != NULL);
        uint64_t usable = unit->total_mib > reserve ? unit->total_mib - reserve : 0;

        return of->compute_slices > 0 && of->compute_slices < of->gpu_slices
                       ? usable * of->compute_slices / of->gpu_slices
                       : usable;
}

static unsigned int layout_clients_of(const struct builder *builder, const struct dra_unit *unit)
{
        const struct unit of = {.gpu = unit->whole.gpu, .mig = unit->whole.mig};

        return capability_clients(&of, builder->layout->inventory->driver_version);
}

/* Why |unit| cannot be divided into |parts| by MPS, or NULL. */
static const char *mps_obstacle(const struct builder *builder, const struct dra_unit *unit, uint64_t parts)
{
        if (unit->total_mib == 0)
                return "not offered by MPS: NVML does not report its memory; set memory of the section dra";
        if (capability_is_before_volta(unit->whole.gpu))
                return "not offered by MPS: GPUs before Volta hold no limits";
        if (usable_mib(builder->options, unit) / parts <= SHARE_LEAST_MIB)
                return "not offered by MPS: too little memory";
        if (layout_clients_of(builder, unit) < parts)
                return "not offered by MPS: it takes fewer clients than shares";
        return NULL;
}

/*
 * A capacity with a policy for requests from 1 to |value|. The API server refuses a policy whose least request plus one
 * step is above the value.
 */
static struct dra_capacity capacity_for_many(const char *name, uint64_t value, uint64_t preset)
{
        return (struct dra_capacity){.name = name,
                .value = value,
                .has_policy = true,
                .preset = MAX(MIN(preset, value), UINT64_C(1)),
                .min = 1,
                .max = value,
                .step = value > 1};
}

static void add_shared(struct builder *builder, const struct dra_unit *unit)
{
        const struct dra_options *options = builder->options;
        const char *obstacle = mps_obstacle(builder, unit, 1);
        uint64_t usable = usable_mib(options, unit);
        uint64_t preset = options->config.default_memory_mib ? options->config.default_memory_mib : usable / 8;

        if (obstacle) {
                note(builder, unit->whole.uuid, obstacle);
                return;
        }
        layout_add_device(builder, unit, DRA_DEVICE_SHARED, "-shared",
                (const struct dra_capacity[]){
                        {.name = DRA_CAPACITY_MEMORY,
                                .value = usable * MIB,
                                .is_binary = true,
                                .has_policy = true,
                                .preset = MAX(MIN(preset, usable), SHARE_LEAST_MIB) * MIB,
                                .min = SHARE_LEAST_MIB * MIB,
                                .max = usable * MIB,
                                .step = MIB},
                        capacity_for_many(DRA_CAPACITY_THREADS, 100, options->config.default_thread_percentage),
                        capacity_for_many(DRA_CAPACITY_CLIENTS, layout_clients_of(builder, unit),
                                options->config.default_clients),
                },
                3);
}

static void add_timeslice(struct builder *builder, const struct dra_unit *unit)
{
        struct dra_capacity slots = capacity_for_many(DRA_CAPACITY_SLOTS, MAX(1U, builder->options->config.slots), 1);

        slots.step = 0; /* several slots would give no more time */
        layout_add_device(builder, unit, DRA_DEVICE_TIMESLICE, TIMESLICE_SUFFIX, &slots, 1);
}

/* Adds static shares; if the unit cannot have so many, it is offered as a whole. */
static void layout_add_shares(struct builder *builder, const struct dra_unit *unit)
{
        unsigned int shares = MAX(1U, MIN(builder->options->config.shares, CONFIG_MAX_SHARES));
        const char *obstacle = mps_obstacle(builder, unit, shares);

        if (obstacle) {
                note(builder, unit->whole.uuid, obstacle);
                add_whole(builder, unit);
                return;
        }
        for (unsigned int k = 0; k < shares; k++) {
                const struct dra_capacity capacities[] = {
                        {.name = DRA_CAPACITY_MEMORY,
                                .value = usable_mib(builder->options, unit) / shares * MIB,
                                .is_binary = true},
                        {.name = DRA_CAPACITY_THREADS, .value = 100 / shares},
                        {.name = DRA_CAPACITY_CLIENTS, .value = layout_clients_of(builder, unit) / shares},
                };

                layout_add_device(builder, unit, DRA_DEVICE_SHARE, arena_printf(builder->arena, "-share-%u", k),
                        capacities, ARRAY_SIZE(capacities));
        }
}

static void add_safe_devices(struct builder *builder)
{
        for (size_t i = 0; i < builder->units.count; i++)
                if (builder->options->config.fallback == DRA_FALLBACK_SHARES)
                        layout_add_shares(builder, &builder->units.items[i]);
                else
                        add_whole(builder, &builder->units.items[i]);
}

static enum dra_device_kind form_of_name(const char *device)
{
        if (strstr(device, TIMESLICE_SUFFIX))
                return DRA_DEVICE_TIMESLICE;
        return strstr(device, "-share") ? DRA_DEVICE_SHARED : DRA_DEVICE_WHOLE;
}

/* The device by which claims have the unit; NULL: none has it. */
static const char *find_held(const struct dra_options *options, const struct dra_unit *unit)
{
        for (size_t i = 0; i < options->n_held; i++)
                if (strcmp(options->held[i].uuid, unit->whole.uuid) == 0)
                        return options->held[i].device;
        return NULL;
}

/* The one form of a unit (not of a candidate) among the configured forms. */
static enum dra_device_kind one_form_of(const struct builder *builder, const struct dra_unit *unit)
{
        const struct dra_options *options = builder->options;
        bool is_by_mps = options->config.mps && !mps_obstacle(builder, unit, 1);
        const char *held = find_held(options, unit);

        if (held)
                return form_of_name(held);
        if (options->config.whole &&
                (options->config.one_form == DRA_ONE_FORM_WHOLE || (!is_by_mps && !options->config.time_slicing)))
                return DRA_DEVICE_WHOLE;
        return is_by_mps || !options->config.time_slicing ? DRA_DEVICE_SHARED : DRA_DEVICE_TIMESLICE;
}

/* |kind|: WHOLE, also of a MIG device, SHARED or TIMESLICE. */
static bool offers(const struct builder *builder, const struct dra_unit *unit, enum dra_device_kind kind)
{
        const struct dra_options *options = builder->options;

        if (unit->whole.profile)
                return kind == DRA_DEVICE_WHOLE;
        if (builder->layout->one_form)
                return kind == one_form_of(builder, unit);
        return kind == DRA_DEVICE_WHOLE    ? options->config.whole
               : kind == DRA_DEVICE_SHARED ? options->config.mps
                                           : options->config.time_slicing;
}

static void add_devices(struct builder *builder)
{
        const struct dra_unit *units = builder->units.items;
        size_t count = builder->units.count;

        for (size_t i = 0; i < count; i++)
                if (offers(builder, &units[i], DRA_DEVICE_SHARED))
                        add_shared(builder, &units[i]);
        for (size_t i = 0; i < count; i++)
                if (offers(builder, &units[i], DRA_DEVICE_TIMESLICE))
                        add_timeslice(builder, &units[i]);
        for (size_t i = 0; i < count; i++)
                if ((units[i].whole.profile || units[i].whole.mig) && offers(builder, &units[i], DRA_DEVICE_WHOLE))
                        add_whole(builder, &units[i]);
        for (size_t i = count; i > 0; i--)
                if (!units[i - 1].whole.profile && !units[i - 1].whole.mig &&
                        offers(builder, &units[i - 1], DRA_DEVICE_WHOLE))
                        add_whole(builder, &units[i - 1]);
}

/* ---- layout ---- */

const char *dra_device_kind_name(enum dra_device_kind kind)
{
        assert(kind < ARRAY_SIZE(kind_names));
        return kind_names[kind];
}

static bool is_safe_layout(const struct dra_options *options)
{
        bool needs_consumable = options->config.mps || options->config.time_slicing;
        bool needs_partitionable = options->config.dynamic_mig || has_several_forms(options);

        return (needs_consumable && !options->features.consumable_capacity) ||
               (needs_partitionable && !options->features.partitionable_devices);
}

static void set_one_form(struct builder *builder)
{
        const struct dra_options *options = builder->options;

        builder->layout->one_form = arena_printf(builder->arena,
                "the scheduler of Kubernetes %s forgets shares and gives the whole GPU out beside them, so each GPU and MIG "
                "device is offered in one form only (dra.oneForm: %s); " DRA_RELEASE_GOOD " is the first that does not",
                options->forgetful, options->config.one_form == DRA_ONE_FORM_SHARED ? "shared" : "whole");
}

const struct dra_layout *dra_layout_build(
        struct arena *arena, const struct inventory *inventory, const struct dra_options *options)
{
        struct dra_layout *layout = ARENA_NEW(arena, struct dra_layout);
        struct builder builder = {.arena = arena,
                .options = options,
                .layout = layout,
                .units = {.arena = arena},
                .sets = ARENA_ARRAY(arena, struct dra_counter_set, inventory->n_gpus),
                .by_minor = minors_name_gpus(inventory)};

        layout->inventory = inventory;
        layout->is_safe = is_safe_layout(options);
        if (!layout->is_safe && options->forgetful && has_several_forms(options))
                set_one_form(&builder);
        for (size_t i = 0; inventory->platform == PLATFORM_NVML && i < inventory->n_gpus; i++)
                if (is_ours_to_offer(&builder, &inventory->gpus[i]))
                        layout_add_gpu(&builder, &inventory->gpus[i]);
        if (builder.units.count > 0)
                qsort(builder.units.items, builder.units.count, sizeof(*builder.units.items), compare_units);
        if (layout->is_safe)
                add_safe_devices(&builder);
        else
                add_devices(&builder);
        if (layout->n_devices == 0)
                layout->one_form = NULL;
        if (layout->one_form)
                note(&builder, "one form each", layout->one_form);
        layout->devices = builder.devices;
        layout->counter_sets = builder.sets;
        layout->notes = builder.notes;
        return layout;
}

const struct dra_device *dra_layout_find(const struct dra_layout *layout, const char *name)
{
        for (size_t i = 0; i < layout->n_devices; i++)
                if (strcmp(layout->devices[i].name, name) == 0)
                        return &layout->devices[i];
        return NULL;
}

const struct dra_capacity *dra_device_capacity(const struct dra_device *device, const char *name)
{
        for (size_t i = 0; i < device->n_capacities; i++)
                if (strcmp(device->capacities[i].name, name) == 0)
                        return &device->capacities[i];
        return NULL;
}

/* ---- options ---- */

struct dra_options dra_options_from(const struct config *config, const struct inventory *inventory, struct arena *arena)
{
        struct dra_options options = {.config = config->dra, .features = {true, true, true, true}};
        const char **devices = ARENA_ARRAY(arena, const char *, inventory->n_gpus + 1);

        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (plan_is_for_dra(config, inventory, &inventory->gpus[i]))
                        devices[options.n_devices++] = inventory->gpus[i].uuid;
        options.devices = devices;
        return options;
}

bool dra_release_forgets_shares(const char *git_version)
{
        struct kube_version version;

        if (!git_version || !kube_version_read(&version, git_version))
                return true;
        /* Where the correction was backported, a later minor release before its first patch need not have it. */
        return !kube_version_is_since(&version, 1, version.minor > 36 ? 37 : 36, version.minor > 36 ? 0 : 2);
}
