// SPDX-License-Identifier: Apache-2.0
/*
 * The DRA driver of this node, composed of its parts: it publishes devices (node/dra/publish.h), kubelet finds and
 * calls it (node/dra/registration.h, node/dra/service.h), and it prepares claims (node/dra/prepare.h) with the API
 * server (node/dra/reading.h), the ledger and CDI (node/dra/allocation.h).
 *
 *   Prepare ──► GET ResourceClaim ──► layout: device and limits ──► ledger: daemon ready, namespace ──► record, CDI ──► kubelet
 *                                                                                                           └──► status.devices
 *
 * Of two agents on a node, only the one that serves the device plugin has a driver. The driver begins by giving the
 * ledger the claims that the record says are prepared, so the ledger must get the plan only afterwards. The record is
 * <plugins>/<driver>/prepared.json, in kubelet's folder, which outlives pods.
 *
 * A GPU with units that the device plugin still serves is not offered: a GPU that goes from the device plugin to DRA is
 * offered once the containers that hold it have ended.
 */
#pragma once

#include "node/dra/node.h"
#include "node/dra/prepare.h"

struct dra_driver;

/* True if DRA is enabled, or if claims are prepared that still have to be released. */
bool dra_driver_is_needed(const struct config *config);

/*
 * Reads the record, and begins. ERROR_INVALID: kubelet could not use a name or folder. Other errors: a file or folder
 * cannot be read or created.
 */
int dra_driver_new(struct dra_driver **ret, const struct dra_driver_options *options, struct error *err) MUST_USE;

/*
 * Sets the plan in force, from which the offered devices are made. |plan| and everything it points to must stay valid
 * until the next call or the end of the driver.
 */
void dra_driver_put(struct dra_driver *driver, const struct plan *plan);

/* MIG devices on this GPU are made for claims. Accepts NULL. */
bool dra_driver_has_made(const struct dra_driver *driver, const char *gpu);

/* No process of the driver may have NVML open, so that a GPU can be reset. Accepts NULL. */
bool dra_driver_has_closed_nvml(const struct dra_driver *driver);

/*
 * To be called when the table of health has changed, or is being rewritten in this turn of the loop. At the end of the
 * turn, devices of unhealthy units get the taint "<driver>/unhealthy" with the configured effect, devices of healthy
 * units lose it, and kubelet gets the reasons. Accepts NULL.
 */
void dra_driver_health_changed(struct dra_driver *driver);

/* Asks the API server again which pods use the prepared claims: node/dra/reading.h. Accepts NULL. */
void dra_driver_read_pods(struct dra_driver *driver);

struct dra_measures {
        bool is_registered;  /* kubelet has registered the driver, and has not refused it since */
        bool has_slices;     /* the ResourceSlices in the API server are up to date */
        bool knows_features; /* the API server's features are known: the next field */
        struct dra_features features;
        const struct dra_layout *layout; /* the offered devices; NULL: not known yet */
        struct dra_prepare_counts calls; /* kubelet's calls since the driver began */
};

/* The result is valid until the loop runs again. */
struct dra_measures dra_driver_measure(const struct dra_driver *driver);

/*
 * Closes the driver: kubelet calls another instance, or gets errors. Claims that are being prepared are undone;
 * prepared claims and the ResourceSlices stay. Accepts NULL.
 */
void dra_driver_close(struct dra_driver *driver);

/*
 * Closes the driver of an agent that ends. If another agent waits, its driver answers kubelet's calls at once, so that
 * none fails (node/dra/registration.h). It takes up to two seconds to find out that none waits. Accepts NULL.
 */
void dra_driver_hand_over(struct dra_driver *driver);
