// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for kubelet's part in dynamic resource allocation, for the demonstration. It finds the sockets of drivers
 * in the registry, calls GetInfo of each, then NotifyRegistrationStatus, watches the health of its devices, and calls
 * the driver's service for claims. It knows no pods: its caller has to prepare a claim for the first pod and unprepare
 * it after the last.
 *
 * As kubelet does, it uses the instance of a driver that registered last, and the first of the driver's versions that
 * it speaks. It has the ResourceSlices of its node deleted: all when it starts, and those of a driver that it has had
 * no connection to for 30 seconds.
 *
 * One thread, the loop's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

struct kubelet_dra;

#define KUBELET_DRA_WIPE_MS UINT64_C(30000)

struct kubelet_dra_options {
        uv_loop_t *loop;
        const char *registry; /* "/var/lib/kubelet/plugins_registry"; it may not exist yet */
        uint64_t wipe_ms;     /* 0: KUBELET_DRA_WIPE_MS */
        /* The ResourceSlices of the node are to be deleted: of this driver, or of all (NULL). May be NULL. */
        void (*wipe)(const char *driver, void *data);
        void *data;
};

int kubelet_dra_new(struct kubelet_dra **ret, const struct kubelet_dra_options *options, struct error *err) MUST_USE;

/* Calls without an answer are answered with an error before this returns. Accepts NULL, returns NULL. */
struct kubelet_dra *kubelet_dra_close(struct kubelet_dra *dra);

bool kubelet_dra_has(const struct kubelet_dra *dra, const char *driver);

enum kubelet_dra_health { KUBELET_DRA_UNKNOWN, KUBELET_DRA_HEALTHY, KUBELET_DRA_UNHEALTHY };

/* What the driver says of the device now. */
enum kubelet_dra_health kubelet_dra_health(const struct kubelet_dra *dra, const char *driver, const char *device);

struct kubelet_dra_claim {
        const char *namespace;
        const char *uid;
        const char *name;
};

/*
 * |cdi_ids|: the CDI devices for the container runtime, none after an Unprepare. |error|: why the call failed, or NULL.
 */
typedef void kubelet_dra_answer_fn(const char *const *cdi_ids, size_t n_cdi_ids, const char *error, void *data);

/* |answered| is called once, perhaps before the function returns. */
void kubelet_dra_prepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data);
void kubelet_dra_unprepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data);
