/*
 * What kubelet is told about one resource: its devices, which are healthy, and those that once were. Pure.
 *
 * An id that was ever advertised stays in the list, unhealthy, after a new plan dropped it: a pod may still hold it, and
 * kubelets 1.34 to 1.36 crash when an id disappears between their choice and their bookkeeping. Retired ids end with the
 * process; should they and the living be more than PLAN_MAX_DEVICES, the oldest go earlier. Health belongs to units: every
 * replica of a unit shares it. Beside it, single ids may be unavailable (kubelet/broker.h, share/rollout.h): kubelet is
 * told that they are unhealthy, too, since it knows no other word for "not now". What leaves is retired from the start, and
 * unhealthy but for what its resource still serves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "rpc/message.h"
#include "share/plan.h"

struct device_list {
        const struct resource *resource; /* borrowed; NULL before the first update */
        bool *healthy;                   /* by unit */
        bool *usable;                    /* by device: of a healthy unit, and not unavailable */
        char **retired;
        bool *retired_usable; /* by position in |retired|: of a unit that leaves */
        size_t n_retired;
};

#define DEVICE_LIST_INIT                                                                                               \
        {                                                                                                              \
                0                                                                                                      \
        }

/* Says whether the unit with this UUID can be used now. */
typedef bool device_list_health_fn(const struct unit *unit, void *data);

void device_list_done(struct device_list *list);

/*
 * Replaces the resource; the one before must still be valid during the call. |unavailable| says by position in resource->devices
 * which ids are unavailable, or is NULL: none. True if kubelet has to be told.
 */
bool device_list_update(struct device_list *list, const struct resource *resource, device_list_health_fn *health,
        void *data, const bool *unavailable);

/* Asks for the health of every unit again. True if kubelet has to be told. */
bool device_list_refresh(struct device_list *list, device_list_health_fn *health, void *data, const bool *unavailable);

/* Each id is counted once; the sum is what kubelet calls the capacity. */
struct device_list_counts {
        size_t healthy;
        size_t reserved;  /* unavailable by the broker, of healthy units */
        size_t unhealthy; /* retired ones included, unless they are usable */
};
struct device_list_counts device_list_count(const struct device_list *list);

/* The ListAndWatch message; the caller holds a reference. */
struct rpc_message *device_list_pack(const struct device_list *list);
