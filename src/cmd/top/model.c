#include "cmd/top/top.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"

#define SHARE(member) offsetof(struct top_share, member)
#define UNIT(member) offsetof(struct top_unit, member)

/* Which number of a share, or of a unit, a family has. */
static const struct family {
        const char *name;
        size_t offset;
} share_families[] =
        {
                {"warpshare_container_memory_limit_bytes", SHARE(limit)},
                {"warpshare_container_memory_used_bytes", SHARE(used)},
                {"warpshare_container_memory_peak_bytes", SHARE(peak)},
                {"warpshare_container_sm_ratio", SHARE(sm)},
                {"warpshare_container_memory_controller_ratio", SHARE(memory_controller)},
                {"warpshare_container_gpu_seconds_total", SHARE(seconds)},
                {"warpshare_container_sm_seconds_total", SHARE(sm_seconds)},
                {"warpshare_container_energy_estimated_joules_total", SHARE(energy)},
                {"warpshare_unit_other_memory_bytes", SHARE(used)},
},
  unit_families[] = {
          {"warpshare_unit_memory_capacity_bytes", UNIT(capacity)},
          {"warpshare_unit_memory_used_bytes", UNIT(used)},
          {"warpshare_gpu_utilization_ratio", UNIT(utilization)},
          {"warpshare_gpu_temperature_celsius", UNIT(temperature)},
          {"warpshare_gpu_power_watts", UNIT(power)},
          {"warpshare_gpu_power_limit_watts", UNIT(power_limit)},
};

struct maker {
        struct arena *arena;
        struct map units;  /* UUID → struct top_unit * */
        struct map shares; /* label share, or unit and by → struct top_share * */
        struct top top;
};

static const struct family *find_family(const struct family *families, size_t count, const char *name)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(families[i].name, name) == 0)
                        return &families[i];
        return NULL;
}

static struct top_unit *get_unit(struct maker *maker, const char *uuid, const char *index)
{
        struct top_unit *unit = map_find(&maker->units, uuid);

        if (!unit) {
                unit = &maker->top.units[maker->top.n_units++];
                *unit = (struct top_unit){.uuid = uuid,
                        .capacity = NAN,
                        .used = NAN,
                        .utilization = NAN,
                        .temperature = NAN,
                        .power = NAN,
                        .power_limit = NAN};
                map_add(&maker->units, uuid, unit);
        }
        if (index)
                unit->index = index;
        return unit;
}

static const char *or_empty(const char *text)
{
        return text ? text : "";
}

static void add_share(struct maker *maker, struct top_unit *unit, struct top_share *share)
{
        if (unit->n_shares == unit->capacity_of_shares) {
                const size_t capacity = MAX(2 * unit->capacity_of_shares, (size_t)16);
                struct top_share **more = ARENA_ARRAY(maker->arena, struct top_share *, capacity);

                if (unit->n_shares)
                        memcpy(more, unit->shares, unit->n_shares * sizeof(struct top_share *));
                unit->shares = more;
                unit->capacity_of_shares = capacity;
        }
        unit->shares[unit->n_shares++] = share;
}

static struct top_share *new_share(
        struct maker *maker, const char *key, const struct page_sample *sample, struct top_unit *unit)
{
        struct top_share *share = ARENA_NEW(maker->arena, struct top_share);

        *share = (struct top_share){.by = page_label(sample, "by"),
                .pod_namespace = page_label(sample, "namespace"),
                .pod = page_label(sample, "pod"),
                .container = page_label(sample, "container"),
                .claim = page_label(sample, "claim"),
                .pod_uid = page_label(sample, "pod_uid"),
                .limit = NAN,
                .used = NAN,
                .peak = NAN,
                .sm = NAN,
                .memory_controller = NAN,
                .seconds = NAN,
                .sm_seconds = NAN,
                .energy = NAN};
        map_add(&maker->shares, key, share);
        add_share(maker, unit, share);
        return share;
}

/* The page names a share before it has its numbers. */
static void name_share(struct maker *maker, const struct page_sample *sample)
{
        const char *id = page_label(sample, "share");
        const char *uuid = page_label(sample, "unit");

        if (id && uuid && !map_find(&maker->shares, id))
                new_share(maker, id, sample, get_unit(maker, uuid, NULL));
}

/* NULL: it has no name. What is nobody's is of a unit. */
static struct top_share *find_share(struct maker *maker, const struct page_sample *sample)
{
        const char *id = page_label(sample, "share");
        const char *uuid = page_label(sample, "unit");
        const char *key;
        struct top_share *share;

        if (id)
                return map_find(&maker->shares, id);
        if (!uuid)
                return NULL;
        key = arena_printf(maker->arena, "%s %s", uuid, or_empty(page_label(sample, "by")));
        share = map_find(&maker->shares, key);
        return share ? share : new_share(maker, key, sample, get_unit(maker, uuid, page_label(sample, "index")));
}

static void *find_place(struct maker *maker, const struct page_sample *sample, bool is_of_share)
{
        const char *unit = page_label(sample, "unit");
        const char *uuid = unit ? unit : page_label(sample, "gpu");

        if (is_of_share)
                return find_share(maker, sample);
        return uuid ? get_unit(maker, uuid, page_label(sample, "index")) : NULL;
}

