/*
 * All that is held on this node, by three witnesses: kubelet's list, which is right about the moment but is an answer to a question;
 * its record, which is a file and may have pods that ended; and what we were asked for ourselves, which neither has before kubelet has
 * read our answer.
 */
#include <string.h>

#include "ledger/parts.h"

/* ---- what was asked for ---- */

static void forget(struct holdings *holdings, size_t position)
{
        free(holdings->recent[position].resource);
        free(holdings->recent[position].device);
        holdings->n_recent--;
        memmove(&holdings->recent[position], &holdings->recent[position + 1],
                (holdings->n_recent - position) * sizeof(*holdings->recent));
}

void holdings_forget_requests(struct holdings *holdings)
{
        while (holdings->n_recent)
                forget(holdings, holdings->n_recent - 1);
        free(TAKE_PTR(holdings->recent));
        map_done(&holdings->over);
        arena_done(&holdings->over_arena);
}

/* Whether it came to anything is known by now. */
static bool is_old(const struct holdings *holdings, const struct recent *recent)
{
        return recent->since < holdings_clock(holdings) - LIST_GRACE_MS;
}

static void mark_booked(const struct holdings *holdings, struct recent *recent)
{
        if (!recent->is_booked)
                recent->booked_at = holdings->n_questions;
        recent->is_booked = true;
}

void holdings_note_request(
        struct holdings *holdings, const struct resource *resource, const char *const *ids, size_t n_ids)
{
        int64_t now = holdings_clock(holdings);

        holdings->allocated_at = now;
        /* kubelet admits pods one by one: what it asked for before is in its books. */
        for (size_t i = 0; i < holdings->n_recent; i++)
                mark_booked(holdings, &holdings->recent[i]);
        while (holdings->n_recent && is_old(holdings, &holdings->recent[0]))
                forget(holdings, 0);
        if (!holdings->recent)
                holdings->recent = xcalloc(MAX_RECENT, sizeof(*holdings->recent));
        for (size_t i = 0; i < n_ids; i++) {
                if (holdings->n_recent == MAX_RECENT)
                        forget(holdings, 0);
                holdings->recent[holdings->n_recent++] =
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

void holdings_note_booked(struct holdings *holdings, const struct checkpoint *checkpoint)
{
        for (size_t i = 0; i < holdings->n_recent; i++)
                if (!holdings->recent[i].is_booked && is_in(checkpoint, &holdings->recent[i]))
                        mark_booked(holdings, &holdings->recent[i]);
}

/* The answer that is used may be older than the booking. */
static bool is_told_elsewhere(const struct holdings *holdings, const struct recent *recent, bool by_list)
{
        return recent->is_booked && (!by_list || recent->booked_at < holdings->n_questions);
}

static size_t add_recent(struct holdings *holdings, bool by_list, struct arena *arena, struct handover_held *held)
{
        size_t count = 0;

        for (size_t i = holdings->n_recent; i-- > 0;) {
                const struct recent *recent = &holdings->recent[i];

                if (is_told_elsewhere(holdings, recent, by_list) || is_old(holdings, recent))
                        forget(holdings, i);
                else
                        held[count++] = (struct handover_held){.resource = arena_strdup(arena, recent->resource),
                                .device = arena_strdup(arena, recent->device)};
        }
        return count;
}

/* ---- kubelet's record ---- */

static const char *key_of(struct arena *arena, const struct checkpoint_entry *entry, const char *device)
{
        return arena_printf(arena, "%s\n%s\n%s\n%s", entry->pod_uid, entry->container, entry->resource, device);
}

static bool is_recent(const struct holdings *holdings, const char *resource, const char *device)
{
        for (size_t i = 0; i < holdings->n_recent; i++)
                if (!is_old(holdings, &holdings->recent[i]) && strcmp(holdings->recent[i].device, device) == 0 &&
                        strcmp(holdings->recent[i].resource, resource) == 0)
                        return true;
        return false;
}

/* kubelet's record keeps pods that have ended until it is written for another reason; who was seen to be over stays so. */
static void note_over(struct holdings *holdings, const struct checkpoint *checkpoint)
{
        map_done(&holdings->over);
        arena_done(&holdings->over_arena);
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!holders_find(holdings->holders, entry->resource, entry->devices[j]) &&
                                !is_recent(holdings, entry->resource, entry->devices[j]))
                                map_add(&holdings->over, key_of(&holdings->over_arena, entry, entry->devices[j]),
                                        holdings);
        }
}

