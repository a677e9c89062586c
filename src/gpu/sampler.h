/*
 * Reads every |sample_ms| how busy the units are: one GPU after the other is asked, and then all samples go to the
 * monitor's owner, with the Xids that came so far.
 */
#pragma once

#include "gpu/known.h"

struct sampler {
        struct gpu_known *known;
        struct gpu_samples *samples; /* of the GPUs that were read in this round; NULL: none is under way */
        struct nvml_request request;
        size_t n_sampled; /* so many positions of the inventory are done */
        uint64_t sample_at_ms;
        struct gpu_xid *xids; /* all that came */
        size_t n_xids;
};

/* Zeroed at first, but for |known|. */
void sampler_begin_due(struct sampler *sampler, uint64_t now_ms);
uint64_t sampler_due_ms(const struct sampler *sampler); /* HEALTH_NEVER: nothing is */
/* Counts an Xid, whether or not it makes its GPU unhealthy. */
void sampler_count_xid(struct sampler *sampler, const char *gpu, uint64_t xid);
void sampler_cancel(struct sampler *sampler);
void sampler_done(struct sampler *sampler);
