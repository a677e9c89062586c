// SPDX-License-Identifier: Apache-2.0
/*
 * Device metadata (KEP-5304): a file in the container by which a program learns which devices it has and, here, how
 * large its share is. It is the same for a claim (node/dra/claim_cdi.h) and for a share of the device plugin
 * (node/ledger/share_metadata.h), so that a program reads one form.
 *
 * Constants and form are those of Kubernetes' library for drivers (k8s.io/dynamic-resource-allocation/api/metadata);
 * kubelet knows nothing of it. The file has the same object once for each version of the API, the newest first, a line
 * each:
 *
 *   {"kind": "DeviceMetadata", "apiVersion": "metadata.resource.k8s.io/v1beta1",
 *    "metadata": {"name": "train", "namespace": "team-a", "uid": "15ebfed7-…", "generation": 1},
 *    "requests": [{"name": "main", "devices": [{"driver": "gpu.warpshare.dev", "pool": "node-a", "name": "gpu-0-shared",
 *      "attributes": {"uuid": {"string": "GPU-…"}, "memoryMiB": {"int": 10240}, "threadPercentage": {"int": 30}, …}}]}]}
 *
 * Pure: it knows neither folders nor who holds what.
 */
#pragma once

#include <jansson.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "gpu/inventory.h"
#include "plan/plan.h"

/* ---- attributes, as in a ResourceSlice ---- */

/* The attributes that all devices of |gpu| have in common. */
json_t *metadata_gpu_attributes(const struct inventory *inventory, const struct gpu *gpu);

/* The attributes of |unit|: those of its GPU, its own UUID, and what a MIG device is a part of. */
json_t *metadata_unit_attributes(const struct inventory *inventory, const struct unit *unit);

/* A text that is NULL or empty is left out; a longer one than a ResourceSlice allows is cut. */
void metadata_put_string(json_t *attributes, const char *name, const char *text);

/* Adds of which GPU the MIG device is a part, and its |profile|. */
void metadata_put_part(json_t *attributes, const struct gpu *parent, const char *profile);

/* Adds memoryMiB, threadPercentage and tier; what is 0 or NULL is not limited, and left out. */
void metadata_put_limits(json_t *attributes, uint64_t memory_mib, unsigned int thread_percentage, const char *tier);

/* ---- the file ---- */

struct metadata {
        const char *driver;
        const char *name;           /* of the claim */
        const char *namespace;      /* NULL: not known */
        const char *uid;            /* of the claim or the allocation */
        const char *pod_claim_name; /* if a template made the claim; or NULL */
        const char *request;
        const char *subrequest; /* the chosen one of the request; or NULL */
};

/* Adds a device with its attributes, of which it takes the reference. */
void metadata_add_device(json_t *devices, const char *driver, const char *pool, const char *name, json_t *attributes);

/* |devices|: an array of metadata_add_device(). */
void metadata_print(struct strbuf *ret, const struct metadata *metadata, json_t *devices);

/* The place of the file in the container. */
const char *metadata_container_path(struct arena *arena, const struct metadata *metadata);
