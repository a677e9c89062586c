/*
 * Events for the pods that hold a part of a unit. Under MPS the ledger knows to which unit a container is bound; of all else the ids
 * that kubelet lists tell. kubelet is asked for each, since a list is kept only as long as something is held under MPS.
 */
#include "ledger/parts.h"

#include <string.h>

/* An event whose pods are being asked for. */
struct telling {
        struct list link;
        struct ledger *ledger;
        char *unit;
        enum node_event event;
        char *text;
        const struct holder **told; /* borrowed from |ledger->holders| */
        size_t n_told;
};

static void free_telling(struct telling *telling)
{
        list_remove(&telling->link);
        free(telling->unit);
        free(telling->text);
        free(telling->told);
        free(telling);
}

void ledger_forget_tellings(struct ledger *ledger)
{
        while (!list_is_empty(&ledger->tellings))
                free_telling(container_of(ledger->tellings.next, struct telling, link));
}

static bool is_told(const struct telling *telling, const struct holder *holder)
{
        for (size_t i = 0; i < telling->n_told; i++)
                if (strcmp(telling->told[i]->pod, holder->pod) == 0 &&
                        strcmp(telling->told[i]->pod_namespace, holder->pod_namespace) == 0)
                        return true;
        return false;
}

/* Init containers have no name of a pod here; while one runs, no other of its pod does. */
static void pod_events_report(struct telling *telling, const struct holder *holder)
{
        struct node_event_pod pod;

        if (!holder || !holder->pod || is_told(telling, holder))
                return;
        telling->told = xrealloc(telling->told, (telling->n_told + 1) * sizeof(struct holder *));
        telling->told[telling->n_told++] = holder;
        pod = (struct node_event_pod){holder->pod_namespace, holder->pod, holder->pod_uid};
        node_events_tell_pod(telling->ledger->options.events, &pod, telling->event, "%s", telling->text);
}

static void tell_by_allocations(struct telling *telling, const struct ledger_resource *shared, const struct unit *unit)
{
        for (size_t i = 0; i < allocations_count(shared->allocations); i++) {
                const struct allocation *allocation = allocations_get(shared->allocations, i);

                if (ledger_replicas_of(shared, allocation, unit) > 0)
                        pod_events_report(telling, ledger_holder_of(telling->ledger, shared, allocation));
        }
}

static void tell_by_ids(struct telling *telling, const struct resource *resource, const struct unit *unit)
{
        for (size_t i = 0; i < unit->replicas; i++)
                pod_events_report(telling, holders_find(telling->ledger->holders, resource->name,
                                                   resource->devices[unit->first_device + i].id));
}

static void tell_all(struct telling *telling)
{
        const struct ledger *ledger = telling->ledger;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];
                const struct unit *unit = resource_find_unit(shared->resource, telling->unit);

                if (shared->is_draining && unit)
                        tell_by_allocations(telling, shared, unit);
        }
        for (size_t i = 0; i < ledger->plan->n_resources; i++) {
                const struct resource *resource = &ledger->plan->resources[i];
                const struct unit *unit = resource_find_unit(resource, telling->unit);
                const struct ledger_resource *shared = ledger_find_shared(ledger, resource->name);

                if (unit && shared)
                        tell_by_allocations(telling, shared, unit);
                else if (unit)
                        tell_by_ids(telling, resource, unit);
        }
}

/* Without an answer, the one before has to do. */
static void on_pod_events_listed(const struct error *err UNUSED, void *data)
{
        struct telling *telling = data;
        struct ledger *ledger = telling->ledger;

        if (ledger->holders && ledger->plan)
                tell_all(telling);
        free_telling(telling);
}

void ledger_tell_pods(struct ledger *ledger, const char *unit, enum node_event event, const char *text)
{
        struct telling *telling;

        if (!ledger->options.events || !ledger->pods || ledger->closing)
                return;
        telling = xcalloc(1, sizeof(*telling));
        telling->ledger = ledger;
        telling->unit = xstrdup(unit);
        telling->event = event;
        telling->text = xstrdup(text);
        list_append(&ledger->tellings, &telling->link);
        ledger_list(ledger, on_pod_events_listed, telling);
}
