/*
 * The compute mode of units: EXCLUSIVE_PROCESS keeps processes that are no MPS clients off a unit that a control daemon
 * serves. Calls of NVML, on whatever thread; what was there before is for the caller to record first.
 *
 * A mode that cannot be read or set (vGPU, WSL, a user without the right) is no reason not to serve: MPS works without, only
 * a pod that goes around it then takes turns with the clients. With MIG on, the mode is that of the MIG device's handle.
 */
#pragma once

#include "gpu/nvml.h"

/* 1: |*ret| is the mode; 0: it cannot be known here; -1: the unit is not there, or is lost. */
int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err) MUST_USE;
int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err) MUST_USE;

const char *compute_mode_name(nvmlComputeMode_t mode); /* "DEFAULT", "EXCLUSIVE_PROCESS", … */
