// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/declared_containers.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "plan/share.h"

/* ---- containers ---- */

static void free_container(struct declared_container *container)
{
        list_remove(&container->link);
        map_done(&container->units);
        arena_done(&container->arena);
        free(container);
}

struct declared_container *declared_containers_find(
        const struct declared_containers *containers, const char *pod_uid, const char *name)
{
        if (!pod_uid)
                return NULL;
        LIST_FOR_EACH(link, &containers->all) {
                struct declared_container *container = container_of(link, struct declared_container, link);

                if (strcmp(container->pod_uid, pod_uid) == 0 && strcmp(container->name, name) == 0)
                        return container;
        }
        return NULL;
}

void declared_containers_forget_ended(struct declared_containers *containers)
{
        const struct holders *holders = holdings_holders(&containers->core->holdings);
        const struct map *pods = holders ? holders_pods(holders) : NULL;
        struct list *next;

        for (struct list *at = containers->all.next; pods && at != &containers->all; at = next) {
                struct declared_container *container = container_of(at, struct declared_container, link);

                next = at->next;
                if (!map_find(pods, container->pod_uid) &&
                        ledger_clock(containers->core) - container->read_at > DECLARED_AGAIN_MS)
                        free_container(container);
        }
}

static void declared_containers_drop_annotations(struct declared *said)
{
        if (!said->has_own_threads)
                said->threads_permille = 0;
        said->memory_mib = 0;
}

static struct declared_container *declared_container_new(struct declared_containers *containers,
        const struct checkpoint_entry *entry, const json_t *pod, bool is_start, struct declared_container *previous)
{
        struct declared_container *now = xcalloc(1, sizeof(*now));

        now->pod_uid = arena_strdup(&now->arena, entry->pod_uid);
        now->name = arena_strdup(&now->arena, entry->container);
        now->resource = is_start ? arena_strdup(&now->arena, entry->resource) : "";
        now->is_ours = is_start || (previous && previous->is_ours);
        if (pod)
                now->said = declared_read(&now->arena, pod, entry->container);
        if (previous && previous->is_ours && !previous->said.is_known && !is_start)
                declared_containers_drop_annotations(&now->said);
        if (previous)
                free_container(previous);
        list_append(&containers->all, &now->link);
        return now;
}

struct declared_container *declared_containers_note(struct declared_containers *containers,
        const struct checkpoint_entry *entry, const json_t *pod, bool is_start, bool is_applied)
{
        struct declared_container *container = declared_containers_find(containers, entry->pod_uid, entry->container);

        if (container && !pod)
                container->is_ours |= is_start;
        else
                container = declared_container_new(containers, entry, pod, is_start, container);
        container->read_at = ledger_clock(containers->core);
        if (!is_applied)
                declared_containers_drop_annotations(&container->said);
        return container;
}

/* ---- what they have ---- */

static void note_unit(struct declared_container *container, const char *uuid, struct share share)
{
        struct share *known = map_find(&container->units, uuid);

        if (!known) {
                known = ARENA_NEW(&container->arena, struct share);
                map_add(&container->units, arena_strdup(&container->arena, uuid), known);
        }
        *known = share;
}

void declared_containers_apply(struct declared_containers *containers, const struct checkpoint_entry *of,
        struct mps_part *parts, size_t n_parts, unsigned int *ret_omits, const char **ret_priority)
{
        static const struct declared nothing;
        struct declared_container *container =
                of ? declared_containers_find(containers, of->pod_uid, of->container) : NULL;
        const struct declared *said = container ? &container->said : &nothing;

        for (size_t i = 0; i < n_parts; i++)
                parts[i].share = declared_share(said, &parts[i], i);
        *ret_omits = declared_omits(said, n_parts);
        *ret_priority = said->priority;
        for (size_t i = 0; container && i < n_parts; i++)
                note_unit(container, parts[i].unit->uuid, parts[i].share);
}

const struct declared_container *declared_containers_find_holder(
        const struct declared_containers *containers, const struct holder *holder)
{
        return holder && holder->container ? declared_containers_find(containers, holder->pod_uid, holder->container)
                                           : NULL;
}

/* The container's share of |unit|. |container| NULL: nothing is known of it, and its |replicas| decide. */
static struct share declared_container_share(const struct declared_container *container,
        const struct resource *resource, const struct unit *unit, unsigned int replicas)
{
        const struct share *known = container ? map_find(&container->units, unit->uuid) : NULL;

        return known ? *known : share_of(resource, unit, replicas);
}

