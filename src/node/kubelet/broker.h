// SPDX-License-Identifier: Apache-2.0
/*
 * The broker answers two questions of a plugin: which ids of its resource are unavailable, and to which unit a request
 * is bound. The plugin knows kubelet; the broker knows what containers hold, and what MPS must create for them first.
 * Without a broker every id is advertised, and each request gets the ids that it names.
 */
#pragma once

#include "base/error.h"
#include "plan/allocate.h"

/*
 * |err| is NULL on success; |binding|, which may be NULL, is valid during the call. Called exactly once, in bind() or
 * later, even if the request or the plugin has ended meanwhile: |context| stays valid until then. So a broker that ends
 * must call it for all open requests.
 */
typedef void broker_bound_fn(const struct error *err, const struct allocate_binding *binding, void *context);

/* |err| is NULL on success. Called exactly once, in start() or later, like the one above. */
typedef void broker_started_fn(const struct error *err, void *context);

/*
 * After this time a request is refused without the broker's answer. The broker gives up earlier, since it knows the
 * reason.
 */
#define BROKER_TIMEOUT_MS UINT64_C(10000)

struct broker {
        /*
         * The ids that are unavailable now, by position in resource->devices; NULL: none. Valid until the next turn. In
         * the turn in which a plan is applied, |resource| may still be that of the previous plan.
         */
        const bool *(*unavailable)(const struct resource *resource, void *data);
        /*
         * One container's request. It has a deadline, since kubelet would wait for ever, and would admit no other pod
         * meanwhile. The ids are those of |resource|, perhaps of several units, and valid only during the call. If a
         * request has several containers, the next one is bound after the previous one.
         */
        void (*bind)(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
                void *context, void *data);
        /*
         * A container that holds exactly these |ids| of the resource will start, perhaps not for the first time.
         * Everything that the answers for all its resources name must exist before |started| is called. An error
         * prevents the start; kubelet tries again, with growing pauses. Called for resources with limits at start only
         * (plan/mps_limits.h), once for each that the container has. NULL: nothing needs to be created.
         */
        void (*start)(const char *resource, const char *const *ids, size_t n_ids, broker_started_fn *started,
                void *context, void *data);
        void *data;
};
