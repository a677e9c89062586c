// SPDX-License-Identifier: Apache-2.0
#include "mig/plan.h"

#include <string.h>

#include "base/strbuf.h"
#include "gpu/mig_profile.h"
#include "mig/geometry.h"
#include "mig/profile_text.h"

static_assert(NVML_GPU_INSTANCE_PROFILE_COUNT + GEOMETRY_MAX_INSTANCES <= GEOMETRY_MAX_PROFILES,
        "more profiles, whole and divided, than the search takes");

/*
 * One GPU as the search has it. For the search, GPU instances of one profile that are divided in different ways are of
 * different profiles: one of them cannot stay in the place of the other.
 */
struct problem {
        struct arena *arena;
        const struct mig_geometry *geometry;
        struct geometry_profile profiles[GEOMETRY_MAX_PROFILES]; /* those of the GPU come first */
        size_t of[GEOMETRY_MAX_PROFILES];                        /* which of these */
        struct mig_shape shapes[GEOMETRY_MAX_PROFILES];          /* none: not divided */
        struct geometry_gpu gpu;
        unsigned int wanted[GEOMETRY_MAX_PROFILES];
        struct mig_shape_counts
                parts[NVML_GPU_INSTANCE_PROFILE_COUNT]; /* wanted devices that are a part of an instance */
};

static void take_profile(struct geometry_profile *ret, const struct mig_gpu_profile *profile)
{
        *ret = (struct geometry_profile){.slices = profile->slices,
                .count = profile->max,
                .engines = {[GEOMETRY_DECODERS] = profile->attributes.decoders,
                        [GEOMETRY_ENCODERS] = profile->attributes.encoders,
                        [GEOMETRY_JPEGS] = profile->attributes.jpegs,
                        [GEOMETRY_OFAS] = profile->attributes.ofas}};
        for (size_t i = 0; i < profile->n_placements; i++) {
                if (profile->placements[i].start < 32)
                        ret->starts |= UINT32_C(1) << profile->placements[i].start;
                ret->size = profile->placements[i].size;
        }
}

/* NVML does not say how many compute slices a GPU has: as many as the greatest set of one profile takes. */
static void problem_init(struct problem *problem, struct arena *arena, const struct mig_geometry *geometry)
{
        *problem = (struct problem){.arena = arena, .geometry = geometry};
        for (size_t i = 0; i < geometry->n_profiles; i++) {
                take_profile(&problem->profiles[i], &geometry->profiles[i]);
                problem->of[i] = i;
                problem->gpu.slices =
                        MAX(problem->gpu.slices, problem->profiles[i].slices * problem->profiles[i].count);
        }
        problem->gpu.profiles = problem->profiles;
        problem->gpu.n_profiles = geometry->n_profiles;
}

/* ---- instances that are divided ---- */

const char *mig_plan_label(struct arena *arena, const char *profile, const struct mig_shape *shape)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, profile);
        for (size_t i = 0; i < shape->n_computes; i++)
                strbuf_printf(&text, " %uc", shape->computes[i]);
        return arena_strdup(arena, text.data);
}

static bool is_whole(const struct mig_gpu_instance *instance)
{
        return instance->n_devices == 1 && instance->devices[0].slices == instance->profile->slices;
}

struct mig_shape mig_plan_shape(const struct mig_gpu_instance *instance)
{
        struct mig_shape shape = {.n_computes = 0};

        for (size_t i = 0; i < instance->n_devices && !is_whole(instance); i++)
                mig_shape_add(&shape, instance->devices[i].slices);
        return shape;
}

/* The profile of the search that is divided so; that of a whole one has an empty shape. -1: there is none. */
static int find_divided(const struct problem *problem, size_t profile, const struct mig_shape *shape)
{
        for (size_t i = 0; i < problem->gpu.n_profiles; i++)
                if (problem->of[i] == profile && mig_shape_is_same(&problem->shapes[i], shape))
                        return (int)i;
        return -1;
}

