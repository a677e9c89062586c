// SPDX-License-Identifier: Apache-2.0
/*
 * Reports the state of the node to the cluster: turns changes on the node into events (node/events/node_events.h) and
 * into the node's condition and taint (node/status/state.h). At the end of each turn of the loop it is decided what has
 * changed.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "config/config.h"
#include "gpu/inventory.h"
#include "gpu/units.h"
#include "node/events/node_events.h"
#include "plan/plan.h"

struct kube_client;
struct node_report;
struct node_watch;

/* ---- health: which changes are to be reported, and whether the node can share a GPU. Pure ---- */

/*
 * Health is read from the agent's table (gpu/units.h) at the end of a turn of the loop: in the turn of an
 * inventory the table is complete only then. A unit has changed if its health differs from the end of the turn before.
 * A unit that the inventory does not have is reported when it becomes unhealthy, and never as healthy.
 *
 * The node is
 *
 *   UNKNOWN    until the first report: an agent that has just started says neither ready nor not ready
 *   NOT_READY  without a plan in force (NVMLUnavailable, ChangeRefused), with a plan of no unit (NoGPU), or with none
 *              whose unit is healthy (NoHealthyGPU)
 *   READY      otherwise. Its reason names a refused change (ChangeRefused), some unhealthy units (SomeUnhealthy), or a
 *              DRA offer that is less than configured (OfferReduced); the other units are served
 */
struct node_health;

enum node_problem {
        NODE_UNAVAILABLE,    /* NVML cannot be used */
        NODE_CONFIG_REFUSED, /* the newest configuration; the one in force stays */
        NODE_PLAN_REFUSED,
        NODE_OFFER_REDUCED, /* less is offered than is configured, though nothing is refused */
        NODE_N_PROBLEMS,
};

struct node_health *node_health_new(const struct unit_health *table); /* which has to outlive it */
struct node_health *node_health_free(struct node_health *health);     /* accepts NULL, returns NULL */

/* Copies what it needs. NVML can be used. */
void node_health_set_inventory(struct node_health *health, const struct inventory *inventory);

/* The plan in force. It must be valid until the next one is. */
void node_health_set_plan(struct node_health *health, const struct plan *plan);

/* |reason| NULL: the problem has ended. True: the reason is new. */
bool node_health_set_problem(struct node_health *health, enum node_problem problem, const char *reason);

struct node_change {
        const char *uuid;
        const char *name; /* for people: "GPU 3 (GPU-…)", "MIG device 3:1 (MIG-…)" */
        bool is_healthy;
        const char *reason;    /* why it is not; "" where it is */
        bool is_part_of_other; /* a MIG device whose GPU changed in the same way */
};

/*
 * The turn is over: what changed in it, in the order of the inventory, and then what is unhealthy and not in the
 * inventory. Valid until the next call of any function here, or until the table changes.
 */
size_t node_health_end_turn(struct node_health *health, const struct node_change **ret);

enum node_status { NODE_UNKNOWN, NODE_READY, NODE_NOT_READY };

struct node_condition {
        enum node_status status;
        const char *reason; /* CamelCase */
        char message[sizeof(((struct error *)0)->text)];
};
void node_health_condition(const struct node_health *health, struct node_condition *ret);

/* ---- the report; every function accepts NULL, and does nothing then ---- */

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

/* Each reason is reported once; NULL: the problem has ended. */
void node_report_problem(struct node_report *report, enum node_problem problem, const char *reason);
