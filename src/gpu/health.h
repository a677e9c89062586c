/*
 * What an event means for the health of a unit, and when the unit may return. Pure: no clock, no NVML, no memory of its own.
 *
 *                ┌──(an Xid that counts, a failed reading, a failed probe)──┐
 *                │                                                          ▼
 *             HEALTHY                                                    UNHEALTHY ◄──(bad probe, another Xid: from zero)
 *                ▲                                                          │
 *                └────────(|required| good probes, one after the other)─────┘
 *
 * An unhealthy unit is probed every |probe_ms|; a bad probe doubles the interval, up to 32 times |probe_ms|, and a good one sets it
 * back. The way back takes 3 good probes. A unit that falls again within 10 minutes of its return has its count doubled, at
 * most to 48, so that a board that flaps is away for a minute rather than for three seconds; one that held out for longer
 * starts at 3 again. The reason is always that of the latest setback.
 *
 * Good probes alone bring back only what they can vouch for. After an Xid whose class asks for a reset or for service (gpu/xid.h)
 * the unit is held: a driver before r550 or so says nothing of a GPU that needs its reset, and each call to it succeeds. Probes
 * count again once there is a sign that it was dealt with: the driver says that no recovery action is needed, the GPU was
 * gone and is found, or the driver was gone and is back (health_release).
 *
 * Which Xids are setbacks is decided by gpu/xid.h, unless the policy says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "gpu/xid.h"

#define HEALTH_GOOD_PROBES 3U
#define HEALTH_MAX_GOOD_PROBES 48U
#define HEALTH_RELAPSE_MS ((uint64_t)10 * 60 * 1000)
#define HEALTH_MAX_INTERVAL 32U /* times the first one */
#define HEALTH_PROBE_MS 1000U

#define HEALTH_NEVER UINT64_MAX

#define HEALTH_WORDS (XID_MAX / 64)

/*
 * Which Xids count, by three sources: NVIDIA's two variables, the rules of the configuration file, and the table. A number
 * beats a word, the environment beats the file, and enabling beats disabling:
 *
 *   1. DP_ENABLE_HEALTHCHECKS names it                              counts
 *   2. DP_DISABLE_HEALTHCHECKS names it, and the other is not "all" does not
 *   3. the file has a rule for it                                   as that says
 *   4. DP_ENABLE_HEALTHCHECKS is "all"                              counts
 *   5. DP_DISABLE_HEALTHCHECKS is "all"                             does not
 *   6. the table
 *
 * So disable=all with enable=79 watches Xid 79 alone, as NVIDIA's manual has it (its plugin 0.20 switched every check off).
 */
struct health_policy {
        bool none;          /* DP_DISABLE_HEALTHCHECKS is "all" */
        bool all;           /* DP_ENABLE_HEALTHCHECKS is */
        bool counts_remaps; /* a memory row that waits to be remapped makes its GPU unhealthy */
        bool recover; /* good probes lead back; false: what went stays away until a restart, as in NVIDIA's plugin */
        uint64_t disabled[HEALTH_WORDS];
        uint64_t enabled[HEALTH_WORDS];
        uint64_t ruled_out[HEALTH_WORDS];
        uint64_t ruled_in[HEALTH_WORDS];
};

/*
 * Makes a policy of the two variables, without rules, with recovery. They are comma-separated Xids, or the words "all" and
 * "xids", which mean the same; blanks and case do not matter; NULL is an empty list. What is neither a number below XID_MAX nor
 * a word is left out and appended to |ignored| as "'x', 'y'", for a warning (NULL where the lists are our own).
 */
void health_policy_parse(struct health_policy *policy, const char *disable, const char *enable, struct strbuf *ignored);

/* A rule of the file; the later one of two for the same Xid holds. False: |xid| is none below XID_MAX. */
bool health_policy_add_rule(struct health_policy *policy, uint64_t xid, bool unhealthy);

enum xid_effect health_policy_effect(const struct health_policy *policy, uint64_t xid);

/* False: units fall for nothing but an Xid that counts by its number, and for what cannot be read at all. */
static inline bool health_policy_has_checks(const struct health_policy *policy)
{
        return !policy->none || policy->all;
}

/* What a probe found. */
enum health_finding {
        HEALTH_GOOD,    /* all calls succeed, and the driver cannot say more */
        HEALTH_CLEARED, /* and the driver says that no recovery action is needed */
        HEALTH_BAD,
        HEALTH_GONE, /* the driver does not find the GPU: it comes back by a reset, if ever */
};

static inline bool health_is_good(enum health_finding finding)
{
        return finding == HEALTH_GOOD || finding == HEALTH_CLEARED;
}

/* The health of one unit: a GPU or a MIG device. */
struct health {
        bool unhealthy;
        bool was_gone;     /* since the last good probe */
        uint64_t held_for; /* the Xid that asks for more than good probes; 0: none */
        char reason[200];  /* of the latest setback; empty while healthy */
        uint64_t xid;      /* which was that one; 0: it was none */
        unsigned int good;
        unsigned int required;
        uint64_t interval_ms;
        uint64_t probe_at_ms;    /* HEALTH_NEVER while healthy */
        uint64_t returned_at_ms; /* HEALTH_NEVER: never was away */
        uint64_t first_interval_ms;
};

/* |probe_ms|: between probes of an unhealthy unit; 0: 1,000. */
void health_init(struct health *health, uint64_t probe_ms);

/* Each takes the time of now, monotonic, and returns true when there is something to tell: the unit went or came, or the
 * reason why it is away is another one. */

/* An Xid that counts. */
bool health_xid(struct health *health, uint64_t xid, uint64_t now_ms);

/* A setback other than an Xid: it could not be read, or a call about it failed. */
bool health_fail(struct health *health, const char *reason, uint64_t now_ms);

/* The outcome of a probe; |failure| says why it is not good. */
bool health_probe(struct health *health, enum health_finding finding, const char *failure, uint64_t now_ms);

/* The cause of a setback is over, as far as can be told without a probe: the next one is due now. */
void health_poll_soon(struct health *health, uint64_t now_ms);

/* The driver was unloaded or replaced, and with it went what it knew of the GPU: good probes count again. */
void health_release(struct health *health);
