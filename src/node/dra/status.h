// SPDX-License-Identifier: Apache-2.0
/*
 * Shows users a prepared claim: the entries of our devices in the claim's status.devices, as a server-side apply.
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
 *
 * It is sent best effort: nothing waits for it, and its failure has no other effect. The first failure is logged; more
 * failures, until the next success, are logged at level debug. A claim that no longer exists is not a failure. Of each
 * claim only the latest status is sent: an earlier request that is not answered yet is cancelled.
 */
#pragma once

#include <jansson.h>

#include "base/list.h"
#include "node/dra/node.h"

/* Bounds of the API, for one device. */
#define DRA_STATUS_DATA_MAX ((size_t)10 * 1024) /* bytes */
#define DRA_STATUS_MESSAGE_MAX ((size_t)32768)

/*
 * The apply for a prepared claim; a new reference. |time| is a metav1.Time: since when the conditions are so. NULL: the
 * apply without devices. Pure.
 */
json_t *dra_status_apply(const struct dra_claim *claim, enum dra_api api, const char *driver, const char *time);

struct dra_status_sender {
        const struct dra_node *node; /* outlives the sender */
        struct list sendings;
        bool is_failing; /* the log says so */
};

void dra_status_sender_init(struct dra_status_sender *sender, const struct dra_node *node);

/* Cancels requests that are not answered. */
void dra_status_sender_cancel(struct dra_status_sender *sender);

/* Sends that the claim is prepared, or is not any more; nothing while the driver closes. */
void dra_status_send(struct dra_status_sender *sender, const struct dra_claim *claim, bool is_prepared);