/* An annotation counts only if the container is known to have started with it. */
static bool is_certain(const struct declared_container *container)
{
        const struct declared *said = &container->said;
        bool is_annotated = said->memory_mib || (said->threads_permille && !said->has_own_threads);

        return said->is_known && !said->is_unclear && (container->is_ours || !is_annotated);
}

struct share declared_containers_share(const struct declared_containers *containers, const struct ledger_share *of,
        const struct unit *unit, unsigned int replicas, bool *ret_is_guess)
{
        const struct declared_container *container = NULL;

        *ret_is_guess = of->allocation->is_guess;
        if (of->shared->resource->provisioning == PROVISIONING_DECLARED) {
                container = declared_containers_find_holder(containers, of->holder);
                *ret_is_guess |= !container || !is_certain(container);
        }
        return declared_container_share(container, of->shared->resource, unit, replicas);
}

bool declared_containers_is_asked_about(const struct declared_containers *containers, const struct ledger_share *of)
{
        return of->shared->resource->provisioning == PROVISIONING_DECLARED &&
               mps_limits_at_start(containers->core->plan, of->shared->resource) &&
               ledger_has_made(containers->core, of->allocation);
}

/* ---- room ---- */

/* A container without a name is one that only kubelet's record has, so that its start could not be noted. */
static bool has_not_started(const struct declared_containers *containers, const struct ledger_share *of)
{
        return !(of->holder && !of->holder->container) && !declared_containers_find_holder(containers, of->holder) &&
               declared_containers_is_asked_about(containers, of);
}

/*
 * A newer allocation has some of its ids: its container has ended, or is an init container, which ends before the other
 * starts.
 */
static bool is_superseded(const struct ledger_share *of)
{
        for (size_t i = 0; i < of->allocation->n_devices; i++)
                if (allocations_of_device(of->shared->allocations, of->allocation->devices[i]) != of->allocation)
                        return true;
        return false;
}

static bool has_any_of(const struct ledger_share *of, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < entry->n_devices; i++)
                for (size_t j = 0; j < of->allocation->n_devices; j++)
                        if (strcmp(entry->devices[i], of->allocation->devices[j]) == 0 &&
                                strcmp(entry->resource, of->shared->resource->name) == 0)
                                return true;
        return false;
}

/* True if the allocation is the container's own, or that of a container of its pod that runs before or after it. */
static bool is_of_container(const struct checkpoint *container, const struct ledger_share *of)
{
        for (size_t i = 0; i < container->n_entries; i++)
                if (has_any_of(of, &container->entries[i]))
                        return true;
        return of->holder && !of->holder->container && text_is_same(of->holder->pod_uid, container->entries[0].pod_uid);
}

/*
 * The memory of |unit| that all its containers, of |all| shares, except |except| have. |except| is the container's part
 * of kubelet's checkpoint; |pods| gets the names of the pods. Both may be NULL.
 */
static uint64_t sum_of(const struct declared_containers *containers, const struct ledger_share *all, size_t count,
        const struct unit *unit, const struct checkpoint *except, struct strbuf *pods)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++) {
                const struct resource *resource = all[i].shared->resource;
                const struct holder *holder = all[i].holder;
                const struct unit *own = resource_find_unit(resource, unit->uuid);
                unsigned int replicas = own ? mps_resource_replicas(all[i].shared, all[i].allocation, own) : 0;
                const struct declared_container *container;
                uint64_t mib;

                if (replicas == 0)
                        continue;
                container = declared_containers_find_holder(containers, holder);
                if (is_superseded(&all[i]) || (container && container->is_refused) ||
                        has_not_started(containers, &all[i]) || (except && is_of_container(except, &all[i])))
                        continue;
                mib = declared_container_share(container, resource, own, replicas).memory_mib;
                sum += mib;
                if (pods && holder && holder->pod)
                        strbuf_printf(pods, "%s%s/%s %llu MiB", pods->size ? ", " : "", holder->pod_namespace,
                                holder->pod, (unsigned long long)mib);
        }
        return sum;
}

