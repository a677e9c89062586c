/*
 * What a plugin asks before it answers: which ids of its resource are unavailable, and where a request goes. The plugin
 * knows kubelet; its broker knows what containers hold, and what MPS has to make for them first. Without a broker every id is
 * advertised and each request is what its ids say.
 */
#pragma once

#include "base/error.h"
#include "share/allocate.h"

/*
 * |err| is NULL on success; |binding|, which may be NULL, is valid in the call. Called once, in bind() or later, whatever became
 * of the request meanwhile: |context| lives until then, even if the plugin is gone. So a broker that ends calls for all it owes.
 */
typedef void broker_bound_fn(const struct error *err, const struct allocate_binding *binding, void *context);

/* |err| is NULL on success. Called once, in start() or later, as above. */
typedef void broker_started_fn(const struct error *err, void *context);

/* After this long a request is refused without the broker's answer. The broker gives up earlier, because it knows the reason. */
#define BROKER_TIMEOUT_MS UINT64_C(10000)

struct broker {
        /*
         * By position in resource->devices: ids that are unavailable now, or NULL: none. Valid until the next turn. |resource| may
         * still be that of the previous plan in the turn in which a plan is applied.
         */
        const bool *(*unavailable)(const struct resource *resource, void *data);
        /*
         * One container's request. kubelet itself would wait for ever, and with it every other pod of the node. The ids are those
         * of |resource|, perhaps of several units, and valid in the call only. Of several containers in one request the
         * next is asked for when the one before is bound.
         */
        void (*bind)(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
                void *context, void *data);
        /*
         * A container that has just these |ids| of the resource is about to start, and not always for the first time: what its answers of all
         * resources name is to be there when |started| hears of it. An error keeps it from starting; kubelet tries again, later each time.
         * Asked for resources with limits at start only (share/mps_limits.h), once for each that the container has. NULL: nothing is made.
         */
        void (*start)(const char *resource, const char *const *ids, size_t n_ids, broker_started_fn *started,
                void *context, void *data);
        void *data;
};
