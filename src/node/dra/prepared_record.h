// SPDX-License-Identifier: Apache-2.0
/*
 * The prepared claims on disk, in one JSON file. After the agent was killed at any moment, the next one reads in it
 * which claims to finish and which to undo.
 *
 *   {"version": 1, "nodeBootID": "6f1c…", "claims": [
 *      {"uid": "15eb…", "namespace": "team", "name": "train", "state": "prepared", "results": [
 *          {"pool": "n1/gpu.warpshare.dev", "request": "main", "device": "gpu-0-shared", "unit": "GPU-…", "shareID": "e7a1…", "memoryBytes": 10737418240,
 *           "threadPercentage": 30, "tier": "verified", "daemon": "GPU-…", "allocation": "c15eb…_0", "cdiID": "gpu.warpshare.dev/claim=15eb…-gpu-0-shared-e7a1…",
 *           "unitCDIID": "k8s.device-plugin.nvidia.com/gpu=GPU-…", "adminAccess": false,
 *           "env": ["CUDA_MPS_PIPE_DIRECTORY=…"], "nodes": […], "mounts": […]}]}]}
 *
 * A claim that a template made also has "podClaimName": "gpu", and a result "attributes", the JSON that
 * dra_metadata_add() has made for a file in its containers, as a text; what an earlier version recorded lacks it.
 * A result that is a MIG candidate also has "instance": {"gpu": "GPU-…", "profile": 19, "start": 4, "state": "made",
 * "uuid": "MIG-…"}.
 *
 *   started    something may be there that was made for it, or be left of it. Limits and edits mean nothing
 *   prepared   all has been allocated. Its CDI specification is made from the record, at any time with the same content
 *
 * That is the first line. Each change appends another, mode 0600, and is made in memory only after that: a claim, which
 * is added or replaces the one with its UID, or {"removed": "15eb…"}. When the changes are many, or the file is not the
 * one that was read or written last, it is replaced, and so it is when no call is open any more: at rest it is that one
 * line, which earlier versions read, too. So a change does not write all other claims, nor wait for the disk, as a file
 * that is replaced by a rename may. A line without its end was being written by a process that was killed, and does not
 * count.
 *
 * After a reboot nothing is held any more, so a record of another boot counts as empty. Therefore the file is not
 * synced, which would take milliseconds: when the process is killed, the kernel still has what was written. A file that
 * cannot be understood is moved to "<path>.broken"; an empty file is what a power cut leaves, and counts as an empty
 * record.
 *
 * It knows neither claims of the API server nor the ledger, nor what its values are used for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "node/dra/claim.h"

#define DRA_RECORD_NAME "prepared.json" /* in the driver's directory (node/dra/registration.h) */
#define DRA_RECORD_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define DRA_RECORD_CLAIMS_MAX ((size_t)1024)
#define DRA_RECORD_EDITS_MAX ((size_t)256) /* of each kind, for one result */
#define DRA_RECORD_TEXT_MAX ((size_t)4096)

struct dra_record;

/*
 * Reads nothing yet: the record is empty. |boot_id|: base/proc.h. Both texts are copied; the folder of |path| must
 * exist.
 */
struct dra_record *dra_record_new(const char *path, const char *boot_id);
struct dra_record *dra_record_free(struct dra_record *record); /* accepts NULL, returns NULL */

static inline void dra_record_freep(struct dra_record **record)
{
        dra_record_free(*record);
}

/*
 * Reads the file if it is not the one that was read or written last: another instance of the driver may have written
 * it. To be called after the lock was taken (node/dra/service.h). DRA_RECORD_BROKEN: the file could not be understood;
 * |err| says why and where it is now, and the record is empty. After -1 the record is unchanged.
 */
#define DRA_RECORD_BROKEN 1
int dra_record_refresh(struct dra_record *record, struct error *err) MUST_USE;

size_t dra_record_count(const struct dra_record *record);

/* Claims in the order in which they were added; valid until the record changes. */
const struct dra_claim *dra_record_at(const struct dra_record *record, size_t i);
const struct dra_claim *dra_record_find(const struct dra_record *record, const char *uid);

/* Adds a copy of the claim, or replaces the one with its UID. Fails without a change if a bound above is exceeded. */
int dra_record_put(struct dra_record *record, const struct dra_claim *claim, struct error *err) MUST_USE;

/* Succeeds without writing if the record lacks this UID. */
int dra_record_remove(struct dra_record *record, const char *uid, struct error *err) MUST_USE;

/* Rewrites the file as one line if changes were appended. If that fails, the appended changes stay valid. */
void dra_record_settle(struct dra_record *record);
