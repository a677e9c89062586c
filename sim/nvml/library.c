// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/library.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define SCENARIO_VARIABLE "WARPSHARE_SIM_SCENARIO"
#define DELAY_STEP_MS 50U /* after which a delayed call reads the scenario again */

/* NVML's interface has no context, so this is global: what nvmlInit made, for the whole process. */
static struct {
        pthread_mutex_t lock;
        unsigned int references;
        struct world *world;
        char complaint[600]; /* the last that was printed, so that a caller that tries again and again gets it once */
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void complain(const char *text)
{
        if (strncmp(library.complaint, text, sizeof(library.complaint) - 1) == 0)
                return;
        snprintf(library.complaint, sizeof(library.complaint), "%s", text);
        fprintf(stderr, "warpshare-nvml-sim: %s\n", text);
}

static void sleep_ms(unsigned int ms)
{
        struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

        while (nanosleep(&left, &left) < 0)
                ;
}

/* With the lock held. */
static void refresh(void)
{
        struct world *world = library.world;

        world_refresh(world);
        if (world->problem.kind == ERROR_NONE) {
                library.complaint[0] = '\0';
        } else {
                char text[sizeof(library.complaint)];

                snprintf(text, sizeof(text), "%s%s", world->problem.text,
                        library.references ? "; the last good scenario stays" : "");
                complain(text);
        }
}

void call_pause(struct call *call)
{
        pthread_mutex_unlock(&library.lock);
        call->locked = false;
}

bool call_resume(struct call *call)
{
        pthread_mutex_lock(&library.lock);
        call->locked = true;
        if (!library.references)
                return false;
        call->world = library.world;
        refresh();
        return true;
}

bool call_change(struct call *call)
{
        struct error err;

        if (world_begin_change(call->world, &call->geometry_lock, &err) < 0) {
                complain(err.text);
                call->result = NVML_ERROR_OPERATING_SYSTEM;
                return false;
        }
        call->changes = true;
        call->config = call->gpu->config;
        if (!gpu_is_present(call->gpu) || call->config->lost)
                call->result = NVML_ERROR_GPU_IS_LOST;
        return call->result == NVML_SUCCESS;
}

void call_end(struct call *call)
{
        struct error err;

        if (call->changes && world_end_change(call->world, call->geometry_lock, &err) < 0)
                complain(err.text);
        if (call->kills)
                (void)raise(SIGKILL);
        if (call->locked)
                call_pause(call);
}

/* In a scenario "nvmlDeviceGetName" means nvmlDeviceGetName_v2, too. */
static bool fault_hits(const struct fault *fault, const char *name)
{
        size_t length = strlen(fault->call);

        return strncmp(fault->call, name, length) == 0 &&
               (!name[length] || (text_starts_with(name + length, "_v") && strlen(name + length) == 3));
}

/* What the faults of a list do to one call. */
struct visit {
        nvmlReturn_t result; /* the first error */
        unsigned int delay_ms;
        bool blocks;
        enum fault_kill kills;
};

/* Counts this call, adds its delay, and keeps the first error. */
static void faults_visit(const struct fault_list *list, const char *name, struct visit *visit)
{
        for (size_t i = 0; i < list->count; i++) {
                struct fault *fault = &list->faults[i];
                unsigned int nth;

                if (!fault_hits(fault, name))
                        continue;
                nth = fault->seen++;
                if (nth < fault->after || (fault->times && nth - fault->after >= fault->times))
                        continue;
                visit->delay_ms += fault->delay_ms;
                visit->kills = fault->kills ? fault->kills : visit->kills;
                visit->blocks = visit->blocks || (fault->delay_ms && fault->blocks);
                if (visit->result == NVML_SUCCESS)
                        visit->result = fault->result;
        }
}

/*
 * The delay that |list| has now for a call that has begun already: the scenario may have changed since. Counters do not
 * matter any more.
 */
static unsigned int faults_delay_ms(const struct fault_list *list, const char *name)
{
        unsigned int delay_ms = 0;

        for (size_t i = 0; list && i < list->count; i++)
                if (fault_hits(&list->faults[i], name))
                        delay_ms += list->faults[i].delay_ms;
        return delay_ms;
}

/* The faults of |gpu|, or those of all GPUs if it is NULL. Returns NULL if the scenario no longer has |gpu|. */
static const struct fault_list *faults_of(const struct call *call, const struct gpu *gpu)
{
        if (!gpu)
                return &call->world->scenario->faults;
        return gpu->config ? &gpu->config->faults : NULL;
}

static bool pause_a_moment(struct call *call, bool blocks, unsigned int ms)
{
        if (blocks) {
                sleep_ms(ms);
                refresh();
                return true;
        }
        call_pause(call);
        sleep_ms(ms);
        return call_resume(call);
}

/*
 * A delay ends after its time, or when the scenario no longer has it: by editing the scenario, a test lets a call that
 * hangs return.
 */
static bool take_time(struct call *call, const struct gpu *gpu, const char *name, const struct visit *visit)
{
        unsigned int passed_ms = 0;

        while (passed_ms < MIN(visit->delay_ms, faults_delay_ms(faults_of(call, gpu), name))) {
                unsigned int ms = MIN(visit->delay_ms - passed_ms, DELAY_STEP_MS);

                if (!pause_a_moment(call, visit->blocks, ms))
                        return false;
                passed_ms += ms;
        }
        return true;
}

static void apply_faults(struct call *call, const struct gpu *gpu, const char *name)
{
        struct visit visit = {.result = NVML_SUCCESS};

        faults_visit(faults_of(call, gpu), name, &visit);
        if (visit.kills == FAULT_KILLS_BEFORE)
                (void)raise(SIGKILL);
        call->kills = call->kills || visit.kills == FAULT_KILLS_AFTER;
        if (visit.delay_ms && !take_time(call, gpu, name, &visit))
                visit.result = NVML_ERROR_UNINITIALIZED;
        if (visit.result != NVML_SUCCESS)
                call->result = visit.result;
}

struct call call_any(const char *name)
{
        struct call call = {.result = NVML_SUCCESS};

