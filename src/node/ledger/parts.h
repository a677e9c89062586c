/*
 * The inside of node/ledger/ledger.h, for its own files.
 */
#pragma once

#include <jansson.h>

#include "base/complaint.h"
#include "base/list.h"
#include "base/io/dirwatch.h"
#include "node/kubelet/pod_resources.h"
#include "node/ledger/claims.h"
#include "node/ledger/ledger.h"
#include "node/ledger/mps_report.h"
#include "mps/client/link.h"
#include "plan/declared.h"
#include "plan/share.h"

/*
 * kubelet lists a container's devices only after it has read our answer, and after a start its list is not whole until
 * it has gathered its pods: so long an allocation is taken for held all the same.
 */
#define LIST_GRACE_MS INT64_C(10000)
#define LIMIT_MONITOR_INTERVAL_MS UINT64_C(2000)

#define ALLOCATION_ID_SIZE ((size_t)40)
#define ALLOCATION_ID_PREFIX "g%016" PRIx64 /* of all that one agent allocations: its incarnation */

/* The ledger of one resource. */
struct ledger_resource {
        const struct resource *resource; /* of the plan in force */
        struct allocations *allocations;
        bool *unavailable; /* by device */
        bool changed;      /* since it was written */
        /* |resource| has the previous sharing policy: nothing new is entered but what is asked for by its ids */
        bool is_draining;
};

/* A device that was asked for, until kubelet has it in its own record: so long no list says who holds it. */
struct recent {
        char *resource;
        char *device;
        int64_t since; /* ledger_clock() */
        bool is_recorded;
        uint64_t recorded_at; /* n_questions then */
};

#define MAX_RECENT ((size_t)1024)
#define NEVER INT64_MIN

struct ledger {
        struct ledger_options options; /* its config may be gone: the paths are here */
        char *directory;               /* the MPS root as mounted here */
        char *pod_resources;           /* kubelet's socket */
        char *pod_resources_folder;
        char *kubelet_socket; /* where plugins register; "": nowhere */
        char *checkpoint;     /* kubelet's own record */
        struct broker broker;
        const struct plan *plan;
        struct ledger_resource *shared; /* one a resource under MPS, in the order of the plan */
        size_t n_shared;
        struct mps_link *link;
        const struct mps_status *status; /* borrowed from the link; NULL: nobody is there */
        struct pod_resources *pods;      /* NULL: kubelet is not asked */
        struct list askings;             /* questions to it that have no answer yet */
        struct holders *holders;         /* of its newest answer; NULL: none yet */
        bool has_record;                 /* |holders| have kubelet's record in them */
        bool knows_claims;               /* of DRA: which there are */
        bool list_is_new;                /* in on_held(): |holders| is the answer to the newest question to kubelet */
        bool is_refused;                 /* kubelet's list: the newest question had no answer */
        bool is_left;                    /* ledger_leave_gpus() */
        int64_t listed_at;    /* the question whose answer |holders| are, with the record; NEVER: there was none */
        int64_t allocated_at; /* the newest answer to a request; NEVER */
        struct file_identity kubelet; /* its socket */
        int64_t kubelet_since;        /* that it is this one */
        uint64_t doubt;               /* which resources are held doubtfully, as a sum; 0: none */
        int64_t repeat_at;            /* no list of devices is repeated because of them earlier */
        int64_t repeat_ms;
        uint64_t retry_ms;     /* until kubelet is asked again that did not answer */
        struct recent *recent; /* the oldest first */
        size_t n_recent;
        int64_t refused_since; /* the first such question */
        uint64_t n_questions;  /* to kubelet, by ledger_ask() */
        struct arena over_arena;
        struct map
                /* what the record has and the list at that time had not: "<pod UID>\n<container>\n<resource>\n<id>" */
                over;
        uv_timer_t list_timer;
        uv_timer_t save_timer;
        uint64_t save_ms;            /* since writing has failed: until the next attempt */
        uv_timer_t wait_timer;       /* while requests wait for kubelet's record */
        uv_timer_t several_timer;    /* from an allocation to the look at its container: several.c */
        struct map reported_several; /* "<pod UID>\n<container>" */
        struct arena reported_several_arena;
        struct map shm_pods; /* UIDs of those that own_shm.c has read */
        struct arena shm_arena;
        struct kube_call *shm_call; /* for the next of them; NULL: none */
        struct node_event_pod shm_pod;
        struct list declared;      /* containers: declared.c */
        struct list declared_asks; /* starts that wait for their pods */
        struct map overdeclared;   /* UUIDs of units whose containers declare more memory than there is */
        struct arena overdeclared_arena;
        uv_timer_t declared_timer;      /* runs while a pod is being read */
        uv_timer_t limit_monitor_timer; /* runs while there are clients, or violations */
        struct limit_monitor *limit_monitor;
        bool limit_monitor_is_asking;  /* kubelet, for its list */
        bool limit_monitor_is_looking; /* asks the supervisor for a look, since |look_asked_at| */
        int64_t look_asked_at;
        int64_t looked_at; /* when it was asked for the newest that it has answered; NEVER */
        struct mps_report *report;
        struct mps_faults faults;
        struct limit_monitor_report found; /* at the newest look */
        uint64_t violations_total[LIMIT_VIOLATION_KINDS];
        uint64_t clients_ended_total;
        struct list claims;       /* of DRA: claims.c */
        uv_timer_t claims_timer;  /* runs while a claim waits */
        struct list binds;        /* requests that wait */
        struct list reports;      /* events whose pods are being asked for */
        struct mps_wanted wanted; /* of the daemons */
        struct arena wanted_arena;
        uint64_t generation; /* of |wanted|: no earlier agent counted that far */
        /* UUIDs of units whose daemon is wanted otherwise than by the generation that was told last. */
        struct map renewed;
        struct arena renewed_arena;
        uint64_t incarnation; /* random, another one each time that it serves: ids of allocations begin with it */
        uint64_t n_allocations;
        struct complaint bad_list;
        struct complaint bad_socket;
        struct complaint bad_twice;
        size_t n_twice; /* devices that two pods hold, in kubelet's newest list */
        struct complaint bad_record;
        bool closing;
        unsigned int n_open; /* handles that are not closed yet */
        void (*closed)(void *data);
        void *closed_data;
};

