// SPDX-License-Identifier: Apache-2.0
/*
 * The events of the node as the ledger reports them (the functions of node/events/node_events.h are these here):
 * nothing is sent.
 */
#pragma once

#include "node/events/node_events.h"

/* To pass as options: who passes NULL has no events. */
struct node_events *fake_events_begin(void);

/*
 * "team/train MPSNotice: text" a line of each event for a pod, in the order in which they came; forgotten at the next
 * call.
 */
const char *fake_events_of_pods(void);
/* "MPSNotice: text" a line of each event for the node, the same way. */
const char *fake_events_of_node(void);

void fake_events_end(void);
