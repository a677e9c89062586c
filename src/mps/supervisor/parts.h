/*
 * Private to the supervisor. supervisor.c has the daemons and the record, nvml.c compute modes
 * and memory, memory_limit.c the memory limits of containers, shm.c the shared memory, allocations.c what is made for containers,
 * requests.c what somebody asks for.
 */
#pragma once

#include "mps/supervisor/daemon_run.h"
#include "mps/supervisor/memory_limits.h"
#include "mps/supervisor/observe.h"
#include "mps/supervisor/shm_watch.h"
#include "mps/supervisor/supervisor.h"

struct limits_job;
struct usage_job;
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

        struct nvml_queue *nvml;
        struct arena wanted_arena;
        struct mps_wanted wanted;
        uint64_t generation;
        struct mps_run **runs; /* in the order of |wanted|, then those that are on their way out */
        size_t n_runs;
        struct arena modes_arena; /* never shrinks: units of a node are few */
        struct mps_record_mode *modes;
        size_t n_modes;
        struct list allocations;
        struct list requests;
        uv_timer_t reconcile; /* what was granted, with what is there: the next attempt */

        uv_timer_t soon;              /* what is to be done once for a turn of the loop */
        bool has_change;              /* to be told */
        bool has_record;              /* to be written */
        uv_timer_t again;             /* after a write that failed */
        unsigned int record_failures; /* in a row */
        uv_timer_t poll;              /* at what NVML says */
        unsigned int polls;
        struct usage_job *usage_job;
        struct mps_usage *usage;
        struct mps_memory_limits limits;
        struct limits_job *limits_job;
        struct mps_shm_watch shm;  /* that of the node */
        struct mps_status *status; /* as of the last turn */

        bool is_closing;
        bool is_leaving;
        bool is_ended;          /* NVML is being closed */
        unsigned int mode_jobs; /* modes on their way back */
        uv_timer_t grace;
        unsigned int closing_runs; /* that have not called back yet */
        unsigned int open;         /* handles */
        bool leaves_thread;
        mps_supervisor_closed_fn *closed;
        void *closed_data;
};

struct mps_run *supervisor_find(const struct mps_supervisor *supervisor, const char *name);
/* The record has to be written, and somebody told. */
void supervisor_note(struct mps_supervisor *supervisor, bool is_record);

/*
 * At once. What could not be written is written again later, after 1 s, then twice that, at most a minute; the first failure
 * is logged, and that it is over.
 */
int supervisor_write_record(struct mps_supervisor *supervisor, struct error *err) MUST_USE;
/* It may be the moment when the last thing is done that the end waits for. */
void supervisor_check_end(struct mps_supervisor *supervisor);

/* nvml.c */
void supervisor_add_mode(struct mps_supervisor *supervisor, const char *uuid, nvmlComputeMode_t before);
/* It is on file, or an error: then it must not be changed. */
int supervisor_mode_before(const char *uuid, nvmlComputeMode_t before, void *data, struct error *err) MUST_USE;
/* Those of units that no daemon has any more. */
void supervisor_restore_modes(struct mps_supervisor *supervisor);
void supervisor_on_poll(uv_timer_t *timer);

/* shm.c */
void supervisor_poll_shm(struct mps_supervisor *supervisor);
uint64_t supervisor_shm_kib(const struct mps_run *run, void *supervisor);
/* What daemons are started by, so that each has its own; NULL where that cannot be. */
const char *supervisor_find_enter_shm(const struct mps_supervisor_options *options);

/* memory_limit.c */
/* Who is a client has changed, or what is granted: sets and takes away what that asks for. */
void supervisor_follow_limits(struct mps_supervisor *supervisor);
/* Looks whether all of them are still in force. */
void supervisor_check_limits(struct mps_supervisor *supervisor);
void supervisor_fill_limits(const struct mps_supervisor *supervisor, struct mps_record *record);
void supervisor_describe_limits(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon);

/* allocations.c */
void supervisor_allocations_done(struct mps_supervisor *supervisor);
void supervisor_allocations_fill_record(const struct mps_supervisor *supervisor, struct mps_record *record);
void supervisor_allocations_read_record(struct mps_supervisor *supervisor, const struct mps_record *record);
/* Compares what is wanted with what is there, and mends what can be mended now. */
void supervisor_allocations_reconcile(struct mps_supervisor *supervisor);
void supervisor_allocations_note_outcome(const struct request *request);
void supervisor_allocations_describe(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon);
/* Namespaces that the process of |run| has for containers: copies, in |arena|. */
size_t supervisor_allocations_list_namespaces(
        const struct mps_run *run, struct arena *arena, struct mps_allocation_request **ret, void *supervisor);

/* requests.c */
/* Calls back those whose answer is there. */
void requests_deliver(struct mps_supervisor *supervisor);
/* |run| is about to be closed: what it was asked ends with an error. */
void requests_fail_run(struct mps_supervisor *supervisor, const struct mps_run *run);
void requests_done(struct mps_supervisor *supervisor);
