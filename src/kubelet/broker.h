/*
 * Whom a plugin asks before it answers: which ids of its resource are to be kept back, and where a request goes. The plugin
 * knows kubelet; its broker knows what containers hold, and what MPS has to make for them first. Without a broker every id is
 * advertised and each request is what its ids say.
 */
#pragma once

#include "base/error.h"
#include "share/allocate.h"

/* |err| is NULL on success; |binding| is valid in the call. Called once, in the same turn of the loop or later. */
typedef void broker_bound_fn(const struct error *err, const struct allocate_binding *binding, void *context);

struct broker {
        /* By position in resource->devices: ids that are kept back now, or NULL: none. Valid until the next turn. */
        const bool *(*hidden)(const struct resource *resource, void *data);
        /*
         * One container's request. The deadline is kubelet's patience: it answers, with an error at worst, within 10 s. The ids are
         * those of |resource| and valid in the call only.
         */
        void (*bind)(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
                void *context, void *data);
        void *data;
};
