/*
 * The part of a watch that handles events and probes: the event set, what an event means for the units of its GPU, and
 * whether a GPU can be used. Only gpu/watch.c uses it and decides when.
 */
#pragma once

#include <time.h>

#include "gpu/watch.h"

static inline uint64_t watch_now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * Probes a GPU and those of its MIG devices for which a probe is due. If a GPU fails, its MIG devices become unhealthy,
 * too. |forced| probes the GPU and its MIG devices even if no probe is due; then only failures count, since good probes
 * count at their own times. A GPU that passes a due probe is registered for events again: it may have been unreachable
 * when the event set was made, or was reset since.
 */
void watch_probe(struct watch *watch, size_t position, bool forced, uint64_t now);
void watch_probe_all(struct watch *watch); /* forced */

/*
 * Makes a new event set with every reachable GPU. One lost GPU in a set makes each wait fail, so it must not stay in
 * the set; the probe that finds it again registers it. The old set is freed last, after all its events are read, so
 * that none is lost.
 */
void watch_register(struct watch *watch);

/*
 * After the inventory was read: the same, unless the present set contains a GPU that must not be asked now and so could
 * not be registered again. Then the set stays, and the GPUs that it lacks are added. Events of the GPU that hangs count
 * when it is back.
 */
void watch_register_anew(struct watch *watch);

/* Errors after which no call can succeed with this library and driver. */
static inline bool watch_error_is_fatal(nvmlReturn_t code)
{
        return code == NVML_ERROR_UNINITIALIZED || code == NVML_ERROR_DRIVER_NOT_LOADED ||
               code == NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

/* Probes what an event or failing waits gave reason to probe. */
void watch_poll_due(struct watch *watch);

/* Handles the events that have arrived, without waiting. */
void watch_hear(struct watch *watch);

/* Waits for an event and handles it; see watch_listen(). */
int watch_wait(struct watch *watch, unsigned int timeout_ms, uint64_t *ret_sleep_ms, struct error *err) MUST_USE;
