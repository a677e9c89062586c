// SPDX-License-Identifier: Apache-2.0
/*
 * <root>/state.json: what must survive a restart of `warpshare mps`. Values and one file; mps/supervisor/supervisor.h
 * decides with them.
 *
 * A record lives in one arena; to change it, build a new one. It is written as a whole, by rename. A record that cannot
 * be read counts as empty: daemons are then found as processes.
 */
#pragma once

#include "base/error.h"
#include "gpu/nvml_abi.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

#define MPS_RECORD_FILE "state.json"
#define MPS_RECORD_MAX ((size_t)8 * 1024 * 1024)

/* A process, and the settings with which it started. */
struct mps_record_daemon {
        pid_t pid;
        uint64_t start_time;  /* mps/supervisor/process.h */
        uint64_t inode;       /* of its pipe directory */
        unsigned int options; /* MPS_CAN_*: the options that it accepted */
        unsigned int can;     /* MPS_CAN_*: what was probed; 0: not yet */
        struct mps_daemon_wanted settings;
};

/* The compute mode that a unit had before we changed it. */
struct mps_record_mode {
        const char *uuid;
        nvmlComputeMode_t before;
};

struct mps_record_allocation {
        struct mps_allocation_request request;
        struct mps_allocation allocation;
        pid_t pid; /* the daemon's process that has it; 0: not created yet */
        uint64_t start_time;
        bool is_void; /* its container still has what an earlier process made */
        bool is_over; /* released: must be removed */
};

struct mps_record {
        struct arena arena;
        uint64_t generation;
        struct mps_wanted wanted;
        struct mps_record_daemon *daemons;
        size_t n_daemons;
        struct mps_record_mode *modes;
        size_t n_modes;
        struct mps_record_allocation *allocations;
        size_t n_allocations;
        struct mps_container_limit *limits; /* what cgroups were given, or were about to be: without what came of it */
        size_t n_limits;
};

/* A missing file is an empty record. Release with mps_record_done(), also after an error. */
int mps_record_read(struct mps_record *ret, const char *path, struct error *err) MUST_USE;
/* The text of the file; the caller frees. */
char *mps_record_print(const struct mps_record *record);
int mps_record_write(const struct mps_record *record, const char *path, struct error *err) MUST_USE;
void mps_record_done(struct mps_record *record);

/* The owner of record and status, as the objects that stand in these see it. */
struct mps_record_owner {
        int (*write)(struct error *err, void *data); /* writes the record at once */
        void (*changed)(bool is_record, void *data); /* the status has changed; with |is_record| the record, too */
        void *data;
};

/*
 * The settings of a daemon that is not on record: its units, which its process sees. Nothing else is known, so it
 * counts as having the wanted settings if it has their units: it is configured when it is adopted.
 */
/* False, and no guess: |name| or |units|, a list with commas, is nothing that a supervisor starts a daemon with. */
bool mps_guess(struct mps_daemon_wanted *ret, struct arena *arena, const char *name, const char *units) MUST_USE;
/* True as well if the guess has been on record since. */
bool mps_guess_is(const struct mps_daemon_wanted *settings);
bool mps_guess_fits(const struct mps_daemon_wanted *guess, const struct mps_daemon_wanted *wanted);