static void want_divided(struct problem *problem, size_t profile, const struct mig_shape *shape)
{
        int at = find_divided(problem, profile, shape);

        if (at < 0 && problem->gpu.n_profiles < GEOMETRY_MAX_PROFILES) {
                at = (int)problem->gpu.n_profiles++;
                problem->profiles[at] = problem->profiles[profile];
                problem->of[at] = profile;
                problem->shapes[at] = *shape;
                problem->wanted[at] = 0;
        }
        if (at >= 0)
                problem->wanted[at]++;
}

/*
 * The parts of |profile|: those that are there as they are, and the others in as few instances as they need. With
 * |in_fewest| nothing is kept that would take more instances than all of them need.
 */
static void divide(struct problem *problem, size_t profile, bool in_fewest)
{
        const struct mig_geometry *geometry = problem->geometry;
        unsigned int slices = geometry->profiles[profile].slices;
        struct mig_shape_counts left = problem->parts[profile];
        size_t fewest = mig_shape_pack(NULL, 0, slices, &left);
        struct mig_shape shapes[GEOMETRY_MAX_INSTANCES];
        size_t n_kept = 0;
        size_t n_shapes;

        for (size_t i = 0; i < geometry->n_instances; i++) {
                const struct mig_shape shape = mig_plan_shape(&geometry->instances[i]);
                struct mig_shape_counts rest = left;

                if (geometry->instances[i].profile != &geometry->profiles[profile] || shape.n_computes == 0 ||
                        !mig_shape_take(&rest, &shape) ||
                        (in_fewest && n_kept + 1 + mig_shape_pack(NULL, 0, slices, &rest) > fewest))
                        continue;
                left = rest;
                n_kept++;
                want_divided(problem, profile, &shape);
        }
        n_shapes = MIN(mig_shape_pack(shapes, ARRAY_SIZE(shapes), slices, &left), ARRAY_SIZE(shapes));
        for (size_t i = 0; i < n_shapes; i++)
                want_divided(problem, profile, &shapes[i]);
}

/* ---- why it does not fit ---- */

static const char *plan_name_of(const struct problem *problem, size_t profile)
{
        return mig_plan_label(
                problem->arena, problem->geometry->profiles[problem->of[profile]].name, &problem->shapes[profile]);
}

/* "2 of 3g.40gb, 1 of 1g.10gb" */
static const char *list_counts(const struct problem *problem, const unsigned int *counts)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < problem->gpu.n_profiles; i++)
                if (counts[i])
                        strbuf_printf(&text, "%s%u of %s", text.size ? ", " : "", counts[i], plan_name_of(problem, i));
        return arena_strdup(problem->arena, text.size ? text.data : "nothing");
}

/* Finds a part of what is wanted that fits: as many as possible of each profile, the largest first. */
static void find_part(const struct problem *problem, unsigned int *ret)
{
        struct geometry_change change;

        for (unsigned int size = 32; size > 0; size--) {
                for (size_t i = 0; i < problem->gpu.n_profiles; i++) {
                        if (problem->profiles[i].size != size)
                                continue;
                        ret[i] = problem->wanted[i];
                        while (ret[i] && !geometry_search(&change, &problem->gpu, ret, NULL, 0))
                                ret[i]--;
                }
        }
}

static const char *explain_count(const struct problem *problem)
{
        for (size_t i = 0; i < problem->gpu.n_profiles; i++)
                if (problem->wanted[i] > problem->profiles[i].count)
                        return arena_printf(problem->arena, "at most %u of %s fit on this GPU",
                                problem->profiles[i].count, plan_name_of(problem, i));
        return NULL;
}

static const char *explain_engines(const struct problem *problem)
{
        static const char *const names[] = {
                [GEOMETRY_DECODERS] = "decoders",
                [GEOMETRY_ENCODERS] = "encoders",
                [GEOMETRY_JPEGS] = "JPEG engines",
                [GEOMETRY_OFAS] = "optical flow engines (the media extension)",
        };

        for (size_t i = 0; i < GEOMETRY_ENGINES; i++) {
                uint64_t needed = 0;

                for (size_t j = 0; j < problem->gpu.n_profiles; j++)
                        needed += (uint64_t)problem->wanted[j] * problem->profiles[j].engines[i];
                if (needed > geometry_engines(&problem->gpu, i))
                        return arena_printf(problem->arena, "they need %llu %s, and it has %llu",
                                (unsigned long long)needed, names[i],
                                (unsigned long long)geometry_engines(&problem->gpu, i));
        }
        return NULL;
}

