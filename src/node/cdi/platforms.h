// SPDX-License-Identifier: Apache-2.0
/*
 * Drivers without versioned libraries in the usual folders: WSL, where Windows provides the libraries, and Tegra, whose
 * system has lists of the files that belong to the driver. Both have one unit, and a driver that is mounted like any
 * other.
 */
#pragma once

#include "node/cdi/driver.h"

/*
 * Finds /dev/dxg, and the driver store below /usr/lib/wsl/drivers that has NVIDIA's libraries. Of several stores it
 * takes the newest (NVIDIA's toolkit asks libdxcore which one is in use).
 */
int wsl_find(struct driver *ret, const struct cdi_context *context, struct error *err) MUST_USE;

/*
 * Reads the lists devices.csv, drivers.csv and l4t.csv of /etc/nvidia-container-runtime/host-files-for-container.d,
 * below the driver's root, or if there are none, in this container. Lines are "dev, path", "lib, path", "dir, path" and
 * "sym, path"; a path may be a pattern with *, ? and [, as "/dev/dri/card*". Other lines are skipped, and so are files
 * that do not exist, and what patterns stand for beyond 4,096 files.
 */
#define TEGRA_LIST_LIMIT ((size_t)1024 * 1024)
int tegra_find(struct driver *ret, const struct cdi_context *context, struct error *err) MUST_USE;
