/*
 * Drivers that are no versioned libraries in the usual folders: WSL, where Windows lends them, and Tegra, whose system says in
 * lists which files belong to it. Both have one unit, and a driver to mount like any other.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/driver.h"

/*
 * The driver store below /usr/lib/wsl/drivers that has NVIDIA's libraries, the newest if there are several (NVIDIA asks libdxcore
 * which one counts), and /dev/dxg.
 */
int wsl_find(struct driver *ret, const struct cdi_context *context, const char ***ret_nodes, size_t *ret_n_nodes,
        struct error *err) MUST_USE;

/*
 * The lists devices.csv, drivers.csv and l4t.csv of /etc/nvidia-container-runtime/host-files-for-container.d: below the driver's
 * root, or else in this container. Lines are "dev, path", "lib, path", "dir, path" and "sym, path"; others are skipped, and
 * so is what is not there.
 */
#define TEGRA_LIST_LIMIT ((size_t)1024 * 1024)
int tegra_find(struct driver *ret, const struct cdi_context *context, const char ***ret_nodes, size_t *ret_n_nodes,
        struct error *err) MUST_USE;
