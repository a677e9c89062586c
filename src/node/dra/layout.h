// SPDX-License-Identifier: Apache-2.0
/*
 * The layout: which DRA devices a node offers, of which GPUs, with which capacities, and which devices exclude each
 * other. Pure: no clock, no I/O, no JSON. node/dra/slices.h makes ResourceSlices of it; Prepare looks up the device of
 * a claim by its name.
 *
 * One H100 (80 GiB, usable 79 GiB), sharing by MPS and by time-slicing offered, is three devices:
 *
 *   gpu-0            the whole GPU          memory 80Gi                                            1 of counter "unit"
 *   gpu-0-shared     MPS, many claims       memory 79Gi, threadPercentage 100, clients 60          1 of counter "unit"
 *   gpu-0-timeslice  time-slicing, many     slots 4                                                1 of counter "unit"
 *
 * The counter set gpu-0-counters has 1 of "unit", and a shared device is charged once, by its first claim. So the
 * scheduler gives the GPU to one claim as a whole, or to any number of claims that fit by MPS, or to 4 by time-slicing,
 * and never mixes them. Each set has "memory", too, of which a device consumes what its unit has: others (Kueue) count
 * it for their quotas; there is always enough of it.
 *
 * Names (DNS labels). N is the GPU's minor number, or NVML's index if the minor number of any GPU is unknown:
 *
 *   gpu-N                                whole GPU
 *   gpu-N-mig-1g-10gb-gi7-ci0            MIG device that exists, by its GPU instance and compute instance
 *   gpu-N-mig-1g-10gb-at-4               MIG candidate: a GPU instance that can be made at memory slice 4. It keeps
 *                                        this name once it is made: what Prepare made stays a candidate as long as it
 *                                        is there
 *   <any of the first two>-shared        the same unit, shared by MPS
 *   <any of the first two>-timeslice     the same unit, shared by time-slicing
 *   <any of the first two>-share-K       share K of |shares| equal ones by MPS: safe layout only
 *
 * In a profile '.' is '-', "+me" is "-me", and "-me" (without media engines) is "-no-me".
 *
 * The full layout needs consumable capacity and partitionable devices in the API server. A server without one of them
 * silently drops its fields: a device for many claims would look like one for a single claim, and a GPU and its MIG
 * devices like independent devices. Such a server gets the safe layout: each unit as a whole, or as static shares
 * (|fallback|), never both, and no candidates.
 *
 * A scheduler that forgets shares (dra_release_forgets_shares()) would allocate the whole unit beside them in spite of
 * the counters. For such a scheduler each unit has one form: the one in which claims have it; else the first above,
 * unless |one_form| says whole. Candidates stay: each is for one claim.
 *
 * Order: the scheduler takes the first device that fits, so the order decides how full GPUs get. Shared devices come
 * first, then time-sliced ones, MIG devices and candidates from small to large, whole GPUs last. Within a kind, devices
 * are in the order of the GPU's number; whole GPUs in the opposite order, so that claims for whole GPUs and claims for
 * shares fill the node from different ends. A candidate's placements are in the order of how many other placements each
 * makes impossible, the fewest first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "config/config.h"
#include "gpu/inventory.h"

#define DRA_DEVICE_NAME_SIZE ((size_t)64) /* a DNS label has at most 63 characters */
#define DRA_MAX_COUNTERS ((size_t)32)     /* of one counter set, says the API server */

/* Names of capacities; those of MIG devices are NVIDIA's. */
#define DRA_CAPACITY_MEMORY "memory" /* bytes, whole MiB */
#define DRA_CAPACITY_THREADS "threadPercentage"
#define DRA_CAPACITY_CLIENTS "clients" /* MPS clients (processes) */
#define DRA_CAPACITY_SLOTS "slots"     /* claims that take turns */

/* The counter by which quotas count the memory of a GPU or a part of it: bytes, whole MiB. It excludes nothing. */
#define DRA_COUNTER_MEMORY "memory"

enum dra_device_kind {
        DRA_DEVICE_WHOLE,         /* gpu-N */
        DRA_DEVICE_SHARED,        /* …-shared: by MPS, of a GPU or a MIG device */
        DRA_DEVICE_TIMESLICE,     /* …-timeslice: of a GPU or a MIG device */
        DRA_DEVICE_SHARE,         /* …-share-K: one of |shares| equal parts by MPS, for one claim */
        DRA_DEVICE_MIG,           /* a MIG device that exists, for one claim */
        DRA_DEVICE_MIG_CANDIDATE, /* one that Prepare makes, for one claim */
};

/* "whole", "shared", … for log lines. */
const char *dra_device_kind_name(enum dra_device_kind kind);

/* Whether claims of such a device are clients of an MPS daemon. */
static inline bool dra_device_kind_is_by_mps(enum dra_device_kind kind)
{
        return kind == DRA_DEVICE_SHARED || kind == DRA_DEVICE_SHARE;
}

/*
 * The amount that a device has of something. With a policy (devices that many claims share): a request is rounded up to
 * |min| plus a multiple of |step|, and is at most |max|; a claim that requests none takes |preset|. Without a policy,
 * the claim that has the device has the whole value.
 */
struct dra_capacity {
        const char *name;
        uint64_t value;
        bool is_binary; /* written in Mi and Gi */
        bool has_policy;
        uint64_t preset;
        uint64_t min;
        uint64_t max;
        uint64_t step; /* 0: |preset| is the only value that can be requested */
};

struct dra_counter {
        const char *name; /* "unit", "memory-slice-3" */
        uint64_t value;
};

