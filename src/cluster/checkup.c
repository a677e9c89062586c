// SPDX-License-Identifier: Apache-2.0
#include "cluster/checkup.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "net/kube/object.h"

struct checkup {
        const struct checkup_input *input;
        json_t *findings;
};

/* |means| and |todo|: NULL if there is nothing to say. */
static void checkup_report(struct checkup *checkup, const char *verdict, const char *check, const char *means,
        const char *todo, const char *format, ...) PRINTF_LIKE(6, 7);

static void checkup_report(struct checkup *checkup, const char *verdict, const char *check, const char *means,
        const char *todo, const char *format, ...)
{
        struct strbuf found = STRBUF_INIT;
        va_list args;

        va_start(args, format);
        strbuf_vprintf(&found, format, args);
        va_end(args);
        text_clean(found.data); /* health comes as it is */
        json_array_append_new(checkup->findings, json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "verdict", verdict, "check",
                                                         check, "found", found.data, "means", means, "todo", todo));
        strbuf_done(&found);
}

/* ---- the node's object ---- */

static void checkup_check_node(struct checkup *checkup)
{
        const struct cluster_node *node = checkup->input->node;
        const struct cluster_condition *ready = cluster_node_condition(node, "Ready");

        if (!node->object) {
                checkup_report(checkup, "wrong", "node", "nothing is scheduled there",
                        "is its name right? kubectl get nodes", "there is no Node object, or it may not be read");
                return;
        }
        if (node->object->is_ready)
                checkup_report(checkup, "ok", "node", NULL, NULL, "is ready; kubelet %s",
                        node->object->kubelet ? node->object->kubelet : "of an unknown version");
        else
                checkup_report(checkup, "wrong", "node", "no pod starts there", "kubelet's log on the node",
                        "is not ready: %s", ready ? ready->message : "it has no condition Ready");
        if (node->object->is_cordoned)
                checkup_report(checkup, "note", "node", "no new pod is scheduled there",
                        "kubectl uncordon, when it may serve again", "is cordoned");
}

