/*
 * What kubelet asks of one resource, and the answers: GetPreferredAllocation and Allocate.
 *
 * Without a broker (kubelet/broker.h) an answer is made from the plan at once. With one each container of a request is bound
 * first, which may take turns of the loop; meanwhile kubelet may go away, the plan may change, the plugin may close. A request
 * ends with its answer, its refusal, its caller or its deadline, whichever comes first; what the broker says later is ignored.
 *
 * What was allocated is logged once the answer is on its way: the pod waits for the answer, nobody for the line.
 *
 * A request that its ids alone forbid is refused before the broker hears of it.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "kubelet/broker.h"
#include "kubelet/tag.h"
#include "rpc/session.h"

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
        const struct resource *previous_resource; /* what kubelet may still ask for, NULL at first */
        struct tag_pool tags;
        struct list waiting;  /* for the broker, the earliest deadline first */
        uv_timer_t timer;     /* for that deadline */
        struct list reported; /* lines for the log about what was answered: the answers leave first */
        uv_timer_t after;     /* writes them, in the next turn of the loop */
        unsigned int open;    /* of the two handles */
        void (*closed)(void *data);
        void *data;
};

void requests_init(struct requests *requests, const struct requests_options *options);

/* Refuses what waits and what comes from now on; |closed| is called from the loop, after which |requests| is free to go. */
void requests_close(struct requests *requests, void (*closed)(void *data), void *data);

/* The previous plan and resource are kept for requests that kubelet makes before it has the new list. */
void requests_set_resource(struct requests *requests, const struct plan *plan, const struct resource *resource);

/* The previous plan and resource are about to be freed. */
void requests_forget_previous(struct requests *requests);

/* By position in resource->devices: ids that the broker has as unavailable now, or NULL. */
const bool *requests_unavailable(const struct requests *requests, const struct resource *resource);

/* From a handler of the method. */
void requests_prefer(struct requests *requests, struct rpc_call *call, const uint8_t *message, size_t size);
void requests_allocate(struct requests *requests, struct rpc_call *call, const uint8_t *message, size_t size);
