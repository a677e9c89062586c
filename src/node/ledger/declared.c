/*
 * provisioning declared: a container's share is what its pod says (plan/declared.h), and the pod is read from the API
 * server when the container starts. kubelet's list tells which pod that is, and a moment later its start is answered:
 *
 *     asked ──► kubelet's list ──► GET of the pod ──► the container's devices are made
 *         └───────────┴─────────────────┴──► without what it declares, after READ_MS at the latest: the default, and that is said
 *
 * What was read is kept as long as kubelet's record has the pod, since the limit monitor holds the container to it. Of
 * containers that another agent started it is read when kubelet lists them; whether they started with it is not known,
 * so against them it proves nothing.
 */
#include "node/ledger/declared_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* ---- containers ---- */

static void free_container(struct declared_container *container)
{
        list_remove(&container->link);
        arena_done(&container->arena);
        free(container);
}

struct declared_container *declared_find(const struct ledger *ledger, const char *pod_uid, const char *name)
{
        for (struct list *at = ledger->declared.next; pod_uid && at != &ledger->declared; at = at->next) {
                struct declared_container *container = container_of(at, struct declared_container, link);

                if (strcmp(container->pod_uid, pod_uid) == 0 && strcmp(container->name, name) == 0)
                        return container;
        }
        return NULL;
}

void declared_forget_ended(struct ledger *ledger)
{
        const struct map *pods = ledger->holders ? holders_pods(ledger->holders) : NULL;
        struct list *next;

        for (struct list *at = ledger->declared.next; pods && at != &ledger->declared; at = next) {
                struct declared_container *container = container_of(at, struct declared_container, link);

                next = at->next;
                if (!map_find(pods, container->pod_uid) &&
                        ledger_clock(ledger) - container->read_at > DECLARED_AGAIN_MS)
                        free_container(container);
        }
}

void declared_drop_annotations(struct declared *said)
{
        if (!said->has_own_threads)
                said->threads_permille = 0;
        said->memory_mib = 0;
}

struct declared_container *declared_take(
        struct ledger *ledger, const struct checkpoint_entry *entry, const json_t *pod, bool is_start)
{
        struct declared_container *previous = declared_find(ledger, entry->pod_uid, entry->container);
        struct declared_container *now;

        if (previous && !pod) {
                previous->read_at = ledger_clock(ledger);
                previous->is_ours |= is_start;
                return previous;
        }
        now = xcalloc(1, sizeof(*now));
        now->pod_uid = arena_strdup(&now->arena, entry->pod_uid);
        now->name = arena_strdup(&now->arena, entry->container);
        now->resource = is_start ? arena_strdup(&now->arena, entry->resource) : "";
        now->read_at = ledger_clock(ledger);
        now->is_ours = is_start || (previous && previous->is_ours);
        if (pod)
                now->said = declared_read(&now->arena, pod, entry->container);
        if (previous && previous->is_ours && !previous->said.is_known && !is_start)
                declared_drop_annotations(&now->said);
        if (previous)
                free_container(previous);
        list_append(&ledger->declared, &now->link);
        return now;
}

/* ---- what they have ---- */

static struct declared_unit *find_unit(const struct declared_container *container, const char *uuid)
{
        for (size_t i = 0; i < container->n_units; i++)
                if (strcmp(container->units[i].uuid, uuid) == 0)
                        return &container->units[i];
        return NULL;
}

static void note_unit(struct declared_container *container, const char *uuid, struct share share)
{
        struct declared_unit *known = find_unit(container, uuid);
        struct declared_unit *units;

        if (known) {
                known->share = share;
                return;
        }
        units = ARENA_ARRAY(&container->arena, struct declared_unit, container->n_units + 1);
        if (container->n_units)
                memcpy(units, container->units, container->n_units * sizeof(*units));
        units[container->n_units++] = (struct declared_unit){arena_strdup(&container->arena, uuid), share};
        container->units = units;
}

void ledger_declare(struct ledger *ledger, const struct checkpoint_entry *of, struct mps_part *parts, size_t n_parts,
        unsigned int *ret_omits)
{
        static const struct declared nothing;
        struct declared_container *container = of ? declared_find(ledger, of->pod_uid, of->container) : NULL;
        const struct declared *said = container ? &container->said : &nothing;

        for (size_t i = 0; i < n_parts; i++)
                parts[i].share = declared_share(said, &parts[i], i);
        *ret_omits = declared_omits(said, n_parts);
        for (size_t i = 0; container && i < n_parts; i++)
                note_unit(container, parts[i].unit->uuid, parts[i].share);
}

const struct declared_container *declared_find_of(const struct ledger *ledger, const struct holder *holder)
{
        return holder && holder->container ? declared_find(ledger, holder->pod_uid, holder->container) : NULL;
}

struct share declared_share_in(const struct declared_container *container, const struct resource *resource,
        const struct unit *unit, unsigned int replicas)
{
        const struct declared_unit *known = container ? find_unit(container, unit->uuid) : NULL;

        return known ? known->share : share_of(resource, unit, replicas);
}

/* An annotation counts only for who is known to have started with it. */
static bool is_certain(const struct declared_container *container)
{
        const struct declared *said = &container->said;
        bool is_annotated = said->memory_mib || (said->threads_permille && !said->has_own_threads);

        return said->is_known && !said->is_unclear && (container->is_ours || !is_annotated);
}

struct share ledger_share(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct unit *unit, unsigned int replicas, bool *ret_is_guess)
{
        const struct declared_container *container = NULL;

        *ret_is_guess = allocation->is_guess;
        if (shared->resource->provisioning == PROVISIONING_DECLARED) {
                container = declared_find_of(ledger, ledger_holder_of(ledger, shared, allocation));
                *ret_is_guess |= !container || !is_certain(container);
        }
        return declared_share_in(container, shared->resource, unit, replicas);
}

bool declared_asks_at_start(const struct ledger *ledger, const struct ledger_resource *shared)
{
        return mps_limits_at_start(ledger->plan, shared->resource);
}

bool declared_is_asked_about(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation)
{
        char prefix[ALLOCATION_ID_SIZE];

        snprintf(prefix, sizeof(prefix), ALLOCATION_ID_PREFIX, ledger->incarnation);
        return shared->resource->provisioning == PROVISIONING_DECLARED && declared_asks_at_start(ledger, shared) &&
               text_starts_with(allocation->id, prefix);
}

/* ---- the end ---- */

void ledger_forget_declared(struct ledger *ledger)
{
        while (!list_is_empty(&ledger->declared))
                free_container(container_of(ledger->declared.next, struct declared_container, link));
        map_done(&ledger->overdeclared);
        arena_done(&ledger->overdeclared_arena);
        ledger->overdeclared = (struct map)MAP_INIT;
}
