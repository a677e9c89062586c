// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/mps_resources.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "node/kubelet/convert.h"

#define SAVE_MS UINT64_C(100)
/* After a failure, longer each time. */
#define SAVE_RETRY_MS UINT64_C(1000)
#define SAVE_RETRY_MAX_MS UINT64_C(60000)

/* ---- which there are ---- */

static struct mps_resource *mps_resources_find_among(struct mps_resource *all, size_t count, const char *name)
{
        for (size_t i = 0; i < count; i++)
                if (!all[i].is_draining && strcmp(all[i].resource->name, name) == 0)
                        return &all[i];
        return NULL;
}

struct mps_resource *mps_resources_all(const struct mps_resources *resources, size_t *ret_count)
{
        *ret_count = resources->count;
        return resources->all;
}

size_t mps_resources_count(const struct mps_resources *resources)
{
        return resources->count;
}

struct mps_resource *mps_resources_find(const struct mps_resources *resources, const char *name)
{
        return mps_resources_find_among(resources->all, resources->count, name);
}

struct mps_resource *mps_resources_find_for(
        const struct mps_resources *resources, const char *name, const char *const *ids, size_t n_ids)
{
        struct mps_resource *main = mps_resources_find(resources, name);

        if (n_ids == 0 || (main && map_find(&main->resource->by_id, ids[0])))
                return main;
        for (size_t i = 0; i < resources->count; i++) {
                struct mps_resource *shared = &resources->all[i];

                if (shared->is_draining && strcmp(shared->resource->name, name) == 0 &&
                        map_find(&shared->resource->by_id, ids[0]))
                        return shared;
        }
        return main;
}

size_t mps_resources_count_allocations(const struct mps_resources *resources)
{
        size_t count = 0;

        for (size_t i = 0; i < resources->count; i++)
                count += allocations_count(resources->all[i].allocations);
        return count;
}

unsigned int mps_resource_replicas(
        const struct mps_resource *shared, const struct allocation *allocation, const struct unit *unit)
{
        unsigned int count = 0;

        if (allocation->unit)
                return strcmp(allocation->unit, unit->uuid) == 0
                               ? (unsigned int)MIN(allocation->n_devices, unit->replicas)
                               : 0;
        for (size_t i = 0; i < allocation->n_devices; i++)
                count += resource_unit_of(shared->resource, allocation->devices[i]) == unit;
        return count;
}

/* ---- unavailable ids ---- */

static void update_unavailable(const struct mps_resources *resources, struct mps_resource *shared)
{
        const struct daemons *daemons = resources->daemons;
        const struct resource *resource = shared->resource;
        const bool *reserved;

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                allocations_set_unit_health(shared->allocations, unit->uuid,
                        !unit->is_kept && daemons_is_ready(daemons, unit) &&
                                !unit_health_find(resources->options->health, unit->uuid));
        }
        reserved = allocations_reserved_ids(shared->allocations);
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                bool is_ready = daemons_is_ready(daemons, unit);

                for (size_t at = unit->first_device; at < unit->first_device + unit->replicas; at++)
                        shared->unavailable[at] = !is_ready || reserved[at];
        }
}

void mps_resources_update(struct mps_resources *resources)
{
        for (size_t i = 0; i < resources->count; i++)
                update_unavailable(resources, &resources->all[i]);
}

void mps_resources_update_unit(struct mps_resources *resources, const char *uuid)
{
        for (size_t i = 0; i < resources->count; i++) {
                if (!resource_find_unit(resources->all[i].resource, uuid))
                        continue;
                update_unavailable(resources, &resources->all[i]);
                resources->options->on_change(resources->options->data);
        }
}

/* ---- the files ---- */

static char *mps_resources_file_path(const struct mps_resources *resources, const char *name)
{
        char *path = xasprintf("%s/allocations-%s.json", resources->directory, name);

        for (char *at = path + strlen(resources->directory) + 1; *at; at++)
                if (*at == '/')
                        *at = '_';
        return path;
}

/* All sharing policies of a name have one file. False: it could not be written. */
static bool save_name(struct mps_resources *resources, const char *name)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct allocations **allocations = ARENA_ARRAY(&scratch, const struct allocations *, resources->count);
        _free_ char *path = mps_resources_file_path(resources, name);
        _free_ char *text = NULL;
        size_t count = 0;
        struct error err;

        for (size_t i = 0; i < resources->count; i++)
                if (strcmp(resources->all[i].resource->name, name) == 0)
                        allocations[count++] = resources->all[i].allocations;
        text = allocations_write_all(allocations, count);
        if (file_write_private(path, text, strlen(text), &err) < 0) {
                complain(&resources->bad_file, "the allocation record cannot be written, will try again", &err);
                return false;
        }
        complaint_settle(&resources->bad_file);
        for (size_t i = 0; i < resources->count; i++)
                if (strcmp(resources->all[i].resource->name, name) == 0)
                        resources->all[i].is_changed = false;
        return true;
}

