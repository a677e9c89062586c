/*
 * The CDI specification of one prepared claim: a file of its own, from which container runtimes take what a container with the claim gets.
 *
 *   kind     gpu.warpshare.dev/claim
 *   device   15ebfed7-…-gpu-0-shared-e7a17ed6-…    <UID of the claim>-<device>[-<share ID>]
 *   file     gpu.warpshare.dev-claim_15ebfed7-….json
 *
 * Runtimes keep what they have read, so a name must never mean two things: it has the claim's UID, and a file that is there with other
 * content is left alone. The content comes from the record (dra/prepared_record.h) and is the same each time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dra/prepared_record.h"

#define DRA_CLAIM_CDI_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* "gpu.warpshare.dev/claim=<uid>-<device>[-<share ID>]" in |arena|; |share_id| may be NULL. */
const char *dra_claim_cdi_id(
        struct arena *arena, const char *driver, const char *uid, const char *device, const char *share_id);

/*
 * Makes the file in folder |root|, which is made where it is missing; writes nothing where it is there with the same content, and fails
 * where it has another (ERROR_INVALID).
 */
int dra_claim_cdi_write(
        const char *root, const char *driver, const struct dra_prepared_claim *claim, struct error *err) MUST_USE;

/* |name|, without its folder, is what the file of a claim of |driver| is called. */
bool dra_claim_cdi_is_file(const char *driver, const char *name);

/* Succeeds where there is none. */
int dra_claim_cdi_remove(const char *root, const char *driver, const char *uid, struct error *err) MUST_USE;

/* Removes the files of claims of this driver that |is_kept| does not know; others are left alone. What cannot be removed stays. */
void dra_claim_cdi_sweep(
        const char *root, const char *driver, bool (*is_kept)(const char *uid, void *data), void *data);
