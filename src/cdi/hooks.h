/*
 * Hooks: programs of NVIDIA's container toolkit that the runtime calls, on the host, before the container's own program starts.
 * Ours are those that its plugin names; --cdi-disable-hooks leaves some or all out. A toolkit that is older than a hook does not
 * know its name and then no container starts: 1.17.8 knows all but update-application-profile.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/driver.h"
#include "cdi/spec.h"

/* Makes |links| in the container. */
void hooks_add_links(
        const struct cdi_context *context, struct spec_edits *edits, const struct driver_link *links, size_t n_links);

/* Prefers the libcuda of the image where it is the newer one. */
void hooks_add_cuda_compat(const struct cdi_context *context, struct spec_edits *edits);

/* Has ldconfig look into |folders| of the container. */
void hooks_add_ldcache(
        const struct cdi_context *context, struct spec_edits *edits, const char *const *folders, size_t n_folders);

/* Keeps the driver's programs from making device nodes, and displays from using GPUs of others. */
void hooks_add_guards(const struct cdi_context *context, struct spec_edits *edits);
