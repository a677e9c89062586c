// SPDX-License-Identifier: Apache-2.0
/*
 * Answers kubelet's requests for one resource: GetPreferredAllocation, Allocate and PreStartContainer.
 *
 * Without a broker (node/kubelet/broker.h) an answer is made from the plan at once. With a broker, each container of a
 * request is bound first, which may take several turns of the loop; meanwhile kubelet may disconnect, the plan may
 * change, and the plugin may close. A request ends with its answer, its refusal, the end of its call or its deadline,
 * whichever comes first; a later answer of the broker is ignored.
 *
 * An allocation is logged after its answer was sent, since the pod waits for the answer.
 *
 * A request that its ids alone forbid is refused without asking the broker.
 *
 * PreStartContainer: kubelet calls it before each start of a container, once for each of its resources that requires
 * it, and starts the container when it has all answers. It waits 30 s, and no other pod waits meanwhile. The broker
 * creates what must exist by then.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/io/loop.h"
#include "node/kubelet/broker.h"
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
        bool asks_at_start;                       /* kubelet must call PreStartContainer */
        struct list waiting;                      /* for the broker, sorted by deadline */
        uv_timer_t timer;                         /* for the first deadline */
        struct list reported;                     /* answered requests whose log line is not written yet */
        struct deferred after;                    /* writes those lines */
};

/* Answers the call with |answer|, and unrefs that. */
void requests_finish_call(struct rpc_call *call, struct rpc_message *answer);

void requests_init(struct requests *requests, const struct requests_options *options);

/* Refuses waiting and future requests. |requests| may be freed when all of |closing| has closed. */
void requests_close(struct requests *requests, struct closing *closing);

/* The previous plan and resource are kept for requests that kubelet makes before it has the new list. */
void requests_set_resource(struct requests *requests, const struct plan *plan, const struct resource *resource);

/* Whether the present resource needs PreStartContainer. */
bool requests_ask_at_start(const struct requests *requests);

/* The previous plan and resource will be freed. */
void requests_forget_previous(struct requests *requests);

/* The ids that the broker calls unavailable now, by position in resource->devices; or NULL. */
const bool *requests_unavailable(const struct requests *requests, const struct resource *resource);

/* The handlers of the methods; |context|: struct requests. */
void requests_prefer(struct rpc_call *call, const uint8_t *message, size_t size, void *context);
void requests_allocate(struct rpc_call *call, const uint8_t *message, size_t size, void *context);
void requests_start(struct rpc_call *call, const uint8_t *message, size_t size, void *context);

/*
 * A random UUID, version 4 (RFC 9562), that makes the key of a container's CDI annotation unique.
 *
 * It must differ among all containers of a pod, whichever agent made the answer, before or after a restart: if a key
 * occurs twice, one of the two and its devices are lost. The kernel has it at once, but in the first moments after
 * boot.
 */
#define REQUESTS_TAG_SIZE ((size_t)37) /* with the final zero */
int requests_draw_tag(char ret[static REQUESTS_TAG_SIZE], struct error *err) MUST_USE;