static void check_taints(struct checkup *checkup)
{
        const struct cluster_node_object *object = checkup->input->node->object;

        for (size_t i = 0; object && i < object->n_taints; i++) {
                const struct cluster_taint *taint = &object->taints[i];

                checkup_report(checkup, "note", "taints", "only pods that tolerate it are scheduled there", NULL,
                        "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect);
        }
}

/* The conditions by which kubelet says that it lacks something, and those of others, as GPUSharingReady. */
static void check_conditions(struct checkup *checkup)
{
        static const char *const pressures[] = {
                "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready"};
        const struct cluster_node_object *object = checkup->input->node->object;

        for (size_t i = 0; object && i < object->n_conditions; i++) {
                const struct cluster_condition *condition = &object->conditions[i];
                const char *bad = "False";

                if (strcmp(condition->type, "Ready") == 0)
                        continue;
                for (size_t k = 0; k < ARRAY_SIZE(pressures); k++)
                        if (strcmp(condition->type, pressures[k]) == 0)
                                bad = "True";
                if (strcmp(condition->status, bad) == 0)
                        checkup_report(checkup, strstr(condition->type, "GPU") ? "wrong" : "note", "conditions", NULL,
                                NULL, "%s is %s: %s", condition->type, condition->status,
                                *condition->message ? condition->message : condition->reason);
        }
}

/* ---- its agent ---- */

static void check_agent(struct checkup *checkup)
{
        const struct cluster_node *node = checkup->input->node;
        const struct cluster_agent *agent = node->agent;

        if (!agent) {
                checkup_report(checkup, "wrong", "agent", "no GPU of the node is shared",
                        "is the node selected by the DaemonSet (labels, taints), and --agent-selector right?",
                        "no agent is there");
                return;
        }
        if (node->state != CLUSTER_AGENT_ANSWERS)
                checkup_report(checkup, "wrong", "agent", "what it does cannot be seen from here",
                        "kubectl logs of the pod; 'warpshare doctor' in it", "%s/%s: %s", agent->namespace, agent->pod,
                        node->reason ? node->reason : "it has not answered in time");
        else
                checkup_report(checkup, agent->is_ready ? "ok" : "note", "agent", NULL, NULL, "%s/%s answers%s%s%s",
                        agent->namespace, agent->pod, agent->is_ready ? "" : ", and is not ready",
                        node->page->agent ? "; version " : "", node->page->agent ? node->page->agent : "");
        if (agent->restarts > 0)
                checkup_report(checkup, "note", "agent", "pods keep their shares while it restarts",
                        "kubectl logs --previous says why", "its container was restarted %" PRIu64 " time%s",
                        agent->restarts, agent->restarts == 1 ? "" : "s");
}

static void check_health(struct checkup *checkup)
{
        const char *health = checkup->input->health;
        char line[512] = "";

        if (!health)
                return;
        snprintf(line, sizeof(line), "%s", health);
        line[strcspn(line, "\r\n")] = '\0';
        if (checkup->input->health_status == 200)
                checkup_report(checkup, "ok", "health", NULL, NULL, "nothing is wrong, says the agent");
        else
                checkup_report(checkup, "wrong", "health", "the agent serves on with what it had",
                        "what the sentence names", "%s", line);
}

/* ---- its GPUs ---- */

/* How many of them are unhealthy. */
static size_t check_units(struct checkup *checkup)
{
        size_t count = 0;

        for (struct cluster_place at = {0}; cluster_next_unit(checkup->input->node->page, &at);) {
                const struct report_unit *unit = at.unit;

                if (!unit->has_health || unit->healthy)
                        continue;
                count++;
                checkup_report(checkup, "wrong", "gpus", "it gets no new container until it is healthy again",
                        "docs/health.md; the kernel's log on the node", "GPU %s (%s) is unhealthy: %s",
                        unit->index ? unit->index : "?", unit->uuid ? unit->uuid : "?",
                        unit->reason ? unit->reason : "the agent does not say why");
        }
        return count;
}

static void checkup_check_gpus(struct checkup *checkup)
{
        const struct node_page *page = checkup->input->node->page;

        if (!page)
                return;
        if (page->n_gpus == 0) {
                checkup_report(checkup, "wrong", "gpus", "nothing can be shared",
                        "is the driver there? 'warpshare doctor' on the node", "the agent knows of no GPU");
                return;
        }
        if (check_units(checkup) == 0)
                checkup_report(checkup, "ok", "gpus", NULL, NULL, "%zu GPU%s%s%s; driver %s", page->n_gpus,
                        page->n_gpus == 1 ? "" : "s", page->gpus[0].model ? ", the first is " : "",
                        page->gpus[0].model ? page->gpus[0].model : "",
                        page->driver ? page->driver : "of an unknown version");
        if (!isnan(page->time) && (double)checkup->input->now - page->time > (double)CHECKUP_PAGE_AGE)
                checkup_report(checkup, "note", "gpus", "what is used is older than it should be",
                        "does the driver hang? The line of health says so", "the newest reading is %.0f s old",
                        (double)checkup->input->now - page->time);
}

/* ---- its resources: what the agent offers, and what kubelet counts ---- */

struct offer {
        const char *resource;
        double replicas;
        double reserved;
        bool is_partly_away; /* a unit is unhealthy, or drains: kubelet counts less */
};

static size_t find_offers(const struct node_page *page, struct offer *offers, size_t most)
{
        size_t count = 0;

        for (struct cluster_place at = {0}; cluster_next_unit(page, &at);) {
                const struct report_unit *unit = at.unit;
                size_t k = 0;

                if (!unit->resource || isnan(unit->replicas) || !text_is_same(unit->by, "device-plugin"))
                        continue;
                while (k < count && strcmp(offers[k].resource, unit->resource) != 0)
                        k++;
                if (k == most)
                        continue;
                if (k == count)
                        offers[count++] = (struct offer){.resource = unit->resource};
                if (!unit->draining)
                        offers[k].replicas += unit->replicas;
                else if (!isnan(report_unit_granted(unit)))
                        offers[k].replicas += report_unit_granted(unit);
                offers[k].reserved += isnan(unit->reserved) ? 0 : unit->reserved;
                offers[k].is_partly_away |= unit->draining || (unit->has_health && !unit->healthy);
        }
        return count;
}

static void check_offer(struct checkup *checkup, const struct offer *offer)
{
        const struct cluster_resource *resource = cluster_node_resource(checkup->input->node, offer->resource);
        const uint64_t allocatable = resource ? resource->allocatable : 0;

        if (allocatable == 0 && !offer->is_partly_away)
                checkup_report(checkup, "wrong", "resources", "no pod that asks for it is scheduled there",
                        "the agent registers with kubelet by itself; its log, and 'warpshare doctor' on the node, say what is in the way",
                        "%s: the agent has %.0f, and kubelet counts none", offer->resource, offer->replicas);
        else if ((double)allocatable < offer->replicas - offer->reserved && !offer->is_partly_away)
                checkup_report(checkup, "note", "resources",
                        "kubelet has an older list, or replicas wait for their MPS daemon or a change",
                        "if it stays so: 'warpshare doctor' on the node",
                        "%s: the agent has %.0f, %.0f of them reserved, and kubelet counts %" PRIu64, offer->resource,
                        offer->replicas, offer->reserved, allocatable);
        else
                checkup_report(checkup, "ok", "resources", NULL, NULL, "%s: kubelet counts %" PRIu64 " of %.0f",
                        offer->resource, allocatable, offer->replicas);
        if (offer->reserved > offer->replicas / 3)
                checkup_report(checkup, "note", "resources",
                        "they are kept so that each request finds its replicas on one GPU",
                        "set maxPerRequest to the largest request of your pods; docs/mps.md",
                        "%s: %.0f of %.0f replicas are reserved, more than a third", offer->resource, offer->reserved,
                        offer->replicas);
}

static void check_resources(struct checkup *checkup)
{
        struct offer offers[32];
        const size_t count = find_offers(checkup->input->node->page, offers, ARRAY_SIZE(offers));

        for (size_t i = 0; i < count; i++)
                check_offer(checkup, &offers[i]);
}

static void check_configuration(struct checkup *checkup)
{
        const struct cluster_node *node = checkup->input->node;
        const char *wanted = cluster_node_label(node, "nvidia.com/device-plugin.config");
        const char *used = node->page ? node->page->configuration : NULL;

        if (!node->page || (!wanted && !used))
                return;
        if (wanted && !text_is_same(wanted, used))
                checkup_report(checkup, "wrong", "configuration",
                        "another configuration is in force than the label names",
                        "correct the label, or the configuration of that name; the line of health and the events say what is wrong",
                        "the node's label names '%s', in force is '%s'", wanted, used ? used : "none by name");
        else
                checkup_report(checkup, "ok", "configuration", NULL, NULL, "'%s' is in force", used);
}

/* ---- what happened ---- */

static void check_page_events(struct checkup *checkup)
{
        const struct node_page *page = checkup->input->node->page;
        const size_t count = page ? page->n_events : 0;

        for (size_t i = count > CHECKUP_EVENTS ? count - CHECKUP_EVENTS : 0; i < count; i++) {
                const struct report_event *event = &page->events[i];
                const double age = (double)checkup->input->now - event->time;

                if (text_is_same(event->kind, "Warning") && !(age > (double)CHECKUP_EVENT_AGE))
                        checkup_report(checkup, "note", "events", NULL, NULL, "%.0f min ago, %s: %s",
                                age > 0 ? age / 60 : 0, event->reason ? event->reason : "?",
                                event->text ? event->text : "");
        }
}

/* Where the agent keeps none itself. */
static void check_node_events(struct checkup *checkup)
{
        const json_t *events = checkup->input->events;
        const size_t count = json_array_size(events);
        struct arena arena = ARENA_INIT;

        for (size_t i = count > CHECKUP_EVENTS ? count - CHECKUP_EVENTS : 0; i < count; i++) {
                const json_t *event = json_array_get(events, i);
                const int64_t time = read_time(object_text(event, "lastTimestamp", NULL));

                if (text_is_same(object_text(event, "type", NULL), "Warning") &&
                        text_is_same(object_text(event, "source", "component", NULL), "warpshare") &&
                        checkup->input->now - time <= CHECKUP_EVENT_AGE)
                        checkup_report(checkup, "note", "events", NULL, NULL, "%" PRId64 " min ago, %s: %s",
                                (checkup->input->now - time) / 60, read_text_or_empty(&arena, event, "reason"),
                                read_text_or_empty(&arena, event, "message"));
        }
        arena_done(&arena);
}

static void check_pods(struct checkup *checkup)
{
        const struct cluster_view *view = checkup->input->view;

        for (size_t i = 0; i < view->n_pods; i++)
                if (cluster_pod_is_refused(view->pods[i]) &&
                        text_is_same(view->pods[i]->node, checkup->input->node->name))
                        checkup_report(checkup, "note", "pods", NULL, "kubectl warpshare why says more",
                                "kubelet refused %s/%s: %s", view->pods[i]->namespace, view->pods[i]->name,
                                view->pods[i]->message ? view->pods[i]->message : view->pods[i]->reason);
}

json_t *checkup_make(const struct checkup_input *input)
{
        struct checkup checkup = {.input = input, .findings = json_array()};

        checkup_check_node(&checkup);
        check_taints(&checkup);
        check_conditions(&checkup);
        check_agent(&checkup);
        check_health(&checkup);
        check_configuration(&checkup);
        checkup_check_gpus(&checkup);
        check_resources(&checkup);
        if (input->node->page && input->node->page->n_events > 0)
                check_page_events(&checkup);
        else
                check_node_events(&checkup);
        check_pods(&checkup);
        return checkup.findings;
}