/* A request that waits for kubelet or for an MPS daemon. */
struct bind {
        struct list link;
        struct ledger *ledger;
        struct arena arena;
        const char *resource; /* its name: the plan may change meanwhile */
        const char **ids;
        size_t n_ids;
        char allocation[ALLOCATION_ID_SIZE];
        const char *unit;
        enum mps_tier tier;
        bool asks_daemon; /* the link calls back for it, whatever happens */
        bool is_waiting;  /* for kubelet's record */
        unsigned int n_waits;
        broker_bound_fn *bound;
        void *context;
};

/* ---- ledger.c ---- */

/* Milliseconds; never goes back, whatever becomes of the time of day. */
int64_t ledger_clock(const struct ledger *ledger);
/* Seconds since the epoch. */
int64_t ledger_now(const struct ledger *ledger);

/* Plan or claims have changed: if other daemons are wanted now, the supervisor is told. */
void ledger_renew_wanted(struct ledger *ledger);

/* ---- allocations.c: what is held, by the ledger and by kubelet ---- */

/* By name: who asks may still have the previous plan. */
struct ledger_resource *ledger_find_shared_among(struct ledger_resource *shared, size_t n_shared, const char *name);
struct ledger_resource *ledger_find_shared(const struct ledger *ledger, const char *name);
const struct mps_daemon_status *ledger_find_daemon(const struct ledger *ledger, const char *unit);
/* The supervisor has heard of the daemon of |unit| as it is wanted now. */
bool ledger_is_current(const struct ledger *ledger, const char *unit);
void ledger_update_unavailable(struct ledger *ledger, struct ledger_resource *shared);
void ledger_note_change(struct ledger *ledger, struct ledger_resource *shared);
void ledger_on_save(uv_timer_t *timer);
void ledger_load_allocations(struct ledger *ledger, struct ledger_resource *shared);
/* What the file has of a resource, whether it is loaded or not; each is valid during the call. */
void ledger_each_recorded(const struct ledger *ledger, const char *resource,
        void (*each)(const struct allocation *allocation, void *data), void *data);
void ledger_sync_allocations(struct ledger *ledger, struct ledger_resource *shared, int64_t as_of);

/* ---- kubelet.c: what kubelet says ---- */

