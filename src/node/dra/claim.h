// SPDX-License-Identifier: Apache-2.0
/*
 * A claim on its way through Prepare, and the reading of the parts of a ResourceClaim that are for our driver. The
 * fields are the same in v1, v1beta2 and v1beta1. Pure.
 *
 * A pod's claim asks for 10 GiB and 30 % of a shared GPU, and the scheduler put it on gpu-0 of node n1:
 *
 *   metadata.annotations            resource.kubernetes.io/pod-claim-name  of a claim that a template made
 *   spec.devices.requests           name "main"                            not read: only the scheduler needs it
 *   status.allocation.devices
 *     results                       request "main", driver ours, pool "n1/gpu.warpshare.dev", device "gpu-0-shared", shareID "15eb…",
 *                                   consumedCapacity memory 10Gi, threadPercentage 30, clients 1
 *     config                        opaque parameters of class and claim, for our driver
 *
 * is read as one result with those three capacities as whole numbers. Results of other drivers, and of our driver in
 * the pool of another node, are skipped. The claim was written by others, so everything is checked: a name that cannot
 * be part of the name of a file or a CDI device, a quantity that is not a number, or more entries than the API allows
 * is an error that names field, value and bound.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "node/dra/layout.h"
#include "node/ledger/claims.h"

/* Bounds of the API. */
#define DRA_CLAIM_RESULTS_MAX ((size_t)32)
#define DRA_CLAIM_CONFIGS_MAX ((size_t)64)
#define DRA_CLAIM_CAPACITIES_MAX ((size_t)32)
#define DRA_CLAIM_PODS_MAX ((size_t)256)

struct dra_claim_capacity {
        const char *name; /* "memory" */
        uint64_t value;
};

struct dra_claim_config {
        bool is_of_class;
        const char *const *requests; /* "main", "main/small" */
        size_t n_requests;           /* 0: for all */
        const json_t *parameters;    /* an object; points into the claim's JSON */
};

struct dra_edit_node {
        const char *path;
        const char *host_path;
        unsigned int mode; /* permission bits */
        unsigned int gid;  /* 0: none */
};

struct dra_edit_mount {
        const char *host_path;
        const char *path;
        bool is_writable;
};

/* The CDI edits of one device. */
struct dra_edits {
        const char *const *env; /* "NAME=value" */
        size_t n_env;
        const struct dra_edit_node *nodes;
        size_t n_nodes;
        const struct dra_edit_mount *mounts;
        size_t n_mounts;
};

/* A result is read from the claim, then gets what it wants of the node, and at last what was allocated for it. */
struct dra_result {
        /* Read from the claim. */
        const char *pool;       /* the one asked for */
        const char *request;    /* "main" */
        const char *subrequest; /* of "main/small", from firstAvailable: "small"; else NULL */
        const char *device;     /* its name */
        const char *share_id;   /* a UUID; NULL: only this claim can have the device */
        bool is_admin;          /* by admin access: others use it, and it is not in the ledger */
        const struct dra_claim_capacity *capacities;
        size_t n_capacities;

        /* Wanted of the node: node/dra/wanted.h. */
        const struct dra_device *offered; /* of the layout, and valid as long; NULL: not looked up */
        const char *unit;                 /* UUID; of a candidate, that of the GPU until its MIG device is made */
        uint64_t memory_bytes;            /* 0: no limit */
        unsigned int thread_percentage;   /* 0: no limit */
        enum dra_unenforced unenforced;
        uint32_t together; /* by MPS: bit i for the result i that the same containers use, and for itself; else 0 */
        bool has_instance; /* it is a candidate: the next */
        struct dra_instance instance;

        /* Allocated: node/dra/allocation.h. */
        const char *tier;   /* how the limits are enforced; NULL: not */
        const char *daemon; /* NULL: none */
        const char *
                allocation; /* of the ledger, which several shares of a unit have together; NULL: one by its position */
        const char *cdi_id;
        const char *unit_cdi_id; /* the CDI device of the unit, which the container gets, too; NULL: none */
        const char *attributes;  /* JSON, for the file of dra_metadata_write(); NULL: an earlier version prepared it */
        struct dra_edits edits;
};

enum dra_claim_state { DRA_CLAIM_STARTED, DRA_CLAIM_PREPARED }; /* node/dra/prepared_record.h */

/* A claim that is only named has no results. */
struct dra_claim {
        const char *namespace;
        const char *uid; /* letters, digits and '-' */
        const char *name;
        const char *pod_claim_name; /* pods name it so, since a template made it; NULL: by its own name */
        enum dra_claim_state state;
        struct dra_result *results;
        size_t n_results;                       /* at most DRA_CLAIM_RESULTS_MAX */
        const struct dra_claim_config *configs; /* those of classes first; a later one overrides an earlier one */
        size_t n_configs;
        const struct ledger_claim_pod *pods; /* that it is reserved for */
        size_t n_pods;
};

/* A claim that is only named, in |arena|. */
struct dra_claim dra_claim_copy_names(struct arena *arena, const struct dra_claim *claim);

/*
 * Adds to a claim that is named what |object| has of our driver and pool: at least one result. Texts are copied to
 * |arena|. ERROR_NOT_FOUND: the claim with that name has another UID now. ERROR_UNAVAILABLE: it is not allocated.
 * ERROR_INVALID: it has no device of ours, or has an invalid value.
 */
int dra_claim_read(struct dra_claim *claim, struct arena *arena, const json_t *object, const char *driver,
        const char *pool, struct error *err) MUST_USE;

/* The claim with that UID is there, and has a device of ours. */
bool dra_claim_is_allocated(const struct dra_claim *claim, const json_t *object, const char *driver, const char *pool);

/* Whether a result is a candidate; whether a MIG device that was made for a result exists, or may exist. */
bool dra_claim_has_candidates(const struct dra_claim *claim);
bool dra_result_has_instance(const struct dra_result *result);
bool dra_claim_has_instances(const struct dra_claim *claim);

bool dra_claim_config_applies(const struct dra_claim_config *config, const struct dra_result *result);

/* How much |result| consumes of that capacity; |otherwise| if the claim does not say. */
uint64_t dra_claim_capacity(const struct dra_result *result, const char *name, uint64_t otherwise);

/*
 * Checks of names from outside that become parts of paths and of names of CDI devices. Names of objects are checked by
 * net/kube/object.h.
 */
#define DRA_NAME_MAX ((size_t)63) /* bytes of a label, a UID or an instance */

/*
 * True for 1 to DRA_NAME_MAX letters, digits and '-'. The API server's UIDs have 36; other texts of these characters do
 * no harm.
 */
bool dra_name_is_uid(const char *text);

/* Whether the first |length| bytes are a DNS label (RFC 1123) in lower case. */
bool dra_name_is_label(const char *text, size_t length);
