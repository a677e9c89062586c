/*
 * The DRA driver of this node, put together: what it offers (dra/publish.h), how kubelet finds and calls it (dra/registration.h,
 * dra/service.h), how claims are prepared (dra/prepare.h), by the API server, the ledger (ledger/claims.h) and CDI.
 *
 *   Prepare ──► GET ResourceClaim ──► layout: device and limits ──► ledger: daemon ready, namespace ──► record, CDI ──► kubelet
 *                                                                                                           └──► status.devices
 *
 * One of two instances on a node drives: the one that serves the device plugin, too. It begins with what the record says is prepared, so
 * the ledger must hear of its plan afterwards. The record is <plugins>/<driver>/prepared.json: kubelet's folder, which outlives pods.
 *
 * A GPU whose units a device plugin still serves is not offered, so that one that changes sides is offered when its holders have ended.
 */
#pragma once

#include <uv.h>

#include "dra/layout.h"
#include "dra/prepare.h"
#include "gpu/unit_health.h"
#include "kube/client.h"
#include "ledger/ledger.h"
#include "share/plan.h"

struct dra_driver;

struct dra_driver_options {
        uv_loop_t *loop;
        struct kube_client *client; /* outlives the driver, as the next */
        struct ledger *ledger;
        const struct unit_health *health; /* outlives the driver, too */
        const struct config *config;      /* names and folders of it are copied */
        void (*on_released)(void *data);  /* a claim holds nothing any more: its GPU may go to the device plugin */
        void (*rescan)(
                void *data); /* a MIG device was made or destroyed: the GPUs are to be read again, which leads to a plan */
        void (*on_thread_left)(
                void *data); /* the driver is closed, and a thread of it stays inside NVML: the process ends by _exit() */
        void *data;
};

/* DRA is enabled, or claims are prepared that have to be released some day. */
bool dra_driver_is_needed(const struct config *config);

/* Reads the record, and begins. ERROR_INVALID: a name or folder that kubelet could not use; else what could not be read or made. */
int dra_driver_new(struct dra_driver **ret, const struct dra_driver_options *options, struct error *err) MUST_USE;

/* What is offered from now on; |plan| is that in force, borrowed until the next call or the end, with all that it points to. */
void dra_driver_put(struct dra_driver *driver, const struct plan *plan);

/* MIG devices on this GPU are made for claims. Accepts NULL. */
bool dra_driver_has_made(const struct dra_driver *driver, const char *gpu);

/*
 * The table of health has changed, or is being written anew in this turn of the loop. At the end of the turn the devices of unhealthy units are
 * tainted "<driver>/unhealthy" with the effect that is configured, those of others no more, and kubelet hears the reasons. Accepts NULL.
 */
void dra_driver_health_changed(struct dra_driver *driver);

/*
 * Reads again which pods use the claims that are prepared; the ledger hears it. For as long as it is wanted again and again, after DRA_PODS_MS,
 * then twice that, up to DRA_PODS_MAX_MS: a process that belongs to no claim would have it read for ever. Accepts NULL.
 */
#define DRA_PODS_MS UINT64_C(1000)
#define DRA_PODS_MAX_MS UINT64_C(60000)
#define DRA_PODS_QUIET_MS UINT64_C(5000)
void dra_driver_read_pods(struct dra_driver *driver);

struct dra_measures {
        bool is_registered;  /* kubelet has accepted the driver, and not refused it since */
        bool has_slices;     /* the ResourceSlices are as they should be */
        bool knows_features; /* of the API server: the next */
        struct dra_features features;
        const struct dra_layout *layout; /* what is offered; NULL: not known yet */
        struct dra_prepare_counts calls; /* of kubelet's, since the driver began */
};

/* Valid until the loop goes on. */
struct dra_measures dra_driver_measure(const struct dra_driver *driver);

/*
 * Kubelet turns to another instance, or hears errors; what is being prepared is taken back, what is prepared stays, and so do the
 * ResourceSlices. |closed| (may be NULL) is called from the loop. Accepts NULL: then it is called at once.
 */
void dra_driver_close(struct dra_driver *driver, void (*closed)(void *data), void *data);
