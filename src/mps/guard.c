#include "mps/guard.h"

#include "base/map.h"
#include "mps/guard_parts.h"

struct guard {
        struct arena arenas[2]; /* of this look and the one before */
        unsigned int turn;
        struct guard_entries last;
};

const char *guard_kind_name(enum guard_kind kind)
{
        static const char *const names[] = {
                [GUARD_MEMORY] = "memory",
                [GUARD_LIMIT] = "limit",
                [GUARD_STRANGER] = "stranger",
                [GUARD_CLAIM] = "claim",
                [GUARD_VARIABLE] = "variable",
                [GUARD_UNKNOWN] = "unknown",
        };

        return names[kind];
}

struct guard *guard_new(void)
{
        return xcalloc(1, sizeof(struct guard));
}

struct guard *guard_free(struct guard *guard)
{
        if (!guard)
                return NULL;
        arena_done(&guard->arenas[0]);
        arena_done(&guard->arenas[1]);
        free(guard);
        return NULL;
}

static void add(const struct guard_finding *const **list, size_t *count, const struct guard_entry *entry)
{
        ((const struct guard_finding **)(uintptr_t)*list)[(*count)++] = &entry->finding;
}

static const struct guard_finding *const *new_list(struct arena *arena, size_t most)
{
        return (const struct guard_finding *const *)ARENA_ARRAY(arena, const struct guard_finding *, most);
}

static bool is_to_end(const struct guard_entry *entry, enum guard_mode mode, int64_t now)
{
        return mode == GUARD_TERMINATE && entry->finding.is_certain && entry->is_told &&
               (!entry->has_ended || now - entry->ended >= GUARD_PATIENCE_MS);
}

/* |before|: the same finding at the last look, or NULL. */
static void go_on(struct guard_entry *entry, const struct guard_entry *before, int64_t now)
{
        entry->finding.since = before ? before->finding.since : now;
        if (!before)
                return;
        entry->is_told = before->is_told;
        entry->has_ended = before->has_ended;
        entry->ended = before->ended;
}

static void tell(struct guard_entry *entry, enum guard_mode mode, int64_t now, struct guard_report *report)
{
        if (!entry->is_told && now - entry->finding.since >= GUARD_LASTING_MS) {
                entry->is_told = true;
                add(&report->appeared, &report->n_appeared, entry);
        }
        if (entry->is_told)
                add(&report->standing, &report->n_standing, entry);
        if (is_to_end(entry, mode, now)) {
                entry->has_ended = true;
                entry->ended = now;
                add(&report->ending, &report->n_ending, entry);
        }
}

void guard_look(struct guard *guard, enum guard_mode mode, const struct guard_grant *grants, size_t n_grants,
        const struct mps_status *status, int64_t now, struct guard_report *ret)
{
        struct arena *arena = &guard->arenas[++guard->turn % 2];
        _cleanup_(map_done) struct map before = MAP_INIT;
        _cleanup_(map_done) struct map after = MAP_INIT;
        struct guard_entries entries = {0};

        arena_done(arena);
        if (mode != GUARD_OFF)
                guard_judge(&entries, arena, grants, n_grants, status);
        *ret = (struct guard_report){
                .appeared = new_list(arena, entries.count),
                .gone = new_list(arena, guard->last.count),
                .ending = new_list(arena, entries.count),
                .standing = new_list(arena, entries.count),
        };
        for (size_t i = 0; i < guard->last.count; i++)
                map_add(&before, guard->last.entries[i].key, &guard->last.entries[i]);
        for (size_t i = 0; i < entries.count; i++) {
                if (!map_add(&after, entries.entries[i].key, &entries.entries[i]))
                        continue; /* a process that is in the list twice */
                go_on(&entries.entries[i], map_find(&before, entries.entries[i].key), now);
                tell(&entries.entries[i], mode, now, ret);
        }
        for (size_t i = 0; i < guard->last.count; i++)
                if (guard->last.entries[i].is_told && !map_find(&after, guard->last.entries[i].key))
                        add(&ret->gone, &ret->n_gone, &guard->last.entries[i]);
        guard->last = entries;
}
