// SPDX-License-Identifier: Apache-2.0
/*
 * Reads every |sample_ms| how busy the units are. All GPUs are asked at once; the pool (gpu/nvml_pool.h) has one
 * process answer for them, and more where one GPU takes long. When all have answered, or only such are left as have
 * been in one call for half a second, the samples go to the monitor's owner, with the Xids that came so far. A GPU that
 * answers later is asked again in the next round after that.
 */
#pragma once

#include "gpu/known.h"

struct sampler {
        struct gpu_known *known;
        struct gpu_samples *samples; /* of the GPUs that were read in this round; NULL: none is under way */
        struct list asked;           /* without an answer, of this round and of earlier ones */
        uint64_t sample_at_ms;
        uint64_t look_at_ms;  /* when to see whether only slow GPUs are left */
        struct gpu_xid *xids; /* all that came */
        size_t n_xids;
};

void sampler_init(struct sampler *sampler, struct gpu_known *known);
void sampler_begin_due(struct sampler *sampler, uint64_t now_ms);
uint64_t sampler_due_ms(const struct sampler *sampler); /* HEALTH_NEVER: nothing is */
/* Counts an Xid, whether or not it makes its GPU unhealthy. */
void sampler_count_xid(struct sampler *sampler, const char *gpu, uint64_t xid);
void sampler_cancel(struct sampler *sampler);
void sampler_done(struct sampler *sampler);
