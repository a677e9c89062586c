// SPDX-License-Identifier: Apache-2.0
/*
 * The ledger: what the containers of this node hold under MPS, and whether their limits can be enforced: the agent's
 * side of MPS. It joins the allocations (plan/allocations.h), kubelet's list of holders (node/kubelet/pod_resources.h)
 * and the MPS daemons (mps/client/link.h), and is the broker that the plugins ask (node/kubelet/broker.h).
 *
 * Example: 2 GPUs with 10 replicas each, requests of up to 4, so 2·10 − 1·3 = 17 ids are healthy and 3 are reserved.
 * kubelet asks for GPU-0::8, GPU-0::9 and GPU-1::0, and GPU-0 has 2 free replicas left. The ledger binds the request to
 * GPU-1, enters the allocation under a new id, writes the file, lets the supervisor make what the tier needs on GPU-1,
 * and only then answers. From then on the three replicas count on GPU-1. Some seconds later kubelet's list says which
 * pod holds the three ids; when a later list no longer has them, the allocation ends. If kubelet asks and no unit has 3
 * free replicas, kubelet's list is read first, because a pod may have ended; only then is the request refused.
 *
 * All replicas of a unit whose daemon is not ready are unavailable, also those in use, until it is ready. On the other
 * units only the reserved ids are unavailable.
 *
 * The allocations are written to <MPS directory>/allocations-<resource>.json after each change, so that an allocation
 * whose unit its ids do not show survives the agent. Without that file, or if it cannot be written, kubelet's list has
 * to do.
 */
#pragma once

#include <uv.h>

#include "config/config.h"
#include "gpu/units.h"
#include "net/kube/client.h"
#include "node/events/node_events.h"
#include "node/kubelet/broker.h"
#include "node/kubelet/holders.h"
#include "node/ledger/faults.h"
#include "node/ledger/limit_monitor.h"
#include "plan/allocations.h"
#include "plan/rollout.h"

struct ledger;
struct pod_source;

/* Milliseconds. */
struct ledger_time {
        int64_t clock; /* monotonic: changes of the time of day do not affect it */
        int64_t date;  /* since the epoch */
};

struct ledger_options {
        uv_loop_t *loop;
        const struct config
                *config; /* the paths of MPS and of kubelet in it count until the end; the config itself may go */
        void (*on_change)(void *data);    /* the broker's unavailable() would answer differently now */
        const struct unit_health *health; /* of the GPUs themselves. Must outlive the ledger, as |events| */
        struct node_events *events;       /* NULL: no events are reported */
        struct kube_client
                *client; /* pods are read with it where kubelet does not say it, or NULL. Open until ledger_close() */
        void (*on_held)(void *data); /* ledger_ask() has its answer, or kubelet answers again after a long silence */
        bool (*repeat)(const char *resource, void *data); /* plugins_repeat() */
        /*
         * ledger_set_claim_pods() is wanted for all claims: some pod has joined; every two seconds as long as that is
         * so
         */
        void (*wants_pods)(void *data);
        struct ledger_time (*now)(void *data); /* NULL: the machine's clocks */
        void *data;
};

int ledger_new(struct ledger **ret, const struct ledger_options *options, struct error *err) MUST_USE;

/* Valid as long as the ledger is. */
const struct broker *ledger_broker(struct ledger *ledger);

/* The previous plan must be valid during the call. */
void ledger_apply(struct ledger *ledger, const struct plan *plan);

/*
 * Another agent serves and owns the ledger and the daemons: until the next plan, for which the ledger is read again,
 * this agent neither writes the ledger nor sends wanted daemons.
 */
void ledger_leave(struct ledger *ledger);

/*
 * True: no MPS daemon is wanted, regardless of the plan. Running daemons end within the supervisor's grace period, with
 * their clients, even if this agent has ended by then. False, the initial state: the plan's daemons are wanted.
 */
void ledger_leave_gpus(struct ledger *ledger, bool is_left);

/* The health of the unit has changed in the table. */
void ledger_health_changed(struct ledger *ledger, const char *uuid);

/* Sends an event for each pod that holds a part of the unit, after kubelet's next answer. */
void ledger_report_pods(struct ledger *ledger, const char *unit, enum node_event event, const char *text);

/* How well it is known who holds what. */
enum ledger_word {
        LEDGER_UNKNOWN, /* nothing yet; kubelet is being asked */
        LEDGER_LISTED,
        /*
         * From kubelet's checkpoint, because its list is unavailable: the socket is not mounted, or has not answered
         * for a minute. The checkpoint keeps pods that have ended until kubelet's next Allocate, which may never come,
         * so no change may wait for its holders.
         */
        LEDGER_STALE,
};

/*
 * All held devices of this node, of all resources: by kubelet's list in on_held(), else by its checkpoint, which can be
 * read at once and may have pods that ended. Devices of requests that are not in the checkpoint yet are held, too.
 */
enum ledger_word ledger_held(struct ledger *ledger, struct arena *arena, struct rollout_held **ret, size_t *ret_count);

/* The folder of the socket of kubelet's list; NULL: kubelet is not asked. */
const char *ledger_list_folder(const struct ledger *ledger);

/* Reads pods; valid as long as the ledger is. */
const struct pod_source *ledger_pod_source(const struct ledger *ledger);

/* Asks kubelet for its list; on_held() follows, also without an answer. */
void ledger_ask(struct ledger *ledger);

/* An allocation, and what it is worth now. */
struct ledger_allocation {
        const struct allocation *allocation; /* plan/allocations.h */
        const struct resource *resource;     /* that has its ids: of the plan, or a draining one of it */
        const struct holder *holder;         /* node/kubelet/holders.h; NULL: kubelet has not said */
        const char *const *left;             /* of its devices, those that no newer allocation has */
        size_t n_left;
        enum mps_tier tier;
        uint64_t limit_mib; /* 0: none */
        unsigned int threads_permille;
};

/*
 * The allocations of the resource of that name, also those under a previous sharing policy. Valid until the caller
 * returns to the loop.
 */
size_t ledger_allocations(
        const struct ledger *ledger, const char *resource, struct arena *arena, const struct ledger_allocation **ret);

/* holders_containers(); false: kubelet has not answered yet. Valid until the caller returns to the loop. */
bool ledger_containers(const struct ledger *ledger, const struct holder **ret, size_t *ret_count);

struct ledger_measures {
        const struct mps_status *mps;    /* NULL: no supervisor is connected */
        const struct mps_faults *faults; /* NULL: none are counted */
        const struct limit_violation *const *standing;
        size_t n_standing;
        uint64_t violations_total[LIMIT_VIOLATION_KINDS]; /* that appeared, by limit_violation_kind */
        uint64_t clients_ended_total;
        size_t n_twice; /* devices that two pods hold, says kubelet */
};

/* The state of MPS and of the limit monitor. Valid until the caller returns to the loop. */
void ledger_measure(const struct ledger *ledger, struct ledger_measures *ret);

/* |closed| is called from the loop. Requests that wait are refused. */
void ledger_close(struct ledger *ledger, void (*closed)(void *data), void *data);