static const char *plan_explain(const struct problem *problem)
{
        unsigned int part[GEOMETRY_MAX_PROFILES] = {0};
        const char *why = explain_count(problem);
        unsigned int slices = 0;

        for (size_t i = 0; i < problem->gpu.n_profiles; i++)
                slices += problem->wanted[i] * problem->profiles[i].slices;
        if (!why && slices > problem->gpu.slices)
                why = arena_printf(
                        problem->arena, "they need %u compute slices, and it has %u", slices, problem->gpu.slices);
        if (!why)
                why = explain_engines(problem);
        if (!why)
                why = "its memory slices have no place for all of them";
        find_part(problem, part);
        return arena_printf(problem->arena, "%s do not fit: %s; this would fit: %s",
                list_counts(problem, problem->wanted), why, list_counts(problem, part));
}

/* ---- one GPU ---- */

void mig_plan_init(struct mig_plan_gpu *ret, struct arena *arena, const struct mig_node_gpu *gpu,
        const struct mig_wanted *wanted, size_t n_made)
{
        *ret = (struct mig_plan_gpu){.gpu = gpu,
                .wanted = wanted,
                .stays = ARENA_ARRAY(arena, const struct mig_gpu_instance *, gpu->geometry.n_instances),
                .goes = ARENA_ARRAY(arena, const struct mig_gpu_instance *, gpu->geometry.n_instances),
                .made = ARENA_ARRAY(arena, struct mig_plan_made, n_made)};
}

static void plan_let_go(struct mig_plan_gpu *plan, const struct mig_gpu_instance *const *known, size_t n_known,
        const struct geometry_change *change)
{
        const struct mig_geometry *geometry = &plan->gpu->geometry;

        for (size_t i = 0; i < geometry->n_instances; i++) {
                const struct mig_gpu_instance *instance = &geometry->instances[i];
                bool is_kept = false;

                for (size_t j = 0; j < n_known; j++)
                        is_kept = is_kept || (known[j] == instance && (change->stays >> j & 1));
                if (is_kept)
                        plan->stays[plan->n_stays++] = instance;
                else
                        plan->goes[plan->n_goes++] = instance;
        }
}

/* False: it does not fit. */
static bool plan_search(struct mig_plan_gpu *plan, struct problem *problem)
{
        const struct mig_geometry *geometry = problem->geometry;
        const struct mig_gpu_instance *known[GEOMETRY_MAX_INSTANCES];
        struct geometry_instance present[GEOMETRY_MAX_INSTANCES];
        struct geometry_change change;
        size_t n_known = 0;

        for (size_t i = 0; i < geometry->n_instances && n_known < GEOMETRY_MAX_INSTANCES; i++) {
                const struct mig_gpu_instance *instance = &geometry->instances[i];
                const struct mig_shape shape = mig_plan_shape(instance);
                int at = instance->n_devices == 0
                                 ? -1
                                 : find_divided(problem, (size_t)(instance->profile - geometry->profiles), &shape);

                if (at < 0)
                        continue;
                known[n_known] = instance;
                present[n_known++] =
                        (struct geometry_instance){.profile = (size_t)at, .start = instance->placement.start};
        }
        if (!geometry_search(&change, &problem->gpu, problem->wanted, present, n_known))
                return false;
        plan_let_go(plan, known, n_known, &change);
        for (size_t i = 0; i < change.n_made; i++) {
                const size_t profile = change.made[i].profile;

                plan->made[plan->n_made++] =
                        (struct mig_plan_made){.profile = geometry->profiles[problem->of[profile]].name,
                                .start = change.made[i].start,
                                .size = problem->profiles[profile].size,
                                .shape = problem->shapes[profile]};
        }
        return true;
}

/* Whether an earlier count is of the same profile's parts. */
static bool is_counted(const struct mig_wanted *wanted, size_t at)
{
        for (size_t i = 0; i < at; i++)
                if (wanted->counts[i].compute && strcmp(wanted->counts[i].profile, wanted->counts[at].profile) == 0)
                        return true;
        return false;
}

