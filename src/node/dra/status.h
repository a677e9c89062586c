/*
 * Makes what users see of a prepared claim: the entries of our devices in the claim's status.devices, as a server-side
 * apply. Pure.
 *
 *   $ kubectl get resourceclaim train -o yaml
 *   status:
 *     devices:
 *     - driver: gpu.warpshare.dev
 *       pool: n1
 *       device: gpu-0-shared
 *       shareID: a93e…
 *       conditions:
 *       - {type: Ready, status: "True", reason: Prepared, message: "10240 MiB and 30 % of the threads of GPU-…, tier verified", …}
 *       - {type: LimitsEnforced, status: "True", reason: Enforced, message: "…", …}
 *       data: {uuid: GPU-…, memoryMiB: 10240, threadPercentage: 30, tier: verified, mpsDaemon: GPU-…}
 *
 * Only a share by MPS has LimitsEnforced, tier and mpsDaemon. The apply has the claim's UID, so the server refuses it
 * if another claim has the name now. An apply without devices removes what the same field manager applied before.
 */
#pragma once

#include <jansson.h>

#include "node/dra/prepared_record.h"
#include "node/dra/slices.h"

/* Bounds of the API, for one device. */
#define DRA_STATUS_DATA_MAX ((size_t)10 * 1024) /* bytes */
#define DRA_STATUS_CONDITIONS_MAX 8
#define DRA_STATUS_MESSAGE_MAX ((size_t)32768)

struct dra_status_options {
        enum dra_api api;
        const char *driver;
        const char *pool; /* of a result that does not have one */
        const char *time; /* metav1.Time: since when the conditions are so */
};

/* The apply for a prepared claim; a new reference. */
json_t *dra_status_prepared(const struct dra_prepared_claim *claim, const struct dra_status_options *options);

/* The apply without devices; a new reference. */
json_t *dra_status_removed(const char *uid, const char *name, const char *namespace, enum dra_api api);
