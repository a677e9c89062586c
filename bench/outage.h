// SPDX-License-Identifier: Apache-2.0
/*
 * For how long kubelet has no device while the agent of a node is replaced or killed.
 */
#pragma once

#include "bench/figure.h"
#include "bench/node.h"

/*
 * |times| rolling updates: another agent stands ready, the one that serves is told to end. Milliseconds from the moment
 * at which kubelet counts no device to that at which it counts all of them.
 */
int outage_of_updates(struct node *node, unsigned int times, struct figure *figure, struct error *err) MUST_USE;

/*
 * The agent, which has its parent (--restart-after-crash), is killed as often. Milliseconds from before the kill until
 * all devices are back.
 */
int outage_of_kills(struct node *node, unsigned int times, struct figure *figure, struct error *err) MUST_USE;

/* The agent is told to end |times| times, and started again when it has. As for updates. */
int outage_of_restarts(struct node *node, unsigned int times, struct figure *figure, struct error *err) MUST_USE;
