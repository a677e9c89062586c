#include "ledger/guard.h"

#include "base/map.h"
#include "ledger/guard_parts.h"

struct guard {
        struct arena arenas[2]; /* of this look and the one before */
        unsigned int turn;
        struct guard_entries last;
        struct map seen; /* guard_client_key() → int64_t *, in the arena of the last look */
};

const char *guard_kind_name(enum guard_kind kind)
{
        static const char *const names[] = {
                [GUARD_MEMORY] = "memory",
                [GUARD_LIMIT] = "limit",
                [GUARD_STRANGER] = "unallocated",
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
        map_done(&guard->seen);
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

static bool is_proved(const struct guard_entry *entry, const struct guard_proof *proof)
{
        return !entry->needs_proof || proof->listed_at >= entry->seen;
}

/* Whether it is to be ended now. One that may be is a suspect first, until kubelet has answered once more. */
static bool is_to_end(
        struct guard_entry *entry, bool may_end, const struct guard_proof *proof, int64_t now, bool *ret_wants_list)
{
        if (!may_end || (entry->has_ended && now - entry->ended < GUARD_PATIENCE_MS)) {
                entry->is_suspect = false;
                return false;
        }
        if (!entry->is_suspect)
                entry->suspected = now;
        else if (entry->finding.is_certain && proof->listed_at >= entry->suspected &&
                 now - proof->listed_at <= GUARD_FRESH_MS)
                return true;
        entry->is_suspect = true;
        *ret_wants_list = true;
        return false;
}

/* |before|: the same finding at the last look, or NULL. */
static void go_on(struct guard_entry *entry, const struct guard_entry *before, int64_t now)
{
        entry->finding.since = before ? before->finding.since : now;
        if (!before)
                return;
        entry->is_told = before->is_told;
        entry->is_suspect = before->is_suspect;
        entry->suspected = before->suspected;
        entry->has_ended = before->has_ended;
        entry->ended = before->ended;
}

static void tell(struct guard_entry *entry, enum guard_mode mode, const struct guard_proof *proof, int64_t now,
        struct guard_report *report)
{
        bool is_settled = entry->finding.is_certain;
        bool is_proven = is_proved(entry, proof);

        entry->finding.is_certain = is_settled && is_proven && proof->listed_at > proof->allocated_at;
        report->wants_list |= !is_proven && !entry->is_told;
        if (!entry->is_told && is_proven && now - entry->finding.since >= GUARD_LASTING_MS) {
                entry->is_told = true;
                add(&report->appeared, &report->n_appeared, entry);
        }
        if (entry->is_told)
                add(&report->standing, &report->n_standing, entry);
        if (is_to_end(
                    entry, mode == GUARD_TERMINATE && is_settled && entry->is_told, proof, now, &report->wants_list)) {
                entry->is_suspect = false;
                entry->has_ended = true;
                entry->ended = now;
                add(&report->ending, &report->n_ending, entry);
        }
}

const char *guard_client_key(
        struct arena *arena, const struct mps_daemon_status *daemon, const struct mps_client *client)
{
        return arena_printf(arena, "%s|%d|%s|%s", daemon->name, (int)client->pid,
                client->container_id ? client->container_id : "", client->pod_uid ? client->pod_uid : "");
}

/* Since when each process is there that is there now. */
static void see(struct guard *guard, struct arena *arena, const struct mps_status *status, int64_t now)
{
        struct map seen = MAP_INIT;

        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_clients; j++) {
                        const char *key = guard_client_key(arena, &status->daemons[i], &status->daemons[i].clients[j]);
                        const int64_t *before = map_find(&guard->seen, key);
                        int64_t *first = ARENA_NEW(arena, int64_t);

                        *first = before ? *before : now;
                        map_add(&seen, key, first);
                }
        map_done(&guard->seen);
        guard->seen = seen;
}

void guard_look(struct guard *guard, enum guard_mode mode, const struct guard_allocation *allocations,
        size_t n_allocations, const struct mps_status *status, const struct guard_proof *proof, int64_t now,
        struct guard_report *ret)
{
        struct arena *arena = &guard->arenas[++guard->turn % 2];
        _cleanup_(map_done) struct map before = MAP_INIT;
        _cleanup_(map_done) struct map after = MAP_INIT;
        struct guard_entries entries = {0};

        arena_done(arena);
        see(guard, arena, status, now);
        if (mode != GUARD_OFF)
                guard_judge(&entries, arena,
                        &(struct guard_facts){.allocations = allocations,
                                .n_allocations = n_allocations,
                                .status = status,
                                .pods = proof->pods,
                                .seen = &guard->seen});
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
                tell(&entries.entries[i], mode, proof, now, ret);
        }
        for (size_t i = 0; i < guard->last.count; i++)
                if (guard->last.entries[i].is_told && !map_find(&after, guard->last.entries[i].key))
                        add(&ret->gone, &ret->n_gone, &guard->last.entries[i]);
        guard->last = entries;
}