static const char *find_holder(
        const struct holdings *holdings, struct arena *arena, const struct checkpoint_entry *entry)
{
        const struct holder *holder =
                holdings->holders ? holders_find(holdings->holders, entry->resource, entry->devices[0]) : NULL;

        if (holder && holder->pod)
                return arena_printf(arena, "%s/%s/%s", holder->pod_namespace, holder->pod, holder->container);
        return arena_printf(arena, "%s/%s", entry->pod_uid, entry->container);
}

static size_t list_checkpoint(const struct holdings *holdings, struct arena *arena, const struct checkpoint *checkpoint,
        struct handover_held **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < checkpoint->n_entries; i++)
                count += checkpoint->entries[i].n_devices;
        *ret = ARENA_ARRAY(arena, struct handover_held, count + MAX_RECENT);
        count = 0;
        for (size_t i = 0; i < checkpoint->n_entries; i++) {
                const struct checkpoint_entry *entry = &checkpoint->entries[i];
                const char *holder = find_holder(holdings, arena, entry);

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!map_find(&holdings->over, key_of(arena, entry, entry->devices[j])))
                                (*ret)[count++] = (struct handover_held){
                                        .resource = entry->resource, .device = entry->devices[j], .holder = holder};
        }
        return count;
}

static size_t list_holders(const struct holdings *holdings, struct arena *arena, struct handover_held **ret)
{
        struct handover_held *held;
        size_t count = holders_all(holdings->holders, arena, &held);

        *ret = ARENA_ARRAY(arena, struct handover_held, count + MAX_RECENT);
        if (count)
                memcpy(*ret, held, count * sizeof(*held));
        return count;
}

/* ---- together ---- */

enum holdings_word holdings_held(
        struct holdings *holdings, struct arena *arena, struct handover_held **ret, size_t *ret_count)
{
        bool by_list = holdings->list_is_new && holdings->holders && holdings_list_is_whole(holdings);
        struct checkpoint checkpoint;
        bool has_checkpoint = holdings_read_checkpoint(holdings, arena, &checkpoint);

        if (has_checkpoint)
                holdings_note_booked(holdings, &checkpoint);
        if (by_list || (!has_checkpoint && holdings->holders)) {
                by_list = true;
                if (has_checkpoint)
                        note_over(holdings, &checkpoint);
                *ret_count = list_holders(holdings, arena, ret);
        } else if (has_checkpoint) {
                *ret_count = list_checkpoint(holdings, arena, &checkpoint, ret);
        } else {
                *ret = ARENA_ARRAY(arena, struct handover_held, MAX_RECENT);
                *ret_count = 0;
        }
        *ret_count += add_recent(holdings, by_list, arena, *ret + *ret_count);
        if (!by_list && !holdings_can_ask(holdings))
                return HOLDINGS_STALE;
        return has_checkpoint || holdings->holders ? HOLDINGS_TOLD : HOLDINGS_NOT_TOLD;
}

static void on_answer(const struct error *err UNUSED, void *data)
{
        struct holdings *holdings = data;

        holdings->options.on_held(holdings->options.data);
}

void holdings_ask(struct holdings *holdings)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;

        if (!holdings->pods) {
                holdings->options.on_held(holdings->options.data);
                return;
        }
        if (holdings->n_recent && holdings_read_checkpoint(holdings, &scratch, &checkpoint))
                holdings_note_booked(holdings, &checkpoint);
        arena_done(&scratch);
        holdings->n_questions++;
        holdings_list(holdings, on_answer, holdings);
}
