/*
 * <root>/state.json: what has to survive `warpshare mps`. Values and one file; who decides with them is mps/supervisor/supervisor.h.
 *
 * A record lives in one arena; who changes it builds a new one. It is written whole, by rename. One that cannot be read is as
 * none: daemons are then found by the lock in their pipe directory.
 */
#pragma once

#include "base/error.h"
#include "gpu/nvml_abi.h"
#include "mps/wire/status.h"
#include "share/mps_wanted.h"

#define MPS_RECORD_FILE "state.json"
#define MPS_RECORD_MAX ((size_t)8 * 1024 * 1024)

/* A process, and what it was started with. */
struct mps_record_daemon {
        pid_t pid;
        uint64_t start_time;  /* mps/supervisor/identity.h */
        uint64_t inode;       /* of its pipe directory */
        unsigned int options; /* MPS_CAN_*: those of its options that it took */
        unsigned int can;     /* MPS_CAN_*: found out; 0 not yet */
        struct mps_daemon_wanted settings;
};

/* The compute mode that a unit had before we changed it. */
struct mps_record_mode {
        const char *uuid;
        nvmlComputeMode_t before;
        bool is_going_back; /* not on file: NVML has been asked for it, and it stays on record until that is done */
};

struct mps_record_allocation {
        struct mps_allocation_request request;
        struct mps_allocation allocation;
        pid_t pid; /* the daemon's process that has it; 0: not made yet */
        uint64_t start_time;
        bool is_void; /* its container still has what an earlier process made */
        bool is_over; /* nobody has it any more: it is to be removed */
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

/* A file that is not there is an empty record. Release with mps_record_done(), also after an error. */
int mps_record_read(struct mps_record *ret, const char *path, struct error *err) MUST_USE;
int mps_record_write(const struct mps_record *record, const char *path, struct error *err) MUST_USE;
void mps_record_done(struct mps_record *record);
