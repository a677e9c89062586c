// SPDX-License-Identifier: Apache-2.0
/*
 * Events for the pods that hold a part of a unit. For an allocation under MPS the ledger knows the unit; for all other
 * devices the ids in kubelet's list name it. kubelet is asked for its list for each event, because a list is kept up to
 * date only as long as something is held under MPS.
 */
#pragma once

#include "node/ledger/core.h"

struct pod_events {
        struct ledger_core *core;
        struct list reports; /* events whose pods are being asked for */
};

void pod_events_init(struct pod_events *pod_events, struct ledger_core *core);
/* Open events are not reported. */
void pod_events_forget(struct pod_events *pod_events);

/* Sends an event for each pod that holds a part of the unit, after kubelet's next answer. */
void pod_events_report(struct pod_events *pod_events, const char *unit, enum node_event event, const char *text);

/* The pods that hold a part of the unit under MPS, for a log: "namespace/name, …", or "". The caller frees. */
char *pod_events_names(const struct pod_events *pod_events, const char *unit);
