/*
 * The compute mode of units: EXCLUSIVE_PROCESS prevents processes that are not MPS clients from using a unit that a
 * control daemon serves. These are NVML calls, which may block; the caller records the previous mode first.
 *
 * If a mode cannot be read or set (vGPU, WSL, missing privilege), the unit is still served: MPS works without it, but a
 * pod that bypasses MPS then takes turns with the clients. With MIG on, the mode is that of the MIG device's handle.
 */
#pragma once

#include "gpu/nvml_pool.h"

/* 1: |*ret| is the mode; 0: it cannot be read here; -1: the unit does not exist, or is lost. */
int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err) MUST_USE;
int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err) MUST_USE;

/* In a process of |pool|. */
void compute_mode_ask_to_set(struct nvml_pool *pool, struct nvml_request *request, const char *uuid,
        nvmlComputeMode_t mode,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer));

const char *compute_mode_name(nvmlComputeMode_t mode); /* "DEFAULT", "EXCLUSIVE_PROCESS", … */
