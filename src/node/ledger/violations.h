// SPDX-License-Identifier: Apache-2.0
/*
 * Whether the containers keep within their limits: the limit monitor (limit_monitor.h) is polled as long as MPS daemons
 * have clients or a violation stands. Violations are reported and counted, and the clients that the monitor names are
 * terminated.
 */
#pragma once

#include "node/ledger/claim_set.h"
#include "node/ledger/declared_containers.h"
#include "node/ledger/limit_monitor.h"
#include "node/ledger/mps_report.h"

struct violations {
        struct ledger_core *core;
        const struct claim_set *claims;
        const struct declared_containers *containers;
        struct limit_monitor monitor;
        struct limit_monitor_report found; /* at the newest poll */
        struct mps_report report;
        bool is_listing; /* kubelet's list is being asked for, as proof */
        bool is_looking; /* the supervisor is being asked to look at the processes, since |look_asked_at| */
        int64_t look_asked_at;
        int64_t looked_at;    /* when it was asked for the newest look that it has answered; HOLDINGS_NEVER */
        int64_t allocated_at; /* the newest answer to a request; HOLDINGS_NEVER */
        uint64_t violations_total[LIMIT_VIOLATION_KINDS];
        uint64_t clients_ended_total;
        uv_timer_t timer;
};

void violations_init(struct violations *violations, struct ledger_core *core, const struct claim_set *claims,
        const struct declared_containers *containers, struct pod_events *pod_events);
void violations_close(struct violations *violations, struct closing *closing);
void violations_done(struct violations *violations);
/* Another agent serves: no violation stands. */
void violations_forget(struct violations *violations);

/* A request is being answered: the owner of its processes is unknown until kubelet's next list. */
void violations_note_allocation(struct violations *violations);

/* The supervisor's status has changed; |reason|: why there is none. */
void violations_note_status(struct violations *violations, const char *reason);

/* Like ledger_measure(). */
void violations_measure(const struct violations *violations, struct ledger_measures *ret);
