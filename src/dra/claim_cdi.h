/*
 * The CDI specification of one prepared claim, in a file of its own: what container runtimes add to a container with
 * the claim.
 *
 *   kind     gpu.warpshare.dev/claim
 *   device   15ebfed7-…-gpu-0-shared-e7a17ed6-…    <UID of the claim>-<device>[-<share ID>]
 *   file     gpu.warpshare.dev-claim_15ebfed7-….json
 *
 * Runtimes cache what they have read, so one name must never have two meanings: it contains the claim's UID, and a file
 * that exists with another content is not replaced. The content is made from the record (dra/prepared_record.h) and is
 * the same each time.
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
 * Writes the file in folder |root|, which is created if it is missing. If the file exists, nothing is written; if its
 * content is another one, that is an error (ERROR_INVALID).
 */
int dra_claim_cdi_write(
        const char *root, const char *driver, const struct dra_prepared_claim *claim, struct error *err) MUST_USE;

/* Whether |name|, without its folder, is the name of a file of a claim of |driver|. */
bool dra_claim_cdi_is_file(const char *driver, const char *name);

/* Succeeds if there is no such file. */
int dra_claim_cdi_remove(const char *root, const char *driver, const char *uid, struct error *err) MUST_USE;

/* Removes the files of this driver's claims for which |is_kept| is false; other files stay. Errors are ignored. */
void dra_claim_cdi_sweep(
        const char *root, const char *driver, bool (*is_kept)(const char *uid, void *data), void *data);
