// SPDX-License-Identifier: Apache-2.0
/*
 * Matches the instances that the driver has on a GPU now with the items of a change's record, and finds those that
 * match none; and the processes that use what a plan removes. It calls the driver and blocks.
 *
 * Example: the record says that 3g.40gb at 4 is MAKING, and the driver has it without its compute instance. Then it is
 * that item's, stays MAKING, and has to go before it is made again. A 1g.10gb at 0 that the record does not have, or
 * has as ABSENT and not wanted, is external: another program made it since.
 */
#pragma once

#include "gpu/mig_instances.h"
#include "gpu/nvml.h"
#include "mig/plan.h"
#include "mig/record.h"

struct mig_view {
        struct mig_record_gpu *record;
        struct mig_gpu gpu;
        struct mig_geometry geometry;
        const struct mig_gpu_instance *instances[MIG_RECORD_ITEMS_MAX]; /* of each item, or NULL */
        bool is_met[MIG_RECORD_ITEMS_MAX];       /* another program made just what is to be there */
        const struct mig_gpu_instance *external; /* the first that matches no item; NULL: none */
};

/*
 * Brings the items of |gpu| to what is found: PRESENT or ABSENT; what is half made or half destroyed stays as it was
 * recorded.
 */
int mig_view_read(struct mig_view *ret, struct arena *arena, const struct nvml *nvml, struct mig_record_gpu *gpu,
        enum mig_record_goal goal, struct error *err) MUST_USE;

/*
 * Fails with UNAVAILABLE if a process uses an instance that |plan| removes, and names the MIG device or GPU and the
 * processes: compute, graphics and MPS, as NVML lists them. A driver that cannot list them reports IN_USE when an
 * instance is destroyed.
 */
int mig_users_check(const struct nvml *nvml, const struct mig_plan *plan, struct error *err) MUST_USE;
