#include "node/ledger/declared_room.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "plan/share.h"

/* A container without a name is one that only kubelet's record has, so that its start could not be noted. */
static bool has_not_started(const struct declared_containers *containers, const struct mps_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        return !(holder && !holder->container) && !declared_containers_find_holder(containers, holder) &&
               declared_containers_is_asked_about(containers, shared, allocation);
}

/*
 * A newer allocation has some of its ids: its container has ended, or is an init container, which ends before the other
 * starts.
 */
static bool is_superseded(const struct mps_resource *shared, const struct allocation *allocation)
{
        for (size_t i = 0; i < allocation->n_devices; i++)
                if (allocations_of_device(shared->allocations, allocation->devices[i]) != allocation)
                        return true;
        return false;
}

static bool has_any_of(
        const struct mps_resource *shared, const struct allocation *allocation, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < entry->n_devices; i++)
                for (size_t j = 0; j < allocation->n_devices; j++)
                        if (strcmp(entry->devices[i], allocation->devices[j]) == 0 &&
                                strcmp(entry->resource, shared->resource->name) == 0)
                                return true;
        return false;
}

/* True if the allocation is the container's own, or that of a container of its pod that runs before or after it. */
static bool declared_room_is_of(const struct checkpoint *container, const struct mps_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        for (size_t i = 0; i < container->n_entries; i++)
                if (has_any_of(shared, allocation, &container->entries[i]))
                        return true;
        return holder && !holder->container && text_is_same(holder->pod_uid, container->entries[0].pod_uid);
}

/*
 * The memory of |unit| that all its containers except |except| have. |except| is the container's part of kubelet's
 * checkpoint; |pods| gets the names of the pods. Both may be NULL.
 */
static uint64_t sum_of(
        const struct declared_room *room, const struct unit *unit, const struct checkpoint *except, struct strbuf *pods)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct mps_resources_allocation *all;
        size_t count = mps_resources_allocations(&room->core->resources, &scratch, &all);
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++) {
                const struct mps_resource *shared = all[i].shared;
                const struct allocation *allocation = all[i].allocation;
                const struct unit *own = resource_find_unit(shared->resource, unit->uuid);
                unsigned int replicas = own ? mps_resource_replicas(shared, allocation, own) : 0;
                const struct declared_container *container;
                const struct holder *holder;
                uint64_t mib;

                if (replicas == 0 || is_superseded(shared, allocation))
                        continue;
                holder = ledger_holder_of(room->core, shared, allocation);
                container = declared_containers_find_holder(room->containers, holder);
                if ((container && container->is_refused) ||
                        has_not_started(room->containers, shared, allocation, holder) ||
                        (except && declared_room_is_of(except, shared, allocation, holder)))
                        continue;
                mib = declared_container_share(container, shared->resource, own, replicas).memory_mib;
                sum += mib;
                if (pods && holder && holder->pod)
                        strbuf_printf(pods, "%s%s/%s %llu MiB", pods->size ? ", " : "", holder->pod_namespace,
                                holder->pod, (unsigned long long)mib);
        }
        return sum;
}

int declared_room_check(const struct declared_room *room, const struct checkpoint *of, const struct mps_part *parts,
        size_t n_parts, struct error *err)
{
        const char *name = of->entries[0].container;
        struct declared_container *container = declared_containers_find(room->containers, of->entries[0].pod_uid, name);

        if (container)
                container->is_refused = false;
        for (size_t i = 0; i < n_parts; i++) {
                const struct unit *unit = parts[i].unit;
                uint64_t usable = share_usable_mib(unit);
                uint64_t own = parts[i].share.memory_mib;
                uint64_t others;

                if (!unit->shared->section->refuses_overcommit || usable == 0)
                        continue;
                others = sum_of(room, unit, of, NULL);
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

static void report_excess(const struct declared_room *room, const struct unit *unit, uint64_t sum, const char *pods)
{
        const char *reason = node_event_reason(NODE_EVENT_DECLARED_TOO_MUCH);
        _free_ char *text = xasprintf(
                "GPU %s (%s): its containers declare %llu MiB of %llu MiB of memory: %.700s. A container that "
                "allocates late may find too little memory left.",
                unit->index, unit->uuid, (unsigned long long)sum, (unsigned long long)share_usable_mib(unit), pods);

        log_warn("containers declare more memory than their GPU has", LOG_STR("event", reason),
                LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum),
                LOG_UINT("usable_mib", share_usable_mib(unit)), LOG_STR("pods", pods));
        node_events_report(room->core->options.events, NODE_EVENT_DECLARED_TOO_MUCH, "%s", text);
        pod_events_report(room->pod_events, unit->uuid, NODE_EVENT_DECLARED_TOO_MUCH, text);
}

static void declared_room_report_unit(
        const struct declared_room *room, const struct unit *unit, struct map *now, struct arena *arena)
{
        _cleanup_(strbuf_done) struct strbuf pods = STRBUF_INIT;
        uint64_t usable = unit->shared ? share_usable_mib(unit) : 0;
        uint64_t sum = usable ? sum_of(room, unit, NULL, &pods) : 0;
        bool was_exceeded = map_find(&room->exceeded, unit->uuid);

        if (usable && sum > usable) {
                map_add(now, arena_strdup(arena, unit->uuid), arena);
                if (!was_exceeded)
                        report_excess(room, unit, sum, pods.data);
        } else if (was_exceeded) {
                log_info("containers declare no more memory than their GPU has any more", LOG_STR("unit", unit->uuid),
                        LOG_UINT("declared_mib", sum));
        }
}

void declared_room_report(struct declared_room *room)
{
        struct arena arena = ARENA_INIT;
        struct map now = MAP_INIT;
        size_t count;
        const struct mps_resource *all = mps_resources_all(&room->core->resources, &count);

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < all[i].resource->n_units; j++)
                        if (all[i].resource->provisioning == PROVISIONING_DECLARED)
                                declared_room_report_unit(room, &all[i].resource->units[j], &now, &arena);
        declared_room_forget(room);
        room->exceeded = now;
        room->arena = arena;
}

void declared_room_init(struct declared_room *room, const struct ledger_core *core,
        struct declared_containers *containers, struct pod_events *pod_events)
{
        *room = (struct declared_room){.core = core, .containers = containers, .pod_events = pod_events};
}

void declared_room_forget(struct declared_room *room)
{
        map_done(&room->exceeded);
        arena_done(&room->arena);
}