/* kubelet's answer is in the ledger when |done| is called, from the loop; |err| NULL: it has answered. */
typedef void ledger_listed_fn(const struct error *err, void *data);
void ledger_list(struct ledger *ledger, ledger_listed_fn *done, void *data);
void ledger_forget_askings(struct ledger *ledger);
/* The list will be asked for in |ms| at the latest, where anything is shared by MPS. */
void ledger_list_within(struct ledger *ledger, uint64_t ms);
void ledger_list_soon(struct ledger *ledger); /* something was given */
/* Logs, once, that the socket of kubelet's list is not there although kubelet is. */
void ledger_check_socket(struct ledger *ledger);
void ledger_begin_asking(struct ledger *ledger); /* until there is an answer, and while anything is held */
/* What the newest answer does not have, and is not doubtful, is over. */
bool ledger_list_is_whole(struct ledger *ledger);
/* Has kubelet write its record, where that is in doubt, if it was not asked for that a moment ago, or |at_once|. */
bool ledger_renew_record(struct ledger *ledger, bool at_once);
/*
 * False: its list cannot be had, because its socket's folder is not mounted here, or because it has refused for a
 * minute.
 */
bool ledger_can_ask(const struct ledger *ledger);
void ledger_on_list_timer(uv_timer_t *timer);

/* Kubelet's own record; false where there is none. */
bool ledger_read_checkpoint(const struct ledger *ledger, struct arena *arena, struct checkpoint *ret);

/* ---- held.c: all that is held, under MPS or not ---- */

void ledger_note_request(struct ledger *ledger, const struct resource *resource, const char *const *ids, size_t n_ids);
/* What is in kubelet's record is in its record. */
void ledger_note_recorded(struct ledger *ledger, const struct checkpoint *checkpoint);
/* Not only with the next request: they lie between what has ended, and its memory does not go back before they do. */
void ledger_forget_old_requests(struct ledger *ledger);
void ledger_forget_requests(struct ledger *ledger);

/* ---- requests.c: from ids to a binding ---- */

/* The resource of the plan, unless only one with a previous sharing policy has the ids; NULL: not under MPS. */
struct ledger_resource *ledger_find_shared_for(
        struct ledger *ledger, const char *name, const char *const *ids, size_t n_ids);
/* Requests that wait for a daemon: what they are to get is held. */
void ledger_renew_awaited(const struct ledger *ledger);
void ledger_refuse(struct bind *bind, const struct error *err);
void ledger_on_wait_timer(uv_timer_t *timer);
enum mps_tier ledger_tier(const struct ledger *ledger, const struct resource *resource, const struct unit *unit);
void ledger_bind(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data);
const bool *ledger_unavailable(const struct resource *resource, void *data);

/* ---- start.c: what a container needs to be made ---- */

void ledger_start(const char *resource, const char *const *ids, size_t n_ids, broker_started_fn *started, void *context,
        void *data);
int ledger_start_now(
        struct ledger *ledger, const char *resource, const char *const *ids, size_t n_ids, struct error *err) MUST_USE;
/* For all that kubelet's record has, but for containers that declare what they need: of these it is not known yet. */
void ledger_make_all(struct ledger *ledger);
/* What the containers of the pod have in all, which run, is noted by ledger_declare(). */
void ledger_describe_pod(struct ledger *ledger, const struct checkpoint *record, const char *pod_uid);
/* What the entry's container has of that resource it may declare. */
bool ledger_is_declared(struct ledger *ledger, const struct checkpoint_entry *entry);
/* |entry| is of that resource and has these ids and no others. */
bool ledger_has_just(const struct checkpoint_entry *entry, const char *resource, const char *const *ids, size_t n_ids);

/* ---- declared.c: shares that containers declare ---- */

/* |started| comes when the pod has been read, or could not be, within seconds. */
void ledger_start_declared(struct ledger *ledger, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context);
void ledger_on_declared_timer(uv_timer_t *timer);
/*
 * What the container's sorted |parts| are worth by what is known of it, which is noted; *ret_omits: MPS_LIMITS_NO_*.
 * |of|: an entry of it in kubelet's record, or NULL.
 */
void ledger_declare(struct ledger *ledger, const struct checkpoint_entry *of, struct mps_part *parts, size_t n_parts,
        unsigned int *ret_omits);
/*
 * An error where a unit has no room for |parts| and its sharing policy refuses that. |of|: its entries in kubelet's
 * record, at least one.
 */
