// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/container_start.h"

#include <string.h>

#include "base/log.h"
#include "node/cdi/mps_devices.h"
#include "node/kubelet/convert.h"
#include "plan/allocate.h"
#include "plan/mps_wanted.h"

/* One container, by kubelet's record. */
struct starting {
        struct container_start *start;
        struct arena *arena;
        struct checkpoint_entry *entries; /* in the record; none: it is not known which container this is */
        size_t n_entries;
        bool is_node; /* all allocations of the container at the daemon of the node; else one at another daemon */
        struct mps_part *parts; /* at most |most_parts| */
        size_t n_parts;
        size_t most_parts;
        bool is_running;          /* what it has is noted, and nothing is made */
        const char **allocations; /* of its allocations that name a device of their own */
        size_t n_allocations;
};

/* ---- what it holds ---- */

static bool is_of_node(const struct resource *resource, const struct unit *unit)
{
        return resource->daemon_scope == DAEMON_SCOPE_NODE && !mps_has_own_daemon(DAEMON_SCOPE_NODE, unit->uuid);
}

static void add_part(
        struct starting *starting, const struct mps_resource *shared, const struct unit *unit, unsigned int replicas)
{
        if (replicas && unit->shared && is_of_node(shared->resource, unit) == starting->is_node &&
                starting->n_parts < starting->most_parts)
                starting->parts[starting->n_parts++] =
                        (struct mps_part){shared->resource, unit, replicas, share_of(shared->resource, unit, replicas)};
}

/* The ledger knows the unit; without it the ids say it. */
static void add_parts(struct starting *starting, const struct mps_resource *shared, const struct allocation *known,
        const char *const *ids, size_t n_ids)
{
        const struct allocation by_ids = {.devices = ids, .n_devices = n_ids};

        for (size_t i = 0; i < shared->resource->n_units; i++) {
                const struct unit *unit = &shared->resource->units[i];

                add_part(starting, shared, unit, mps_resource_replicas(shared, known ? known : &by_ids, unit));
        }
}

/* The allocation of an answer that names a device of its own, or NULL. */
static const char *container_start_device_of(struct arena *arena, const char *answer)
{
        const char *allocation = NULL;
        const char *texts = NULL;

        if (answer)
                convert_read_answer(answer, arena, &allocation, &texts);
        if (!allocation || !texts || !allocations_is_id(allocation) ||
                !strstr(texts, arena_printf(arena, CDI_KIND_MPS "=%s", allocation)))
                return NULL;
        return allocation;
}

static void container_start_add_allocation(
        struct starting *starting, const char *resource, const char *const *ids, size_t n_ids, const char *allocation)
{
        const struct mps_resource *shared =
                mps_resources_find_for(&starting->start->core->resources, resource, ids, n_ids);
        size_t n_previous = starting->n_parts;

        if (!shared)
                return;
        add_parts(starting, shared,
                allocation ? allocations_find(shared->allocations, allocation)
                           : allocations_of_device(shared->allocations, ids[0]),
                ids, n_ids);
        if (allocation && starting->n_parts > n_previous)
                starting->allocations[starting->n_allocations++] = allocation;
}

static void start_begin(struct starting *starting, struct container_start *start, struct arena *arena, bool is_node,
        size_t most_entries)
{
        size_t count;
        const struct mps_resource *all = mps_resources_all(&start->core->resources, &count);

        *starting = (struct starting){.start = start, .arena = arena, .is_node = is_node};
        for (size_t i = 0; i < count; i++)
                starting->most_parts += all[i].resource->n_units;
        starting->parts = ARENA_ARRAY(arena, struct mps_part, starting->most_parts);
        starting->allocations = ARENA_ARRAY(arena, const char *, most_entries);
        starting->entries = ARENA_ARRAY(arena, struct checkpoint_entry, most_entries);
}

/* ---- its variables ---- */