/*
 * The amounts that one GPU can offer at the same time. The layout has no counter sets if no two devices exclude each
 * other.
 */
struct dra_counter_set {
        const char *name; /* "gpu-0-counters" */
        const struct dra_counter *counters;
        size_t n_counters;
};

/* The GPU instance that a candidate stands for: it does not exist, or not any more; it may exist; it exists. */
enum dra_instance_state { DRA_INSTANCE_NONE, DRA_INSTANCE_MAKING, DRA_INSTANCE_MADE };

/* A GPU instance that Prepare makes for a claim, or has made: node/dra/instances.h. */
struct dra_instance {
        const char *gpu; /* UUID */
        unsigned int profile_id;
        unsigned int start;
        enum dra_instance_state state;
        const char *uuid; /* MADE: of its MIG device; else NULL */
};

/* The fields that the API server keeps when they are written: read back by node/dra/publish.h. */
struct dra_features {
        bool consumable_capacity;   /* DRAConsumableCapacity */
        bool partitionable_devices; /* DRAPartitionableDevices */
        bool device_taints;         /* DRADeviceTaints */
        bool node_allocatable;      /* DRANodeAllocatableResources, in the form of 1.37 */
};

/* A unit that claims have as a device of that name; its form is in the name. */
struct dra_held {
        const char *uuid;
        const char *device;
};

/* The offer of one node. DRA_OPTIONS_DEFAULT has all features, and offers whole units and MPS. */
struct dra_options {
        struct config_dra config;   /* its |devices| and what does not concern the layout do not count */
        const char *const *devices; /* UUIDs of the GPUs that belong to DRA; NULL: all */
        size_t n_devices;
        const char *forgetful;       /* "v1.36.1", whose scheduler forgets shares: one form for each unit; NULL: none */
        const struct dra_held *held; /* units that keep their form where each has one */
        size_t n_held;
        struct dra_features features;
        /*
         * Made for claims. One that exists stays a candidate, and its MIG device is not offered as a device of its own.
         */
        const struct dra_instance *instances;
        size_t n_instances;
};

#define DRA_OPTIONS_DEFAULT                                                                                            \
        {                                                                                                              \
                .config = {.whole = true,                                                                              \
                        .mps = true,                                                                                   \
                        .default_thread_percentage = 10,                                                               \
                        .default_clients = 1,                                                                          \
                        .slots = 4,                                                                                    \
                        .shares = 4},                                                                                  \
                .features = {                                                                                          \
                        .consumable_capacity = true,                                                                   \
                        .partitionable_devices = true,                                                                 \
                        .device_taints = true,                                                                         \
                        .node_allocatable = true                                                                       \
                }                                                                                                      \
        }

struct dra_device {
        const char *name;
        enum dra_device_kind kind;
        const char *uuid;                           /* of the unit: MIG device or GPU; of a candidate, its GPU */
        const struct gpu *gpu;                      /* of a MIG device or candidate: its parent */
        const struct mig_device *mig;               /* the unit is this MIG device; NULL: the GPU, or a candidate */
        const struct mig_instance_profile *profile; /* of a candidate, else NULL */
        unsigned int start;                         /* of a candidate: its first memory slice */
        const char *made;                           /* of a candidate: the MIG device that is made of it now, or NULL */
        bool allows_multiple;         /* many claims may have it, each a share with its own consumedCapacity */
        struct dra_overhead overhead; /* all 0: none is said */
        const struct dra_capacity *capacities;
        size_t n_capacities;
        const struct dra_counter_set *counter_set; /* that it consumes from; NULL: nothing excludes it */
        const struct dra_counter *consumes;
        size_t n_consumes;
};

struct dra_layout {
        const struct inventory *inventory;
        bool is_safe;         /* a feature that the options ask for is off */
        const char *one_form; /* why each unit has one form of those asked for; NULL: it has all */
        const struct dra_device *devices;
        size_t n_devices;
        const struct dra_counter_set *counter_sets; /* by GPU */
        size_t n_counter_sets;
        const char *const *notes; /* "GPU-…: not offered by MPS: …": what was left out, and why */
        size_t n_notes;
};

/*
 * In |arena|, which also holds the layout. The inventory and what |options| points to are borrowed and must live as
 * long. A failing GPU keeps its devices (with taints) unless its memory size was never read. The same input makes the
 * same layout.
 */
const struct dra_layout *dra_layout_build(
        struct arena *arena, const struct inventory *inventory, const struct dra_options *options);

/* The device with this name, or NULL. */
const struct dra_device *dra_layout_find(const struct dra_layout *layout, const char *name);

/* The capacity of |device| with this name, or NULL. */
const struct dra_capacity *dra_device_capacity(const struct dra_device *device, const char *name);

/* ---- where the options come from ---- */

/* With all features. The list of GPUs is in |arena| and borrows from the inventory; where DRA is off, it is empty. */
struct dra_options dra_options_from(
        const struct config *config, const struct inventory *inventory, struct arena *arena);

/*
 * Schedulers of some releases do something wrong with devices as ours are. The agent knows the API server's release;
 * the scheduler is of the same, or of the one before while a cluster is being updated. docs/dra.md has the table.
 *
 * kubernetes#139034: 1.34 and 1.35 (with their feature gates on), 1.36.0 and 1.36.1 forget in the next cycle what
 * shares consume of a counter set: the whole GPU is given out beside its shares. Right from 1.36.2 and 1.37.0 on.
 */
#define DRA_RELEASE_GOOD "1.36.2"

/* |git_version|: of /version. True also if it does not name a release: in doubt a tenant's share is protected. */
bool dra_release_forgets_shares(const char *git_version);
