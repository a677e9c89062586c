// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of kubelet: binds the device ids of each to a unit, enters the allocation, and has the supervisor make what
 * the container needs. A request that finds no room waits for kubelet, since a pod may have ended:
 *
 *            a unit has room                    made, or nothing is to be made
 *   NEW ───────────────────────────► MAKING ───────────────────────────────────► answered
 *    │ none has                        ▲
 *    ▼              a unit has room    │     still none has
 *   LISTING ───────────────────────────┴───────────────────► refused
 *    │   ▲
 *    ▼   │ WAIT_MS, MAX_WAITS times, as long as a holder is doubtful (node/kubelet/holders.h)
 *   WAITING
 *
 * Example: 2 GPUs with 10 replicas each are full by our record, and kubelet asks for a container. The list that kubelet
 * is asked for lacks pod "train", so its allocation ends, and the container gets that room. If "train" is in kubelet's
 * record alone, it may have ended or may be an init container: kubelet is made to write its record, and asked again
 * after 30 ms.
 */
#pragma once

#include "node/kubelet/broker.h"
#include "node/ledger/violations.h"
#include "node/ledger/several.h"
#include "node/ledger/share_metadata.h"

struct allocator {
        struct ledger_core *core;
        struct violations *violations;
        struct several *several;
        struct share_metadata *metadata;
        struct list binds;      /* requests that wait */
        uint64_t n_allocations; /* in this incarnation */
        uv_timer_t timer;       /* while requests are WAITING */
};

void allocator_init(struct allocator *allocator, struct ledger_core *core, struct violations *violations,
        struct several *several, struct share_metadata *metadata);
/* Requests that wait for kubelet are refused; the link answers the others when it closes. */
void allocator_close(struct allocator *allocator, struct closing *closing);

/* Like the broker's bind(). */
void allocator_bind(struct allocator *allocator, const struct resource *resource, const char *const *ids, size_t n_ids,
        broker_bound_fn *bound, void *context);

/* The allocations of requests in MAKING count as made now, since kubelet cannot list their containers yet. */
void allocator_renew_awaited(const struct allocator *allocator);
