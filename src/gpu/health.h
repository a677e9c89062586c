// SPDX-License-Identifier: Apache-2.0
/*
 * Decides what an event means for the health of a unit, and when the unit may return. Pure: no clock, no NVML, no
 * memory of its own.
 *
 *                ┌──(an Xid that counts, a failed reading, a failed probe)──┐
 *                │                                                          ▼
 *             HEALTHY                                                    UNHEALTHY ◄──(bad probe, another Xid: from zero)
 *                ▲                                                          │
 *                └────────(|required| good probes, one after the other)─────┘
 *
 * An unhealthy unit is probed every |probe_ms|; a bad probe doubles the interval, up to 32 times |probe_ms|, and a good
 * one resets it. A unit becomes healthy after 3 good probes. If it becomes unhealthy again within 10 minutes, the
 * required number is doubled, at most to 48, so that a flapping board is away for a minute instead of three seconds;
 * after a longer healthy time it is 3 again. The reason is always that of the latest failure.
 *
 * Good probes do not always prove that a unit works. After an Xid whose class asks for a reset or for service (enum
 * xid_class), the unit is held: a driver before about r550 does not report that a GPU needs a reset, and every call
 * succeeds. Good probes count again after a sign of repair: the driver reports that no recovery action is needed, the
 * GPU was missing and is found again, or the driver was unloaded and is back (health_release).
 *
 * The table of Xids decides which make a unit unhealthy, unless the policy overrides it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* ---- xid ---- */

/*
 * The driver's Xids: the name of each, the required action, and whether it makes a unit unhealthy. Pure; a table.
 *
 * Numbers, names and classes are NVIDIA's Xid catalogue for Ampere and newer boards (docs.nvidia.com/deploy/xid-errors,
 * table 1, "Resolution Bucket, Immediate Action"; 61 from the catalogue of older boards). Unused numbers are left out.
 *
 * The effects are those of k8s-device-plugin 0.20 (internal/rm/health.go): every Xid makes a unit unhealthy except 13,
 * 31, 43, 45, 68 and 109. We follow it even if NVIDIA's catalogue asks only to restart the program (94 and the others
 * of XID_RESTART, upstream issue 1974), because here the unit becomes healthy again after good probes. We differ for
 * these numbers:
 *
 *   14, 106, 107   test messages: no fault of anything
 *   154            the driver's recommendation changed, perhaps for the better: the probe reads what it is now
 *   109            does not count, as upstream, but the catalogue would reset the GPU: so the probe asks the driver
 *   144 to 150     an NVLink error whose number does not say whether it is fatal: the kernel's log does, and of the
 *                  decode table's 94 rows 43 are to be ignored (recorded: gpu/xid-nvlink5.txt). The probe reads the
 *                  driver's recovery action; the class is open for the same reason
 */
#define XID_MAX 1024U /* the catalogue ends below 200, and NVML reports 999 for "unknown" */

/* The required action. */
enum xid_class {
        XID_UNCLASSED,     /* the catalogue does not say, or does not contain the number */
        XID_INFORMATIONAL, /* nothing */
        XID_APPLICATION,   /* the program is the cause */
        XID_RESTART,       /* restart the programs that use the GPU */
        XID_RESET,         /* reset the GPU */
        XID_SERVICE,       /* a reset does not help: reboot, update, repair or replace */
};

enum xid_effect {
        XID_IGNORED,
        XID_CHECK, /* probe the GPU now; the probe decides */
        XID_UNHEALTHY,
};

struct xid {
        unsigned int number;
        enum xid_class class;
        enum xid_effect effect;
        const char *name;
};

/* NULL: not in the table. */
const struct xid *xid_find(uint64_t number);

/* By the table only; a number that is not in the table makes a unit unhealthy. */
enum xid_effect xid_default_effect(uint64_t number);

/* The catalogue asks for a reset, a reboot or service, so good probes alone do not prove that the unit works. */
bool xid_needs_recovery(uint64_t number);

/* "Xid 79 (GPU has fallen off the bus): reboot the node, or repair it"; shorter if less is known. */
void xid_text(uint64_t number, char *text, size_t size);

#define HEALTH_GOOD_PROBES 3U
#define HEALTH_MAX_GOOD_PROBES 48U
#define HEALTH_RELAPSE_MS ((uint64_t)10 * 60 * 1000)
#define HEALTH_MAX_INTERVAL 32U /* times |probe_ms| */
#define HEALTH_PROBE_MS 1000U

#define HEALTH_NEVER UINT64_MAX

