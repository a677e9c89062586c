#include "node/ledger/pod_events.h"

#include <string.h>

#include "base/strbuf.h"

/* An event whose pods are being asked for. */
struct report {
        struct list link;
        struct ledger_core *core;
        char *unit;
        enum node_event event;
        char *text;
        const struct holder **reported; /* borrowed from holdings_holders() */
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

void pod_events_init(struct pod_events *pod_events, struct ledger_core *core)
{
        pod_events->core = core;
        list_init(&pod_events->reports);
}

void pod_events_forget(struct pod_events *pod_events)
{
        while (!list_is_empty(&pod_events->reports))
                free_report(container_of(pod_events->reports.next, struct report, link));
}

static bool is_reported(const struct report *report, const struct holder *holder)
{
        for (size_t i = 0; i < report->n_reported; i++)
                if (strcmp(report->reported[i]->pod, holder->pod) == 0 &&
                        strcmp(report->reported[i]->pod_namespace, holder->pod_namespace) == 0)
                        return true;
        return false;
}

/*
 * A holder without the pod's name is an init container; it is skipped. While it runs, no other container of its pod
 * does.
 */
static void report_to(struct report *report, const struct holder *holder)
{
        struct node_event_pod pod;

        if (!holder || !holder->pod || is_reported(report, holder))
                return;
        report->reported = xrealloc(report->reported, (report->n_reported + 1) * sizeof(struct holder *));
        report->reported[report->n_reported++] = holder;
        pod = (struct node_event_pod){holder->pod_namespace, holder->pod, holder->pod_uid};
        node_events_report_pod(report->core->options.events, &pod, report->event, "%s", report->text);
}

static void report_by_allocations(struct report *report, const struct mps_resource *shared, const struct unit *unit)
{
        for (size_t i = 0; i < allocations_count(shared->allocations); i++) {
                const struct allocation *allocation = allocations_get(shared->allocations, i);

                if (mps_resource_replicas(shared, allocation, unit) > 0)
                        report_to(report, ledger_holder_of(report->core, shared, allocation));
        }
}

static void report_by_ids(struct report *report, const struct resource *resource, const struct unit *unit)
{
        for (size_t i = 0; i < unit->replicas; i++)
                report_to(report, holdings_find(&report->core->holdings, resource->name,
                                          resource->devices[unit->first_device + i].id));
}

static void pod_events_report_all(struct report *report)
{
        const struct ledger_core *core = report->core;
        size_t n_shared;
        const struct mps_resource *shared = mps_resources_all(&core->resources, &n_shared);

        for (size_t i = 0; i < n_shared; i++) {
                const struct unit *unit = resource_find_unit(shared[i].resource, report->unit);

                if (unit)
                        report_by_allocations(report, &shared[i], unit);
        }
        for (size_t i = 0; i < core->plan->n_resources; i++) {
                const struct resource *resource = &core->plan->resources[i];
                const struct unit *unit = resource_find_unit(resource, report->unit);

                if (unit && !mps_resources_find(&core->resources, resource->name))
                        report_by_ids(report, resource, unit);
        }
}

/* Without an answer, kubelet's previous list is used. */
static void on_pod_events_listed(const struct error *err UNUSED, void *data)
{
        struct report *report = data;

        if (holdings_holders(&report->core->holdings) && report->core->plan)
                pod_events_report_all(report);
        free_report(report);
}

void pod_events_report(struct pod_events *pod_events, const char *unit, enum node_event event, const char *text)
{
        struct ledger_core *core = pod_events->core;
        struct report *report;

        if (!core->options.events || !holdings_folder(&core->holdings) || core->is_closing)
                return;
        report = xcalloc(1, sizeof(*report));
        report->core = core;
        report->unit = xstrdup(unit);
        report->event = event;
        report->text = xstrdup(text);
        list_append(&pod_events->reports, &report->link);
        holdings_list(&core->holdings, on_pod_events_listed, report);
}

char *pod_events_names(const struct pod_events *pod_events, const char *uuid)
{
        const struct ledger_core *core = pod_events->core;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct mps_resources_allocation *all;
        size_t count = mps_resources_allocations(&core->resources, &scratch, &all);

        for (size_t i = 0; i < count; i++) {
                const struct unit *unit = resource_find_unit(all[i].shared->resource, uuid);
                const struct holder *holder = ledger_holder_of(core, all[i].shared, all[i].allocation);
                const char *name;

                if (!unit || !holder || !holder->pod || !mps_resource_replicas(all[i].shared, all[i].allocation, unit))
                        continue;
                name = arena_printf(&scratch, "%s/%s", holder->pod_namespace, holder->pod);
                if (!strstr(text.data, name))
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", name);
        }
        return xstrdup(text.data);
}
