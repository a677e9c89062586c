// SPDX-License-Identifier: Apache-2.0
/*
 * Knows who holds which devices of this node, of all resources, from three sources:
 *
 *   list     the answer of kubelet's pod-resources socket: exact, but it has to be asked for, and a kubelet that has
 *            just started may leave pods out
 *   record   kubelet's checkpoint, a file that is at hand at once, has UIDs and init containers, and keeps pods that
 *            have ended until kubelet writes it again
 *   recent   requests that were answered a moment ago, which neither of the two has yet
 *
 * The list is asked for every five seconds as long as anything is held under MPS, and when it is needed.
 *
 * Example: pod "train" has ended. kubelet's record still has it, and its newest list does not; so "train" holds
 * nothing. If kubelet does not answer for a minute, or its socket is not mounted here, only the record is left, and
 * what it says is LEDGER_STALE: no change may wait for a pod in it to end, since kubelet may never write it again.
 */
#pragma once

#include "base/file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/list.h"
#include "base/io/dirwatch.h"
#include "node/ledger/mps_resources.h"
#include "plan/checkpoint.h"
#include "plan/rollout.h"

/*
 * kubelet lists a container's devices only after it has read our answer, and after a start its list is not complete
 * until it has gathered its pods. For so long an allocation counts as held although no list has it.
 */
#define HOLDINGS_GRACE_MS INT64_C(10000)

/* A time before any other. */
#define HOLDINGS_NEVER INT64_MIN

/*
 * Devices that kubelet asked for lately. Until kubelet has read our answer, neither its list nor its record has them.
 * An answer to a question that was asked after a request was recorded has that request's devices.
 */
#define HOLDINGS_RECENT_MAX ((size_t)1024) /* more are not remembered; the oldest go first */
struct recent_request;
struct recent_requests {
        struct recent_request *all; /* one for each device, from the oldest to the newest */
        size_t count;
};

/* Requests to kubelet that failed, and requests that its checkpoint answered instead. */
struct holdings_pace {
        bool is_refused;       /* the newest question had no answer */
        int64_t refused_since; /* the first such question */
        struct backoff retry;
        uint64_t retry_ms; /* until the next one */
        uint64_t doubt;    /* holders_doubt() of the newest list */
        int64_t repeat_at; /* no device list is repeated because of |doubt| earlier */
        struct backoff repeat;
};

struct holdings {
        const struct ledger_options *options;
        const struct mps_resources *resources; /* kubelet is asked on its own only as long as there are any */
        void (*on_change)(bool is_listed, void *data);
        void *data;
        struct {
                char *socket; /* of kubelet's list */
                char *folder; /* of |socket| */
                char *kubelet_socket;
                char *record;
        } paths;
        struct pod_resources *pods; /* NULL: kubelet is not asked */
        struct list questions;      /* that have no answer yet */
        uint64_t n_questions;       /* by holdings_ask() */
        struct holders *holders;    /* by the newest answer; NULL: none yet */
        bool has_record;            /* |holders| include the record */
        bool is_new;                /* in a callback for the answer to the newest question */
        int64_t listed_at; /* when the list in |holders| was asked for, if they include the record; HOLDINGS_NEVER */
        struct file_mark kubelet; /* its socket */
        int64_t kubelet_since;    /* that it is this one */
        struct holdings_pace pace;
        struct recent_requests recent;
        struct {
                struct map
                        ids; /* "<pod UID>\n<container>\n<resource>\n<id>": in the record, but not in the list of that time */
                struct arena arena;
        } ended;
        uv_timer_t timer;
        struct {
                struct complaint list, socket, twice;
        } complaints;
        size_t n_twice; /* ids that kubelet has given to two pods */
};

/*
 * The paths are those of |options->config|. |on_change|: holdings_holders() are others now, by kubelet's list, or,
 * where that cannot be had, by its record alone.
 */
int holdings_init(struct holdings *holdings, const struct ledger_options *options,
        const struct mps_resources *resources, void (*on_change)(bool is_listed, void *data), void *data,
        struct error *err) MUST_USE;
/* Open questions get no answer. */
void holdings_close(struct holdings *holdings, struct closing *closing);
void holdings_done(struct holdings *holdings); /* when all of |closing| has closed, or if holdings_init() failed */

/* Another agent serves. */
void holdings_forget(struct holdings *holdings);

/* There is a plan: begins to ask. */
void holdings_begin(struct holdings *holdings);

/* ---- questions ---- */

/* The folder of kubelet's pod-resources socket; NULL: kubelet is not asked. */
const char *holdings_folder(const struct holdings *holdings);

/* |done| is called from the loop after kubelet's answer was taken over; |err| NULL: kubelet has answered. */
typedef void holdings_listed_fn(const struct error *err, void *data);
void holdings_list(struct holdings *holdings, holdings_listed_fn *done, void *data);

/* Asks for the list; on_held() follows, also without an answer. */
void holdings_ask(struct holdings *holdings);

/* Something was allocated: the list is asked for within a second. */
void holdings_list_soon(struct holdings *holdings);

/* Has kubelet write its record, if some holder is doubtful. False: none is. */
bool holdings_renew_record(struct holdings *holdings);

/* ---- what is known ---- */

/* kubelet's record; false: there is none. */
bool holdings_read_record(const struct holdings *holdings, struct arena *arena, struct checkpoint *ret);
const char *holdings_record_path(const struct holdings *holdings);

/* By kubelet's newest list and its record; NULL: not known yet. Valid until the caller returns to the loop. */
const struct holders *holdings_holders(const struct holdings *holdings);
/* The holder of the device, or NULL. */
const struct holder *holdings_find(const struct holdings *holdings, const char *resource, const char *device);
/* The pod that has the record's entry is named; else NULL. */
const struct holder *holdings_find_named(const struct holdings *holdings, const struct checkpoint_entry *entry);

/* True: the holders are complete, so allocations that they lack have ended. */
bool holdings_are_whole(struct holdings *holdings);

/* When the question was asked whose answer the holders are; HOLDINGS_NEVER. */
int64_t holdings_listed_at(const struct holdings *holdings);

/* How many devices two pods hold, by the newest list. */
size_t holdings_n_twice(const struct holdings *holdings);

/* A request that is being answered. */
void holdings_note_request(struct holdings *holdings, const char *resource, const char *const *ids, size_t n_ids);

/* All held devices, in |arena|. In on_held() by the list, else by the record, which may have pods that ended. */
enum ledger_word holdings_all(
        struct holdings *holdings, struct arena *arena, struct rollout_held **ret, size_t *ret_count);
