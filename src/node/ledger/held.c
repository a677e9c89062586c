/*
 * All devices that are held on this node, from three sources: kubelet's list, which is exact but has to be asked for;
 * kubelet's record, a file that may still have pods that ended; and our own recent answers, which neither of the two
 * has until kubelet has read them.
 */
#include <string.h>

#include "node/ledger/parts.h"

/* ---- what was asked for ---- */

static void held_forget(struct ledger *ledger, size_t position)
{
        free(ledger->recent[position].resource);
        free(ledger->recent[position].device);
        ledger->n_recent--;
        memmove(&ledger->recent[position], &ledger->recent[position + 1],
                (ledger->n_recent - position) * sizeof(*ledger->recent));
}

void ledger_forget_requests(struct ledger *ledger)
{
        while (ledger->n_recent)
                held_forget(ledger, ledger->n_recent - 1);
        free(TAKE_PTR(ledger->recent));
        map_done(&ledger->over);
        arena_done(&ledger->over_arena);
}

/* By now kubelet has either recorded the request or dropped it. */
static bool is_old(const struct ledger *ledger, const struct recent *recent)
{
        return recent->since < ledger_clock(ledger) - LIST_GRACE_MS;
}

void ledger_forget_old_requests(struct ledger *ledger)
{
        while (ledger->n_recent && is_old(ledger, &ledger->recent[0]))
                held_forget(ledger, 0);
}

static bool is_request_for(const struct recent *recent, const char *resource, const char *device)
{
        return strcmp(recent->device, device) == 0 && strcmp(recent->resource, resource) == 0;
}

/* It is asked for again, so the request before is over: its container has ended, or is this pod's init container. */
static void forget_previous(struct ledger *ledger, const char *resource, const char *device)
{
        for (size_t i = 0; i < ledger->n_recent; i++)
                if (is_request_for(&ledger->recent[i], resource, device)) {
                        held_forget(ledger, i);
                        return;
                }
}

static void mark_recorded(const struct ledger *ledger, struct recent *recent)
{
        if (!recent->is_recorded)
                recent->recorded_at = ledger->n_questions;
        recent->is_recorded = true;
}

void ledger_note_request(struct ledger *ledger, const struct resource *resource, const char *const *ids, size_t n_ids)
{
        int64_t now = ledger_clock(ledger);

        ledger->allocated_at = now;
        /* kubelet admits pods one by one, so its earlier requests are in its record. */
        for (size_t i = 0; i < ledger->n_recent; i++)
                mark_recorded(ledger, &ledger->recent[i]);
        ledger_forget_old_requests(ledger);
        if (!ledger->recent)
                ledger->recent = xcalloc(MAX_RECENT, sizeof(*ledger->recent));
        for (size_t i = 0; i < n_ids; i++) {
                forget_previous(ledger, resource->name, ids[i]);
                if (ledger->n_recent == MAX_RECENT)
                        held_forget(ledger, 0);
                ledger->recent[ledger->n_recent++] =
                        (struct recent){.resource = xstrdup(resource->name), .device = xstrdup(ids[i]), .since = now};
        }
}

static bool is_in(const struct checkpoint *checkpoint, const struct recent *recent)
{
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];

                if (strcmp(entry->resource, recent->resource) != 0)
                        continue;
                for (size_t j = 0; j < entry->n_devices; j++)
                        if (strcmp(entry->devices[j], recent->device) == 0)
                                return true;
        }
        return false;
}

void ledger_note_recorded(struct ledger *ledger, const struct checkpoint *checkpoint)
{
        for (size_t i = 0; i < ledger->n_recent; i++)
                if (!ledger->recent[i].is_recorded && is_in(checkpoint, &ledger->recent[i]))
                        mark_recorded(ledger, &ledger->recent[i]);
}

/* The list that is used may be older than the record of the request. */
static bool is_known_elsewhere(const struct ledger *ledger, const struct recent *recent, bool by_list)
{
        return recent->is_recorded && (!by_list || recent->recorded_at < ledger->n_questions);
}

static size_t add_recent(struct ledger *ledger, bool by_list, struct arena *arena, struct rollout_held *held)
{
        size_t count = 0;

        for (size_t i = ledger->n_recent; i-- > 0;) {
                const struct recent *recent = &ledger->recent[i];

                if (is_known_elsewhere(ledger, recent, by_list) || is_old(ledger, recent))
                        held_forget(ledger, i);
                else
                        held[count++] = (struct rollout_held){.resource = arena_strdup(arena, recent->resource),
                                .device = arena_strdup(arena, recent->device)};
        }
        return count;
}

/* ---- kubelet's record ---- */

static const char *key_of(struct arena *arena, const struct checkpoint_entry *entry, const char *device)
{
        return arena_printf(arena, "%s\n%s\n%s\n%s", entry->pod_uid, entry->container, entry->resource, device);
}

static bool is_recent(const struct ledger *ledger, const char *resource, const char *device)
{
        for (size_t i = 0; i < ledger->n_recent; i++)
                if (!is_old(ledger, &ledger->recent[i]) && is_request_for(&ledger->recent[i], resource, device))
                        return true;
        return false;
}

/*
 * kubelet's record keeps pods that have ended until it is written for another reason; a container that was seen to have
 * ended stays ended.
 */
