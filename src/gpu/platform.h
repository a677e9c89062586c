// SPDX-License-Identifier: Apache-2.0
/*
 * The kind of this machine, and the inventory of those kinds that do not use NVML.
 *
 * Detection is as in NVIDIA's device plugin (go-nvlib 0.12). WSL: libdxcore.so exists. Tegra: its files exist, and NVML
 * is missing or has integrated GPUs. Everything else uses NVML, which then says what is missing.
 *
 *   - WSL: containers get all GPUs or none, through /dev/dxg, and NVML's values do not hold for one of them. The single
 *     GPU has UUID "all".
 *   - Tegra: the single GPU has UUID "tegra". It has no node of its own; the container runtime injects what it needs.
 *
 * Both have no memory, NUMA node, minor, compute capability, MIG, links, control nodes and versions: zero, unknown or
 * "". They can be shared by count, but not by size. Nothing checks their health.
 */
#pragma once

#include "gpu/inventory.h"

/* ---- paths ---- */

/*
 * Where this process sees the machine: the folders /dev, /proc and /sys, and the driver's files.
 */

struct gpu_paths {
        const char *system_root; /* "" for the machine itself; tests set a folder with /dev, /proc and /sys */
        const char *driver_root; /* the root of the driver's files as seen in this container; "" or "/": its own root */
};

/* The admin's choice: detect the platform, or use one of the two. */
enum platform_choice { PLATFORM_CHOICE_AUTO, PLATFORM_CHOICE_NVML, PLATFORM_CHOICE_TEGRA };

/* True if the dynamic linker can load |library|; it is closed again. Tests replace this function. */
typedef bool platform_load_fn(const char *library);
bool platform_can_load(const char *library);

/*
 * The platform, as far as it is known before NVML is opened. |library| is the NVML to load as in nvml_locate(), or "".
 * Tegra's files are searched below the driver root, or in the system's root if there is none.
 */
enum platform platform_detect(
        enum platform_choice choice, const struct gpu_paths *paths, const char *library, platform_load_fn *can_load);

/* True if NVML has an integrated GPU: then it is Tegra, unless the admin chose NVML. */
bool platform_is_integrated(const struct inventory *inventory);

/* The single unit of WSL or Tegra. */
struct inventory *platform_inventory(enum platform platform);

/* ---- nodes ---- */

/*
 * Finds the control device nodes of NVIDIA's driver that a container can get.
 *
 * A node counts when it is a character device below the machine's /dev as this process sees it, or below the driver
 * root's, if that has a /dev of its own: NVIDIA's plugin checks only its own /dev, and so misses the nodes of a driver
 * that runs in a container. Links do not count, since container runtimes get these exact paths.
 */

/* A set of NODE_*. */
unsigned int nodes_find(const struct gpu_paths *paths);
