// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/limit_monitor.h"

const char *limit_violation_kind_name(enum limit_violation_kind kind)
{
        static const char *const names[] = {
                [LIMIT_VIOLATION_MEMORY] = "memory",
                [LIMIT_VIOLATION_LIMIT] = "limit",
                [LIMIT_VIOLATION_STRANGER] = "unallocated",
                [LIMIT_VIOLATION_CLAIM] = "claim",
                [LIMIT_VIOLATION_VARIABLE] = "variable",
                [LIMIT_VIOLATION_UNKNOWN] = "unknown",
        };

        return names[kind];
}

void limit_monitor_done(struct limit_monitor *limit_monitor)
{
        map_done(&limit_monitor->seen);
        arena_done(&limit_monitor->arenas[0]);
        arena_done(&limit_monitor->arenas[1]);
        *limit_monitor = (struct limit_monitor){0};
}

static bool is_proved(const struct limit_monitor_entry *entry, const struct limit_monitor_proof *proof, int64_t now)
{
        return !entry->needs_proof || proof->listed_at >= entry->seen ||
               (entry->proof_may_lack && now - entry->violation.since >= LIMIT_MONITOR_UNLISTED_MS);
}

/* Whether the client is to be terminated now. A candidate is verified first, until kubelet has answered once more. */
static bool is_to_end(struct limit_monitor_entry *entry, bool may_end, const struct limit_monitor_proof *proof,
        int64_t now, bool *ret_wants_list)
{
        if (!may_end || (entry->has_ended && now - entry->ended < LIMIT_MONITOR_PATIENCE_MS)) {
                entry->is_being_verified = false;
                return false;
        }
        if (!entry->is_being_verified)
                entry->verified_since = now;
        else if (entry->violation.is_certain && proof->listed_at >= entry->verified_since &&
                 now - proof->listed_at <= LIMIT_MONITOR_FRESH_MS)
                return true;
        entry->is_being_verified = true;
        *ret_wants_list = true;
        return false;
}

/* |previous|: the same violation at the last look, or NULL. */
static void limit_monitor_take_over(
        struct limit_monitor_entry *entry, const struct limit_monitor_entry *previous, int64_t now)
{
        entry->violation.since = previous ? previous->violation.since : now;
        if (!previous)
                return;
        entry->is_reported = previous->is_reported;
        entry->is_being_verified = previous->is_being_verified;
        entry->verified_since = previous->verified_since;
        entry->has_ended = previous->has_ended;
        entry->ended = previous->ended;
}

static void limit_monitor_settle(struct limit_monitor_entry *entry, enum guard_mode mode,
        const struct limit_monitor_proof *proof, int64_t now, struct limit_monitor_report *report)
{
        bool is_settled = entry->violation.is_certain;
        int64_t lasted_at = entry->violation.since + LIMIT_MONITOR_LASTING_MS;
        bool is_seen = proof->looked_at >= lasted_at;
        bool is_listed = is_proved(entry, proof, now);
        bool is_proven = is_seen && is_listed;

        entry->violation.is_certain = is_settled && is_proven && proof->listed_at > proof->allocated_at;
        report->wants_list |= !is_listed && !entry->is_reported;
        report->wants_look |= !is_seen && !entry->is_reported && now >= lasted_at;
        if (!entry->is_reported && is_proven && now >= lasted_at) {
                entry->is_reported = true;
                report->appeared[report->n_appeared++] = &entry->violation;
        }
        if (entry->is_reported)
                report->standing[report->n_standing++] = &entry->violation;
        if (is_to_end(entry, mode == GUARD_TERMINATE && is_settled && entry->is_reported, proof, now,
                    &report->wants_list)) {
                entry->is_being_verified = false;
                entry->has_ended = true;
                entry->ended = now;
                report->ending[report->n_ending++] = &entry->violation;
        }
}

const char *limit_monitor_client_key(
        struct arena *arena, const struct mps_daemon_status *daemon, const struct mps_client *client)
{
        return arena_printf(arena, "%s|%d|%s|%s", daemon->name, (int)client->pid,
                client->container_id ? client->container_id : "", client->pod_uid ? client->pod_uid : "");
}

/* Notes for each present process since when it has been seen. */
static void note_clients(
        struct limit_monitor *limit_monitor, struct arena *arena, const struct mps_status *status, int64_t now)
{
        struct map seen = MAP_INIT;

        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_clients; j++) {
                        const char *key =
                                limit_monitor_client_key(arena, &status->daemons[i], &status->daemons[i].clients[j]);
                        const int64_t *previous = map_find(&limit_monitor->seen, key);
                        int64_t *first = ARENA_NEW(arena, int64_t);

                        *first = previous ? *previous : now;
                        map_add(&seen, key, first);
                }
        map_done(&limit_monitor->seen);
        limit_monitor->seen = seen;
}

void limit_monitor_poll(struct limit_monitor *limit_monitor, enum guard_mode mode,
        const struct limit_monitor_allocation *allocations, size_t n_allocations, const struct mps_status *status,
        const struct limit_monitor_proof *proof, int64_t now, struct limit_monitor_report *ret)
{
        struct arena *arena = &limit_monitor->arenas[++limit_monitor->turn % 2];
        _cleanup_(map_done) struct map previous = MAP_INIT;
        _cleanup_(map_done) struct map after = MAP_INIT;
        struct limit_monitor_entries entries = {0};

        arena_done(arena);
        note_clients(limit_monitor, arena, status, now);
        if (mode != GUARD_OFF)
                limit_check(&entries, arena,
                        &(struct limit_monitor_facts){.allocations = allocations,
                                .n_allocations = n_allocations,
                                .status = status,
                                .pods = proof->pods,
                                .seen = &limit_monitor->seen});
        *ret = (struct limit_monitor_report){
                .appeared = ARENA_ARRAY(arena, const struct limit_violation *, entries.count),
                .gone = ARENA_ARRAY(arena, const struct limit_violation *, limit_monitor->last.count),
                .ending = ARENA_ARRAY(arena, const struct limit_violation *, entries.count),
                .standing = ARENA_ARRAY(arena, const struct limit_violation *, entries.count),
        };
        for (size_t i = 0; i < limit_monitor->last.count; i++)
                map_add(&previous, limit_monitor->last.entries[i].key, &limit_monitor->last.entries[i]);
        for (size_t i = 0; i < entries.count; i++) {
                if (!map_add(&after, entries.entries[i].key, &entries.entries[i]))
                        continue; /* a process that is in the list twice */
                limit_monitor_take_over(&entries.entries[i], map_find(&previous, entries.entries[i].key), now);
                limit_monitor_settle(&entries.entries[i], mode, proof, now, ret);
        }
        for (size_t i = 0; i < limit_monitor->last.count; i++)
                if (limit_monitor->last.entries[i].is_reported && !map_find(&after, limit_monitor->last.entries[i].key))
                        ret->gone[ret->n_gone++] = &limit_monitor->last.entries[i].violation;
        limit_monitor->last = entries;
}
