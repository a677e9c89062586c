/*
 * PreStartContainer: kubelet calls it before each start of a container, once for each of its resources that requires
 * it, and starts the container when it has all answers. It waits 30 s, and no other pod waits meanwhile. The broker
 * creates what must exist by then.
 */
#pragma once

#include "node/kubelet/broker.h"
#include "net/rpc/session.h"

/* Called by the handler of the method. |broker| may be NULL; |resource| need not outlive the call. */
void starts_answer(
        const struct broker *broker, const char *resource, struct rpc_call *call, const uint8_t *message, size_t size);
