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
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
