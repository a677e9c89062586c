/*
 * Private to the supervisor. supervisor.c has the daemons and the record, restore.c what runs already, nvml.c compute
 * modes and memory, memory_limit.c the memory limits of containers, shm.c the shared memory, allocations.c what is to
 * be made for containers, request_make.c how, requests.c what somebody asks for.
 */
#pragma once

#include "mps/supervisor/daemon_run.h"
#include "mps/supervisor/memory_limits.h"
#include "mps/supervisor/observe.h"
#include "mps/supervisor/shm_watch.h"
#include "mps/supervisor/supervisor.h"
#include "mps/supervisor/usage.h"

struct request;

struct mps_supervisor {
        struct mps_supervisor_options options;
        struct mps_run_context context;
        char *root;
        char *program;
        char *path;
        char *driver_root;
        char *system_root;
        char **environment;
        char *record_path;

        struct nvml_pool *nvml;
        struct environments *environments;
        struct worker *cleaner;
        struct arena wanted_arena;
        struct arena holders_arena;
        const struct mps_holder *holders;
        size_t n_holders;
        struct mps_wanted wanted;
        uint64_t generation;
        struct mps_run **runs; /* in the order of |wanted|, then those that are ending */
        size_t n_runs;
        struct arena modes_arena; /* never shrinks, since a node has few units */
        struct mps_record_mode *modes;
        size_t n_modes;
        struct list allocations;
        struct list requests;
        uv_timer_t reconcile; /* the next attempt to reconcile allocations */

        uv_timer_t soon;              /* for work that is done once per turn of the loop */
        bool has_change;              /* the status has changed: call on_change */
        bool has_record;              /* the record must be written */
        uv_timer_t again;             /* after a failed write */
        unsigned int record_failures; /* in a row */
        uv_timer_t poll;              /* asks NVML at intervals */
        unsigned int polls;
        bool has_clients;   /* at the last poll */
        struct list usages; /* nvml.c: units whose memory is asked for */
        struct mps_memory_limits limits;
        struct list limits_jobs;   /* memory_limit.c: what NVML was asked for */
        struct mps_shm_watch shm;  /* of the node */
        struct mps_status *status; /* of the last turn */

        bool is_restoring;      /* what runs is being found: what is not yet may be there all the same */
        bool is_ending_clients; /* of daemons that are not wanted: |grace| runs, or is over */
        bool is_closing;
        bool is_leaving;
        bool is_ended;          /* NVML is closed */
        unsigned int mode_jobs; /* modes that are being restored */
        uv_timer_t grace;
        unsigned int closing_runs; /* whose close callback has not come yet */
        unsigned int open;         /* handles */
        mps_supervisor_closed_fn *closed;
        void *closed_data;
};

struct mps_run *supervisor_find(const struct mps_supervisor *supervisor, const char *name);
/* As mps_run_new(). */
int supervisor_add_run(struct mps_supervisor *supervisor, const char *name, const struct mps_record_daemon *recorded,
        struct mps_run **ret, struct error *err) MUST_USE;
void supervisor_keep_wanted(struct mps_supervisor *supervisor, const struct mps_wanted *wanted);
/* The status has changed; with |is_record| the record, too. */
void supervisor_note(struct mps_supervisor *supervisor, bool is_record);

/*
 * Writes the record at once. A failed write is repeated after 1 s, then after twice the time, at most a minute. The
 * first failure is logged, and the success after it.
 */
int supervisor_write_record(struct mps_supervisor *supervisor, struct error *err) MUST_USE;
/* Ends the supervisor if nothing is left to wait for. */
void supervisor_check_end(struct mps_supervisor *supervisor);

/* restore.c */
/* At the start: goes on with what is on record. */
void supervisor_restore(struct mps_supervisor *supervisor);
/*
 * Adopts daemons that run and that no run has, since the record was lost or could not be written. They keep their units
 * until they have ended, so this comes before anything starts. Those that are not in |wanted| drain.
 */
void supervisor_adopt_left(struct mps_supervisor *supervisor, const struct mps_wanted *wanted);

/* nvml.c */
void supervisor_add_mode(struct mps_supervisor *supervisor, const char *uuid, nvmlComputeMode_t before);
/* Records the mode. An error: it is not on file, so it must not be changed. */
int supervisor_mode_before(const char *uuid, nvmlComputeMode_t before, void *data, struct error *err) MUST_USE;
/* Restores the modes of units that no daemon has any more. */
void supervisor_restore_modes(struct mps_supervisor *supervisor);
/* NVML did not restore all of them. */
bool supervisor_leaves_modes(const struct mps_supervisor *supervisor);
/* UINT64_MAX: unknown, or too old. |uuid| NULL: on any unit. */
uint64_t supervisor_memory_of(const struct mps_supervisor *supervisor, const char *uuid, pid_t pid);
void supervisor_usages_done(struct mps_supervisor *supervisor);
void supervisor_on_poll(uv_timer_t *timer);

/* shm.c */
void supervisor_poll_shm(struct mps_supervisor *supervisor);
uint64_t supervisor_shm_kib(const struct mps_run *run, void *supervisor);
/* The program that gives a daemon its own /dev/shm; NULL if that is not possible. */
const char *supervisor_find_enter_shm(const struct mps_supervisor_options *options);

/* memory_limit.c */
/* Who is a client has changed, or what is granted: sets and takes away what that asks for. */
void supervisor_follow_limits(struct mps_supervisor *supervisor);
/* Checks whether all limits are still set. */
void supervisor_check_limits(struct mps_supervisor *supervisor);
void supervisor_fill_limits(const struct mps_supervisor *supervisor, struct mps_record *record);
void supervisor_describe_limits(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon);

/* allocations.c */
void supervisor_allocations_done(struct mps_supervisor *supervisor);
void supervisor_allocations_fill_record(const struct mps_supervisor *supervisor, struct mps_record *record);
void supervisor_allocations_read_record(struct mps_supervisor *supervisor, const struct mps_record *record);
/* Compares the wanted allocations with the existing ones, and starts what can be done now. */
void supervisor_allocations_reconcile(struct mps_supervisor *supervisor);
void supervisor_allocations_note_outcome(const struct request *request);
void supervisor_allocations_describe(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon);
/* The namespaces that the process of |run| has for containers: copies, in |arena|. */
size_t supervisor_allocations_list_namespaces(
        const struct mps_run *run, struct arena *arena, struct mps_allocation_request **ret, void *supervisor);

/* requests.c */
/* Calls the callbacks of requests that have an answer. */
void requests_deliver(struct mps_supervisor *supervisor);
/* |run| will be closed: its requests end with an error. */
void requests_fail_run(struct mps_supervisor *supervisor, const struct mps_run *run);
void requests_done(struct mps_supervisor *supervisor);
