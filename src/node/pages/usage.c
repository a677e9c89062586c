// SPDX-License-Identifier: Apache-2.0
#include "node/pages/usage.h"

#include <string.h>

#include "node/ledger/claims.h"

#define MIB (UINT64_C(1) << 20)
#define ASK_MS UINT64_C(30000) /* between questions to kubelet because of pods without names */

struct node_usage {
        struct usage *usage;
        uint64_t asked_at_ms; /* 0: never */
        size_t n_nameless;    /* pods with processes and without a name, when that was last looked at */
};

struct node_usage *node_usage_new(void)
{
        struct node_usage *usage = xcalloc(1, sizeof(*usage));

        usage->usage = usage_new();
        return usage;
}

struct node_usage *node_usage_free(struct node_usage *usage)
{
        if (usage) {
                usage_free(usage->usage);
                free(usage);
        }
        return NULL;
}

/* ---- to whom what was given ---- */

struct owners {
        struct usage_owner *list;
        size_t count;
        size_t capacity;
};

static void add_owner(struct owners *owners, const struct usage_owner *owner)
{
        if (owners->count == owners->capacity) {
                owners->capacity = MAX(2 * owners->capacity, (size_t)64);
                owners->list = xrealloc(owners->list, owners->capacity * sizeof(*owners->list));
        }
        owners->list[owners->count++] = *owner;
}

/* The key of an allocation whose pod kubelet has not named, and of a pod whose UID is not known. */
static const char *make_key(struct arena *arena, const struct holder *holder, const char *allocation)
{
        return holder && holder->pod ? arena_printf(arena, "pod %s/%s", holder->pod_namespace, holder->pod)
                                     : arena_printf(arena, "allocation %s", allocation);
}

/*
 * An allocation that is not bound to a unit counts for the units of its ids, if the plan still has them. One of which a
 * newer allocation has everything gives its pod only a name; of which it has a part, the rest.
 */
static void usage_add_allocation(struct owners *owners, const struct ledger_allocation *allocation, struct arena *arena)
{
        static const struct holder unknown;
        const struct resource *resource = allocation->resource;
        const struct holder *holder = allocation->holder ? allocation->holder : &unknown;
        const size_t n_devices = allocation->allocation->n_devices;
        struct usage_owner owner = {.pod_uid = holder->pod_uid,
                .key = make_key(arena, holder, allocation->allocation->id),
                .pod_namespace = holder->pod_namespace,
                .pod = holder->pod,
                .container = holder->container};

        if (allocation->n_left == 0) {
                add_owner(owners, &owner);
                return;
        }
        owner.unit = allocation->allocation->unit;
        owner.resource = resource->name;
        owner.tier = mps_tier_promise(allocation->tier, allocation->limit_mib > 0);
        owner.is_granted = true;
        owner.limit = allocation->limit_mib * allocation->n_left / n_devices * MIB;
        owner.replicas = allocation->n_left;
        owner.threads_permille = (unsigned int)(allocation->threads_permille * allocation->n_left / n_devices);
        if (owner.unit) {
                add_owner(owners, &owner);
                return;
        }
        /* Each id counts; the limits are those of the container, however many ids it has. */
        owner.replicas = 1;
        for (size_t i = 0; i < allocation->n_left; i++) {
                const struct unit *unit = resource_unit_of(resource, allocation->left[i]);

                owner.unit = unit ? unit->uuid : NULL;
                owner.threads_permille = i == 0 ? allocation->threads_permille : 0;
                owner.limit = i == 0 ? allocation->limit_mib * MIB : 0;
                add_owner(owners, &owner);
        }
}

static void add_allocations(
        struct owners *owners, const struct ledger *ledger, const char *resource, struct arena *arena)
{
        const struct ledger_allocation *allocations;
        const size_t count = ledger_allocations(ledger, resource, arena, &allocations);

        for (size_t i = 0; i < count; i++)
                usage_add_allocation(owners, &allocations[i], arena);
}

/* Adds one device. Several pods have it together, so it is not attributed to one of them. */
static void add_claim_device(struct owners *owners, const struct ledger_claim *claim, struct usage_owner owner,
        const struct ledger_claim_device *device)
{
        owner.unit = device->unit;
        owner.limit = device->limit_mib * MIB;
        owner.threads_permille = device->is_shared ? device->threads_permille : 0;
        owner.tier = device->is_shared ? mps_tier_promise(device->tier, device->limit_mib > 0) : NULL;
        if (claim->n_pods == 1) {
                owner.pod_uid = claim->pods[0].uid;
                owner.pod = claim->pods[0].name;
        }
        add_owner(owners, &owner);
}