static void take_sample(struct maker *maker, const struct page_sample *sample)
{
        const struct family *of_share = find_family(share_families, ARRAY_SIZE(share_families), sample->name);
        const struct family *of_unit = find_family(unit_families, ARRAY_SIZE(unit_families), sample->name);
        const char *sensor = page_label(sample, "sensor");
        void *to;

        if (strcmp(sample->name, "warpshare_container_info") == 0)
                name_share(maker, sample);
        if (!(of_share || of_unit) || (sensor && strcmp(sensor, "gpu") != 0))
                return;
        to = find_place(maker, sample, of_share);
        if (to)
                *(double *)(void *)((char *)to + (of_share ? of_share : of_unit)->offset) = sample->value;
}

/* ---- order ---- */

/* "3" before "3:1" before "10". */
static int compare_indices(const char *a, const char *b)
{
        char *end_a;
        char *end_b;
        const unsigned long first = strtoul(a, &end_a, 10);
        const unsigned long second = strtoul(b, &end_b, 10);

        if (first != second)
                return first < second ? -1 : 1;
        if (*end_a != ':' || *end_b != ':')
                return (*end_a == ':') - (*end_b == ':');
        return compare_indices(end_a + 1, end_b + 1);
}

static int compare_units(const void *a, const void *b)
{
        const struct top_unit *first = a;
        const struct top_unit *second = b;
        const int result = compare_indices(or_empty(first->index), or_empty(second->index));

        return result ? result : strcmp(first->uuid, second->uuid);
}

/* The largest first, and what is unknown last. */
static int compare_numbers(double a, double b)
{
        if (isnan(a) || isnan(b))
                return isnan(a) - isnan(b);
        return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_names(const struct top_share *a, const struct top_share *b)
{
        int result = strcmp(or_empty(a->pod_namespace), or_empty(b->pod_namespace));

        if (result == 0)
                result = strcmp(or_empty(a->pod), or_empty(b->pod));
        if (result == 0)
                result = strcmp(or_empty(a->pod_uid), or_empty(b->pod_uid));
        return result ? result : strcmp(or_empty(a->by), or_empty(b->by));
}

/* Pods stand before what is no pod. */
static int compare_shares(const void *a, const void *b, void *data)
{
        const struct top_share *first = *(struct top_share *const *)a;
        const struct top_share *second = *(struct top_share *const *)b;
        int result = 0;

        if (!first->by != !second->by)
                return first->by ? 1 : -1;
        switch (*(const enum top_sort *)data) {
        case TOP_BY_MEMORY:
                result = compare_numbers(first->used, second->used);
                break;
        case TOP_BY_SM:
                result = compare_numbers(first->sm, second->sm);
                break;
        case TOP_BY_PEAK:
                result = compare_numbers(first->peak, second->peak);
                break;
        case TOP_BY_POD:
                break;
        }
        return result ? result : compare_names(first, second);
}

/* ---- filter ---- */

static bool is_wanted(const struct top_share *share, const char *filter, struct arena *arena)
{
        const char *name = arena_printf(arena, "%s/%s/%s", or_empty(share->pod_namespace),
                or_empty(share->pod ? share->pod : share->claim), or_empty(share->container));

        return !*filter || (!share->by && strstr(name, filter));
}

static void filter_shares(struct maker *maker, const char *filter)
{
        size_t kept_units = 0;

        for (size_t i = 0; i < maker->top.n_units; i++) {
                struct top_unit *unit = &maker->top.units[i];
                size_t kept = 0;

                for (size_t j = 0; j < unit->n_shares; j++)
                        if (is_wanted(unit->shares[j], filter, maker->arena))
                                unit->shares[kept++] = unit->shares[j];
                unit->n_shares = kept;
                if (!*filter || kept)
                        maker->top.units[kept_units++] = *unit;
        }
        maker->top.n_units = kept_units;
}

void top_make(struct top *ret, struct arena *arena, const struct page *page, const struct top_wish *wish)
{
        struct maker maker = {.arena = arena};
        enum top_sort sort = wish->sort;

        maker.top.units = ARENA_ARRAY(arena, struct top_unit, page->n_samples);
        for (size_t i = 0; i < page->n_samples; i++)
                take_sample(&maker, &page->samples[i]);
        map_done(&maker.units);
        map_done(&maker.shares);
        filter_shares(&maker, wish->filter);
        if (maker.top.n_units)
                qsort(maker.top.units, maker.top.n_units, sizeof(*maker.top.units), compare_units);
        for (size_t i = 0; i < maker.top.n_units; i++)
                if (maker.top.units[i].n_shares)
                        qsort_r(maker.top.units[i].shares, maker.top.units[i].n_shares,
                                sizeof(*maker.top.units[i].shares), compare_shares, &sort);
        *ret = maker.top;
}

const char *top_share_name(const struct top_share *share, struct arena *arena)
{
        if (share->by)
                return arena_printf(arena, "(%s)", share->by);
        if (share->pod)
                return arena_printf(arena, "%s/%s", or_empty(share->pod_namespace), share->pod);
        if (share->claim)
                return arena_printf(arena, "claim %s/%s", or_empty(share->pod_namespace), share->claim);
        return arena_printf(arena, "pod %s", or_empty(share->pod_uid));
}
