/*
 * The record of a change that is to be made by a plan. Pure.
 */
#pragma once

#include "mig/plan.h"
#include "mig/record.h"

/*
 * All GPUs that |plan| names and that have MIG; what is in |ret| is in |arena|, or borrowed from the plan. Nothing is
 * done yet.
 */
void mig_record_plan(struct mig_record *ret, struct arena *arena, const struct mig_plan *plan, const char *config,
        const char *boot_id, bool may_wait);
