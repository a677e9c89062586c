// SPDX-License-Identifier: Apache-2.0
/*
 * Device metadata of the shares of the device plugin: the file in which a program in the container reads its share, in
 * the same form as that of a claim (node/cdi/metadata.h). An allocation has one file, and a mount of the answer brings
 * it read-only into the container:
 *
 *   on the node        <MPS directory>/metadata/<id of the allocation>.json       root's
 *   in the container   /var/run/kubernetes.io/dra-device-attributes/
 *                          resourceclaims/device-plugin/gpu.shared/gpu.warpshare.dev-metadata.json
 *
 * "gpu.shared" is the resource nvidia.com/gpu.shared, so a container with several resources has several files. The
 * driver's name is that of --dra-driver-name, also without DRA.
 *
 * Without config->devices.metadata there is none. A file is written before kubelet gets the answer that names it. If
 * that fails, the answer does not name it, and the container starts without. What a container declares of its share is
 * known when it starts, and the file is written again then. After that it does not change, so its generation is always
 * 1. A container that is restarted needs the file again, so it stays until the allocation ends, and a missing one is
 * written again.
 */
#pragma once

#include "node/ledger/declared_containers.h"

#define SHARE_METADATA_NAME "metadata" /* the folder in the MPS directory */

struct share_metadata {
        const struct ledger_core *core;
        const struct declared_containers *containers;
        struct complaint bad_file;
};

/*
 * Writes the file of |of| with |tier|, and names it in |binding|, whose texts are in |arena|. On failure, which is
 * logged, |binding| stays.
 */
void share_metadata_add(struct share_metadata *metadata, const struct ledger_share *of, enum mps_tier tier,
        struct arena *arena, struct allocate_binding *binding);

/*
 * The container of the allocation starts, with these |parts|: writes its file again, if there is one. Parts of other
 * resources, which the container also holds, are in other files.
 */
void share_metadata_update(
        struct share_metadata *metadata, const char *allocation, const struct mps_part *parts, size_t n_parts);

/*
 * Writes the files that are missing, of all allocations, and removes those that no allocation has. To be called once
 * the ledger has kubelet's list. Nothing is removed while the id of an allocation is a guess.
 */
void share_metadata_sync(struct share_metadata *metadata);