/* The driver lists no profiles yet. */
static void add_blind(struct mig_plan_gpu *plan, size_t at)
{
        const struct mig_wanted *wanted = plan->wanted;
        const char *profile = wanted->counts[at].profile;
        struct mig_shape shapes[GEOMETRY_MAX_INSTANCES] = {0};
        struct mig_shape_counts parts = {0};
        struct mig_profile_text text = {0};
        size_t count = wanted->counts[at].count;

        if (wanted->counts[at].compute &&
                (is_counted(wanted, at) || !mig_profile_text_parse(&text, profile) || text.slices > MIG_SHAPE_SLICES))
                return;
        for (size_t i = at; i < wanted->n_counts && wanted->counts[at].compute; i++)
                if (wanted->counts[i].compute && wanted->counts[i].compute < text.slices &&
                        strcmp(wanted->counts[i].profile, profile) == 0)
                        parts.of[wanted->counts[i].compute] += wanted->counts[i].count;
        if (wanted->counts[at].compute)
                count = MIN(mig_shape_pack(shapes, ARRAY_SIZE(shapes), text.slices, &parts), ARRAY_SIZE(shapes));
        for (size_t i = 0; i < count; i++)
                plan->made[plan->n_made++] =
                        (struct mig_plan_made){.profile = profile, .start = MIG_START_UNKNOWN, .shape = shapes[i]};
}

/* Keeps what is there; where that does not fit, in as few instances as are needed. */
static bool plan_divided(struct mig_plan_gpu *plan, struct problem *problem)
{
        struct problem whole = *problem;

        for (int in_fewest = 0; in_fewest < 2; in_fewest++) {
                *problem = whole;
                problem->gpu.profiles = problem->profiles;
                for (size_t i = 0; i < problem->geometry->n_profiles; i++)
                        divide(problem, i, in_fewest);
                if (plan_search(plan, problem))
                        return true;
        }
        return false;
}

static bool is_compute_size(unsigned int slices)
{
        for (unsigned int i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++)
                if (mig_profile_compute_slices(i) == slices)
                        return true;
        return false;
}

/* Adds |count| to what is wanted; returns what is wrong with it, or NULL. */
static const char *add_wanted(struct problem *problem, const struct mig_wanted_count *count)
{
        const struct mig_gpu_profile *profile = mig_profile_text_find(problem->geometry, count->profile);
        size_t at;

        if (!profile)
                return arena_printf(problem->arena, "it has no profile %s; it has %s", count->profile,
                        mig_profile_text_list(problem->arena, problem->geometry));
        at = (size_t)(profile - problem->geometry->profiles);
        if (!count->compute)
                problem->wanted[at] += count->count;
        else if (count->compute < profile->slices && profile->slices <= MIG_SHAPE_SLICES &&
                 is_compute_size(count->compute))
                problem->parts[at].of[count->compute] += count->count;
        else
                return arena_printf(problem->arena, "a compute instance of %u slices of %s cannot be made: %s",
                        count->compute, profile->name,
                        count->compute < profile->slices ? "no GPU has one of this size" : "it has no more slices");
        return NULL;
}

/* Plans the instances of one GPU; returns what is wrong with them, or NULL. */
static const char *plan_instances(struct mig_plan_gpu *plan, struct arena *arena)
{
        const struct mig_geometry *geometry = &plan->gpu->geometry;
        const struct mig_wanted *wanted = plan->wanted;
        struct problem problem;
        uint64_t all = 0;

        for (size_t i = 0; i < wanted->n_counts; i++)
                all += wanted->counts[i].count;
        if (all > GEOMETRY_MAX_INSTANCES)
                return arena_printf(arena, "%llu MIG devices are wanted, at most %zu are possible",
                        (unsigned long long)all, GEOMETRY_MAX_INSTANCES);
        if (geometry->n_profiles == 0) {
                for (size_t i = 0; i < wanted->n_counts; i++)
                        add_blind(plan, i);
                return NULL;
        }
        problem_init(&problem, arena, geometry);
        for (size_t i = 0; i < wanted->n_counts; i++) {
                const char *trouble = add_wanted(&problem, &wanted->counts[i]);

                if (trouble)
                        return trouble;
        }
        return plan_divided(plan, &problem) ? NULL : plan_explain(&problem);
}

