/*
 * Events for the pods that hold a part of a unit. Under MPS the ledger knows to which unit a container is bound; of all
 * else the ids that kubelet lists tell. kubelet is asked for each, since a list is kept only as long as something is
 * held under MPS.
 */
#include "node/ledger/parts.h"

#include <string.h>

/* An event whose pods are being asked for. */
struct report {
        struct list link;
        struct ledger *ledger;
        char *unit;
        enum node_event event;
        char *text;
        const struct holder **reported; /* borrowed from |ledger->holders| */
        size_t n_reported;
};

static void free_report(struct report *report)
{
        list_remove(&report->link);
        free(report->unit);
        free(report->text);
        free(report->reported);
        free(report);
}

void ledger_forget_reports(struct ledger *ledger)
{
        while (!list_is_empty(&ledger->reports))
                free_report(container_of(ledger->reports.next, struct report, link));
}

static bool is_reported(const struct report *report, const struct holder *holder)
{
        for (size_t i = 0; i < report->n_reported; i++)
                if (strcmp(report->reported[i]->pod, holder->pod) == 0 &&
                        strcmp(report->reported[i]->pod_namespace, holder->pod_namespace) == 0)
                        return true;
        return false;
}

/* Init containers have no name of a pod here; while one runs, no other of its pod does. */
static void pod_events_report(struct report *report, const struct holder *holder)
{
        struct node_event_pod pod;

        if (!holder || !holder->pod || is_reported(report, holder))
                return;
        report->reported = xrealloc(report->reported, (report->n_reported + 1) * sizeof(struct holder *));
        report->reported[report->n_reported++] = holder;
        pod = (struct node_event_pod){holder->pod_namespace, holder->pod, holder->pod_uid};
        node_events_report_pod(report->ledger->options.events, &pod, report->event, "%s", report->text);
}

static void report_by_allocations(struct report *report, const struct ledger_resource *shared, const struct unit *unit)
{
        for (size_t i = 0; i < allocations_count(shared->allocations); i++) {
                const struct allocation *allocation = allocations_get(shared->allocations, i);

                if (ledger_replicas_of(shared, allocation, unit) > 0)
                        pod_events_report(report, ledger_holder_of(report->ledger, shared, allocation));
        }
}

static void report_by_ids(struct report *report, const struct resource *resource, const struct unit *unit)
{
        for (size_t i = 0; i < unit->replicas; i++)
                pod_events_report(report, holders_find(report->ledger->holders, resource->name,
                                                  resource->devices[unit->first_device + i].id));
}

static void report_all(struct report *report)
{
        const struct ledger *ledger = report->ledger;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];
                const struct unit *unit = resource_find_unit(shared->resource, report->unit);

                if (shared->is_draining && unit)
                        report_by_allocations(report, shared, unit);
        }
        for (size_t i = 0; i < ledger->plan->n_resources; i++) {
                const struct resource *resource = &ledger->plan->resources[i];
                const struct unit *unit = resource_find_unit(resource, report->unit);
                const struct ledger_resource *shared = ledger_find_shared(ledger, resource->name);

                if (unit && shared)
                        report_by_allocations(report, shared, unit);
                else if (unit)
                        report_by_ids(report, resource, unit);
        }
}

/* Without an answer, kubelet's previous list is used. */
static void on_pod_events_listed(const struct error *err UNUSED, void *data)
{
        struct report *report = data;
        struct ledger *ledger = report->ledger;

        if (ledger->holders && ledger->plan)
                report_all(report);
        free_report(report);
}

void ledger_report_pods(struct ledger *ledger, const char *unit, enum node_event event, const char *text)
{
        struct report *report;

        if (!ledger->options.events || !ledger->pods || ledger->closing)
                return;
        report = xcalloc(1, sizeof(*report));
        report->ledger = ledger;
        report->unit = xstrdup(unit);
        report->event = event;
        report->text = xstrdup(text);
        list_append(&ledger->reports, &report->link);
        ledger_list(ledger, on_pod_events_listed, report);
}
