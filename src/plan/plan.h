// SPDX-License-Identifier: Apache-2.0
/*
 * The plan: config + inventory → resources, units, devices. Pure: no clock, no I/O, no NVML.
 *
 * A unit is what is shared: a GPU or a MIG device. A resource is an extended resource name with its devices. A device
 * is what kubelet counts: a whole unit, "<uuid>", or one of its replicas, "<uuid>::<n>". Devices of one unit are
 * adjacent in the array and have the unit's position, so no id needs to be parsed later.
 *
 * What is a unit, and what it is called, follows NVIDIA's k8s-device-plugin:
 *
 *   migStrategy none    every GPU whole, those in MIG mode too
 *   migStrategy single  whole GPUs, or MIG devices under the name of GPUs: an error where there are both, or where MIG
 *                       devices differ in any attribute
 *   migStrategy mixed   GPUs that are not in MIG mode whole, MIG devices as "nvidia.com/mig-<profile>", '+' written
 *                       '.'; one that has not all compute slices of its GPU instance, or no profile that we know, has
 *                       no such name and is left out with a warning
 *
 * GPUs that belong to DRA (config/config.h: config_dra), and their MIG devices, are not units; an entry of a sharing
 * section that lists one is an error.
 *
 * Before these names come the patterns of the configuration, which match a GPU's product name ("tegra" on Tegra) or a
 * MIG device's profile. WSL has one unit "all" for everything.
 *
 * Then the entries of both sharing sections select units by these names: first entries with a list of units, then those
 * with a number, in the order of the units, then those for all the rest. A list may contain units that this node does
 * not have; a unit that two entries select is an error. Units of an entry get the name in its rename, or keep their
 * name; units that no entry selects stay whole. One name may have several entries if they differ only in the number of
 * replicas, and whole units beside shared ones (with a warning). So units of a resource may have different numbers of
 * devices.
 *
 * With scope individual each unit of an entry is a resource of its own: the index of the GPU (of a MIG device
 * "<GPU>-<MIG>") is appended, and ".shared" stays last: "nvidia.com/gpu0", "nvidia.com/gpu0.shared",
 * "nvidia.com/mig-1g.10gb0-3". So a unit's name depends on no other unit.
 *
 * The order is always the same: resources by name with nvidia.com/gpu first, units by position of the GPU, then MIG
 * index.
 *
 * A plan is immutable and lives in the arena it was built in; the index from id to device is on the heap.
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

/*
 * kubelet accepts a list as one gRPC message of at most 4 MiB; at about 60 bytes per device this limit stays well
 * below.
 */
#define PLAN_MAX_DEVICES ((size_t)50000)

/* Each resource has a socket, a registration and a list of its own; a node with all MIG profiles has about twenty. */
#define PLAN_MAX_RESOURCES ((size_t)64)

struct unit {
        const char *uuid;
        const char *index;                    /* "0", "0:1", as text: NVIDIA_VISIBLE_DEVICES by index; "all" on WSL */
        const char *base_name;                /* of its resource, before renaming: "nvidia.com/mig-1g.10gb" */
        const char *name;                     /* of its resource, as advertised */
        const struct gpu *gpu;                /* of a MIG device: its parent */
        const struct mig_device *mig;         /* NULL: the whole GPU */
        const struct shared_resource *shared; /* NULL: not shared */
        uint64_t memory;                      /* bytes, total; 0 unknown */
        unsigned int replicas;                /* 1 when not shared */
        size_t position;                      /* position of |gpu| in the inventory, also in gpu->links */
        size_t first_device;                  /* position of its first device in the resource */
        bool is_kept; /* in a rollout: no new container gets it, since it has its old sharing policy; |devices| are
                       * those in use */
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
        enum placement placement; /* of its shared units; the default of the config when no unit is shared */
        bool fail_requests_greater_than_one;
        enum daemon_scope daemon_scope; /* MPS */
        enum mps_tier tier_limit;       /* MPS */
        /*
         * The most replicas that one request may ask for, if placement is same-gpu and requests for several replicas
         * are allowed; else 0. The default is half of the largest unit's replicas, rounded up, where |reserves| costs
         * something (several units), else all of them.
         */
        unsigned int max_per_request;
        bool reserves; /* replicas are reserved so that each such request fits on a unit: plan/allocations.h */
        const struct unit *units;
        size_t n_units;
        const struct device *devices;
        size_t n_devices;
        struct map by_id; /* device id → const struct device * */

