/* Makes allocations of what kubelet says about holders. */
#include <string.h>

#include "base/text.h"
#include "node/kubelet/convert.h"
#include "node/ledger/mps_resources.h"

/* The resource |name| that has an allocation with the device id |id|; NULL: none has, or several. */
static const struct mps_resource *find_owner(const struct mps_resources *resources, const char *name, const char *id)
{
        const struct mps_resource *owner = NULL;
        size_t count;
        const struct mps_resource *all = mps_resources_all(resources, &count);

        for (size_t i = 0; i < count; i++) {
                if (strcmp(all[i].resource->name, name) != 0 || !allocations_of_device(all[i].allocations, id))
                        continue;
                if (owner)
                        return NULL;
                owner = &all[i];
        }
        return owner;
}

#define UUID_CHARACTERS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

/* The UUID in |texts| of a unit that the node lacks now; NULL: no UUID, or also one of a unit that it has. */
static const char *find_away(const struct inventory *inventory, struct arena *arena, const char *texts)
{
        const char *away = NULL;

        for (const char *at = texts; *at; at += strcspn(at, UUID_CHARACTERS)) {
                size_t length = strspn(at, UUID_CHARACTERS);
                const char *word = arena_strndup(arena, at, length);

                at += length;
                if (inventory_has(inventory, word))
                        return NULL;
                if (text_starts_with(word, "GPU-") || text_starts_with(word, "MIG-"))
                        away = word;
        }
        return away;
}

static void mps_resources_sync_read_answer(
        const struct inventory *inventory, struct arena *arena, struct allocations_held *held)
{
        if (!held->answer || held->texts)
                return;
        convert_read_answer(held->answer, arena, &held->id, &held->texts);
        if (held->id && held->texts)
                held->away = find_away(inventory, arena, held->texts);
}

/* The resource |name| that has the unit in the answer: the first one, while the unit is away; NULL: not known. */
static const struct mps_resource *find_by_answer(
        const struct mps_resources *resources, const char *name, const struct allocations_held *held)
{
        size_t count;
        const struct mps_resource *all = mps_resources_all(resources, &count);

        for (size_t i = 0; held->id && held->texts && i < count; i++) {
                const struct resource *resource = all[i].resource;

                if (strcmp(resource->name, name) != 0)
                        continue;
                if (held->away)
                        return &all[i];
                for (size_t j = 0; j < resource->n_units; j++)
                        if (!resource->units[j].is_kept && strstr(held->texts, resource->units[j].uuid))
                                return &all[i];
        }
        return NULL;
}

/*
 * Finds the one of several resources of the same name to which an entry of kubelet's belongs:
 *
 *   1. the one that has its allocation
 *   2. if our record of that was lost: the one that has the unit in our answer, as kubelet's checkpoint has it
 *   3. else the one whose sharing policy has its first id. A unit that is kept does not count, because none of its ids
 *      was given out under the present policy.
 */
static bool belongs_to(const struct mps_resources *resources, const struct mps_resource *shared,
        const struct inventory *inventory, struct arena *arena, struct allocations_held *held)
{
        const struct resource *resource = shared->resource;
        const char *id = held->devices[0];
        const struct mps_resource *owner = find_owner(resources, resource->name, id);
        const struct device *device = map_find(&resource->by_id, id);

        if (!owner) {
                mps_resources_sync_read_answer(inventory, arena, held);
                owner = find_by_answer(resources, resource->name, held);
        }
        if (owner)
                return owner == shared;
        if (shared->is_draining || device)
                return device && !resource->units[device->unit].is_kept;
        for (size_t i = 0; i < resource->n_draining; i++)
                if (map_find(&resource->draining[i].by_id, id))
                        return false;
        return true;
}

/* The supervisor removes what it made for the allocation; an error only says that it had made nothing. */
static void on_made_released(const struct error *err UNUSED, void *data UNUSED)
{
}

static void mps_resources_sync_on_released(const char *id, void *data)
{
        mps_link_release(data, id, on_made_released, NULL);
}

void mps_resources_sync(struct mps_resources *resources, struct mps_resource *shared, const struct holders *holders,
        const struct inventory *inventory, int64_t as_of)
{
        struct arena scratch = ARENA_INIT;
        struct allocations_held *held;
        size_t count = holders_of(holders, shared->resource->name, &scratch, &held);
        size_t n_held = 0;
        bool has_changed;

        for (size_t i = 0; i < count; i++)
                if (held[i].n_devices && belongs_to(resources, shared, inventory, &scratch, &held[i]))
                        held[n_held++] = held[i];
        for (size_t i = 0; i < n_held; i++) {
                const struct allocation *known = allocations_of_device(shared->allocations, held[i].devices[0]);

                if (!known || known->is_read)
                        mps_resources_sync_read_answer(inventory, &scratch, &held[i]);
        }
        has_changed = allocations_sync(shared->allocations, held, n_held, as_of, mps_resources_sync_on_released,
                daemons_link(resources->daemons));
        arena_done(&scratch);
        if (has_changed)
                mps_resources_note_change(resources, shared);
}
