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
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/cdi/files.h"
#include "node/dra/prepared_record.h"

/* "gpu.warpshare.dev/claim=<uid>-<device>[-<share ID>]" in |arena|; |share_id| may be NULL. */
const char *dra_claim_cdi_id(
        struct arena *arena, const char *driver, const char *uid, const char *device, const char *share_id);

/* Writes the file in folder |root| by cdi_files_write(); |files| may be NULL, as in the next two. */
int dra_claim_cdi_write(struct cdi_files *files, const char *root, const char *driver,
        const struct dra_prepared_claim *claim, struct error *err) MUST_USE;

/* Whether |name|, without its folder, is the name of a file of a claim of |driver|. */
bool dra_claim_cdi_is_file(const char *driver, const char *name);

/* Succeeds if there is no such file. */
int dra_claim_cdi_remove(
        struct cdi_files *files, const char *root, const char *driver, const char *uid, struct error *err) MUST_USE;

/* Removes the files of this driver's claims for which |is_kept| is false; other files stay. Errors are ignored. */
void dra_claim_cdi_sweep(struct cdi_files *files, const char *root, const char *driver,
        bool (*is_kept)(const char *uid, void *data), void *data);
