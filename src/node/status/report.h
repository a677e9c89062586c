/*
 * Reports the state of the node to the cluster: turns changes on the node into events (node/events/node_events.h) and
 * into the node's condition and taint (node/status/state.h). node/status/health.h decides at the end of each turn of
 * the loop what has changed.
 *
 * Every function accepts NULL, and does nothing then.
 */
#pragma once

#include <uv.h>

#include "config/config.h"
#include "gpu/inventory.h"
#include "gpu/units.h"
#include "node/events/node_events.h"
#include "plan/plan.h"

struct kube_client;
struct node_report;
struct node_watch;

struct node_report_options {
        uv_loop_t *loop;
        const struct unit_health *health; /* this and the next three outlive the report */
        struct kube_client *client;       /* NULL: only |events| are sent */
        struct node_watch *watch;         /* or NULL */
        struct node_events *events;       /* or NULL */
        const struct config *config;      /* name, condition and taint of the node; may go */
        /* Sends an event for each pod that holds a part of the unit; only the caller knows the holders. */
        void (*report_pods)(const char *unit, enum node_event event, const char *text, void *data);
        void *data;
};

struct node_report *node_report_new(const struct node_report_options *options);
void node_report_close(struct node_report *report);

/*
 * False, the initial state: changes are only recorded. True reports the problems that exist then, and from then on each
 * change; |events| must serve already.
 */
void node_report_serve(struct node_report *report, bool is_serving);

void node_report_inventory(struct node_report *report, const struct inventory *inventory);
void node_report_plan(struct node_report *report, const struct plan *plan); /* in force until the next one is */
void node_report_health_changed(struct node_report *report);                /* in the table; what, is found out */
void node_report_unavailable(struct node_report *report, const char *reason);

/* A configuration, or a plan, is refused; |reason| NULL: no longer. Each text is reported once. */
void node_report_config(struct node_report *report, const char *reason);
void node_report_refused(struct node_report *report, const char *reason);

/* Less is offered than is configured, for |reason|; NULL: all is. */
void node_report_reduced(struct node_report *report, const char *reason);