int declared_containers_check_room(const struct declared_containers *containers, const struct checkpoint *of,
        const struct mps_part *parts, size_t n_parts, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *name = of->entries[0].container;
        const struct ledger_share *all;
        size_t count = ledger_shares(containers->core, &arena, &all);
        struct declared_container *container = declared_containers_find(containers, of->entries[0].pod_uid, name);

        if (container)
                container->is_refused = false;
        for (size_t i = 0; i < n_parts; i++) {
                const struct unit *unit = parts[i].unit;
                uint64_t usable = share_usable_mib(unit);
                uint64_t own = parts[i].share.memory_mib;
                uint64_t others;

                if (!unit->shared->section->refuses_overcommit || usable == 0)
                        continue;
                others = sum_of(containers, all, count, unit, of, NULL);
                if (others + own <= usable)
                        continue;
                if (container)
                        container->is_refused = true;
                return error_set(err, ERROR_EXHAUSTED,
                        "the container %.63s declares %llu MiB of %s (GPU %s), but other containers declare %llu of "
                        "its %llu MiB: declare at most %llu MiB (annotation " DECLARED_MEMORY
                        "), end other containers, or set sharing.mps.declaredOvercommit: true",
                        name, (unsigned long long)own, unit->uuid, unit->index, (unsigned long long)others,
                        (unsigned long long)usable, (unsigned long long)(usable > others ? usable - others : 0));
        }
        return 0;
}

static void report_excess(
        const struct declared_containers *containers, const struct unit *unit, uint64_t sum, const char *pods)
{
        const char *reason = node_event_reason(NODE_EVENT_DECLARED_TOO_MUCH);
        _free_ char *text = xasprintf(
                "GPU %s (%s): its containers declare %llu MiB of %llu MiB of memory: %.700s. A container that "
                "allocates late may find too little memory left.",
                unit->index, unit->uuid, (unsigned long long)sum, (unsigned long long)share_usable_mib(unit), pods);

        log_warn("containers declare more memory than their GPU has", LOG_STR("event", reason),
                LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum),
                LOG_UINT("usable_mib", share_usable_mib(unit)), LOG_STR("pods", pods));
        node_events_report(containers->core->options.events, NODE_EVENT_DECLARED_TOO_MUCH, "%s", text);
        pod_events_report(containers->pod_events, unit->uuid, NODE_EVENT_DECLARED_TOO_MUCH, text);
}

static void report_room_of(const struct declared_containers *containers, const struct ledger_share *shares,
        size_t n_shares, const struct unit *unit, struct map *now, struct arena *arena)
{
        _cleanup_(strbuf_done) struct strbuf pods = STRBUF_INIT;
        uint64_t usable = unit->shared ? share_usable_mib(unit) : 0;
        uint64_t sum = usable ? sum_of(containers, shares, n_shares, unit, NULL, &pods) : 0;
        bool was_exceeded = map_find(&containers->exceeded, unit->uuid);

        if (usable && sum > usable) {
                map_add(now, arena_strdup(arena, unit->uuid), arena);
                if (!was_exceeded)
                        report_excess(containers, unit, sum, pods.data);
        } else if (was_exceeded) {
                log_info("containers declare no more memory than their GPU has any more", LOG_STR("unit", unit->uuid),
                        LOG_UINT("declared_mib", sum));
        }
}

static void forget_exceeded(struct declared_containers *containers)
{
        map_done(&containers->exceeded);
        arena_done(&containers->exceeded_arena);
}

void declared_containers_report_room(struct declared_containers *containers)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct arena arena = ARENA_INIT;
        struct map now = MAP_INIT;
        const struct ledger_share *shares;
        size_t n_shares = ledger_shares(containers->core, &scratch, &shares);
        size_t count;
        const struct mps_resource *all = mps_resources_all(&containers->core->resources, &count);

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < all[i].resource->n_units; j++)
                        if (all[i].resource->provisioning == PROVISIONING_DECLARED)
                                report_room_of(containers, shares, n_shares, &all[i].resource->units[j], &now, &arena);
        forget_exceeded(containers);
        containers->exceeded = now;
        containers->exceeded_arena = arena;
}

/* ---- begin and end ---- */

void declared_containers_init(
        struct declared_containers *containers, const struct ledger_core *core, struct pod_events *pod_events)
{
        *containers = (struct declared_containers){.core = core, .pod_events = pod_events};
        list_init(&containers->all);
}

void declared_containers_forget(struct declared_containers *containers)
{
        while (!list_is_empty(&containers->all))
                free_container(container_of(containers->all.next, struct declared_container, link));
        forget_exceeded(containers);
}
