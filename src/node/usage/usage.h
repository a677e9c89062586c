// SPDX-License-Identifier: Apache-2.0
/*
 * GPU use by pod: the samples of the units (gpu/sample.h), added up for each pod on each unit. Pure: samples and time
 * in, numbers out. It knows neither allocations nor names of pods; node/usage/rows.h joins them.
 *
 * Example: GPU-A has 40 GiB in use. Pod P has two processes on it with 10 and 5 GiB, of which the driver says 30 % and
 * 10 % of the SMs. A login shell on the host has one with 8 GiB and no activity. Then P has a share of 15 GiB and 40 %,
 * the host one of 8 GiB and 0 %, and 17 GiB are unattributed (contexts of the driver, processes that are not visible
 * here). After 5 s P has been on the GPU for 5 s and has used 2 s of its SMs. If the GPU took 500 J in that time, and
 * 50 W is the least power that it was ever seen with, 250 J are counted for activity, all of them to P.
 *
 * What the driver does not say of one process is not known of its share: its memory or its activity is unknown then,
 * and its counters stand still. Under MPS the driver counts activity for the MPS server alone; no source splits it
 * among the clients, so nothing here does, and beside a server a process without activity is unknown, not idle. Energy
 * is an estimate even where activity is known: by SM activity, above the least power.
 *
 * A share is kept for USAGE_KEEP_MS after its last process, because a container may restart; then its counters begin
 * again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/sample.h"

#define USAGE_KEEP_MS UINT64_C(600000)
#define USAGE_GAP_MS UINT64_C(60000) /* the activity between two samples further apart is unknown */

/* ---- the last hour of one number: the highest value of each minute, which the caller counts ---- */

#define USAGE_RING_MINUTES 60U
#define USAGE_RING_NONE UINT32_MAX

/* Zeroed at first. */
struct usage_ring {
        uint64_t minute;                      /* the newest one that has a value */
        uint32_t highest[USAGE_RING_MINUTES]; /* and one more; 0: none */
};

/* |value| is below USAGE_RING_NONE. */
void usage_ring_put(struct usage_ring *ring, uint64_t minute, uint32_t value);

/*
 * The highest value of |minute| and the 59 minutes before it; 0: there was none. |minute| is not before the newest one.
 */
uint32_t usage_ring_peak(const struct usage_ring *ring, uint64_t minute);

/*
 * The values of |minute|, which is the last one, and of the minutes before it, from the first that has a value. Minutes
 * without a value are USAGE_RING_NONE. Returns their number.
 */
size_t usage_ring_read(const struct usage_ring *ring, uint64_t minute, uint32_t ret[USAGE_RING_MINUTES]);

/* ---- use by pod ---- */

enum usage_kind {
        USAGE_POD,
        USAGE_MPS_SERVER, /* contexts of an MPS server, which serve all its clients */
        USAGE_HOST,       /* processes of no pod */
        USAGE_HIDDEN /* processes that are not visible here: no PID namespace of the host, or they have just ended */
};
#define USAGE_KINDS ((size_t)USAGE_HIDDEN + 1)

const char *usage_kind_name(enum usage_kind kind); /* "pod", "mps-server", "host", "hidden" */

/* |servers|: the PIDs of MPS servers. */
enum usage_kind usage_kind_of(const struct gpu_process *process, const pid_t *servers, size_t n_servers);

struct usage_share {
        const char *unit; /* UUID */
        enum usage_kind kind;
        const char *pod_uid;         /* USAGE_POD; else NULL */
        unsigned int n_processes;    /* now */
        uint64_t memory;             /* bytes, or GPU_VALUE_UNKNOWN */
        uint64_t memory_peak;        /* bytes: the highest known of the last hour, in KiB */
        unsigned int sm_percent;     /* or GPU_PERCENT_UNKNOWN */
        unsigned int memory_percent; /* of the time of the memory controller, or GPU_PERCENT_UNKNOWN */
        uint64_t idle_ms;  /* since when its SMs do nothing, as the samples' |at_ms|; 0: they do, or unknown */
        double seconds;    /* counter: with a process on the unit */
        double sm_seconds; /* counter: seconds times activity; negative: never known */
        double energy;     /* counter, joules, an estimate; negative: never known */
        const struct usage_past *past;
};

/* The last hour, until usage_minute(). Of a unit the activity is its utilization. */
struct usage_past {
        struct usage_ring sm_percent;
        struct usage_ring memory_kib;
};

struct usage;

struct usage *usage_new(void);
struct usage *usage_free(struct usage *usage); /* accepts NULL, returns NULL */

/* Takes |samples|. */
void usage_add(struct usage *usage, struct gpu_samples *samples, const pid_t *servers, size_t n_servers);

/* The newest; NULL: none yet. Valid until the next usage_add(). */
const struct gpu_samples *usage_samples(const struct usage *usage);

uint64_t usage_minute(const struct usage *usage);                                 /* of the newest sample */
const struct usage_past *usage_past(const struct usage *usage, const char *unit); /* NULL: none */

/* The present shares, and those of the last USAGE_KEEP_MS, by unit. */
size_t usage_shares(const struct usage *usage, struct arena *arena, const struct usage_share **ret);

/*
 * Used memory of the unit beyond the known memory of its processes; 0 if the processes report more than is used,
 * GPU_VALUE_UNKNOWN if the driver does not list them.
 */
uint64_t usage_unattributed(const struct gpu_sample *sample);
