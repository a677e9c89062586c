/*
 * Answers kubelet's requests for one resource: GetPreferredAllocation and Allocate.
 *
 * Without a broker (node/kubelet/broker.h) an answer is made from the plan at once. With a broker, each container of a
 * request is bound first, which may take several turns of the loop; meanwhile kubelet may disconnect, the plan may
 * change, and the plugin may close. A request ends with its answer, its refusal, the end of its call or its deadline,
 * whichever comes first; a later answer of the broker is ignored.
 *
 * An allocation is logged after its answer was sent, since the pod waits for the answer.
 *
 * A request that its ids alone forbid is refused without asking the broker.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/io/loop.h"
#include "node/kubelet/broker.h"
#include "node/kubelet/tag.h"
#include "net/rpc/session.h"

struct requests_options {
        uv_loop_t *loop;
        const char *resource_name;   /* must outlive the requests */
        const struct broker *broker; /* NULL: none */
        uint64_t bind_timeout_ms;    /* 0: BROKER_TIMEOUT_MS */
};

struct requests {
        struct requests_options options;
        const struct plan *plan;
        const struct resource *resource; /* NULL: withdrawn */
        const struct plan *previous_plan;
        const struct resource *previous_resource; /* for requests that kubelet made from the previous list; NULL at
                                                   * first */
        struct tag_pool tags;
        struct list waiting;   /* for the broker, sorted by deadline */
        uv_timer_t timer;      /* for the first deadline */
        struct list reported;  /* answered requests whose log line is not written yet */
        struct deferred after; /* writes those lines */
};

/* Answers the call with |answer|, and unrefs that. */
void requests_finish_call(struct rpc_call *call, struct rpc_message *answer);

void requests_init(struct requests *requests, const struct requests_options *options);

/* Refuses waiting and future requests. |requests| may be freed when all of |closing| has closed. */
void requests_close(struct requests *requests, struct closing *closing);

/* The previous plan and resource are kept for requests that kubelet makes before it has the new list. */
void requests_set_resource(struct requests *requests, const struct plan *plan, const struct resource *resource);

/* The previous plan and resource will be freed. */
void requests_forget_previous(struct requests *requests);

/* The ids that the broker calls unavailable now, by position in resource->devices; or NULL. */
const bool *requests_unavailable(const struct requests *requests, const struct resource *resource);

/* Called by the handler of the method. */
void requests_prefer(struct requests *requests, struct rpc_call *call, const uint8_t *message, size_t size);
void requests_allocate(struct requests *requests, struct rpc_call *call, const uint8_t *message, size_t size);