static void usage_add_claims(struct owners *owners, const struct ledger *ledger, struct arena *arena)
{
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(ledger, arena, &states);

        for (size_t i = 0; i < count; i++) {
                const struct ledger_claim *claim = states[i].claim;
                const char *slash = strchr(claim->name, '/');
                struct usage_owner owner = {.key = arena_printf(arena, "claim %s", claim->uid),
                        .pod_namespace = arena_strndup(arena, claim->name, (size_t)(slash - claim->name)),
                        .claim = slash + 1};

                for (size_t j = 0; states[i].is_held && j < claim->n_devices; j++)
                        add_claim_device(owners, claim, owner, &claim->devices[j]);
                for (size_t j = 0; claim->n_pods > 1 && j < claim->n_pods; j++) {
                        owner.pod_uid = claim->pods[j].uid;
                        owner.pod = claim->pods[j].name;
                        add_owner(owners, &owner);
                }
        }
}

/*
 * The unit of the device by its id, or NULL. Under MPS the allocation may be bound to another unit, so the id counts
 * only for a second pod to which kubelet gave the same device, since the allocation has one pod.
 */
static const struct unit *unit_of(const struct resource *resource, const char *id, bool is_second)
{
        const struct device *device = resource ? map_find(&resource->by_id, id) : NULL;
        const struct unit *unit = device ? &resource->units[device->unit] : NULL;

        return unit && unit->shared && resource->strategy == SHARING_MPS && !is_second ? NULL : unit;
}

/* The resource name is left out: it matters only for limits, and would be the longest label of all. */
static void usage_add_containers(struct owners *owners, const struct plan *plan, const struct holder *containers,
        size_t n_containers, struct arena *arena)
{
        for (size_t i = 0; i < n_containers; i++) {
                const struct holder *holder = &containers[i];
                const struct resource *resource = plan ? plan_find(plan, containers[i].resource) : NULL;
                struct usage_owner owner = {.pod_uid = holder->pod_uid,
                        .key = make_key(arena, holder, ""),
                        .pod_namespace = holder->pod_namespace,
                        .pod = holder->pod,
                        .container = holder->container};

                for (size_t j = 0; j < containers[i].n_devices; j++) {
                        const struct unit *unit = unit_of(resource, containers[i].devices[j], holder->is_second);

                        owner.unit = unit ? unit->uuid : NULL;
                        owner.is_granted = unit;
                        owner.replicas = unit ? 1 : 0;
                        if (unit || j == 0)
                                add_owner(owners, &owner);
                }
        }
}

static size_t list_servers(const struct ledger *ledger, struct arena *arena, pid_t **ret)
{
        struct ledger_measures measures;
        size_t count = 0;

        ledger_measure(ledger, &measures);
        for (size_t i = 0; measures.mps && i < measures.mps->n_daemons; i++)
                count += measures.mps->daemons[i].n_servers;
        *ret = ARENA_ARRAY(arena, pid_t, count);
        count = 0;
        for (size_t i = 0; measures.mps && i < measures.mps->n_daemons; i++)
                for (size_t j = 0; j < measures.mps->daemons[i].n_servers; j++)
                        (*ret)[count++] = measures.mps->daemons[i].servers[j].pid;
        return count;
}

void node_usage_look(const struct node_usage *usage, const struct ledger *ledger, const struct plan *plan,
        struct arena *arena, struct node_usage_view *ret)
{
        const struct holder *containers = NULL;
        struct ledger_measures measures;
        struct owners owners = {0};
        size_t n_containers = 0;
        pid_t *servers;

        *ret = (struct node_usage_view){0};
        ledger_measure(ledger, &measures);
        ret->mps = measures.mps;
        for (size_t i = 0; plan && i < plan->n_resources; i++)
                add_allocations(&owners, ledger, plan->resources[i].name, arena);
        usage_add_claims(&owners, ledger, arena);
        ret->is_listed = ledger_containers(ledger, &containers, &n_containers);
        usage_add_containers(&owners, plan, containers, n_containers, arena);
        if (usage) {
                ret->usage = usage->usage;
                ret->n_servers = list_servers(ledger, arena, &servers);
                ret->servers = servers;
                ret->samples = usage_samples(usage->usage);
                ret->n_shares = usage_shares(usage->usage, arena, &ret->shares);
        }
        ret->n_rows = usage_rows(owners.list, owners.count, ret->shares, ret->n_shares, arena, &ret->rows);
        free(owners.list);
}

const struct gpu_sample *node_usage_find_sample(const struct node_usage_view *view, const char *uuid)
{
        for (size_t i = 0; view->samples && i < view->samples->n_units; i++)
                if (strcmp(view->samples->units[i].uuid, uuid) == 0)
                        return &view->samples->units[i];
        return NULL;
}

