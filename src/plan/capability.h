// SPDX-License-Identifier: Apache-2.0
/*
 * The features of MPS that a GPU and its driver support, according to NVIDIA's MPS manual, for a plan to expect;
 * mps/control/control.h finds out what the node's control program really supports. Pure.
 */
#pragma once

#include "plan/plan.h"

/*
 * MPS on such a GPU enforces no limits. A GPU with an unknown architecture counts as Volta, since older ones are rare.
 */
bool capability_is_before_volta(const struct gpu *gpu);

/*
 * The number of clients that one MPS server can serve on |unit|. |driver_version|: "580.105.08", or NULL for unknown.
 */
unsigned int capability_clients(const struct unit *unit, const char *driver_version);

/*
 * Static SM partitions: from driver branch 590 and compute capability 8.0 on, and only of a whole GPU: "sm_partition
 * add" takes the UUID of a GPU, and NVIDIA's manual does not mention MIG devices.
 */
bool capability_partitions(const struct unit *unit, const char *driver_version);

/* A namespace for each container: from driver branch 615 on. */
bool capability_namespaces(const char *driver_version);

/*
 * MPS daemons serve several users at the same time: their program knows -multiuser-server from driver branch 580 on (it
 * does not at 550), and warpshare mps starts them so.
 */
#define CAPABILITY_MULTI_USER_BRANCH 580U
bool capability_multi_user(const char *driver_version);
