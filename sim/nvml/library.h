// SPDX-License-Identifier: Apache-2.0
/*
 * How every exported function begins and ends: it takes the lock, checks the reference count of nvmlInit, reads the
 * scenario again if it changed, applies the scenario's faults, and looks up a handle before it uses it.
 *
 *         nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
 *         {
 *                 _cleanup_(call_end) struct call call = call_gpu(__func__, device);
 *
 *                 if (call.result != NVML_SUCCESS)
 *                         return call.result;
 *
 * The lock is not held during a delay. The functions below return with |result| set, with or without the lock;
 * call_end() knows whether it is held.
 */
#pragma once

#include "sim/nvml/world.h"

struct call {
        nvmlReturn_t result;
        bool locked;
        bool changes;
        bool kills;        /* this process, when the call has done its work */
        int geometry_lock; /* while it changes the geometry: world_begin_change() */
        struct world *world;
        struct gpu *gpu;
        const struct scenario_gpu *config;      /* of |gpu| */
        struct nvmlComputeInstance_st *compute; /* NULL: not a MIG device */
};

struct call call_any(const char *name);                         /* without a device */
struct call call_device(const char *name, nvmlDevice_t device); /* a GPU or a MIG device */
struct call call_gpu(const char *name, nvmlDevice_t device);    /* a GPU; a MIG device is INVALID_ARGUMENT */
struct call call_instance(const char *name, nvmlGpuInstance_t handle, struct nvmlGpuInstance_st **instance);
struct call call_compute(const char *name, nvmlComputeInstance_t handle, struct nvmlComputeInstance_st **compute);
void call_end(struct call *call);

/*
 * Begins a change of the MIG geometry: no other process changes it before this call ends. Look up instances again
 * afterwards, since another process may have destroyed them. False: |result| is set.
 */
bool call_change(struct call *call);

/* Applies the faults of |gpu|, for a call that looked up its GPU itself; may sleep. */
void call_visit(struct call *call, const char *name, struct gpu *gpu);

/* For a wait: the first releases the lock, the second takes it again. False: the library was shut down meanwhile. */
void call_pause(struct call *call);
bool call_resume(struct call *call);

nvmlReturn_t library_init(const char *name);
nvmlReturn_t library_shutdown(void);

/* Copies |text| as NVML does: NULL is INVALID_ARGUMENT, too small INSUFFICIENT_SIZE. */
nvmlReturn_t copy_text(char *buffer, unsigned int size, const char *text);

/* The whole body of a call that returns one value of a GPU; |value| may use `call`. */
#define RETURN_GPU_VALUE(device, target, value)                                                                        \
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);                                             \
        if (call.result)                                                                                               \
                return call.result;                                                                                    \
        if (!(target))                                                                                                 \
                return NVML_ERROR_INVALID_ARGUMENT;                                                                    \
        *(target) = (value);                                                                                           \
        return NVML_SUCCESS
