/*
 * What a GPU and its driver can do for MPS, from NVIDIA's MPS manual. Pure. What the control program of the node really can is
 * found out by asking it (mps/control/control.h); this is what a plan may expect.
 */
#pragma once

#include "share/plan.h"

/* MPS of such a GPU holds no limits. One that does not tell its architecture counts as Volta: older ones are a dying breed. */
bool capability_is_before_volta(const struct gpu *gpu);

/* Clients that one MPS server can serve on |unit|. |driver_version|: "580.105.08", or NULL for unknown. */
unsigned int capability_clients(const struct unit *unit, const char *driver_version);

/*
 * Static SM partitions: from driver branch 590 and compute capability 8.0 on, of a whole GPU. "sm_partition add" takes the UUID of
 * a GPU; of MIG devices NVIDIA's manual says nothing, so none is promised there.
 */
bool capability_partitions(const struct unit *unit, const char *driver_version);

/* A namespace for each container: from driver branch 615 on. */
bool capability_namespaces(const char *driver_version);
