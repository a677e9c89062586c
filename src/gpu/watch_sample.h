/*
 * The part of a watch that reads what its GPUs do (gpu/sample.h), at each |sample_ms|, and counts Xids. Only
 * gpu/watch.c and gpu/watch_events.c use it.
 *
 * One GPU is read in a step, so that an event waits for one reading at most; all of them are one mail. A reading that
 * hangs is handled as every call on that GPU (gpu/hangs.h): its thread is left behind, the GPU is unhealthy until the
 * call returns, and the others go on.
 */
#pragma once

#include "gpu/watch.h"

/*
 * When the next step is due: in the past while some GPUs are read and others are not; HEALTH_NEVER: nothing is to be
 * read.
 */
uint64_t watch_sample_at(const struct watch *watch);

/* One step, if it is due. */
void watch_sample(struct watch *watch, struct mail *mail);

/* An Xid of the GPU at that position, whatever it means for its health. */
void watch_count_xid(struct watch *watch, size_t group, uint64_t xid);
