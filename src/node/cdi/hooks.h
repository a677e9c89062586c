// SPDX-License-Identifier: Apache-2.0
/*
 * Hooks: commands of NVIDIA's container toolkit that the runtime runs, on the host, before the container's own program
 * starts. They are the same as those of NVIDIA's plugin; --cdi-disable-hooks leaves out some or all. A toolkit that is
 * older than a hook ends with "No help topic for '…'", and then no container would start: such a hook is left out,
 * too. enable-cuda-compat came with 1.17.5, disable-device-node-modification with 1.17.8,
 * update-application-profile with 1.20.
 */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/driver.h"

/*
 * The hooks that are wanted and that the host's program does not know, as a list that ends with NULL, in the context's
 * arena. None where the program is not in sight, or does not look like one of these programs: then all are written.
 * |ret_program| is its path here; it may be NULL.
 */
const char *const *hooks_find_unknown(const struct cdi_context *context, const char **ret_program);

/* Creates |links| in the container. */
void hooks_add_links(
        const struct cdi_context *context, struct spec_edits *edits, const struct driver_link *links, size_t n_links);

/*
 * Creates the driver's links, and runs ldconfig for the folders of its libraries. With NVML, three more: one lets the
 * container use the libcuda of its image if that is newer than the driver's, one keeps the driver's programs from
 * creating device nodes in the container, and one keeps graphics programs from using GPUs that the container does not
 * have.
 */
void hooks_add_driver(const struct cdi_context *context, struct spec_edits *edits, const struct driver *driver);
