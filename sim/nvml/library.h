/*
 * How every exported function begins and ends: the lock, the reference count of nvmlInit, the scenario's freshness, the
 * faults that it asks for, and handles looked up before they are followed.
 *
 *         nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
 *         {
 *                 _cleanup_(call_end) struct call call = call_gpu(__func__, device);
 *
 *                 if (call.result != NVML_SUCCESS)
 *                         return call.result;
 *
 * A delay is slept without the lock. Functions below return with |result| set and the lock held, or not: call_end knows.
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

/* The faults of a GPU for a call that finds its GPU by itself; may sleep. */
void call_visit(struct call *call, const char *name, struct gpu *gpu);

/* For a wait: gives the lock away and takes it again. False: the library was shut down meanwhile. */
void call_pause(struct call *call);
bool call_resume(struct call *call);

nvmlReturn_t library_init(const char *name);
nvmlReturn_t library_shutdown(void);

/* Copies |text| as NVML does: NULL is INVALID_ARGUMENT, too small INSUFFICIENT_SIZE. */
nvmlReturn_t copy_text(char *buffer, unsigned int size, const char *text);

/* The whole body of a call that hands out one value of a GPU; |value| may use `call`. */
#define RETURN_GPU_VALUE(device, target, value)                                                                        \
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);                                             \
        if (call.result)                                                                                               \
                return call.result;                                                                                    \
        if (!(target))                                                                                                 \
                return NVML_ERROR_INVALID_ARGUMENT;                                                                    \
        *(target) = (value);                                                                                           \
        return NVML_SUCCESS
