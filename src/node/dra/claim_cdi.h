// SPDX-License-Identifier: Apache-2.0
/*
 * The CDI specification of one prepared claim, in a file of its own: what container runtimes add to a container with
 * the claim.
 *
 *   kind     gpu.warpshare.dev/claim
 *   device   15ebfed7-…-gpu-0-shared-e7a17ed6-…    <UID of the claim>-<device>[-<share ID>]
 *   file     gpu.warpshare.dev-claim_15ebfed7-….json
 *
 * Runtimes cache what they have read, so one name must never have two meanings: it contains the claim's UID, and the
 * content is made from the record (node/dra/prepared_record.h) and is the same each time. So a file with another
 * content is one that another program has changed, and it is replaced.
 *
 * The edits of a device are what a container gets with a share, or with all that it uses together. The GPU or MIG
 * device itself is not among them: it is the unit's own CDI device (node/cdi/cdi.h).
 *
 * 10 GiB and 30 % of GPU-A, in tier verified:
 *
 *   CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-A/pipe           <MPS root>/GPU-A/pipe is mounted there
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M         a client of this daemon sees one unit, which is number 0; not in
 *                                                     tier namespace, whose own limit the variable could only lift
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
 *   WARPSHARE_GRANT, …_FRACTION, …_MEMORY_LIMIT_MIB, …_THREAD_PERCENTAGE, …_TIER     for the limit monitor, and for
 *                                                     frameworks (plan/mps_limits.h)
 *   /dev/shm                                          that of the daemon: <MPS root>/shm or <MPS root>/GPU-A/shm
 *
 * With shares of several GPUs of one daemon, by their index, which is CUDA's order with CUDA_DEVICE_ORDER=PCI_BUS_ID:
 *
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M,1=5120M
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20              the least: one number counts for the whole process
 *
 * and no WARPSHARE_MEMORY_LIMIT_MIB, since it differs from GPU to GPU; WARPSHARE_FRACTION is the least.
 *
 * Every device also sets NVIDIA_VISIBLE_DEVICES=void, so that NVIDIA's container runtime does not add the GPUs that the
 * image requests.
 *
 * A program can also read its share in a file, its device metadata (node/cdi/metadata.h): one for each request, which
 * a mount of the first device of the request brings read-only into the container.
 *
 *   on the node        <plugins>/<driver>/metadata/15ebfed7-…_main.json        UID and request; root's
 *   in the container   /var/run/kubernetes.io/dra-device-attributes/
 *                          resourceclaims/<name of the claim>/main/gpu.warpshare.dev-metadata.json
 *                          resourceclaimtemplates/<name in the pod>/main/…     of a claim that a template made
 *
 * It is made from the record, too, and does not change, so its generation is always 1.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/cdi/files.h"
#include "node/dra/prepared_record.h"
#include "node/ledger/claims.h"
#include "plan/plan.h"

/* "gpu.warpshare.dev/claim=<uid>-<device>[-<share ID>]" in |arena|; |share_id| may be NULL. */
const char *dra_claim_cdi_id(
        struct arena *arena, const char *driver, const char *uid, const char *device, const char *share_id);

/* Writes the file in folder |root| by cdi_files_write(); |files| may be NULL, as in the next two. */
int dra_claim_cdi_write(struct cdi_files *files, const char *root, const char *driver, const struct dra_claim *claim,
        struct error *err) MUST_USE;

/* Whether |name|, without its folder, is the name of a file of a claim of |driver|. */
bool dra_claim_cdi_is_file(const char *driver, const char *name);

/* Succeeds if the file does not exist. */
int dra_claim_cdi_remove(
        struct cdi_files *files, const char *root, const char *driver, const char *uid, struct error *err) MUST_USE;

/* Removes the files of this driver's claims for which |is_kept| is false; other files stay. Errors are ignored. */
void dra_claim_cdi_sweep(struct cdi_files *files, const char *root, const char *driver,
        bool (*is_kept)(const char *uid, void *data), void *data);

#define DRA_METADATA_NAME "metadata" /* the folder in the driver's directory (node/dra/registration.h) */

/*
 * Gives result |i|, once it has its edits, the attributes of its file: takes |of_unit|, and adds its limits. The first
 * result of a request also gets the mount of the file in |folder|. In |arena|.
 */
void dra_metadata_add(struct arena *arena, const char *folder, const char *driver, struct dra_claim *claim, size_t i,
        json_t *of_unit);

/* Writes the files of the claim, as far as they differ; none for results without attributes. |files| may be NULL. */
int dra_metadata_write(struct cdi_files *files, const char *folder, const char *driver, const struct dra_claim *claim,
        struct error *err) MUST_USE;

/* Whether |name|, without its folder, is the name of a file that dra_metadata_write() has made. |driver|: not read. */
bool dra_metadata_is_file(const char *driver, const char *name);

/* Succeeds if there is none. */
int dra_metadata_remove(struct cdi_files *files, const char *folder, const char *uid, struct error *err) MUST_USE;

/* As dra_claim_cdi_sweep(). */
void dra_metadata_sweep(
        struct cdi_files *files, const char *folder, bool (*is_kept)(const char *uid, void *data), void *data);

/*
 * |devices|: at least one, of the same daemon; several are of different GPUs, by their index. |claimed->daemon| NULL:
 * the unit without MPS. The result is in |arena|, with copies of all texts. Pure.
 */
struct dra_edits dra_edits_of(struct arena *arena, const struct plan *plan,
        const struct ledger_claim_device *const *devices, size_t n_devices, const struct ledger_claimed *claimed);
