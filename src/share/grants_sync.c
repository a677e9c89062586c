/*
 * The books against kubelet's list. An entry is a container; it is found among the grants by its ids, of which there may be several
 * grants: that of an init container, and those that took its ids over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "share/grants_books.h"

/* A holding that has an id. */
struct mention {
        struct holding *holding;
        const struct mention *older;
};

struct mentions {
        const struct mention *newest;
};

struct sync {
        struct grants *grants;
        int64_t as_of;
        struct arena arena;
        struct map by_device; /* id → struct mentions * */
        struct map by_id;     /* of the grants: → struct holding * */
};

static const struct mention *mentions_of(const struct sync *sync, const char *id)
{
        const struct mentions *mentions = map_find(&sync->by_device, id);

        return mentions ? mentions->newest : NULL;
}

static void mention(struct sync *sync, struct holding *holding)
{
        map_add(&sync->by_id, holding->id, holding);
        for (size_t i = 0; i < holding->grant.n_devices; i++) {
                struct mentions *mentions = map_find(&sync->by_device, holding->devices[i]);
                struct mention *newest = ARENA_NEW(&sync->arena, struct mention);

                if (!mentions) {
                        mentions = ARENA_NEW(&sync->arena, struct mentions);
                        map_add(&sync->by_device, holding->devices[i], mentions);
                }
                *newest = (struct mention){.holding = holding, .older = mentions->newest};
                mentions->newest = newest;
        }
}

static bool has_id(const struct sync *sync, const struct holding *holding, const char *id)
{
        for (const struct mention *one = mentions_of(sync, id); one; one = one->older)
                if (one->holding == holding)
                        return true;
        return false;
}

/* The newest holding with just these ids that no other entry is about, or NULL. */
static struct holding *find_by_devices(const struct sync *sync, const struct grants_held *held)
{
        for (const struct mention *one = mentions_of(sync, held->devices[0]); one; one = one->older) {
                bool is_same = !one->holding->is_matched && one->holding->grant.n_devices == held->n_devices;

                for (size_t i = 1; is_same && i < held->n_devices; i++)
                        is_same = has_id(sync, one->holding, held->devices[i]);
                if (is_same)
                        return one->holding;
        }
        return NULL;
}

static struct holding *find_same(const struct sync *sync, const struct grants_held *held)
{
        struct holding *holding;

        if (!held->id)
                return held->n_devices ? find_by_devices(sync, held) : NULL;
        holding = map_find(&sync->by_id, held->id);
        if (holding)
                holding->grant.is_read = false;
        return holding;
}

/* ---- what the books do not know ---- */

/* UUID of the unit that most of the ids are of; NULL where each id counts for its own. */
static const char *unit_of_most(struct sync *sync, const struct grants_held *held)
{
        const struct resource *resource = sync->grants->resource;
        uint32_t *count = ARENA_ARRAY(&sync->arena, uint32_t, resource->n_units);
        const char *most = NULL;
        uint32_t best = 0;

        if (sync->grants->max_per_request == 0)
                return NULL;
        for (size_t i = 0; i < held->n_devices; i++) {
                const struct device *device = map_find(&resource->by_id, held->devices[i]);

                if (!device || ++count[device->unit] <= best)
                        continue;
                best = count[device->unit];
                most = resource->units[device->unit].uuid;
        }
        return most;
}

/* The same ids have the same name after each start of the agent. */
static uint64_t hash_of(const struct grants_held *held)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < held->n_devices; i++) {
                uint64_t hash = UINT64_C(0xcbf29ce484222325);

                for (const char *at = held->devices[i]; *at; at++)
                        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
                sum += hash; /* in any order */
        }
        return sum;
}

/* UUID of the one unit that the answer names; NULL: none, or several. */
static const char *unit_of_answer(const struct sync *sync, const struct grants_held *held)
{
        const struct resource *resource = sync->grants->resource;
        const char *found = NULL;

        for (size_t i = 0; held->texts && i < resource->n_units; i++) {
                if (!strstr(held->texts, resource->units[i].uuid))
                        continue;
                if (found)
                        return NULL;
                found = resource->units[i].uuid;
        }
        return found;
}

static void enter(struct sync *sync, const struct grants_held *held)
{
        bool is_bound = sync->grants->max_per_request > 0;
        const char *unit = is_bound ? unit_of_answer(sync, held) : NULL;
        char id[18];
        const char *own = held->id && grants_is_id(held->id) && !map_find(&sync->by_id, held->id) ? held->id : NULL;
        uint64_t hash = hash_of(held);
        struct holding *holding;

        do
                snprintf(id, sizeof(id), "g%016" PRIx64, hash++);
        while (map_find(&sync->by_id, id));
        holding = holding_new(own ? own : id, unit ? unit : unit_of_most(sync, held), held->devices, held->n_devices,
                (struct grants_moment){.clock = INT64_MIN});
        holding->grant.is_guess = is_bound && !(own && unit);
        holding->is_alive = holding->is_matched = true;
        books_add(sync->grants, holding);
        mention(sync, holding);
}

/* ---- the list ---- */

/* What was read is no newer than an entry whose answer is known. */
static bool is_out_of_date(const struct sync *sync, const struct grants_held *held)
{
        for (size_t i = 0; i < held->n_devices; i++) {
                const struct mention *newest = mentions_of(sync, held->devices[i]);

                if (newest && newest->holding->entered >= sync->as_of && !(held->id && newest->holding->grant.is_read))
                        return true;
        }
        return false;
}

/* An entry about an id that was granted since says nothing any more. One with other ids than any grant is not known. */
static void judge_entry(struct sync *sync, const struct grants_held *held)
{
        struct holding *same = find_same(sync, held);

        if (same)
                same->is_alive = same->is_matched = true;
        else if (held->n_devices && !is_out_of_date(sync, held))
                enter(sync, held);
}

void grants_sync(struct grants *grants, const struct grants_held *held, size_t n_held, int64_t as_of,
        void (*released)(const char *id, void *data), void *data)
{
        struct sync sync = {.grants = grants, .as_of = as_of};
        size_t left = 0;

        for (size_t i = 0; i < grants->n_all; i++) {
                grants->all[i]->is_matched = false;
                grants->all[i]->is_alive = grants->all[i]->entered >= as_of;
                mention(&sync, grants->all[i]);
        }
        for (size_t i = 0; i < n_held; i++)
                judge_entry(&sync, &held[i]);
        for (size_t i = 0; i < grants->n_all; i++) {
                struct holding *holding = grants->all[i];

                if (holding->is_alive) {
                        grants->all[left++] = holding;
                        continue;
                }
                released(holding->id, data);
                holding_free(holding);
        }
        grants->n_all = left;
        books_count(grants);
        map_done(&sync.by_device);
        map_done(&sync.by_id);
        arena_done(&sync.arena);
}