/*
 * Decides which Xids count, by three sources: NVIDIA's two variables, the rules of the configuration file, and the
 * table. A number has precedence over a word, the environment over the file, and enabling over disabling:
 *
 *   1. DP_ENABLE_HEALTHCHECKS names it                              counts
 *   2. DP_DISABLE_HEALTHCHECKS names it, and the other is not "all" does not
 *   3. the file has a rule for it                                   as that says
 *   4. DP_ENABLE_HEALTHCHECKS is "all"                              counts
 *   5. DP_DISABLE_HEALTHCHECKS is "all"                             does not
 *   6. the table
 *
 * So disable=all with enable=79 watches Xid 79 alone, as NVIDIA's manual has it (its plugin 0.20 switched every check
 * off).
 */
enum health_rule { HEALTH_UNRULED, HEALTH_IGNORES, HEALTH_COUNTS };

struct health_policy {
        bool none;          /* DP_DISABLE_HEALTHCHECKS is "all" */
        bool all;           /* DP_ENABLE_HEALTHCHECKS is */
        bool counts_remaps; /* a memory row that is pending remapping makes its GPU unhealthy */
        bool recover;       /* good probes make a unit healthy again; false: it stays unhealthy until a restart, as in
                       * NVIDIA's plugin */
        unsigned char named[XID_MAX]; /* enum health_rule: what the two variables say of this Xid */
        unsigned char ruled[XID_MAX]; /* and what the file says */
};

/*
 * Makes a policy from the two variables, without rules, with recovery. They contain comma-separated Xids, or the words
 * "all" and "xids", which mean the same. Blanks and case do not matter; NULL is an empty list. An item that is neither
 * a number below XID_MAX nor a word is ignored and appended to |ignored| as "'x', 'y'", for a warning (|ignored| may be
 * NULL if the lists are our own).
 */
void health_policy_parse(struct health_policy *policy, const char *disable, const char *enable, struct strbuf *ignored);

/* Adds a rule of the file; of two rules for the same Xid the later one counts. False: |xid| is not below XID_MAX. */
bool health_policy_add_rule(struct health_policy *policy, uint64_t xid, bool unhealthy);

enum xid_effect health_policy_effect(const struct health_policy *policy, uint64_t xid);

/* False: only an Xid that is enabled by number, or a unit that cannot be read at all, makes a unit unhealthy. */
static inline bool health_policy_has_checks(const struct health_policy *policy)
{
        return !policy->none || policy->all;
}

/* The result of a probe. */
enum health_finding {
        HEALTH_GOOD,    /* all calls succeed; the driver cannot report recovery actions */
        HEALTH_CLEARED, /* all calls succeed, and the driver reports that no recovery action is needed */
        HEALTH_BAD,
        HEALTH_GONE, /* the driver does not find the GPU; a reset may bring it back */
};

static inline bool health_is_good(enum health_finding finding)
{
        return finding == HEALTH_GOOD || finding == HEALTH_CLEARED;
}

/* The health of one unit: a GPU or a MIG device. */
struct health {
        bool unhealthy;
        bool was_gone;     /* since the last good probe */
        uint64_t held_for; /* the Xid after which good probes do not suffice; 0: none */
        char reason[200];  /* of the latest failure; empty while healthy */
        uint64_t xid;      /* the Xid of the latest failure; 0: it was not an Xid */
        unsigned int good;
        unsigned int required;
        uint64_t interval_ms;
        uint64_t probe_at_ms;    /* HEALTH_NEVER while healthy */
        uint64_t returned_at_ms; /* HEALTH_NEVER: it was never unhealthy */
        uint64_t first_interval_ms;
};

/* |probe_ms|: between probes of an unhealthy unit; 0: 1,000. */
void health_init(struct health *health, uint64_t probe_ms);

/*
 * Each takes the present time (monotonic) and returns true if there is a change to report: the unit became unhealthy or
 * healthy, or the reason has changed.
 */

/* An Xid that counts. */
bool health_xid(struct health *health, uint64_t xid, uint64_t now_ms);

/* A failure other than an Xid: the unit could not be read, or a call about it failed. */
bool health_fail(struct health *health, const char *reason, uint64_t now_ms);

/* The result of a probe; |failure| says why it is not good. */
bool health_probe(struct health *health, enum health_finding finding, const char *failure, uint64_t now_ms);

/* The cause of a failure is probably over, so the next probe is due now. */
void health_poll_soon(struct health *health, uint64_t now_ms);

/* The driver was unloaded or replaced, and has lost its state of the GPU: good probes count again. */
void health_release(struct health *health);
