/*
 * Memory that containers declare, added up by unit: a start that would be too much is refused where the sharing policy
 * says so, and events name the units whose containers have more than there is.
 */
#include "node/ledger/declared_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "plan/budget.h"

/* A container without a name is one that only kubelet's record has, so that its start could not be noted. */
static bool has_not_started(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        return !(holder && !holder->container) && !declared_find_of(ledger, holder) &&
               declared_is_asked_about(ledger, shared, allocation);
}

/*
 * A newer allocation has some of its ids: its container has ended, or is an init container, which ends before the other
 * starts.
 */
static bool is_superseded(const struct ledger_resource *shared, const struct allocation *allocation)
{
        for (size_t i = 0; i < allocation->n_devices; i++)
                if (allocations_of_device(shared->allocations, allocation->devices[i]) != allocation)
                        return true;
        return false;
}

static bool has_any_of(
        const struct ledger_resource *shared, const struct allocation *allocation, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < entry->n_devices; i++)
                for (size_t j = 0; j < allocation->n_devices; j++)
                        if (strcmp(entry->devices[i], allocation->devices[j]) == 0 &&
                                strcmp(entry->resource, shared->resource->name) == 0)
                                return true;
        return false;
}

/* It is the container's own, or of one of its pod that runs before or after it. */
static bool is_of(const struct checkpoint *container, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        for (size_t i = 0; i < container->n_entries; i++)
                if (has_any_of(shared, allocation, &container->entries[i]))
                        return true;
        return holder && !holder->container && text_is_same(holder->pod_uid, container->entries[0].pod_uid);
}

/*
 * The memory of |unit| that all its containers but |except| have. |except|, as kubelet's record has it, and |pods|, who
 * they are, may be NULL.
 */
static uint64_t sum_of(
        const struct ledger *ledger, const struct unit *unit, const struct checkpoint *except, struct strbuf *pods)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];
                const struct unit *own = resource_find_unit(shared->resource, unit->uuid);

                for (size_t j = 0; own && j < allocations_count(shared->allocations); j++) {
                        const struct allocation *allocation = allocations_get(shared->allocations, j);
                        unsigned int replicas = ledger_replicas_of(shared, allocation, own);
                        const struct declared_container *container;
                        const struct holder *holder;
                        uint64_t mib;

                        if (replicas == 0 || is_superseded(shared, allocation))
                                continue;
                        holder = ledger_holder_of(ledger, shared, allocation);
                        container = declared_find_of(ledger, holder);
                        if ((container && container->is_refused) || has_not_started(ledger, shared, allocation, holder))
                                continue;
                        if (except && is_of(except, shared, allocation, holder))
                                continue;
                        mib = declared_share_in(container, shared->resource, own, replicas).memory_mib;
                        sum += mib;
                        if (pods && holder && holder->pod)
                                strbuf_printf(pods, "%s%s/%s %llu MiB", pods->size ? ", " : "", holder->pod_namespace,
                                        holder->pod, (unsigned long long)mib);
                }
        }
        return sum;
}

int ledger_check_declared(struct ledger *ledger, const struct checkpoint *of, const struct mps_part *parts,
        size_t n_parts, struct error *err)
{
        const char *name = of->entries[0].container;
        struct declared_container *container = declared_find(ledger, of->entries[0].pod_uid, name);

        if (container)
                container->is_refused = false;
        for (size_t i = 0; i < n_parts; i++) {
                const struct unit *unit = parts[i].unit;
                uint64_t usable = budget_usable_mib(unit);
                uint64_t own = parts[i].share.memory_mib;
                uint64_t others;

                if (!unit->shared->section->refuses_overcommit || usable == 0)
                        continue;
                others = sum_of(ledger, unit, of, NULL);
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

static void report_excess(struct ledger *ledger, const struct unit *unit, uint64_t sum, const char *pods)
{
        const char *reason = node_event_reason(NODE_EVENT_DECLARED_TOO_MUCH);
        _free_ char *text = xasprintf(
                "GPU %s (%s): its containers declare %llu MiB of %llu MiB of memory: %.700s. A container that "
                "allocates late may find too little memory left.",
                unit->index, unit->uuid, (unsigned long long)sum, (unsigned long long)budget_usable_mib(unit), pods);

        log_warn("containers declare more memory than their GPU has", LOG_STR("event", reason),
                LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum),
                LOG_UINT("usable_mib", budget_usable_mib(unit)), LOG_STR("pods", pods));
        node_events_report(ledger->options.events, NODE_EVENT_DECLARED_TOO_MUCH, "%s", text);
        ledger_report_pods(ledger, unit->uuid, NODE_EVENT_DECLARED_TOO_MUCH, text);
}

/* Each once, until it is over. */
void declared_judge(struct ledger *ledger)
{
        struct arena arena = ARENA_INIT;
        struct map now = MAP_INIT;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct resource *resource = ledger->shared[i].resource;

                if (resource->provisioning != PROVISIONING_DECLARED)
                        continue;
                for (size_t j = 0; j < resource->n_units; j++) {
                        const struct unit *unit = &resource->units[j];
                        _cleanup_(strbuf_done) struct strbuf pods = STRBUF_INIT;
                        uint64_t usable = unit->shared ? budget_usable_mib(unit) : 0;
                        uint64_t sum = usable ? sum_of(ledger, unit, NULL, &pods) : 0;
                        bool was = map_find(&ledger->overdeclared, unit->uuid);

                        if (usable && sum > usable) {
                                map_add(&now, arena_strdup(&arena, unit->uuid), ledger);
                                if (!was)
                                        report_excess(ledger, unit, sum, pods.size ? pods.data : "");
                        } else if (was) {
                                log_info("containers declare no more memory than their GPU has any more",
                                        LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum));
                        }
                }
        }
        map_done(&ledger->overdeclared);
        arena_done(&ledger->overdeclared_arena);
        ledger->overdeclared = now;
        ledger->overdeclared_arena = arena;
}