static bool usage_serves(const struct mps_daemon_status *daemon, const char *uuid)
{
        for (size_t i = 0; i < daemon->n_units; i++)
                if (strcmp(daemon->units[i], uuid) == 0)
                        return daemon->state == MPS_READY || daemon->state == MPS_DRAINING;
        return false;
}

bool node_usage_is_served(const struct node_usage_view *view, const char *uuid)
{
        for (size_t i = 0; view->mps && i < view->mps->n_daemons; i++)
                if (usage_serves(&view->mps->daemons[i], uuid))
                        return true;
        return false;
}

bool node_usage_has_hidden(const struct node_usage_view *view, const char *uuid)
{
        for (size_t i = 0; i < view->n_shares; i++)
                if (view->shares[i].kind == USAGE_HIDDEN && view->shares[i].n_processes &&
                        strcmp(view->shares[i].unit, uuid) == 0)
                        return true;
        return false;
}

/* ---- samples ---- */

static size_t count_nameless(const struct node_usage_view *view)
{
        size_t count = 0;

        for (size_t i = 0; i < view->n_rows; i++)
                count += !view->rows[i].pod && view->rows[i].share;
        return count;
}

static bool usage_sees_any(const struct gpu_sample *sample)
{
        for (size_t i = 0; i < sample->n_processes; i++)
                if (sample->processes[i].is_visible)
                        return true;
        return false;
}

static bool usage_is_on_unit(
        const struct mps_daemon_status *daemon, const struct mps_client *client, const struct gpu_sample *sample)
{
        return client->unit ? strcmp(client->unit, sample->uuid) == 0 : daemon->n_units == 1;
}

/*
 * The PIDs are those of the host, so they are not visible here: /proc may have another process with that PID. A client
 * of which neither the driver nor the supervisor knows memory has no context on the unit yet.
 */
static void usage_take_clients(
        struct gpu_samples *samples, struct gpu_sample *sample, const struct mps_daemon_status *daemon)
{
        struct arena *arena = &samples->arena;
        struct gpu_process *processes = ARENA_ARRAY(arena, struct gpu_process, daemon->n_clients);
        const bool none_are_listed = sample->has_processes && sample->n_processes == 0;
        size_t count = 0;

        for (size_t i = 0; i < daemon->n_clients; i++) {
                const struct mps_client *client = &daemon->clients[i];

                if (!usage_is_on_unit(daemon, client, sample) || (none_are_listed && client->memory == UINT64_MAX))
                        continue;
                processes[count++] = (struct gpu_process){
                        .pid = client->pid,
                        .kinds = GPU_PROCESS_MPS,
                        .memory = client->memory == UINT64_MAX ? GPU_VALUE_UNKNOWN : client->memory,
                        .sm_percent = GPU_PERCENT_UNKNOWN,
                        .memory_percent = GPU_PERCENT_UNKNOWN,
                        .pod_uid = client->pod_uid ? arena_strdup(arena, client->pod_uid) : NULL,
                        .container_id = client->container_id ? arena_strdup(arena, client->container_id) : NULL,
                };
        }
        sample->processes = processes;
        sample->n_processes = count;
        sample->has_processes = true;
}

void node_usage_name_clients(struct gpu_samples *samples, const struct mps_status *status)
{
        for (size_t i = 0; i < samples->n_units; i++)
                for (size_t j = 0; status && j < status->n_daemons && !usage_sees_any(&samples->units[i]); j++)
                        if (usage_serves(&status->daemons[j], samples->units[i].uuid)) {
                                usage_take_clients(samples, &samples->units[i], &status->daemons[j]);
                                break;
                        }
}

bool node_usage_add(struct node_usage *usage, struct gpu_samples *samples, struct ledger *ledger,
        const struct plan *plan, bool may_ask)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct node_usage_view view;
        uint64_t now_ms;
        size_t n_before;
        pid_t *servers;
        size_t n_servers = list_servers(ledger, &scratch, &servers);
        struct ledger_measures measures;

        ledger_measure(ledger, &measures);
        node_usage_name_clients(samples, measures.mps);
        usage_add(usage->usage, samples, servers, n_servers);
        now_ms = samples->n_units ? samples->units[0].at_ms : 0;
        if (!may_ask || (usage->asked_at_ms && now_ms < usage->asked_at_ms + ASK_MS))
                return false;
        node_usage_look(usage, ledger, plan, &scratch, &view);
        n_before = usage->n_nameless;
        usage->n_nameless = count_nameless(&view);
        if (usage->n_nameless == 0)
                return false;
        usage->asked_at_ms = now_ms;
        ledger_ask(ledger);
        return usage->n_nameless != n_before;
}
