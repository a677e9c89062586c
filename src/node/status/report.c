#include "node/status/report.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"
#include "node/status/health.h"
#include "node/status/state.h"

struct node_report {
        struct node_events *events;
        void (*report_pods)(const char *unit, enum node_event event, const char *text, void *data);
        void *data;
        struct node_health *health;
        struct node_state *state;
        bool is_serving;
        char *unavailable;
        char *bad_config;
        char *bad_plan;
        uv_timer_t turn; /* fires at the end of this turn of the loop */
};

/* ---- at the end of a turn ---- */

static void report_change(const struct node_report *report, const struct node_change *change)
{
        enum node_event event = change->is_healthy ? NODE_EVENT_GPU_HEALTHY : NODE_EVENT_GPU_UNHEALTHY;
        _free_ char *text = change->is_healthy ? xasprintf("%s is healthy again", change->name)
                                               : xasprintf("%s is unhealthy%s%s", change->name,
                                                         *change->reason ? ": " : "", change->reason);

        if (!change->is_part_of_other)
                node_events_report(report->events, event, "%s", text);
        report->report_pods(change->uuid, event, text, report->data);
}

static void on_report_turn(uv_timer_t *timer)
{
        struct node_report *report = timer->data;
        const struct node_change *changes;
        size_t count = node_health_end_turn(report->health, &changes);
        struct node_condition condition;

        for (size_t i = 0; report->is_serving && i < count; i++)
                report_change(report, &changes[i]);
        node_health_condition(report->health, &condition);
        node_state_set(report->state, &condition);
}

static void end_turn(struct node_report *report)
{
        uv_timer_start(&report->turn, on_report_turn, 0, 0);
}

/* ---- reporting ---- */

static void report_unavailable(const struct node_report *report)
{
        node_events_report(report->events, NODE_EVENT_GPUS_UNAVAILABLE, "NVML cannot be used: %s", report->unavailable);
}

static void report_bad_config(const struct node_report *report)
{
        node_events_report(report->events, NODE_EVENT_CONFIG_REFUSED,
                "configuration refused, the one in force stays: %s", report->bad_config);
}

static void report_bad_plan(const struct node_report *report)
{
        node_events_report(report->events, NODE_EVENT_PLAN_REFUSED,
                "no plan can be made, the one in force, if any, stays: %s", report->bad_plan);
}

void node_report_serve(struct node_report *report, bool is_serving)
{
        if (!report)
                return;
        report->is_serving = is_serving;
        node_state_serve(report->state, is_serving);
        if (is_serving && report->unavailable)
                report_unavailable(report);
        if (is_serving && report->bad_config)
                report_bad_config(report);
        if (is_serving && report->bad_plan)
                report_bad_plan(report);
}

void node_report_inventory(struct node_report *report, const struct inventory *inventory)
{
        if (!report)
                return;
        if (report->unavailable)
                node_events_report(report->events, NODE_EVENT_GPUS_AVAILABLE, "NVML can be used again, %zu GPUs",
                        inventory->n_gpus);
        free(TAKE_PTR(report->unavailable));
        node_health_set_inventory(report->health, inventory);
        end_turn(report);
}

void node_report_plan(struct node_report *report, const struct plan *plan)
{
        if (!report)
                return;
        node_health_set_plan(report->health, plan);
        end_turn(report);
}

void node_report_health_changed(struct node_report *report)
{
        if (report)
                end_turn(report);
}

void node_report_unavailable(struct node_report *report, const char *reason)
{
        if (!report)
                return;
        if (!text_is_same(report->unavailable, reason)) {
                free(report->unavailable);
                report->unavailable = xstrdup(reason);
                report_unavailable(report);
        }
        node_health_set_unavailable(report->health, reason);
        end_turn(report);
}

/* True: the reason is new. */
static bool report_note(struct node_report *report, char **place, const char *reason)
{
        bool is_same = text_is_same(*place, reason);

        if (!is_same) {
                free(*place);
                *place = reason ? xstrdup(reason) : NULL;
                node_health_set_refused(report->health, report->bad_config ? report->bad_config : report->bad_plan);
                end_turn(report);
        }
        return !is_same;
}

void node_report_config(struct node_report *report, const char *reason)
{
        if (report && report_note(report, &report->bad_config, reason) && reason)
                report_bad_config(report);
}

void node_report_refused(struct node_report *report, const char *reason)
{
        if (!report || !report_note(report, &report->bad_plan, reason))
                return;
        if (reason)
                report_bad_plan(report);
        else
                node_events_report(report->events, NODE_EVENT_PLAN_ACCEPTED, "a new plan is in force");
}

void node_report_reduced(struct node_report *report, const char *reason)
{
        if (!report)
                return;
        node_health_set_reduced(report->health, reason);
        end_turn(report);
}

/* ---- start and end ---- */

struct node_report *node_report_new(const struct node_report_options *options)
{
        const struct node_state_options state = {
                .loop = options->loop,
                .client = *options->config->node.name ? options->client : NULL,
                .watch = options->watch,
                .node = options->config->node.name,
                .condition = options->config->node.condition,
                .taint = options->config->node.taint,
        };
        struct node_report *report;

        report = xcalloc(1, sizeof(*report));
        report->events = options->events;
        report->report_pods = options->report_pods;
        report->data = options->data;
        report->health = node_health_new(options->health);
        report->state = node_state_new(&state);
        uv_timer_init(options->loop, &report->turn);
        report->turn.data = report;
        return report;
}

static void on_report_closed(uv_handle_t *handle)
{
        struct node_report *report = container_of(handle, struct node_report, turn);

        node_health_free(report->health);
        free(report->unavailable);
        free(report->bad_config);
        free(report->bad_plan);
        free(report);
}

void node_report_close(struct node_report *report)
{
        if (!report)
                return;
        node_state_close(report->state);
        uv_close((uv_handle_t *)&report->turn, on_report_closed);
}
