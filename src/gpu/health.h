/*
 * What an event means for the health of a unit, and when the unit may return. Pure: no clock, no NVML, no memory of its own.
 *
 *                ┌──(an Xid that counts, a failed reading, a failed probe)──┐
 *                │                                                          ▼
 *             HEALTHY                                                    SUSPECT ◄──(bad probe, another Xid: from zero)
 *                ▲                                                          │
 *                └────────(|required| good probes, one after the other)─────┘
 *
 * A suspect is probed every |probe_ms|; a bad probe doubles the interval, up to 32 times |probe_ms|, and a good one sets it
 * back. The way back takes 3 good probes. A unit that falls again within 10 minutes of its return has its count doubled, at
 * most to 48, so that a board that flaps is away for a minute rather than for three seconds; one that held out for longer
 * starts at 3 again. The reason is always that of the latest setback.
 *
 * An application that faults raises Xids too (13, 31, 43, 45, 68, 109): they say nothing about the GPU.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define HEALTH_GOOD_PROBES 3U
#define HEALTH_MAX_GOOD_PROBES 48U
#define HEALTH_RELAPSE_MS ((uint64_t)10 * 60 * 1000)
#define HEALTH_MAX_INTERVAL 32U /* times the first one */
#define HEALTH_PROBE_MS 1000U

#define HEALTH_XIDS 1024U /* NVIDIA's catalogue ends below 200, and NVML says 999 for "unknown" */
#define HEALTH_NEVER UINT64_MAX

/* Which Xids count. As DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS say it. */
struct health_policy {
        bool none; /* no Xid counts but the ones enabled by number */
        bool all;  /* every Xid counts, those of applications too; wins over |none| */
        uint64_t disabled[HEALTH_XIDS / 64];
        uint64_t enabled[HEALTH_XIDS / 64]; /* wins over |disabled| and |none| */
};

/*
 * Reads the two lists: comma-separated Xids, or the words "all" and "xids", which mean the same; blanks and case do not
 * matter; NULL is an empty list. Enabling wins over disabling, "all" but one included: disable=all with enable=79 watches
 * Xid 79 alone (in NVIDIA's plugin 0.20 that combination switched every check off, against its manual). What is neither a
 * number nor a word is left out and appended to |ignored| as "'x', 'y'", for a warning (NULL where the lists are our own).
 */
void health_policy_parse(struct health_policy *policy, const char *disable, const char *enable, struct strbuf *ignored);

bool health_policy_counts(const struct health_policy *policy, uint64_t xid);

/* "Xid 79 (GPU has fallen off the bus)"; the number alone when the catalogue gives it no name here. */
void health_xid_text(uint64_t xid, char *text, size_t size);

/* The health of one unit: a GPU or a MIG device. */
struct health {
        bool suspect;
        char reason[200]; /* of the latest setback; empty while healthy */
        unsigned int good;
        unsigned int required;
        uint64_t interval_ms;
        uint64_t probe_at_ms;    /* HEALTH_NEVER while healthy */
        uint64_t returned_at_ms; /* HEALTH_NEVER: never was away */
        uint64_t first_interval_ms;
};

/* |probe_ms|: between probes of a suspect; 0: 1,000. */
void health_init(struct health *health, uint64_t probe_ms);

/* Each takes the time of now, monotonic, and returns true when there is something to tell: the unit went or came, or the
 * reason why it is away is another one. */

bool health_xid(struct health *health, const struct health_policy *policy, uint64_t xid, uint64_t now_ms);

/* A setback other than an Xid: it could not be read, or a call about it failed. */
bool health_fail(struct health *health, const char *reason, uint64_t now_ms);

/* The outcome of a probe: |failure| is NULL when all was well. */
bool health_probe(struct health *health, const char *failure, uint64_t now_ms);