        if (!call_resume(&call)) {
                call.result = NVML_ERROR_UNINITIALIZED;
                return call;
        }
        apply_faults(&call, NULL, name);
        return call;
}

void call_visit(struct call *call, const char *name, struct gpu *gpu)
{
        if (gpu_is_present(gpu) && !gpu->config->lost)
                apply_faults(call, gpu, name);
        if (call->result != NVML_SUCCESS)
                return;
        /* Checked after the delay: a GPU may be lost while a call is under way. */
        call->gpu = gpu;
        call->config = gpu->config;
        if (!gpu_is_present(gpu) || gpu->config->lost)
                call->result = NVML_ERROR_GPU_IS_LOST;
}

struct call call_device(const char *name, nvmlDevice_t handle)
{
        struct call call = call_any(name);
        struct nvmlDevice_st *device;

        if (call.result != NVML_SUCCESS)
                return call;
        device = world_device(call.world, handle);
        if (!device) {
                call.result = NVML_ERROR_INVALID_ARGUMENT;
                return call;
        }
        call_visit(&call, name, device->gpu);
        if (call.result != NVML_SUCCESS)
                return call;
        /* During a delay a MIG device may be destroyed; the handle of a GPU stays valid. */
        if (device != &call.gpu->handle) {
                device = world_device(call.world, handle);
                if (device)
                        call.compute = device->compute;
                else
                        call.result = NVML_ERROR_NOT_FOUND;
        }
        return call;
}

struct call call_gpu(const char *name, nvmlDevice_t device)
{
        struct call call = call_device(name, device);

        if (call.result == NVML_SUCCESS && call.compute)
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        return call;
}

struct call call_instance(const char *name, nvmlGpuInstance_t handle, struct nvmlGpuInstance_st **instance)
{
        struct call call = call_any(name);

