#include "node/ledger/declared_containers.h"

#include <string.h>

/* ---- containers ---- */

static void free_container(struct declared_container *container)
{
        list_remove(&container->link);
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

static struct declared_unit *declared_containers_find_unit(const struct declared_container *container, const char *uuid)
{
        for (size_t i = 0; i < container->n_units; i++)
                if (strcmp(container->units[i].uuid, uuid) == 0)
                        return &container->units[i];
        return NULL;
}

static void note_unit(struct declared_container *container, const char *uuid, struct share share)
{
        struct declared_unit *known = declared_containers_find_unit(container, uuid);
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

void declared_containers_apply(struct declared_containers *containers, const struct checkpoint_entry *of,
        struct mps_part *parts, size_t n_parts, unsigned int *ret_omits)
{
        static const struct declared nothing;
        struct declared_container *container =
                of ? declared_containers_find(containers, of->pod_uid, of->container) : NULL;
        const struct declared *said = container ? &container->said : &nothing;

        for (size_t i = 0; i < n_parts; i++)
                parts[i].share = declared_share(said, &parts[i], i);
        *ret_omits = declared_omits(said, n_parts);
        for (size_t i = 0; container && i < n_parts; i++)
                note_unit(container, parts[i].unit->uuid, parts[i].share);
}

const struct declared_container *declared_containers_find_holder(
        const struct declared_containers *containers, const struct holder *holder)
{
        return holder && holder->container ? declared_containers_find(containers, holder->pod_uid, holder->container)
                                           : NULL;
}

struct share declared_container_share(const struct declared_container *container, const struct resource *resource,
        const struct unit *unit, unsigned int replicas)
{
        const struct declared_unit *known = container ? declared_containers_find_unit(container, unit->uuid) : NULL;

        return known ? known->share : share_of(resource, unit, replicas);
}

/* An annotation counts only if the container is known to have started with it. */
static bool is_certain(const struct declared_container *container)
{
        const struct declared *said = &container->said;
        bool is_annotated = said->memory_mib || (said->threads_permille && !said->has_own_threads);

        return said->is_known && !said->is_unclear && (container->is_ours || !is_annotated);
}

struct share declared_containers_share(const struct declared_containers *containers, const struct mps_resource *shared,
        const struct allocation *allocation, const struct unit *unit, unsigned int replicas, bool *ret_is_guess)
{
        const struct declared_container *container = NULL;

        *ret_is_guess = allocation->is_guess;
        if (shared->resource->provisioning == PROVISIONING_DECLARED) {
                container = declared_containers_find_holder(
                        containers, ledger_holder_of(containers->core, shared, allocation));
                *ret_is_guess |= !container || !is_certain(container);
        }
        return declared_container_share(container, shared->resource, unit, replicas);
}

bool declared_containers_is_asked_about(const struct declared_containers *containers, const struct mps_resource *shared,
        const struct allocation *allocation)
{
        return shared->resource->provisioning == PROVISIONING_DECLARED &&
               mps_limits_at_start(containers->core->plan, shared->resource) &&
               ledger_has_made(containers->core, allocation);
}

/* ---- begin and end ---- */

void declared_containers_init(struct declared_containers *containers, const struct ledger_core *core)
{
        containers->core = core;
        list_init(&containers->all);
}

void declared_containers_forget(struct declared_containers *containers)
{
        while (!list_is_empty(&containers->all))
                free_container(container_of(containers->all.next, struct declared_container, link));
}
