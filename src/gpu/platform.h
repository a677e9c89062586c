/*
 * Which kind of machine this is, and the inventory of those where NVML has no part.
 *
 * As NVIDIA's device plugin tells them apart (go-nvlib 0.12): WSL by libdxcore.so; Tegra by its files, unless there is an NVML,
 * or by an NVML that has integrated GPUs; everything else is taken for NVML, which then says what is missing.
 *
 * - WSL: containers get all GPUs or none, through /dev/dxg, and NVML tells nothing that would hold for one of them. The one GPU
 *   has UUID "all".
 * - Tegra: the one GPU has UUID "tegra". It has no node of its own; the container runtime injects what it needs.
 *
 * Both are without memory, NUMA node, minor, compute capability, MIG, links, control nodes and versions: zero, unknown or "".
 * What can be shared by count can be shared there; what needs a size cannot. Nothing watches their health.
 */
#pragma once

#include "gpu/inventory.h"
#include "gpu/paths.h"

/* What the admin wants: the platform is looked for, or is one of the two that can be chosen. */
enum platform_choice { PLATFORM_CHOICE_AUTO, PLATFORM_CHOICE_NVML, PLATFORM_CHOICE_TEGRA };

/* True if the dynamic linker loads |library|; it is closed again. Tests put another answer in its place. */
typedef bool platform_load_fn(const char *library);
bool platform_can_load(const char *library);

/*
 * The platform as far as it shows before NVML is open. |library| is the NVML to load as in nvml_locate(), or "". Files of Tegra
 * are looked for below the driver root, or the system's where there is none.
 */
enum platform platform_detect(
        enum platform_choice choice, const struct gpu_paths *paths, const char *library, platform_load_fn *can_load);

/* True when NVML counts an integrated GPU: then it is Tegra after all, unless NVML was chosen. */
bool platform_is_integrated(const struct inventory *inventory);

/* The one unit of WSL or Tegra. */
struct inventory *platform_inventory(enum platform platform);