        if (call.result != NVML_SUCCESS)
                return call;
        *instance = world_instance(call.world, handle);
        if (!*instance) {
                call.result = NVML_ERROR_INVALID_ARGUMENT;
                return call;
        }
        call_visit(&call, name, (*instance)->gpu);
        if (call.result == NVML_SUCCESS && !(*instance = world_instance(call.world, handle)))
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        return call;
}

struct call call_compute(const char *name, nvmlComputeInstance_t handle, struct nvmlComputeInstance_st **compute)
{
        struct call call = call_any(name);

        if (call.result != NVML_SUCCESS)
                return call;
        *compute = world_compute(call.world, handle);
        if (!*compute) {
                call.result = NVML_ERROR_INVALID_ARGUMENT;
                return call;
        }
        call_visit(&call, name, (*compute)->handle.gpu);
        if (call.result == NVML_SUCCESS && !(*compute = world_compute(call.world, handle)))
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        return call;
}

/*
 * With the lock held. The simulated machine stays as it is after nvmlShutdown: modes that were set, faults that were
 * counted.
 */
static nvmlReturn_t open_world(void)
{
        const char *path = secure_getenv(SCENARIO_VARIABLE);

        if (!path || !*path) {
                complain("set " SCENARIO_VARIABLE " to the path of a scenario; until then there is no driver");
                return NVML_ERROR_DRIVER_NOT_LOADED;
        }
        if (library.world && strcmp(library.world->path, path) != 0)
                library.world = world_free(library.world);
        if (!library.world)
                library.world = world_new(path);
        refresh();
        return library.world->problem.kind == ERROR_NONE ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* Holds the lock all the time, as the driver does: another thread that calls meanwhile waits for the outcome. */
static nvmlReturn_t begin(const char *name)
{
        struct visit visit = {
                .result = library.world->scenario->init_result, .delay_ms = library.world->scenario->init_delay_ms};
        unsigned int passed_ms = 0;

        faults_visit(&library.world->scenario->faults, name, &visit);
        while (passed_ms < MIN(visit.delay_ms, library.world->scenario->init_delay_ms +
                                                       faults_delay_ms(&library.world->scenario->faults, name))) {
                unsigned int ms = MIN(visit.delay_ms - passed_ms, DELAY_STEP_MS);

                sleep_ms(ms);
                passed_ms += ms;
                refresh();
        }
        return visit.result;
}

nvmlReturn_t library_init(const char *name)
{
        _cleanup_(call_end) struct call call UNUSED = {.locked = true};
        nvmlReturn_t result = NVML_SUCCESS;

        pthread_mutex_lock(&library.lock);
        if (!library.references) {
                result = open_world();
                if (result != NVML_SUCCESS)
                        return result;
                result = begin(name);
        }
        if (result == NVML_SUCCESS && library.references++ == 0)
                world_attach(library.world);
        return result;
}

nvmlReturn_t library_shutdown(void)
{
        _cleanup_(call_end) struct call call UNUSED = {.locked = true};

        pthread_mutex_lock(&library.lock);
        if (!library.references)
                return NVML_ERROR_UNINITIALIZED;
        if (--library.references == 0) {
                struct list *sets = &library.world->event_sets;

                while (!list_is_empty(sets))
                        event_set_close(container_of(sets->next, struct nvmlEventSet_st, link));
        }
        return NVML_SUCCESS;
}

/*
 * At dlclose and at exit, so that a leak checker reports nothing: only the unloaded library pointed to this memory. A
 * thread that is in a call at exit finds the library shut down; if it holds the lock, nothing is freed.
 */
__attribute__((destructor)) static void library_unload(void)
{
        if (pthread_mutex_trylock(&library.lock) != 0)
                return;
        library.references = 0;
        library.world = world_free(library.world);
        pthread_mutex_unlock(&library.lock);
}

nvmlReturn_t copy_text(char *buffer, unsigned int size, const char *text)
{
        if (!buffer)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (strlen(text) >= size)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        strcpy(buffer, text);
        return NVML_SUCCESS;
}
