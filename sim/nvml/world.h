// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated machine as it is now: a scenario, and what programs have changed since (compute modes, MIG instances).
 *
 * NVML's handles are the addresses of objects here. The objects stay at their address until the world is freed, and
 * every handle is looked up before it is used, so a stale handle is recognised. A GPU is identified by its UUID: when
 * the scenario's file changes, a GPU that is still in it keeps its handle, and the values that programs set, except
 * those that the file changes.
 *
 * Nothing here locks; library.c does.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "sim/nvml/scenario.h"

struct gpu;

/* A GPU, or one compute instance of it as a MIG device. */
struct nvmlDevice_st {
        struct gpu *gpu;
        struct nvmlComputeInstance_st *compute; /* NULL: the GPU itself */
};

struct nvmlGpuInstance_st {
        struct list link; /* in world->instances */
        struct gpu *gpu;
        bool alive;
        struct mig_instance *place; /* in gpu->mig, until it is destroyed */
};

struct nvmlComputeInstance_st {
        struct list link; /* in world->computes */
        struct nvmlGpuInstance_st *instance;
        bool alive;
        struct mig_compute *place; /* in that of its GPU instance, until it is destroyed */
        unsigned int mig_index;
        nvmlComputeMode_t compute_mode;
        char uuid[48];
        struct nvmlDevice_st handle;
};

struct gpu {
        struct list link; /* in world->gpus, which also has those that are gone */
        struct nvmlDevice_st handle;
        char uuid[80];
        const struct scenario_gpu *config; /* NULL: no longer in the scenario */
        unsigned int position;             /* in the scenario */
        bool attached;                     /* it was present when NVML was initialised */
        unsigned int index;                /* NVML's: by position among those attached */
        nvmlComputeMode_t compute_mode;
        bool persistence;
        bool mig_current;
        bool mig_pending;
        uint64_t told_geometry; /* a hash of the MIG mode and layout that event sets have heard of; 0: of none yet */
        unsigned int created;   /* how many MIG devices programs have created so far: each gets a new UUID */
        struct mig_layout *mig; /* replaced as a whole when the file changes it; never NULL */
};

struct event {
        struct list link;
        struct gpu *gpu;
        struct scenario_event what;
};

/*
 * An event set of a program. It belongs to the world until the program frees it; a thread that waits on it holds a
 * reference.
 */
struct nvmlEventSet_st {
        struct list link; /* in world->event_sets */
        unsigned int references;
        bool closed;
        int wake;       /* eventfd: an event was queued, or the set was closed */
        int changes;    /* inotify on the scenario's directory, and on that of the geometry file */
        char *file;     /* the scenario's name in it */
        char *geometry; /* the geometry file's; NULL: none */
        struct list events;
        struct {
                struct gpu *gpu;
                uint64_t types;
        } registered[SCENARIO_MAX_GPUS];
        size_t n_registered;
};

struct file_stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
        bool fresh; /* it was read so soon after it was written that a second write might have the same time */
};

struct world {
        char *path;
        struct scenario *scenario; /* the last good one; NULL: none yet */
        struct error problem;      /* of the file as it is now; kind ERROR_NONE: none */
        struct strbuf text;        /* of the file when it was read last, good or bad */
        struct file_stamp stamp;
        struct strbuf geometry;            /* text of the geometry file when it was read or written last */
        struct scenario_versions versions; /* of the driver that was initialised */
        struct list gpus;
        struct list instances;
        struct list computes;
        struct list event_sets;
};

struct world *world_new(const char *path);
struct world *world_free(struct world *world); /* accepts NULL, returns NULL */

/* Reads the file again if it changed. If it is bad, the last good scenario stays, and |problem| says why. */
void world_refresh(struct world *world);

/*
 * Begin and end a change of the MIG geometry by a program. The first reads what other programs changed, the second
 * writes the change. |lock| is a descriptor, or -1 if the geometry is not shared.
 */
int world_begin_change(struct world *world, int *lock, struct error *err) MUST_USE;
int world_end_change(struct world *world, int lock, struct error *err) MUST_USE;

/* The file of a geometry that is shared (world_geometry.c); all but the first only where the scenario names one. */
bool world_geometry_changed(const struct world *world);
int world_lock_geometry(const struct world *world, struct error *err) MUST_USE;
int world_read_geometry(struct world *world, struct error *err) MUST_USE;  /* with the lock */
int world_write_geometry(struct world *world, struct error *err) MUST_USE; /* with the lock */

/* The processes of the scenario's directory as they are now; part of world_refresh(). */
void world_read_processes(struct world *world);

/*
 * At the first nvmlInit: from now on the process has the driver and the GPUs that the scenario has now, whatever is
 * added or removed later.
 */
void world_attach(struct world *world);

static inline bool gpu_is_present(const struct gpu *gpu)
{
        return gpu->attached && gpu->config && gpu->config->present;
}

/* Each returns NULL if there is no such object, or it has been destroyed. */
struct gpu *world_gpu_by_index(const struct world *world, unsigned int index);
struct gpu *world_gpu_by_position(const struct world *world, unsigned int position);
struct nvmlDevice_st *world_device(const struct world *world, nvmlDevice_t handle);
struct nvmlGpuInstance_st *world_instance(const struct world *world, nvmlGpuInstance_t handle);
struct nvmlComputeInstance_st *world_compute(const struct world *world, nvmlComputeInstance_t handle);
unsigned int world_count(const struct world *world); /* of GPUs attached, also of those that have been removed since */

struct nvmlComputeInstance_st *gpu_compute_by_index(
        const struct world *world, const struct gpu *gpu, unsigned int index);
struct nvmlGpuInstance_st *gpu_instance_by_id(const struct world *world, const struct gpu *gpu, unsigned int id);
unsigned int gpu_max_mig_devices(const struct gpu *gpu);
bool gpu_has_instances(const struct gpu *gpu);

/* Changes of the MIG layout (world_mig.c). */
struct nvmlGpuInstance_st *world_add_instance(
        struct world *world, struct gpu *gpu, const struct mig_profile *profile, unsigned int start);
struct nvmlComputeInstance_st *world_add_compute(
        struct world *world, struct nvmlGpuInstance_st *instance, unsigned int slices, unsigned int start);
void world_remove_instance(struct world *world, struct nvmlGpuInstance_st *instance);
void world_remove_compute(struct nvmlComputeInstance_st *compute);
void world_set_layout(struct world *world, struct gpu *gpu, const struct mig_layout *layout);

/*
 * Makes the pending mode current and destroys all instances. After a |reboot|, MIG is disabled on a GPU whose mode
 * needs no reset.
 */
void world_reset_gpu(struct world *world, struct gpu *gpu, bool reboot);

/* Puts the events that |now| has and |before| had not into the event sets (world_events.c). */
void world_queue_events(struct world *world, const struct scenario *before, const struct scenario *now);
/*
 * Puts an event into the event sets for each GPU whose MIG mode or layout has changed, whoever did it, as the driver
 * tells all programs.
 */
void world_queue_mig_events(struct world *world);
void event_set_unref(struct nvmlEventSet_st *set);
void event_set_close(struct nvmlEventSet_st *set);
