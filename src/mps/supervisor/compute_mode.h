// SPDX-License-Identifier: Apache-2.0
/*
 * The compute mode of units: EXCLUSIVE_PROCESS prevents processes that are not MPS clients from using a unit that a
 * control daemon serves; afterwards the previous mode is restored.
 *
 * If a mode cannot be read or set (vGPU, WSL, missing privilege), the unit is still served: MPS works without it, but a
 * pod that bypasses MPS then takes turns with the clients. With MIG on, the mode is that of the MIG device's handle.
 */
#pragma once

#include "gpu/nvml_pool.h"
#include "mps/supervisor/record.h"

/*
 * These two call NVML, which may block. compute_mode_read(): 1: |*ret| is the mode; 0: it cannot be read here; -1: the
 * unit does not exist, or is lost.
 */
int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err) MUST_USE;
int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err) MUST_USE;

/* In a process of |pool|. */
void compute_mode_ask_to_set(struct nvml_pool *pool, struct nvml_request *request, const char *uuid,
        nvmlComputeMode_t mode,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer));

const char *compute_mode_name(nvmlComputeMode_t mode); /* "DEFAULT", "EXCLUSIVE_PROCESS", … */

/* The modes that units had before we changed them: on record before the change, until they are restored. */
struct compute_modes {
        struct nvml_pool *nvml; /* NULL: closed */
        struct mps_record_owner owner;
        bool (*is_needed)(const char *uuid, void *data); /* a daemon has the unit, or is to have it; |owner.data| */
        struct list items;
        unsigned int n_jobs; /* modes that are being restored */
        bool is_closing;     /* a mode that cannot be restored is left to the next supervisor */
};
void compute_modes_init(struct compute_modes *modes, struct nvml_pool *nvml, const struct mps_record_owner *owner,
        bool (*is_needed)(const char *uuid, void *data));
/* |nvml| has been closed. */
void compute_modes_done(struct compute_modes *modes);
/* The mode is on record already. */
void compute_modes_add(struct compute_modes *modes, const char *uuid, nvmlComputeMode_t before);
bool compute_modes_has(const struct compute_modes *modes, const char *uuid);
/* Records the mode. An error: it is not on file, so it must not be changed. */
int compute_modes_record(
        struct compute_modes *modes, const char *uuid, nvmlComputeMode_t before, struct error *err) MUST_USE;
void compute_modes_fill_record(const struct compute_modes *modes, struct mps_record *record);
/* Restores the modes of units that no daemon has any more. */
void compute_modes_restore(struct compute_modes *modes);
/* NVML did not restore all of them. */
bool compute_modes_are_left(const struct compute_modes *modes);
