/*
 * Reads the parts of a ResourceClaim that are for our driver, for Prepare. The fields are the same in v1, v1beta2 and
 * v1beta1. Pure.
 *
 * A pod's claim asks for 10 GiB and 30 % of a shared GPU, and the scheduler put it on gpu-0 of node n1:
 *
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

struct dra_claim_result {
        const char *pool;       /* the one asked for */
        const char *request;    /* "main" */
        const char *subrequest; /* of "main/small", from firstAvailable: "small"; else NULL */
        const char *device;
        const char *share_id; /* a UUID; NULL: only this claim can have the device */
        bool admin_access;    /* the device is given in addition to the claims that have it */
        const struct dra_claim_capacity *capacities;
        size_t n_capacities;
};

struct dra_claim_config {
        bool is_of_class;
        const char *const *requests; /* "main", "main/small" */
        size_t n_requests;           /* 0: for all */
        const json_t *parameters;    /* an object; points into the claim's JSON */
};

struct dra_claim {
        const char *namespace;
        const char *name;
        const char *uid;
        const struct dra_claim_result *results; /* at least one */
        size_t n_results;
        const struct dra_claim_config *configs; /* those of classes first; a later one overrides an earlier one */
        size_t n_configs;
        const struct ledger_claim_pod *pods; /* that it is reserved for */
        size_t n_pods;
};

/* Names the claim that is wanted, and the driver and the pool that are ours. */
struct dra_claim_asked {
        const char *namespace;
        const char *name;
        const char *uid;
        const char *driver;
        const char *pool;
};

/*
 * Texts are copied to |arena|. ERROR_NOT_FOUND: the claim with that name has another UID now. ERROR_UNAVAILABLE: it is
 * not allocated. ERROR_INVALID: it has no device of ours, or has an invalid value.
 */
int dra_claim_read(struct dra_claim *ret, struct arena *arena, const json_t *object,
        const struct dra_claim_asked *asked, struct error *err) MUST_USE;

/* The claim with that UID is there, and has a device of ours. */
bool dra_claim_is_allocated(const json_t *object, const struct dra_claim_asked *asked);

bool dra_claim_config_applies(const struct dra_claim_config *config, const struct dra_claim_result *result);

/* How much |result| consumes of that capacity; |otherwise| if the claim does not say. */
uint64_t dra_claim_capacity(const struct dra_claim_result *result, const char *name, uint64_t otherwise);

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

/* Whether |text| is a UUID in lower case. */
bool dra_name_is_uuid(const char *text);
