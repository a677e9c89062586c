/*
 * The plan: config + inventory → resources, units, devices. Pure: no clock, no I/O, no NVML.
 *
 * A unit is what is shared: a GPU or a MIG device. A resource is an extended resource name with its devices. A
 * device is what kubelet counts: a whole unit, "<uuid>", or one of its replicas, "<uuid>::<n>". Devices of one unit are
 * neighbours in the array and carry the unit's position, so that every later question is answered without parsing an id.
 *
 * A plan is immutable and lives in the arena it was built in, and so does its index from id to device.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"
#include "config/config.h"
#include "gpu/inventory.h"

/* kubelet takes a list as one gRPC message of at most 4 MiB; at about 60 bytes a device this stays well below. */
#define PLAN_MAX_DEVICES ((size_t)50000)

/* Each resource has a socket, a registration and a list of its own; a node with all profiles of MIG has about twenty. */
#define PLAN_MAX_RESOURCES ((size_t)64)

struct unit {
        const char *uuid;
        const char *index;                    /* "0", "0:1", as text: NVIDIA_VISIBLE_DEVICES by index; "all" on WSL */
        const char *base_name;                /* of its resource, before renaming: "nvidia.com/mig-1g.10gb" */
        const struct gpu *gpu;                /* of a MIG device: its parent */
        const struct mig_device *mig;         /* NULL: the whole GPU */
        const struct shared_resource *shared; /* NULL: not shared */
        uint64_t memory;                      /* bytes, total; 0 unknown */
        unsigned int replicas;                /* 1 when not shared */
        size_t position;                      /* of |gpu| in the inventory: gpu->links go by it */
        size_t first_device;                  /* position of its first device in the resource */
};

struct device {
        const char *id;
        uint32_t unit;    /* position in resource->units */
        uint32_t replica; /* 0 when not shared */
};

struct resource {
        const char *name;               /* as advertised: "nvidia.com/gpu.shared" */
        const char *base_name;          /* of its first unit */
        enum sharing_strategy strategy; /* of its shared units; NONE when no unit is shared */
        enum provisioning provisioning;
        enum placement placement;
        bool fail_requests_greater_than_one;
        const struct unit *units;
        size_t n_units;
        const struct device *devices;
        size_t n_devices;
        struct map by_id; /* device id → const struct device * */
};

struct plan {
        const struct config *config;
        const struct inventory *inventory;
        unsigned int cdi_extras;    /* EXTRA_*: those that have a CDI device; set by who publishes the specifications */
        struct resource *resources; /* nvidia.com/gpu first, then by name */
        size_t n_resources;
};

/*
 * Builds the plan in |arena|; config and inventory are borrowed and must live as long. A GPU with a failure keeps its
 * devices in the plan (their health says the rest). |warn| hears what was left out and why.
 */
int plan_build(struct plan **ret, struct arena *arena, const struct config *config, const struct inventory *inventory,
        config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* Releases the maps; the rest goes with the arena. */
void plan_done(struct plan *plan);

const struct resource *plan_find(const struct plan *plan, const char *name);

/* True when kubelet and containers cannot tell the two apart: same name, ids, topology and limits. */
bool resource_is_same(const struct resource *a, const struct resource *b);
