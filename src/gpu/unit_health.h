/*
 * The one table of the units of this node that are unhealthy, and why. The agent owns it and writes what the monitor
 * says (gpu/monitor.h); others read it when they need it, and are notified that something changed. Pure: no
 * clock.
 *
 * A unit without an entry is healthy. When an inventory comes the table is cleared, and all that are unhealthy are
 * entered again in the same turn of the loop, so a reader who wants all of it waits for the end of the turn. A MIG
 * device has an entry of its own, also where its GPU has one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct unhealthy_unit {
        char *uuid; /* of a GPU or a MIG device, perhaps of one that the inventory does not have any more */
        char *reason;
};

struct unit_health {
        struct unhealthy_unit *unhealthy; /* in no order */
        size_t n_unhealthy;
};

#define UNIT_HEALTH_INIT                                                                                               \
        {                                                                                                              \
                0                                                                                                      \
        }

/* All units are healthy, and nothing is left to be freed. */
void unit_health_clear(struct unit_health *health);

/* |reason| counts where the unit is not healthy; the latest one stays. */
void unit_health_set(struct unit_health *health, const char *uuid, bool healthy, const char *reason);

/* NULL: the unit is healthy. Valid until the table changes. */
const struct unhealthy_unit *unit_health_find(const struct unit_health *health, const char *uuid);
