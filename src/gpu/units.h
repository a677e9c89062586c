// SPDX-License-Identifier: Apache-2.0
/*
 * The health of every unit of an inventory: which event affects which units. Pure, like gpu/health.h, which decides
 * about each unit.
 *
 * A failure of a GPU affects all its MIG devices. An event that names a GPU instance affects only the MIG devices in
 * it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/health.h"
#include "gpu/inventory.h"

#define UNIT_NO_INSTANCE UINT32_MAX

struct unit_state {
        char *uuid;
        unsigned int gpu_instance; /* UNIT_NO_INSTANCE: the GPU itself */
        unsigned int compute_instance;
        struct health health;
        bool is_news;     /* there is a change to report; the reporter clears it */
        bool is_doubtful; /* a healthy MIG device that the newest reading listed, and could not use thereafter */
};

/* One GPU: units[0] is the GPU itself, its MIG devices follow. Groups have the positions of the inventory. */
struct unit_group {
        struct unit_state *units;
        size_t n_units;
        bool must_poll; /* an event happened that a probe must explain */
        bool fails;     /* its last probe was not good */
};

struct units {
        struct unit_group *groups;
        size_t n_groups;
};

#define UNITS_INIT                                                                                                     \
        {                                                                                                              \
                0                                                                                                      \
        }

void units_done(struct units *units);

/*
 * Applies a new inventory: units with a known UUID keep their health, new ones start healthy, and units of a failed GPU
 * become unhealthy.
 */
void units_update(struct units *units, const struct inventory *inventory, uint64_t probe_ms, uint64_t now_ms);

/* The group of that GPU; NULL: there is none. */
struct unit_group *units_find_group(const struct units *units, const char *gpu);

/* An Xid that counts, of one GPU. False: the inventory does not have the named instance, so it is out of date. */
bool units_xid(struct units *units, size_t group, unsigned int gpu_instance, unsigned int compute_instance,
        uint64_t xid, uint64_t now_ms);

/* A GPU cannot be used, because of |reason|; its MIG devices become unhealthy, too. */
void units_fail(struct unit_group *group, const char *reason, uint64_t now_ms);

/* The driver was unloaded or replaced: calls health_release() for all units. */
void units_release(struct units *units);

/* When the next probe of this GPU, or of one of its MIG devices, is due; HEALTH_NEVER: no probe is. */
uint64_t units_probe_at(const struct unit_group *group);

/* ---- unit health ---- */

/*
 * The one table of the units of this node that are unhealthy, and why. The agent owns it and writes what the monitor
 * says (gpu/monitor.h); others read it when they need it, and are notified that something changed. Pure: no
 * clock.
 *
 * A unit without an entry is healthy. When an inventory comes the table is cleared, and all that are unhealthy are
 * entered again in the same turn of the loop, so a reader who wants all of it waits for the end of the turn. A MIG
 * device has an entry of its own, also where its GPU has one.
 */

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
