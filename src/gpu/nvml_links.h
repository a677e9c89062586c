/*
 * The links between GPUs: PCIe levels and NVLinks, read once per inventory. Part of nvml_read.
 */
#pragma once

#include "gpu/inventory.h"
#include "gpu/nvml.h"

/*
 * Fills gpus[].links; |devices| are the handles, in the same order, NULL where there is none. What cannot be read is
 * unknown (level -1), never a failure. Links between two GPUs are counted by the PCI address at their other end; links into
 * an NVSwitch belong to every peer with which P2P over NVLink works.
 */
void nvml_read_links(struct inventory *inventory, const struct nvml *nvml, const nvmlDevice_t *devices);
