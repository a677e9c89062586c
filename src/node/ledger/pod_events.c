// SPDX-License-Identifier: Apache-2.0
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
};

static void free_report(struct report *report)
{
        list_remove(&report->link);
        free(report->unit);
        free(report->text);
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

/* ---- the pods that hold a part of a unit, each once ---- */

struct walk {
        const struct ledger_core *core;
        struct arena arena;
        struct map seen; /* "namespace/name" */
        void (*visit)(const struct holder *holder, const char *name, void *data);
        void *data;
};

/*
 * A holder without the pod's name is an init container; it is skipped. While it runs, no other container of its pod
 * does.
 */
static void walk_to(struct walk *walk, const struct holder *holder)
{
        const char *name =
                holder && holder->pod ? arena_printf(&walk->arena, "%s/%s", holder->pod_namespace, holder->pod) : NULL;

        if (name && map_add(&walk->seen, name, walk))
                walk->visit(holder, name, walk->data);
}

static void walk_allocations(struct walk *walk, const char *uuid)
{
        const struct ledger_share *all;
        size_t count = ledger_shares(walk->core, &walk->arena, &all);

        for (size_t i = 0; i < count; i++) {
                const struct unit *unit = resource_find_unit(all[i].shared->resource, uuid);

                if (unit && mps_resource_replicas(all[i].shared, all[i].allocation, unit) > 0)
                        walk_to(walk, all[i].holder);
        }
}

/* Resources without MPS, whose ids name the unit. */
static void walk_ids(struct walk *walk, const char *uuid)
{
        const struct plan *plan = walk->core->plan;

        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];
                const struct unit *unit = resource_find_unit(resource, uuid);

                if (!unit || mps_resources_find(&walk->core->resources, resource->name))
                        continue;
                for (size_t j = unit->first_device; j < unit->first_device + unit->replicas; j++)
                        walk_to(walk, holdings_find(&walk->core->holdings, resource->name, resource->devices[j].id));
        }
}

static void walk_done(struct walk *walk)
{
        map_done(&walk->seen);
        arena_done(&walk->arena);
}

/* ---- events ---- */

static void report_to(const struct holder *holder, const char *name UNUSED, void *data)
{
        const struct report *report = data;
        const struct node_event_pod pod = {holder->pod_namespace, holder->pod, holder->pod_uid};

        node_events_report_pod(report->core->options.events, &pod, report->event, "%s", report->text);
}

/* Without an answer, kubelet's previous list is used. */
static void on_pod_events_listed(const struct error *err UNUSED, void *data)
{
        struct report *report = data;
        _cleanup_(walk_done) struct walk walk = {.core = report->core, .visit = report_to, .data = report};

        if (report->core->plan) {
                walk_allocations(&walk, report->unit);
                walk_ids(&walk, report->unit);
        }
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

static void add_pod_name(const struct holder *holder UNUSED, const char *name, void *data)
{
        struct strbuf *text = data;

        strbuf_printf(text, "%s%s", text->size ? ", " : "", name);
}

char *pod_events_names(const struct pod_events *pod_events, const char *uuid)
{
        struct strbuf text = STRBUF_INIT;
        _cleanup_(walk_done) struct walk walk = {.core = pod_events->core, .visit = add_pod_name, .data = &text};

        walk_allocations(&walk, uuid);
        return strbuf_take(&text);
}
