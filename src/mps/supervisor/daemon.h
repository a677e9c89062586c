// SPDX-License-Identifier: Apache-2.0
/*
 * Executes the actions of mps/supervisor/machine.h for one control daemon: processes, folders, commands, timers. It
 * knows no other daemon: it asks about other daemons, and records what must survive this process, through the functions
 * of its context.
 *
 * A running process is adopted instead of starting a new one: the process on record or found without one, or the one
 * that holds the lock in the pipe directory. So one directory never has two.
 */
#pragma once

#include "gpu/nvml_pool.h"
#include "mps/control/control.h"
#include "mps/supervisor/compute_mode.h"
#include "mps/supervisor/machine.h"
#include "mps/supervisor/record.h"
#include "mps/supervisor/supervisor.h"

struct mps_daemon;
struct mps_daemons;

/* All daemons of a supervisor share one context, which outlives them. */
struct mps_daemon_context {
        const struct mps_supervisor_options *options;
        struct nvml_pool *nvml;
        struct environments *environments; /* mps/supervisor/environment.h */
        struct worker *cleaner;            /* mps/supervisor/shm.h */
        struct compute_modes *modes;
        unsigned int unknown_options; /* MPS_CAN_*: options with which the program ended at once */

        /* The name of another daemon that still serves one of the units, or NULL. */
        const char *(*blocker)(const struct mps_daemon *daemon, const struct mps_daemons *daemons);
        const struct mps_daemons *daemons;
        /* The largest size of the daemon's own shared memory; 0: daemons use the node's. */
        uint64_t (*shm_kib)(const struct mps_daemon *daemon, void *data);
        /* The namespaces that were created in its process for containers, with their limits: copies, in |arena|. */
        size_t (*namespaces)(
                const struct mps_daemon *daemon, struct arena *arena, struct mps_allocation_request **ret, void *data);
        /* The status has changed. |is_process|: a process started or ended, so the record must be written. */
        void (*changed)(struct mps_daemon *daemon, bool is_process, void *data);
        void *data;
};

/*
 * How long to wait for the next round: all that is looked at every |poll_ms|, of all daemons, is looked at in the same
 * turn of the loop, so one wake-up serves all.
 */
static inline uint64_t mps_daemon_pause(const struct mps_daemon_context *context)
{
        return context->options->poll_ms - uv_now(context->options->loop) % context->options->poll_ms;
}

/* The path of the control program; the caller frees. */
int mps_daemon_find_program(const struct mps_daemon_context *context, char **ret, struct error *err) MUST_USE;

/* ERROR_INVALID: its paths would be too long. */
int mps_daemon_check_name(const struct mps_daemon_context *context, const char *name, struct error *err) MUST_USE;

/* Ends a draining daemon with its clients, whose time is over. */
void mps_daemon_end_draining(struct mps_daemon *daemon);
/* Call it when a unit of the daemon is lost. */
void mps_daemon_lose(struct mps_daemon *daemon, const char *reason);
/* Another daemon's process ended, so the units may be free now. */
void mps_daemon_poke(struct mps_daemon *daemon);

const char *mps_daemon_get_name(const struct mps_daemon *daemon);
/* Neither wanted nor alive: it can be closed. */
bool mps_daemon_is_gone(const struct mps_daemon *daemon);
bool mps_daemon_is_ready(const struct mps_daemon *daemon);
/* The settings of its present process, or of the next one. */
const struct mps_daemon_wanted *mps_daemon_settings(const struct mps_daemon *daemon);
/* True if the process, if there is one, serves the unit. */
bool mps_daemon_holds(const struct mps_daemon *daemon, const char *uuid);
/* False: the daemon has no process. */
bool mps_daemon_record(const struct mps_daemon *daemon, struct mps_record_daemon *ret);

/* Its status, in |arena|. Returns its clients, of which the caller fills in |memory|. */
struct mps_client *mps_daemon_describe(
        const struct mps_daemon *daemon, struct arena *arena, struct mps_daemon_status *ret);

/*
 * Polls its own shared memory, if it has that, and removes what ended containers left there. True: something changed.
 */
bool mps_daemon_poll_shm(struct mps_daemon *daemon);

/*
 * For requests of others. It stays valid until mps_daemon_close(), even if the process ends. NULL: the daemon has no
 * process.
 */
struct mps_control *mps_daemon_control(struct mps_daemon *daemon);
/* MPS_CAN_*: the options that its process was started with. */
unsigned int mps_daemon_options(const struct mps_daemon *daemon);
enum mps_tier mps_daemon_tier(const struct mps_daemon *daemon);
/* True as well if that is unknown, since lines of its lists could not be read. */
bool mps_daemon_has_clients(const struct mps_daemon *daemon);
/* Clients whose processes have ended are clients no more. */
void mps_daemon_look(struct mps_daemon *daemon);

/* Does not end the process. |closed| may be NULL. */
void mps_daemon_close(struct mps_daemon *daemon, void (*closed)(void *data), void *data);

/* ---- all daemons of a supervisor ---- */

/*
 * The daemons that are wanted, and those that are ending. A daemon that runs already is adopted, by the record and
 * without, and each daemon gets what is wanted of it.
 */
struct mps_daemons {
        struct mps_daemon_context context; /* of all of them: its owner fills it, but for |blocker| and |daemons| */
        struct mps_daemon **items;
        size_t n_items;
};

void mps_daemons_init(struct mps_daemons *daemons, const struct mps_daemon_context *context);
/* All of them have been removed. */
void mps_daemons_done(struct mps_daemons *daemons);

struct mps_daemon *mps_daemons_find(const struct mps_daemons *daemons, const char *name);
/* A daemon has the unit, or is to have it. */
bool mps_daemons_need(const struct mps_daemons *daemons, const char *uuid);

/*
 * Goes on with the daemons on record. What runs with other settings than are wanted, or is not wanted any more, still
 * has its units, so it is adopted before anything starts.
 */
void mps_daemons_restore(struct mps_daemons *daemons, const struct mps_record *record);
/* Starts, keeps and drains daemons so that those in |wanted| daemon; their names were checked. */
void mps_daemons_apply(struct mps_daemons *daemons, const struct mps_wanted *wanted);
/* Takes a daemon out of the list, for the caller to close. */
struct mps_daemon *mps_daemons_remove(struct mps_daemons *daemons, size_t position);
