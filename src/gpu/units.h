/*
 * The health of every unit of an inventory: which event concerns which units. Pure, like gpu/health.h, which judges.
 *
 * What hits a GPU hits all its MIG devices. An event that names a GPU instance concerns the MIG devices in it alone.
 */
#pragma once

#include "gpu/health.h"
#include "gpu/inventory.h"

#define UNIT_NO_INSTANCE UINT32_MAX

struct unit_state {
        char *uuid;
        unsigned int gpu_instance; /* UNIT_NO_INSTANCE: the GPU itself */
        unsigned int compute_instance;
        struct health health;
        bool is_news; /* there is something to tell; cleared by who tells it */
};

/* One GPU: units[0] is the GPU itself, its MIG devices follow. At the same position as in the inventory. */
struct unit_group {
        struct unit_state *units;
        size_t n_units;
        bool must_poll; /* something happened that a probe has to explain */
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

struct units units_copy(const struct units *units);

/* Follows a new inventory: units known by UUID keep their health, new ones start healthy, and those of a failed GPU fall. */
void units_update(struct units *units, const struct inventory *inventory, uint64_t probe_ms, uint64_t now_ms);

/* An Xid of one GPU that counts. False when the instance named is not in the inventory, which is thus out of date. */
bool units_xid(struct units *units, size_t group, unsigned int gpu_instance, unsigned int compute_instance,
        uint64_t xid, uint64_t now_ms);

/* A GPU cannot be used, for |reason|, and with it go its MIG devices. */
void units_fail(struct unit_group *group, const char *reason, uint64_t now_ms);

/* The driver was unloaded or replaced: health_release() for all. */
void units_release(struct units *units);

/* When the next probe of this GPU, or of one of its MIG devices, is due; HEALTH_NEVER. */
uint64_t units_probe_at(const struct unit_group *group);