static void note_over(struct ledger *ledger, const struct checkpoint *checkpoint)
{
        map_done(&ledger->over);
        arena_done(&ledger->over_arena);
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!holders_find(ledger->holders, entry->resource, entry->devices[j]) &&
                                !is_recent(ledger, entry->resource, entry->devices[j]))
                                map_add(&ledger->over, key_of(&ledger->over_arena, entry, entry->devices[j]), ledger);
        }
}

static const char *find_holder(const struct ledger *ledger, struct arena *arena, const struct checkpoint_entry *entry)
{
        const struct holder *holder =
                ledger->holders ? holders_find(ledger->holders, entry->resource, entry->devices[0]) : NULL;

        if (holder && holder->pod)
                return arena_printf(arena, "%s/%s/%s", holder->pod_namespace, holder->pod, holder->container);
        return arena_printf(arena, "%s/%s", entry->pod_uid, entry->container);
}

static size_t list_checkpoint(const struct ledger *ledger, struct arena *arena, const struct checkpoint *checkpoint,
        struct rollout_held **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < checkpoint->n_entries; i++)
                count += checkpoint->entries[i].n_devices;
        *ret = ARENA_ARRAY(arena, struct rollout_held, count + MAX_RECENT);
        count = 0;
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];
                const char *holder = find_holder(ledger, arena, entry);

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!map_find(&ledger->over, key_of(arena, entry, entry->devices[j])))
                                (*ret)[count++] = (struct rollout_held){.resource = entry->resource,
                                        .device = entry->devices[j],
                                        .holder = holder,
                                        .pod_uid = entry->pod_uid};
        }
        return count;
}

static size_t list_holders(const struct ledger *ledger, struct arena *arena, struct rollout_held **ret)
{
        struct rollout_held *held;
        size_t count = holders_all(ledger->holders, arena, &held);

        *ret = ARENA_ARRAY(arena, struct rollout_held, count + MAX_RECENT);
        if (count)
                memcpy(*ret, held, count * sizeof(*held));
        return count;
}

/* ---- together ---- */

struct naming {
        const char *resource;
        struct arena *arena;
        struct rollout_held *held;
        size_t n_held;
};

/* Ids are tokens: who has one may be bound to another unit than it names. */
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

/* Before its first plan the ledger has read no allocations, and the first rollout needs the units: see its rule 4. */
static void name_recorded_units(const struct ledger *ledger, struct naming *naming)
{
        _cleanup_(map_done) struct map seen = MAP_INIT;

        for (size_t i = 0; i < naming->n_held; i++) {
                naming->resource = naming->held[i].resource;
                if (map_add(&seen, naming->resource, naming))
                        ledger_each_recorded(ledger, naming->resource, name_unit_of, naming);
        }
}

static void name_units(const struct ledger *ledger, struct arena *arena, struct rollout_held *held, size_t n_held)
{
        struct naming naming = {.arena = arena, .held = held, .n_held = n_held};

        if (!ledger->plan)
                name_recorded_units(ledger, &naming);
        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct allocations *allocations = ledger->shared[i].allocations;

                naming.resource = ledger->shared[i].resource->name;
                for (size_t j = 0; j < allocations_count(allocations); j++)
                        name_unit_of(allocations_get(allocations, j), &naming);
        }
}

enum ledger_word ledger_held(struct ledger *ledger, struct arena *arena, struct rollout_held **ret, size_t *ret_count)
{
        bool by_list = ledger->list_is_new && ledger->holders && ledger_list_is_whole(ledger);
        struct checkpoint checkpoint;
        bool has_checkpoint = ledger_read_checkpoint(ledger, arena, &checkpoint);

        if (has_checkpoint)
                ledger_note_recorded(ledger, &checkpoint);
        if (by_list || (!has_checkpoint && ledger->holders)) {
                by_list = true;
                if (has_checkpoint)
                        note_over(ledger, &checkpoint);
                *ret_count = list_holders(ledger, arena, ret);
        } else if (has_checkpoint) {
                *ret_count = list_checkpoint(ledger, arena, &checkpoint, ret);
        } else {
                *ret = ARENA_ARRAY(arena, struct rollout_held, MAX_RECENT);
                *ret_count = 0;
        }
        *ret_count += add_recent(ledger, by_list, arena, *ret + *ret_count);
        name_units(ledger, arena, *ret, *ret_count);
        if (!by_list && !ledger_can_ask(ledger))
                return LEDGER_STALE;
        return has_checkpoint || ledger->holders ? LEDGER_LISTED : LEDGER_UNKNOWN;
}

bool ledger_containers(
        const struct ledger *ledger, struct arena *arena, const struct holder_devices **ret, size_t *ret_count)
{
        if (!ledger->holders)
                return false;
        *ret_count = holders_containers(ledger->holders, arena, ret);
        return true;
}

static void on_held_answer(const struct error *err UNUSED, void *data)
{
        struct ledger *ledger = data;

        ledger->options.on_held(ledger->options.data);
}

void ledger_ask(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;

        if (!ledger->pods) {
                ledger->options.on_held(ledger->options.data);
                return;
        }
        if (ledger->n_recent && ledger_read_checkpoint(ledger, &scratch, &checkpoint))
                ledger_note_recorded(ledger, &checkpoint);
        arena_done(&scratch);
        ledger->n_questions++;
        ledger_list(ledger, on_held_answer, ledger);
}