static void on_save(uv_timer_t *timer)
{
        struct mps_resources *resources = container_of(timer, struct mps_resources, save_timer);
        bool is_saved = true;

        for (size_t i = 0; i < resources->count; i++)
                if (resources->all[i].is_changed)
                        is_saved &= save_name(resources, resources->all[i].resource->name);
        if (is_saved)
                resources->save_backoff.failures = 0;
        else
                uv_timer_start(timer, on_save, backoff_next(&resources->save_backoff, 0, 0), 0);
}

void mps_resources_note_change(struct mps_resources *resources, struct mps_resource *shared)
{
        shared->is_changed = true;
        update_unavailable(resources, shared);
        if (!uv_is_closing((uv_handle_t *)&resources->save_timer) &&
                !uv_is_active((uv_handle_t *)&resources->save_timer))
                uv_timer_start(&resources->save_timer, on_save, SAVE_MS, 0);
        resources->options->on_change(resources->options->data);
}

static void load_allocations(const struct mps_resources *resources, struct mps_resource *shared)
{
        _free_ char *path = mps_resources_file_path(resources, shared->resource->name);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read_private(path, ALLOCATIONS_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the allocation record cannot be read", LOG_STR("file", path), LOG_ERR(&err));
                return;
        }
        if (allocations_read(shared->allocations, text.data, text.size,
                    resources->options->now(resources->options->data).clock, &err) < 0)
                log_warn("the allocation record is ignored", LOG_STR("file", path), LOG_ERR(&err));
}

/* ---- units of held devices ---- */

struct naming {
        const char *resource;
        struct arena *arena;
        struct rollout_held *held;
        size_t n_held;
};

static void name_unit(const struct naming *naming, const char *device, const char *unit)
{
        int64_t replica;
        size_t length = device_id_split(device, &replica);

        if (strlen(unit) == length && strncmp(device, unit, length) == 0)
                return;
        for (size_t i = 0; i < naming->n_held; i++)
                if (strcmp(naming->held[i].device, device) == 0 &&
                        strcmp(naming->held[i].resource, naming->resource) == 0)
                        naming->held[i].unit = arena_strdup(naming->arena, unit);
}

static void name_unit_of(const struct allocation *allocation, void *data)
{
        for (size_t i = 0; allocation->unit && i < allocation->n_devices; i++)
                name_unit(data, allocation->devices[i], allocation->unit);
}

void mps_resources_name_units(
        const struct mps_resources *resources, struct arena *arena, struct rollout_held *held, size_t n_held)
{
        for (size_t i = 0; i < resources->count; i++) {
                const struct mps_resource *shared = &resources->all[i];
                struct naming naming = {shared->resource->name, arena, held, n_held};

                for (size_t j = 0; j < allocations_count(shared->allocations); j++)
                        name_unit_of(allocations_get(shared->allocations, j), &naming);
        }
}

void mps_resources_name_recorded_units(
        const struct mps_resources *resources, struct arena *arena, struct rollout_held *held, size_t n_held)
{
        _cleanup_(map_done) struct map seen = MAP_INIT;
        struct error ignored; /* reported when the allocations are loaded */

        for (size_t i = 0; i < n_held; i++) {
                struct naming naming = {held[i].resource, arena, held, n_held};
                _free_ char *path = mps_resources_file_path(resources, naming.resource);
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

                if (map_add(&seen, naming.resource, held) &&
                        file_read_private(path, ALLOCATIONS_TEXT_MAX, &text, &ignored) == 0)
                        (void)!allocations_each(text.data, text.size, name_unit_of, &naming, &ignored);
        }
}

/* ---- another plan ---- */

static void mps_resources_free_all(struct mps_resource *all, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                allocations_free(all[i].allocations);
                free(all[i].unavailable);
        }
        free(all);
}

static struct mps_resource *mps_resources_add_resource(
        struct mps_resources *resources, const struct resource *resource, bool is_draining)
{
        struct mps_resource *shared = &resources->all[resources->count++];

        *shared = (struct mps_resource){.resource = resource, .is_draining = is_draining};
        shared->unavailable = xcalloc(resource->n_devices, sizeof(*shared->unavailable));
        return shared;
}

/*
 * Moves the allocations of one resource name: each to the resource that has its unit; or to the first one if none has
 * it, for example while the unit is missing. |main| is NULL if the name is no longer shared by MPS.
 */
