/*
 * The health of the node's units: which changes are to be reported, and whether the node can share a GPU. Pure: no
 * clock, no API, no log.
 *
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
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "gpu/inventory.h"
#include "gpu/units.h"
#include "plan/plan.h"

struct node_health;

struct node_health *node_health_new(const struct unit_health *table); /* which has to outlive it */
struct node_health *node_health_free(struct node_health *health);     /* accepts NULL, returns NULL */

/* Copies what it needs. NVML can be used. */
void node_health_set_inventory(struct node_health *health, const struct inventory *inventory);

/* The plan in force. It must be valid until the next one is. */
void node_health_set_plan(struct node_health *health, const struct plan *plan);

/* NVML cannot be used, for |reason|. */
void node_health_set_unavailable(struct node_health *health, const char *reason);

/* The newest configuration or plan is refused; NULL: it is in force. */
void node_health_set_refused(struct node_health *health, const char *reason);

/* Less is offered than is configured, though nothing is refused; NULL: all is. */
void node_health_set_reduced(struct node_health *health, const char *reason);

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
