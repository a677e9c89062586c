/*
 * One node's GPUs under watch: NVML open, events registered, the inventory and the health of its units kept up to date. It
 * blocks in NVML and knows nothing of threads or loops: gpu/monitor.c runs it on a thread and carries its mail.
 *
 * The inventory and the health outlive the library: a watch that closed and opened again goes on where it was.
 */
#pragma once

#include "gpu/mail.h"
#include "gpu/nvml.h"
#include "gpu/paths.h"
#include "gpu/units.h"

struct watch_options {
        const char *library;
        struct gpu_paths paths;
        uint64_t probe_ms;
        uint64_t refresh_ms;
        struct health_policy policy;
};

struct watch {
        const struct watch_options *options;
        struct nvml *nvml;           /* NULL: closed */
        struct inventory *inventory; /* the last one read, completed by what was known before; NULL: none yet */
        struct units units;
        nvmlEventSet_t set;    /* NULL: none */
        nvmlDevice_t *devices; /* by position in the inventory; NULL where no events are registered */
        size_t n_registered;
        uint64_t refresh_at_ms;
        uint64_t sweep_at_ms;     /* not before this are all GPUs probed for a failing wait */
        unsigned int wait_errors; /* in a row */
};

void watch_init(struct watch *watch, const struct watch_options *options);
void watch_done(struct watch *watch);

/*
 * Opens the library, reads the inventory and registers for events. The inventory is put into |mail| when it is news, or when
 * |tell| says so. When there is no GPU the watch is open, and there is nothing to step through.
 */
int watch_open(struct watch *watch, bool tell, struct mail *mail, struct error *err) MUST_USE;
void watch_close(struct watch *watch);

static inline bool watch_has_gpus(const struct watch *watch)
{
        return watch->inventory && watch->inventory->n_gpus > 0;
}

/* Reads the inventory again, and puts it into |mail| under the same conditions. An error ends the watch: close it. */
int watch_refresh(struct watch *watch, bool tell, struct mail *mail, struct error *err) MUST_USE;

/*
 * Waits for events for at most a second, does what is due, and puts what became known into |mail|. |ret_sleep_ms| is how long
 * the caller must sleep before the next step, because NVML cannot be waited on: it lacks events or returns errors at once.
 * An error ends the watch.
 */
int watch_step(struct watch *watch, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err) MUST_USE;