static void hand_over(const struct mps_resources *resources, struct mps_resource *main, struct mps_resource *draining,
        size_t n_draining, struct mps_resource *previous, size_t n_previous)
{
        struct mps_resource *first = main ? main : draining;
        const char *name = first->resource->name;
        struct mps_resource *old = mps_resources_find_among(previous, n_previous, name);
        size_t n_others = n_draining - (first == draining);
        bool is_new = true;

        for (size_t i = 0; i < n_draining; i++)
                draining[i].allocations = allocations_new(draining[i].resource, draining[i].resource->max_per_request);
        if (main && old) {
                main->allocations = TAKE_PTR(old->allocations);
                allocations_set_resource(main->allocations, main->resource, main->resource->max_per_request);
        } else if (main) {
                main->allocations = allocations_new(main->resource, main->resource->max_per_request);
        }
        for (size_t j = 0; j < n_previous; j++) {
                if (strcmp(previous[j].resource->name, name) != 0)
                        continue;
                is_new = false;
                if (previous[j].allocations)
                        allocations_move(previous[j].allocations, first->allocations, ALLOCATIONS_ALL);
        }
        if (is_new)
                load_allocations(resources, first);
        for (size_t i = n_draining - n_others; i < n_draining; i++)
                allocations_move(first->allocations, draining[i].allocations, ALLOCATIONS_OF_TARGET);
        for (size_t i = n_draining - n_others; i < n_draining; i++)
                allocations_move(first->allocations, draining[i].allocations, ALLOCATIONS_STRAY);
}

/* Adds the resources of one name. */
static void add_name(struct mps_resources *resources, const struct resource *resource, struct mps_resource *previous,
        size_t n_previous)
{
        struct mps_resource *main =
                resource->strategy == SHARING_MPS ? mps_resources_add_resource(resources, resource, false) : NULL;
        struct mps_resource *draining = &resources->all[resources->count];

        for (size_t i = 0; i < resource->n_draining; i++)
                mps_resources_add_resource(resources, &resource->draining[i], true);
        if (main || resource->n_draining)
                hand_over(resources, main, draining, resource->n_draining, previous, n_previous);
}

void mps_resources_apply(struct mps_resources *resources, const struct plan *plan)
{
        struct mps_resource *previous = resources->all;
        size_t n_previous = resources->count;
        size_t most = plan->n_resources;

        for (size_t i = 0; i < plan->n_resources; i++)
                most += plan->resources[i].n_draining;
        resources->all = xcalloc(most, sizeof(*resources->all));
        resources->count = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                add_name(resources, &plan->resources[i], previous, n_previous);
        for (size_t i = 0; i < resources->count; i++)
                for (size_t j = 0; j < n_previous; j++)
                        resources->all[i].is_changed |=
                                previous[j].is_changed &&
                                strcmp(resources->all[i].resource->name, previous[j].resource->name) == 0;
        mps_resources_update(resources);
        mps_resources_free_all(previous, n_previous);
}

void mps_resources_forget(struct mps_resources *resources)
{
        uv_timer_stop(&resources->save_timer); /* kubelet's list has what is not in the files yet */
        mps_resources_free_all(TAKE_PTR(resources->all), resources->count);
        resources->count = 0;
}

/* ---- what kubelet says ---- */

/* The resource |name| that has an allocation with the device id |id|; NULL: none has, or several. */
static const struct mps_resource *find_owner(const struct mps_resources *resources, const char *name, const char *id)
{
        const struct mps_resource *owner = NULL;

        for (size_t i = 0; i < resources->count; i++) {
                if (strcmp(resources->all[i].resource->name, name) != 0 ||
                        !allocations_of_device(resources->all[i].allocations, id))
                        continue;
                if (owner)
                        return NULL;
                owner = &resources->all[i];
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

static void read_answer(const struct inventory *inventory, struct arena *arena, struct allocations_held *held)
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
        for (size_t i = 0; held->id && held->texts && i < resources->count; i++) {
                const struct resource *resource = resources->all[i].resource;

                if (strcmp(resource->name, name) != 0)
                        continue;
                if (held->away)
                        return &resources->all[i];
                for (size_t j = 0; j < resource->n_units; j++)
                        if (!resource->units[j].is_kept && strstr(held->texts, resource->units[j].uuid))
                                return &resources->all[i];
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
                read_answer(inventory, arena, held);
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

static void on_released(const char *id, void *data)
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
                        read_answer(inventory, &scratch, &held[i]);
        }
        has_changed = allocations_sync(
                shared->allocations, held, n_held, as_of, on_released, daemons_link(resources->daemons));
        arena_done(&scratch);
        if (has_changed)
                mps_resources_note_change(resources, shared);
}

/* ---- begin and end ---- */

void mps_resources_init(struct mps_resources *resources, const struct ledger_options *options,
        const struct daemons *daemons, const char *directory)
{
        *resources = (struct mps_resources){.options = options,
                .daemons = daemons,
                .directory = xstrdup(directory),
                .save_backoff = {.least_ms = SAVE_RETRY_MS, .most_ms = SAVE_RETRY_MAX_MS}};
        uv_timer_init(options->loop, &resources->save_timer);
}

void mps_resources_close(struct mps_resources *resources, struct closing *closing)
{
        on_save(&resources->save_timer);
        closing_close(closing, &resources->save_timer);
}

void mps_resources_done(struct mps_resources *resources)
{
        mps_resources_free_all(resources->all, resources->count);
        free(resources->directory);
}
