/*
 * Lists the processes that use instances that a plan removes, as NVML reports them: compute, graphics and MPS. A driver
 * that cannot list them reports IN_USE when an instance is destroyed.
 */
#pragma once

#include "gpu/nvml.h"
#include "mig/plan.h"

/* Fails with UNAVAILABLE if any is used, and names the MIG device or GPU and the processes. */
int mig_users_check(const struct nvml *nvml, const struct mig_plan *plan, struct error *err) MUST_USE;
