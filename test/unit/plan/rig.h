// SPDX-License-Identifier: Apache-2.0
/*
 * A resource made by hand, for the tests of the choice: it needs no plan, and its links are free to be anything.
 *
 * Units are written as a list: "A" is a whole GPU, "B*4" one with 4 replicas, "C/x" a MIG device of GPU C, "C/x*2" one
 * with 2 replicas. The letter says the position of the GPU in the inventory. Devices are then "A", "B::0" to "B::3",
 * "C/x", "C/x::0".
 */
#pragma once

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "plan/prefer.h"

#define RIG_MAX_GPUS 26

struct rig {
        struct arena arena;
        struct gpu *gpus;
        struct mig_device mig;
        struct resource resource;
        struct error err;
};

struct rig_query {
        const char *available; /* ids, separated by blanks; NULL: all */
        const char *required;  /* the same; NULL: none */
        size_t size;
        enum placement policy;
};

/* Both ways. */
static inline void rig_link(struct rig *rig, size_t a, size_t b, struct gpu_link link)
{
        /* The links are in the rig's arena; they are const for everybody else. */
        ((struct gpu_link *)(uintptr_t)rig->gpus[a].links)[b] = link;
        ((struct gpu_link *)(uintptr_t)rig->gpus[b].links)[a] = link;
}

static inline size_t rig_split(struct rig *rig, const char *text, const char ***ret)
{
        char *copy = arena_strdup(&rig->arena, text ? text : "");
        const char **words = ARENA_ARRAY(&rig->arena, const char *, strlen(copy) / 2 + 1);
        size_t count = 0;
        char *rest;

        for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
                words[count++] = word;
        *ret = words;
        return count;
}

static inline void rig_add_unit(struct rig *rig, struct unit *unit, const char *text)
{
        const char *star = strchr(text, '*');

        unit->position = (size_t)(text[0] - 'A');
        assert_true(unit->position < RIG_MAX_GPUS);
        unit->uuid = arena_strndup(&rig->arena, text, star ? (size_t)(star - text) : strlen(text));
        unit->gpu = &rig->gpus[unit->position];
        unit->mig = text[1] == '/' ? &rig->mig : NULL;
        unit->replicas = star ? (unsigned int)strtoul(star + 1, NULL, 10) : 1;
        unit->first_device = rig->resource.n_devices;
        rig->resource.n_devices += unit->replicas;
}

static inline void rig_init(struct rig *rig, const char *text)
{
        const char **words;
        struct resource *resource = &rig->resource;
        struct unit *units;
        struct device *devices;

        *rig = (struct rig){.resource = {.name = "nvidia.com/gpu", .reserves = true}};
        rig->gpus = ARENA_ARRAY(&rig->arena, struct gpu, RIG_MAX_GPUS);
        for (size_t i = 0; i < RIG_MAX_GPUS; i++) {
                rig->gpus[i].numa_node = -1;
                rig->gpus[i].links = ARENA_ARRAY(&rig->arena, struct gpu_link, RIG_MAX_GPUS);
        }
        for (size_t i = 0; i < RIG_MAX_GPUS; i++)
                for (size_t j = 0; j < i; j++)
                        rig_link(rig, i, j, (struct gpu_link){.level = GPU_UNKNOWN_INT});
        resource->n_units = rig_split(rig, text, &words);
        resource->units = units = ARENA_ARRAY(&rig->arena, struct unit, resource->n_units);
        for (size_t i = 0; i < resource->n_units; i++)
                rig_add_unit(rig, &units[i], words[i]);
        resource->devices = devices = ARENA_ARRAY(&rig->arena, struct device, resource->n_devices);
        for (size_t i = 0; i < resource->n_units; i++)
                for (unsigned int replica = 0; replica < units[i].replicas; replica++, devices++) {
                        *devices = (struct device){.unit = (uint32_t)i, .replica = replica};
                        devices->id = units[i].replicas == 1
                                              ? units[i].uuid
                                              : arena_printf(&rig->arena, "%s::%u", units[i].uuid, replica);
                        assert_true(map_add(&resource->by_id, devices->id, devices));
                }
}

static inline void rig_done(struct rig *rig)
{
        map_done(&rig->resource.by_id);
        arena_done(&rig->arena);
}

/* |ret|: the answer's ids, separated by blanks, in the rig's arena. */
static inline int rig_try(struct rig *rig, const struct rig_query *query, const char **ret)
{
        struct resource *resource = &rig->resource;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char **available;
        const char **required;
        const char **ids = ARENA_ARRAY(&scratch, const char *, query->size + 1);
        struct prefer_request request = {.size = query->size};
        size_t n_ids;

        if (query->available) {
                request.n_available = rig_split(rig, query->available, &available);
        } else {
                available = ARENA_ARRAY(&scratch, const char *, resource->n_devices);
                for (size_t i = 0; i < resource->n_devices; i++)
                        available[request.n_available++] = resource->devices[i].id;
        }
        request.n_required = rig_split(rig, query->required, &required);
        request.available = available;
        request.required = required;
        resource->placement = query->policy;
        if (prefer(resource, &request, &scratch, ids, &n_ids, &rig->err) < 0)
                return -1;
        assert_int_equal(n_ids, query->size);
        for (size_t i = 0; i < n_ids; i++)
                strbuf_printf(&text, "%s%s", i ? " " : "", ids[i]);
        *ret = arena_strdup(&rig->arena, text.data ? text.data : "");
        return 0;
}

static inline const char *rig_ask(struct rig *rig, const struct rig_query *query)
{
        const char *answer = "";

        assert_ok(rig_try(rig, query, &answer), &rig->err);
        return answer;
}

static inline void rig_assert(struct rig *rig, const struct rig_query *query, const char *expected)
{
        assert_string_equal(rig_ask(rig, query), expected);
}
