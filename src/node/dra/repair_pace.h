/*
 * When slices that another client has deleted, changed or added are put right again: the first time at once, since
 * kubelet deletes them when it starts, and later ones with pauses between them that grow, because he may do so for ever
 * and would make each node write as fast as it can. After a quiet time the next one is the first again. What the agent
 * itself wants to be different never waits. Pure: the caller passes the time and the random number.
 *
 *   at rest ──dra_repair_next()──► writing ──dra_repair_rest()──► at rest
 *                                     └──more writes than are needed: somebody undoes them meanwhile──► at rest
 *
 * The helper of Kubernetes' own drivers waits 30 s before each repair, the first one too (DefaultSyncDelay in
 * k8s.io/dynamic-resource-allocation/resourceslice, 1.36).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"

#define DRA_REPAIR_QUIET_MS UINT64_C(60000) /* after the last pause */

struct dra_repair_pace {
        struct backoff pauses; /* between the beginnings of two repairs; set by the user */
        uint64_t next_ms;      /* no repair begins before that */
        size_t n_writes;       /* that belong to what has begun, at most; 0: at rest */
};

/* What is wanted has changed: |n_writes| bring it about, and put right whatever else is wrong. */
void dra_repair_allow(struct dra_repair_pace *pace, size_t n_writes);

/*
 * How long the next write has to wait, in milliseconds; 0: not at all. If nothing is under way, a repair of at most
 * |n_writes| begins with it.
 */
uint64_t dra_repair_next(struct dra_repair_pace *pace, size_t n_writes, uint64_t now_ms, uint32_t random);

/* A write has been done. */
void dra_repair_written(struct dra_repair_pace *pace);

/* All is as it should be: what is wrong after this somebody else has done. */
void dra_repair_rest(struct dra_repair_pace *pace);
