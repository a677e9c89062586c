/*
 * Carries out mps/supervisor/daemon.h for one control daemon: processes, folders, commands, timers. It knows no other daemon; what it has
 * to ask about the others, and what has to be remembered beyond the process, goes through the functions of its context.
 *
 * A process that is there already is taken over instead of a start: the one on record, or the one that holds the lock in the pipe
 * directory. So there are never two on one directory.
 */
#pragma once

#include <uv.h>

#include "mps/control/control.h"
#include "mps/supervisor/daemon.h"
#include "mps/supervisor/nvml_queue.h"
#include "mps/supervisor/record.h"

struct mps_run;

/* What all daemons of a supervisor share. It outlives them. */
struct mps_run_context {
        uv_loop_t *loop;
        const char *root;
        const char *program; /* name or path */
        const char *path;
        const char *driver_root;
        const char *system_root;        /* mps/supervisor/process.h */
        const char *const *environment; /* more of it for the daemons, NULL-terminated, or NULL */
        const char *enter_shm; /* mps/supervisor/supervisor.h; NULL: daemons have no shared memory of their own */
        bool sets_compute_mode;
        uint64_t poll_ms;
        uint64_t command_ms; /* 0: MPS_COMMAND_TIMEOUT_MS */
        struct nvml_queue *nvml;
        unsigned int unknown_options; /* MPS_CAN_*: the program ended when it was given them */

        /* The name of another daemon that still serves one of the units, or NULL. */
        const char *(*blocker)(const struct mps_run *run, void *data);
        /* The compute mode of a unit is about to be changed, and was |before|. An error: it must stay as it is. */
        int (*mode_before)(const char *uuid, nvmlComputeMode_t before, void *data, struct error *err);
        /* How large its own shared memory may become. */
        uint64_t (*shm_kib)(const struct mps_run *run, void *data);
        /* What was made for containers in its process as namespaces, with the limits: copies, in |arena|. */
        size_t (*namespaces)(
                const struct mps_run *run, struct arena *arena, struct mps_allocation_request **ret, void *data);
        /* There is something new to tell; |is_process|: a process came or went, for the record. */
        void (*changed)(struct mps_run *run, bool is_process, void *data);
        void *data;
};

/* |recorded|: the process that it had, or NULL. Nothing happens before it is wanted or adopted. */
int mps_run_new(struct mps_run **ret, struct mps_run_context *context, const char *name,
        const struct mps_record_daemon *recorded, struct error *err) MUST_USE;

/* ERROR_INVALID: its paths would be too long. */
int mps_run_check_name(const struct mps_run_context *context, const char *name, struct error *err) MUST_USE;

/* From now on these settings; copied. */
void mps_run_want(struct mps_run *run, const struct mps_daemon_wanted *wanted);
void mps_run_drop(struct mps_run *run);
/* Takes over the process on record, if it is there, so that it can be dropped in peace. */
void mps_run_adopt(struct mps_run *run);
/* Its clients have had their time. */
void mps_run_hurry(struct mps_run *run);
/* One of its units is lost. */
void mps_run_lose(struct mps_run *run, const char *reason);
/* Another daemon's process ended: the units may be free now. */
void mps_run_poke(struct mps_run *run);

const char *mps_run_name(const struct mps_run *run);
bool mps_run_is_wanted(const struct mps_run *run);
/* Neither wanted nor alive: it can be closed. */
bool mps_run_is_gone(const struct mps_run *run);
bool mps_run_is_ready(const struct mps_run *run);
/* The settings of its process, or of the next one. */
const struct mps_daemon_wanted *mps_run_settings(const struct mps_run *run);
/* True where the process, if there is one, has the unit. */
bool mps_run_holds(const struct mps_run *run, const char *uuid);
/* False: there is no process. */
bool mps_run_record(const struct mps_run *run, struct mps_record_daemon *ret);

/* What is known of it; texts that can change are copied into |arena|, the rest is borrowed. */
void mps_run_describe(const struct mps_run *run, struct arena *arena, struct mps_daemon_status *ret);

/* Looks at its own shared memory, if it has that, and removes what ended containers left there. True: there is news of it. */
bool mps_run_poll_shm(struct mps_run *run);

/* For questions of others; it stays until mps_run_close(), whatever becomes of the process. NULL: there is no process. */
struct mps_control *mps_run_control(struct mps_run *run);
/* MPS_CAN_*: the options that its process was started with. */
unsigned int mps_run_options(const struct mps_run *run);
enum mps_tier mps_run_tier(const struct mps_run *run);
bool mps_run_has_clients(const struct mps_run *run);

/* The process, if there is one, goes on. |closed| may be NULL. */
void mps_run_close(struct mps_run *run, void (*closed)(void *data), void *data);