/* |priority|: one more, or NULL. */
static size_t variables_of(struct starting *starting, unsigned int omits, const char *priority, const char ***ret)
{
        struct mps_fact facts[MPS_FACTS_MAX];
        const char **limits;
        const char **variables;
        size_t n_facts;
        size_t count = mps_limits_variables(starting->arena, starting->parts, starting->n_parts, omits, &limits);

        n_facts = mps_facts(facts, starting->arena, starting->parts, starting->n_parts,
                ledger_tier(starting->start->core, starting->parts[0].resource, starting->parts[0].unit), 0);
        variables = ARENA_ARRAY(starting->arena, const char *, count + n_facts + 1);
        memcpy(variables, limits, count * sizeof(*limits));
        for (size_t i = 0; i < n_facts; i++)
                variables[count++] = arena_printf(starting->arena, "%s=%s", facts[i].name, facts[i].value);
        if (priority)
                variables[count++] = priority;
        *ret = variables;
        return count;
}

static int make_devices(struct starting *starting, struct error *err)
{
        const char **variables;
        const char *memory;
        const char *priority = NULL;
        unsigned int omits = 0;
        size_t count;

        if (starting->n_parts == 0)
                return 0;
        mps_parts_sort(starting->parts, starting->n_parts);
        if (starting->parts[0].resource->provisioning == PROVISIONING_DECLARED) {
                declared_containers_apply(starting->start->containers, starting->n_entries ? starting->entries : NULL,
                        starting->parts, starting->n_parts, &omits, &priority);
                if (starting->is_running)
                        return 0;
                if (starting->n_entries && declared_containers_check_room(starting->start->containers,
                                                   &(struct checkpoint){starting->entries, starting->n_entries},
                                                   starting->parts, starting->n_parts, err) < 0)
                        return -1;
        }
        count = variables_of(starting, omits, priority, &variables);
        memory = mps_parts_memory(starting->arena, starting->parts, starting->n_parts);
        for (size_t i = 0; i < starting->n_allocations; i++) {
                if (start_device_write(starting->start->core->plan->config->cdi.root, starting->allocations[i],
                            variables, count, err) < 0)
                        return -1;
                share_metadata_update(
                        starting->start->metadata, starting->allocations[i], starting->parts, starting->n_parts);
                log_info("limits of a container that starts", LOG_STR("allocation", starting->allocations[i]),
                        LOG_UINT("gpus", starting->n_parts),
                        LOG_UINT("threads_permille", mps_parts_threads(starting->parts, starting->n_parts)),
                        LOG_STR("memory", memory ? memory : ""));
        }
        return 0;
}

/* ---- containers ---- */

static void container_start_add_entry(struct starting *starting, const struct checkpoint_entry *entry)
{
        starting->entries[starting->n_entries++] = *entry;
        container_start_add_allocation(starting, entry->resource, entry->devices, entry->n_devices,
                container_start_device_of(starting->arena, entry->answer));
}

static int make_container(struct container_start *start, const struct checkpoint *record,
        const struct checkpoint_entry *of, bool is_running, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct starting node;

        start_begin(&node, start, &arena, true, record->n_entries);
        node.is_running = is_running;
        for (size_t i = 0; i < record->n_entries; i++) {
                const struct checkpoint_entry *entry = &record->entries[i];
                struct starting alone;

                if (!checkpoint_is_of_container(entry, of))
                        continue;
                start_begin(&alone, start, &arena, false, 1);
                alone.is_running = is_running;
                container_start_add_entry(&alone, entry);
                if (make_devices(&alone, err) < 0)
                        return -1;
                container_start_add_entry(&node, entry);
        }
        return make_devices(&node, err);
}

bool container_start_has_just(
        const struct checkpoint_entry *entry, const char *resource, const char *const *ids, size_t n_ids)
{
        size_t found = 0;

        if (strcmp(entry->resource, resource) != 0 || entry->n_devices != n_ids)
                return false;
        for (size_t i = 0; i < n_ids; i++)
                for (size_t j = 0; j < n_ids; j++)
                        found += strcmp(entry->devices[i], ids[j]) == 0;
        return found == n_ids;
}

/*
 * For a container that kubelet's checkpoint lacks, or if the checkpoint cannot be read: only the allocation of |ids| is
 * known, not others of the same container.
 */
