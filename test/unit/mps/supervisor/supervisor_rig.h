// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor over simulated MPS programs and a simulated NVML, in a folder of its own. Waits are for what is to
 * become true, with a deadline that only a failure reaches; what a failed test leaves behind ends by itself.
 */
#pragma once

#include "unit.h"

#include <stdbool.h>
#include <uv.h>

#include "base/alloc.h"
#include "mps/supervisor/supervisor.h"

#define GPU_A "GPU-11111111-1111-1111-1111-111111111111"
#define GPU_B "GPU-22222222-2222-2222-2222-222222222222"

struct rig {
        uv_loop_t loop;
        uv_timer_t deadline;
        uv_timer_t tick;
        struct mps_supervisor *supervisor; /* NULL: none */
        struct arena arena;                /* for texts of one test */
        char root[64];                     /* the rig's folder */
        char *mps;                         /* <root>/mps: the MPS root */
        const char *control;               /* the program; a test may choose another */
        const char *driver_root;
        bool sets_compute_mode;
        uint64_t command_ms;
        uint64_t grace_ms; /* 0 */
        uint64_t poll_ms;  /* 50 */
        const char *system_root;
        unsigned int changes;
};

int rig_set_up(void **state);
int rig_tear_down(void **state);

/* In the arena. */
const char *rig_path(struct rig *rig, const char *format, ...) PRINTF_LIKE(2, 3);
void rig_write(struct rig *rig, const char *path, const char *text);
char *rig_read(struct rig *rig, const char *path); /* "" where there is no such file */

/* Driver's version and what differs from two A100s that are well, as YAML after their model. */
void rig_drive(struct rig *rig, const char *version, const char *first, const char *second);
/* More lines for the simulated MPS programs, instead of those from before. */
void rig_behave(struct rig *rig, const char *lines);

void rig_start(struct rig *rig);
/* As a kill -9 does: the daemons go on. */
void rig_leave(struct rig *rig);
void rig_close(struct rig *rig);

/* One daemon a GPU, with 4 replicas and the limit. */
struct mps_daemon_wanted rig_daemon(struct rig *rig, const char *uuid, uint64_t limit_mib);
void rig_apply(struct rig *rig, const struct mps_daemon_wanted *daemons, size_t count);
void rig_apply_both(struct rig *rig);

/* Both, and waits until they are ready. */
void rig_start_both(struct rig *rig);

const struct mps_daemon_status *rig_status(struct rig *rig, const char *name);

typedef bool rig_condition(struct rig *rig, const void *data);
/* Fails the test, with |what| and the state of all daemons, when it does not become true. */
void rig_wait(struct rig *rig, rig_condition *condition, const void *data, const char *what);
void rig_wait_for_state(struct rig *rig, const char *name, enum mps_state state);
void rig_wait_for_clients(struct rig *rig, const char *name, size_t count);
/* Another process of it than |pid| is ready. */
void rig_wait_for_another(struct rig *rig, const char *name, pid_t pid);
void rig_run_for(struct rig *rig, uint64_t ms);

/*
 * A simulated client of a daemon, with one option or NULL; killed and reaped by rig_end_client(), at the latest when
 * the rig is torn down.
 */
pid_t rig_client(struct rig *rig, const char *name, const char *option);
/* The same, connected at a folder below the MPS root; what it says goes to the file |output|, made anew. */
pid_t rig_client_at(struct rig *rig, const char *pipe, const char *option, const char *output);
void rig_end_client(struct rig *rig, pid_t pid, int signal);

/* What the control program says to |command| in the daemon's folder. */
char *rig_ask(struct rig *rig, const char *name, const char *command);
