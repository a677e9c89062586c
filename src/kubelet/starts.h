/*
 * PreStartContainer: kubelet asks before each start of a container, once for each resource that it has and that wants to be asked, and makes
 * the container when it has all answers. It waits 30 s, and no other pod waits for it. What has to be there by then the broker makes.
 */
#pragma once

#include "kubelet/broker.h"
#include "rpc/session.h"

/* From a handler of the method. |broker| may be NULL, and |resource| need not outlive the call. */
void starts_answer(
        const struct broker *broker, const char *resource, struct rpc_call *call, const uint8_t *message, size_t size);
