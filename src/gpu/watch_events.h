/*
 * The part of a watch that deals with events and probes: the event set, what an event means for the units of its GPU, and
 * whether a GPU can be used. Used by gpu/watch.c alone, which says when.
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
 * Probes a GPU and those of its MIG devices for which a probe is due. A GPU that does not pass takes its MIG devices down with
 * it. |forced| probes the GPU and its MIG devices though no probe is due, and counts only when it fails: good probes count at
 * their own times. A GPU that passes a probe that is due must be heard of from then on: it may have been out of reach when the event set
 * was made, or reset since.
 */
void watch_probe(struct watch *watch, size_t position, bool forced, uint64_t now);
void watch_probe_all(struct watch *watch); /* forced */

/*
 * Makes a new event set with every GPU that is not out of reach. One lost GPU in a set makes each wait fail, so it must not
 * stay; it is registered again by the probe that finds it back. The old set goes last, and is heard to its end, so that no event falls
 * between the two.
 */
void watch_register(struct watch *watch);

/*
 * After news of the inventory: the same, unless the set there is hears of a GPU that must not be asked now, and so could not be
 * registered anew. Then the set stays, and gets those that it lacks: what befalls that GPU meanwhile counts when it is back.
 */
void watch_register_anew(struct watch *watch);

/* Errors after which no call will ever work again with this library and driver. */
static inline bool watch_error_is_fatal(nvmlReturn_t code)
{
        return code == NVML_ERROR_UNINITIALIZED || code == NVML_ERROR_DRIVER_NOT_LOADED ||
               code == NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}

/* Probes what an event, or waits that fail, gave cause to look at. */
void watch_poll_due(struct watch *watch);

/* Handles the events that are there, without waiting. */
void watch_hear(struct watch *watch);

/* Waits for events and handles them; see watch_listen(). */
int watch_wait(struct watch *watch, unsigned int timeout_ms, uint64_t *ret_sleep_ms, struct error *err) MUST_USE;