static int make_by_allocations(
        struct container_start *start, const char *resource, const char *const *ids, size_t n_ids, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct ledger_core *core = start->core;
        const struct mps_resource *shared =
                n_ids ? mps_resources_find_for(&core->resources, resource, ids, n_ids) : NULL;
        const struct allocation *allocation = shared ? allocations_of_device(shared->allocations, ids[0]) : NULL;
        struct starting node;
        struct starting alone;

        if (!allocation)
                return error_set(err, ERROR_UNAVAILABLE,
                        "resource '%s': the container's limits are not known: its devices are neither in kubelet's "
                        "record '%.200s' nor in the agent's; kubelet will ask again",
                        resource, holdings_record_path(&core->holdings));
        log_warn("kubelet's record does not have a container that starts: its limits leave out its other devices",
                LOG_STR("resource", resource), LOG_STR("allocation", allocation->id),
                LOG_STR("record", holdings_record_path(&core->holdings)));
        start_begin(&node, start, &arena, true, 1);
        container_start_add_allocation(&node, resource, ids, n_ids, allocation->id);
        start_begin(&alone, start, &arena, false, 1);
        container_start_add_allocation(&alone, resource, ids, n_ids, allocation->id);
        return make_devices(&node, err) < 0 ? -1 : make_devices(&alone, err);
}

/* ---- devices of ended containers ---- */

struct kept {
        const char **devices;
        size_t n_devices;
};

static bool is_kept(const char *allocation, void *data)
{
        const struct kept *kept = data;

        for (size_t i = 0; i < kept->n_devices; i++)
                if (strcmp(kept->devices[i], allocation) == 0)
                        return true;
        return false;
}

static void sweep(const struct ledger_core *core, struct arena *arena, const struct checkpoint *record)
{
        struct kept kept = {.devices = ARENA_ARRAY(arena, const char *, record->n_entries)};

        for (size_t i = 0; i < record->n_entries; i++) {
                const char *device = container_start_device_of(arena, record->entries[i].answer);

                if (device)
                        kept.devices[kept.n_devices++] = device;
        }
        start_devices_sweep(core->plan->config->cdi.root, is_kept, &kept);
}

/* ---- public ---- */

bool container_start_is_declared(const struct ledger_core *core, const struct checkpoint_entry *entry)
{
        const struct mps_resource *shared =
                mps_resources_find_for(&core->resources, entry->resource, entry->devices, entry->n_devices);

        return shared && shared->resource->provisioning == PROVISIONING_DECLARED;
}

int container_start_now(
        struct container_start *start, const char *resource, const char *const *ids, size_t n_ids, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        bool is_found = false;

        if (!start->core->plan)
                return error_set(err, ERROR_UNAVAILABLE,
                        "resource '%s': this agent does not serve now; kubelet will ask again", resource);
        if (!holdings_read_record(&start->core->holdings, &arena, &record))
                return make_by_allocations(start, resource, ids, n_ids, err);
        for (size_t i = 0; i < record.n_entries; i++) {
                if (!container_start_has_just(&record.entries[i], resource, ids, n_ids))
                        continue;
                is_found = true;
                if (make_container(start, &record, &record.entries[i], false, err) < 0)
                        return -1;
        }
        if (!is_found)
                return make_by_allocations(start, resource, ids, n_ids, err);
        sweep(start->core, &arena, &record);
        return 0;
}

void container_start(struct container_start *start, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context)
{
        const struct mps_resource *shared =
                n_ids ? mps_resources_find_for(&start->core->resources, resource, ids, n_ids) : NULL;
        struct error err;

        if (shared && shared->resource->provisioning == PROVISIONING_DECLARED)
                declared_pods_start(start->pods, resource, ids, n_ids, started, context);
        else
                started(container_start_now(start, resource, ids, n_ids, &err) < 0 ? &err : NULL, context);
}

void container_start_note_shares(struct container_start *start, const struct checkpoint *record, const char *pod_uid)
{
        struct error err;

        for (size_t i = 0; i < record->n_entries; i++)
                if (strcmp(record->entries[i].pod_uid, pod_uid) == 0 &&
                        container_start_is_declared(start->core, &record->entries[i]))
                        make_container(start, record, &record->entries[i], true, &err);
}

void container_start_all(struct container_start *start)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        struct error err;

        if (!holdings_read_record(&start->core->holdings, &arena, &record))
                return;
        for (size_t i = 0; i < record.n_entries; i++)
                if (container_start_device_of(&arena, record.entries[i].answer) &&
                        !container_start_is_declared(start->core, &record.entries[i]) &&
                        make_container(start, &record, &record.entries[i], false, &err) < 0)
                        log_warn("a container that has shares of several resources cannot be restarted", LOG_ERR(&err));
        sweep(start->core, &arena, &record);
}