        /* Set in a plan in rollout (plan/rollout.h); else NULL and 0. */
        const bool *unavailable; /* by device: no container may get it now */
        /*
         * Units under MPS that containers still hold with the previous sharing policy. Those of their devices that do
         * not count as healthy are unavailable.
         */
        const struct resource *draining;
        size_t n_draining;
};

struct plan {
        const struct config *config;
        const struct inventory *inventory;
        /*
         * Containers also get their devices by CDI, besides the configured lists (config_adds_cdi()): a container with
         * two resources gets both by CDI, but only one of them by a variable. Cleared if the specifications cannot be
         * published.
         */
        bool adds_cdi;
        unsigned int cdi_extras;    /* EXTRA_*: those with a CDI device; set when the specifications are published */
        bool cdi_limits;            /* the devices of plan/mps_limits.h exist; set at the same time */
        struct resource *resources; /* nvidia.com/gpu first, then by name */
        size_t n_resources;
        const struct resource *claimable; /* the units that DRA claims can have: plan/plan_build.h; NULL: DRA is off */
        bool has_cdi_units;               /* each unit has a CDI device; set by who publishes the specifications */
        /* the specifications could not be published, and the plan is served without them; set as that */
        bool lacks_cdi;
        bool lacks_nodes; /* they were published without a device node that CUDA needs; set as that */
};

/* DEVICE_LIST_*: how containers get their devices. */
unsigned int plan_device_lists(const struct plan *plan);

/*
 * Builds the plan in |arena|; config and inventory are borrowed and must live as long. A GPU with a failure keeps its
 * devices in the plan, as unhealthy. |warn| gets what was left out and why.
 */
int plan_build(struct plan **ret, struct arena *arena, const struct config *config, const struct inventory *inventory,
        config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* Whether |gpu| belongs to DRA: that is enabled, dra.devices selects the GPU, and the node's GPUs are those of NVML. */
bool plan_is_for_dra(const struct config *config, const struct inventory *inventory, const struct gpu *gpu);

/* Releases the maps; the rest goes with the arena. */
void plan_done(struct plan *plan);

const struct resource *plan_find(const struct plan *plan, const char *name);

/*
 * The GPU at |position| of |inventory|, or its MIG device |mig|, as a unit that is not shared and has no resource yet.
 */
struct unit unit_make(
        struct arena *arena, const struct inventory *inventory, size_t position, const struct mig_device *mig);

/*
 * A whole GPU in MIG mode, which migStrategy none advertises as NVIDIA's plugin does: CUDA shows one of its MIG devices
 * at most, so shares of it cannot have what they say.
 */
bool unit_is_divided(const struct unit *unit);

/* The unit of |resource| with this UUID, or NULL. */
const struct unit *resource_find_unit(const struct resource *resource, const char *uuid);
/* The unit of the device with this id, or NULL. */
const struct unit *resource_unit_of(const struct resource *resource, const char *device_id);

/* Makes the devices of |n_units| adjacent units, and the index; sets |first_device| of each. */
void resource_set_units(struct resource *resource, struct arena *arena, struct unit *units, size_t n_units);

/* "<uuid>::<n>" → the length of the UUID and n; "<uuid>" → its length and -1. */
size_t device_id_split(const char *id, int64_t *ret_replica);

/* True if kubelet and containers cannot see a difference: same name, ids, topology and limits. */
bool resource_is_same(const struct resource *a, const struct resource *b);
