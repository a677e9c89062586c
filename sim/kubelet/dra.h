/*
 * A stand-in for kubelet's part in dynamic resource allocation, for the demonstration: it looks for the sockets of drivers in the registry,
 * asks each with GetInfo, reports that it is registered, watches the health of its devices, and calls its service for claims. It knows no
 * pods: that a claim is prepared for its first pod and unprepared after its last is for whoever runs them.
 *
 * As kubelet does, it takes the instance that registered last, and of the versions that a driver names the first that it speaks.
 *
 * One thread, the loop's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

struct kubelet_dra;

/* |registry|: "/var/lib/kubelet/plugins_registry"; need not exist yet. */
int kubelet_dra_new(struct kubelet_dra **ret, uv_loop_t *loop, const char *registry, struct error *err) MUST_USE;

/* Calls that are not answered are, with an error, before it returns. Accepts NULL, returns NULL. */
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

/* |cdi_ids|: what the container runtime is asked for, none after an Unprepare. |error| says why it failed, else it is NULL. */
typedef void kubelet_dra_answer_fn(const char *const *cdi_ids, size_t n_cdi_ids, const char *error, void *data);

/* |answered| is called once, perhaps before these return. */
void kubelet_dra_prepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data);
void kubelet_dra_unprepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data);
