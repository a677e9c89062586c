/* Reads the links between GPUs (PCIe levels and NVLinks) once per inventory. Part of nvml_read. */
#pragma once

#include "gpu/inventory.h"
#include "gpu/nvml.h"

/*
 * Fills gpus[].links. |devices| are the handles, in the same order; NULL if there is none. A link that cannot be read
 * is unknown (level -1), not an error. A link between two GPUs is found by the PCI address at its other end; a link to
 * an NVSwitch counts for every peer with which P2P over NVLink works.
 */
void nvml_read_links(struct inventory *inventory, const struct nvml *nvml, const nvmlDevice_t *devices);
