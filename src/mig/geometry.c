// SPDX-License-Identifier: Apache-2.0
#include "mig/geometry.h"

#include <string.h>

#include "base/macro.h"

struct search {
        const struct geometry_gpu *gpu;
        const struct geometry_instance *present;
        size_t n_present;
        unsigned int missing[GEOMETRY_MAX_PROFILES];
        struct geometry_change now;
        struct geometry_change best;
        int n_best; /* instances that stay in |best|; -1: nothing found yet */
};

static uint64_t geometry_memory_of(const struct geometry_profile *profile, unsigned int start)
{
        return ((UINT64_C(1) << profile->size) - 1) << start;
}

/*
 * Makes what is missing of |profile| and those after it; starts of one profile only go up, for its instances are alike.
 */
static bool make(struct search *search, size_t profile, unsigned int from, uint64_t used)
{
        while (profile < search->gpu->n_profiles && search->missing[profile] == 0) {
                profile++;
                from = 0;
        }
        if (profile == search->gpu->n_profiles)
                return true;
        const struct geometry_profile *kind = &search->gpu->profiles[profile];

        for (unsigned int start = from; start < 32; start++) {
                if (!(kind->starts >> start & 1) || (used & geometry_memory_of(kind, start)))
                        continue;
                search->now.made[search->now.n_made++] = (struct geometry_instance){.profile = profile, .start = start};
                search->missing[profile]--;
                bool found = make(search, profile, start + 1, used | geometry_memory_of(kind, start));

                search->missing[profile]++;
                if (found)
                        return true;
                search->now.n_made--;
        }
        return false;
}

static void geometry_keep(struct search *search, size_t at, int n_kept, uint64_t used)
{
        if (n_kept + (int)(search->n_present - at) <= search->n_best)
                return; /* not better, even if all the others stay */
        if (at == search->n_present) {
                search->now.n_made = 0;
                if (make(search, 0, 0, used)) {
                        search->best = search->now;
                        search->n_best = n_kept;
                }
                return;
        }
        size_t profile = search->present[at].profile;

        if (search->missing[profile] > 0) {
                search->missing[profile]--;
                search->now.stays |= UINT32_C(1) << at;
                geometry_keep(search, at + 1, n_kept + 1,
                        used | geometry_memory_of(&search->gpu->profiles[profile], search->present[at].start));
                search->now.stays &= ~(UINT32_C(1) << at);
                search->missing[profile]++;
        }
        geometry_keep(search, at + 1, n_kept, used);
}

uint64_t geometry_engines(const struct geometry_gpu *gpu, size_t engine)
{
        uint64_t most = 0;

        for (size_t i = 0; i < gpu->n_profiles; i++) {
                uint64_t all = (uint64_t)gpu->profiles[i].count * gpu->profiles[i].engines[engine];

                if (all > most)
                        most = all;
        }
        return most;
}

static bool has_engines(const struct geometry_gpu *gpu, const unsigned int *wanted, size_t engine)
{
        uint64_t needed = 0;

        for (size_t i = 0; i < gpu->n_profiles; i++)
                needed += (uint64_t)wanted[i] * gpu->profiles[i].engines[engine];
        return needed <= geometry_engines(gpu, engine);
}

bool geometry_search(struct geometry_change *ret, const struct geometry_gpu *gpu, const unsigned int *wanted,
        const struct geometry_instance *present, size_t n_present)
{
        struct search search = {.gpu = gpu, .present = present, .n_present = n_present, .n_best = -1};
        uint64_t slices = 0;

        for (size_t i = 0; i < gpu->n_profiles; i++) {
                if (wanted[i] > gpu->profiles[i].count)
                        return false;
                slices += (uint64_t)wanted[i] * gpu->profiles[i].slices;
        }
        if (slices > gpu->slices)
                return false;
        for (size_t i = 0; i < GEOMETRY_ENGINES; i++)
                if (!has_engines(gpu, wanted, i))
                        return false;
        memcpy(search.missing, wanted, gpu->n_profiles * sizeof(*wanted));
        geometry_keep(&search, 0, 0, 0);
        if (search.n_best < 0)
                return false;
        *ret = search.best;
        return true;
}

/* ---- how compute instances are divided ---- */

void mig_shape_add(struct mig_shape *shape, unsigned int slices)
{
        size_t at = shape->n_computes;

        if (at == MIG_SHAPE_SLICES)
                return;
        for (; at > 0 && shape->computes[at - 1] < slices; at--)
                shape->computes[at] = shape->computes[at - 1];
        shape->computes[at] = slices;
        shape->n_computes++;
}

bool mig_shape_is_same(const struct mig_shape *a, const struct mig_shape *b)
{
        return a->n_computes == b->n_computes &&
               memcmp(a->computes, b->computes, a->n_computes * sizeof(*a->computes)) == 0;
}

bool mig_shape_take(struct mig_shape_counts *counts, const struct mig_shape *shape)
{
        struct mig_shape_counts left = *counts;

        for (size_t i = 0; i < shape->n_computes; i++) {
                if (shape->computes[i] > MIG_SHAPE_SLICES || left.of[shape->computes[i]] == 0)
                        return false;
                left.of[shape->computes[i]]--;
        }
        *counts = left;
        return true;
}

/* The largest that has room comes next, until none has. */
static struct mig_shape fill_one(struct mig_shape_counts *counts, unsigned int slices)
{
        struct mig_shape shape = {.n_computes = 0};
        unsigned int room = slices;

        for (unsigned int size = MIN(slices, MIG_SHAPE_SLICES); size > 0; size--)
                for (; counts->of[size] > 0 && size <= room && shape.n_computes < MIG_SHAPE_SLICES; room -= size) {
                        shape.computes[shape.n_computes++] = size;
                        counts->of[size]--;
                }
        return shape;
}

size_t mig_shape_pack(struct mig_shape *ret, size_t max, unsigned int slices, const struct mig_shape_counts *counts)
{
        struct mig_shape_counts left = *counts;
        size_t count = 0;

        for (;;) {
                struct mig_shape shape = fill_one(&left, slices);

                if (shape.n_computes == 0)
                        return count;
                if (ret && count < max)
                        ret[count] = shape;
                count++;
        }
}