int ledger_check_declared(struct ledger *ledger, const struct checkpoint *of, const struct mps_part *parts,
        size_t n_parts, struct error *err) MUST_USE;
/*
 * What the allocation's |replicas| of |unit| are worth; |*ret_is_guess|: that is not certain, and no proof against its
 * pod.
 */
struct share ledger_share(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct unit *unit, unsigned int replicas, bool *ret_is_guess);
/*
 * After kubelet's list: reads what containers declare that nobody has read yet, and says which units have too little
 * memory for all.
 */
void ledger_read_declared(struct ledger *ledger);
void ledger_forget_declared(struct ledger *ledger);
void ledger_refuse_declared(struct ledger *ledger);

/* ---- several.c: containers that do not get all that they have ---- */

/* Soon, and what was told stays told until ledger_forget_several(). */
void ledger_check_several_soon(struct ledger *ledger);
void ledger_on_several_timer(uv_timer_t *timer);
void ledger_forget_several(struct ledger *ledger);

/* ---- own_shm.c: pods with a volume of their own at /dev/shm ---- */

/* After kubelet's list: the next of those that nobody has looked at is read, and told of. */
void ledger_look_for_own_shm(struct ledger *ledger);
/* The same for a pod that was read for another reason; |object|: as the API server has it. */
void ledger_judge_own_shm(struct ledger *ledger, const struct node_event_pod *pod, const json_t *object);
void ledger_forget_own_shm(struct ledger *ledger);

/* ---- claims.c: what DRA claims hold ---- */

/* Something has changed that claims may wait for. */
void ledger_claims_advance(struct ledger *ledger);
void ledger_on_claims_timer(uv_timer_t *timer);
/*
 * What the supervisor made for claims; false: that is not known. |ret| has room for ledger_claims_count_devices() more.
 */
bool ledger_claims_add_made(
        const struct ledger *ledger, struct arena *arena, struct mps_allocation_request *ret, size_t *count);
/* An MPS client is of a pod that no claim on its unit is known to be used by. */
bool ledger_claims_are_unclear(const struct ledger *ledger);
size_t ledger_claims_count_devices(const struct ledger *ledger);
/* Nothing is answered, and nothing given back. */
void ledger_claims_forget(struct ledger *ledger);

/* ---- claims_daemons.c: the MPS daemons of claims ---- */

/* NULL: claims cannot have it. */
const struct unit *ledger_claimable_unit(const struct ledger *ledger, const char *uuid);
/* The name of the daemon that the share was prepared with, or would be now; NULL: claims cannot have the unit. */
const char *ledger_claims_daemon(
        const struct ledger *ledger, struct arena *arena, const struct ledger_claim_device *device);
const struct mps_daemon_status *ledger_claims_find_daemon(
        const struct ledger *ledger, const struct ledger_claim_device *device);
/* Adds the daemons that claims need. */
void ledger_claims_want(const struct ledger *ledger, struct arena *arena, struct mps_wanted *wanted);
/*
 * All daemons that the claim needs are ready, and those that it excludes have ended; else an error says what is
 * missing.
 */
int ledger_claims_check_needs(
        const struct ledger *ledger, const struct ledger_claim *claim, struct error *err) MUST_USE;

/* ---- wanted.c: what is granted, for the supervisor ---- */

/* Once the ledger has kubelet's list. */
void ledger_report_all(struct ledger *ledger);
/* Pods as far as kubelet has told them, and claims, for people who ask the supervisor. */
void ledger_name_holders(struct ledger *ledger);

/* ---- violations.c: what the daemons and the limit monitor say ---- */

/* Who has a device of the allocation, or NULL. */
const struct holder *ledger_holder_of(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation);
/* How many replicas of |unit| the allocation has. */
unsigned int ledger_replicas_of(
        const struct ledger_resource *shared, const struct allocation *allocation, const struct unit *unit);
/* Their names, for a log: "namespace/name, …", or "". The caller frees. */
char *ledger_pods_of(const char *unit, void *data);
void ledger_on_limit_monitor_timer(uv_timer_t *timer);
void ledger_on_status(const struct mps_status *status, const char *reason, void *data);

/* ---- pod_events.c: events for pods ---- */

void ledger_forget_reports(struct ledger *ledger);
