// SPDX-License-Identifier: Apache-2.0
/*
 * The device list of one resource as kubelet gets it: its devices with their health, and earlier devices. Pure.
 *
 * An id that was ever advertised stays in the list, unhealthy, after a new plan dropped it: a pod may still hold it,
 * and kubelets 1.34 to 1.36 crash when an id disappears between their choice and their bookkeeping. Retired ids are
 * dropped when the process ends, the oldest earlier if there are more than PLAN_MAX_DEVICES ids in total. Health
 * belongs to units: all replicas of a unit share it. In addition, single ids may be unavailable (node/kubelet/broker.h,
 * plan/rollout.h). They are listed as unhealthy, too, since kubelet has no other state for "not now". Ids of draining
 * resources are retired from the start, and unhealthy except those that the resource still serves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/units.h"
#include "node/kubelet/convert.h"

struct device_list {
        const struct resource *resource; /* borrowed; NULL before the first update */
        bool *healthy;                   /* by unit */
        bool *fell;                      /* by unit: it was healthy before the last refresh, and is not now */
        bool *usable;                    /* by device: its unit is healthy, and it is not unavailable */
        struct convert_retired *retired;
        size_t n_retired;
};

#define DEVICE_LIST_INIT                                                                                               \
        {                                                                                                              \
                0                                                                                                      \
        }

void device_list_done(struct device_list *list);

/*
 * Replaces the resource; the previous one must stay valid during the call. |unavailable| has the unavailable ids by
 * position in resource->devices, or is NULL: none. True if kubelet must get a new list.
 */
bool device_list_update(struct device_list *list, const struct resource *resource, const struct unit_health *health,
        const bool *unavailable);

/* Reads the health of every unit again. True if kubelet must get a new list. */
bool device_list_refresh(struct device_list *list, const struct unit_health *health, const bool *unavailable);

/* Each id is counted once; the sum is the capacity that kubelet reports. */
struct device_list_counts {
        size_t healthy;
        size_t reserved;  /* of healthy units, but unavailable by the broker */
        size_t unhealthy; /* including retired ones, unless they are usable */
};
struct device_list_counts device_list_count(const struct device_list *list);

/* The ListAndWatch message; the caller holds a reference. */
struct rpc_message *device_list_pack(const struct device_list *list);