void mig_plan_settle(struct mig_plan_gpu *plan)
{
        const struct mig_geometry *geometry = &plan->gpu->geometry;
        const bool is_enabled = plan->wanted->is_enabled;

        plan->changes_mode = geometry->is_enabled != is_enabled || geometry->is_pending_enabled != is_enabled;
        plan->needs_reset = geometry->is_enabled != is_enabled && geometry->mode_needs_reset;
        plan->changes = plan->changes_mode || plan->n_goes || plan->n_made;
}

static const char *plan_named(struct mig_plan_gpu *plan, struct arena *arena)
{
        const struct mig_node_gpu *gpu = plan->gpu;
        const struct geometry_change none = {0};
        const char *problem;

        if (gpu->problem)
                return gpu->problem;
        if (!gpu->is_capable)
                return plan->wanted->is_enabled ? "it has no MIG" : NULL;
        if (plan->wanted->is_enabled) {
                problem = plan_instances(plan, arena);
                if (problem)
                        return problem;
        } else {
                plan_let_go(plan, NULL, 0, &none);
        }
        mig_plan_settle(plan);
        return NULL;
}

void mig_plan_keep_all(struct mig_plan_gpu *plan)
{
        const struct mig_geometry *geometry = &plan->gpu->geometry;

        for (plan->n_stays = 0; plan->n_stays < geometry->n_instances; plan->n_stays++)
                plan->stays[plan->n_stays] = &geometry->instances[plan->n_stays];
}

void mig_plan_build(
        struct mig_plan *ret, struct arena *arena, const struct mig_node *node, const struct mig_wanted *wanted)
{
        struct mig_plan_gpu *gpus = ARENA_ARRAY(arena, struct mig_plan_gpu, node->n_gpus);
        struct mig_plan plan = {.gpus = gpus, .n_gpus = node->n_gpus, .fits = true};

        for (size_t i = 0; i < node->n_gpus; i++) {
                mig_plan_init(&gpus[i], arena, &node->gpus[i], &wanted[i], GEOMETRY_MAX_INSTANCES);
                if (wanted[i].is_named)
                        gpus[i].problem = plan_named(&gpus[i], arena);
                if (!wanted[i].is_named || gpus[i].problem)
                        mig_plan_keep_all(&gpus[i]);
                plan.fits = plan.fits && !gpus[i].problem;
                plan.changes = plan.changes || gpus[i].changes;
        }
        *ret = plan;
}

static const struct mig_plan_gpu *plan_find_gpu(const struct mig_plan *plan, const char *uuid, size_t length)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (strlen(plan->gpus[i].gpu->uuid) == length && strncmp(plan->gpus[i].gpu->uuid, uuid, length) == 0)
                        return &plan->gpus[i];
        return NULL;
}

int mig_plan_check_only(const struct mig_plan *plan, const char *gpus, struct error *err)
{
        size_t n_changes = 0;
        size_t n_only = 0;
        size_t length;

        for (size_t i = 0; i < plan->n_gpus; i++)
                n_changes += plan->gpus[i].changes;
        for (const char *uuid = gpus; *uuid; uuid += length + (uuid[length] == ',')) {
                const struct mig_plan_gpu *gpu;

                length = strcspn(uuid, ",");
                gpu = plan_find_gpu(plan, uuid, length);
                if (!gpu)
                        return error_set(err, ERROR_UNAVAILABLE,
                                "%.*s, which is to change, is away: nothing changes before it is back", (int)length,
                                uuid);
                n_only += gpu->changes;
        }
        if (n_changes == n_only)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "the configuration would change another GPU than %s now: nothing changes before it is planned again",
                gpus);
}

const char *mig_plan_reason(const struct mig_plan *plan, struct arena *arena)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].problem)
                        return arena_printf(arena, "GPU %u (%s): %s", plan->gpus[i].gpu->index, plan->gpus[i].gpu->uuid,
                                plan->gpus[i].problem);
        return NULL;
}
