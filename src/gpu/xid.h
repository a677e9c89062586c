/*
 * The driver's Xids: what each is called, what it asks for, and whether it makes a unit unhealthy. Pure; a table.
 *
 * Numbers, names and classes are NVIDIA's Xid catalogue for Ampere and newer boards (docs.nvidia.com/deploy/xid-errors, table
 * 1, "Resolution Bucket, Immediate Action"; 61 from the catalogue of older boards). Numbers that it calls unused are left out.
 *
 * The effects are those of k8s-device-plugin 0.20 (internal/rm/health.go): every Xid makes a unit unhealthy but 13, 31, 43, 45,
 * 68 and 109. We follow it even where its own catalogue would restart the program alone (94 and the other ones of XID_RESTART,
 * upstream issue 1974), for what a moment took returns here after good probes. We differ for five numbers:
 *
 *   14, 106, 107   test messages: no fault of anything
 *   154            tells that the driver's recommendation changed, also for the better: the probe reads what it is now
 *   109            does not count, as upstream, but the catalogue would reset the GPU: so the probe asks the driver
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XID_MAX 1024U /* the catalogue ends below 200, and NVML says 999 for "unknown" */

/* What has to be done about it. */
enum xid_class {
        XID_UNCLASSED,     /* the catalogue does not say, or does not have it */
        XID_INFORMATIONAL, /* nothing */
        XID_APPLICATION,   /* the program is at fault */
        XID_RESTART,       /* restart the programs that use the GPU */
        XID_RESET,         /* reset the GPU */
        XID_SERVICE,       /* no reset helps: reboot, update, repair or replace */
};

enum xid_effect {
        XID_IGNORED,
        XID_CHECK, /* probe the GPU now, and let that decide */
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

/* By the table alone; a number that it lacks makes a unit unhealthy. */
enum xid_effect xid_default_effect(uint64_t number);

/* The catalogue asks for a reset, a reboot or service: good probes alone do not say that it was done. */
bool xid_needs_recovery(uint64_t number);

/* "Xid 79 (GPU has fallen off the bus): reboot the node, or repair it"; as much of it as is known. */
void xid_text(uint64_t number, char *text, size_t size);
