// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of the demonstration: the simulated node (node.c), what it shows and compares with the expected figures
 * (show.c, several.c, use.c, claims.c, mig.c), and the sequence (demo.c, step.c). Each step fits on a terminal of 24
 * lines of 80 columns. Figures that depend on each other are defined here.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "base/io/loop.h"
#include "mps/client/link.h"
#include "sim/node/node.h"

#define DEMO_PATIENCE_MS UINT64_C(60000) /* a machine may be busy, or emulated */
#define DEMO_RESOURCE "nvidia.com/gpu"
#define DEMO_GPUS 4U
#define DEMO_DRIVER "550.163.01"
#define DEMO_EQUAL 20U /* replicas of a GPU while all shares are equal: a pod has one, and none is reserved */
#define DEMO_EQUAL_MIB 1630U
#define DEMO_REPLICAS 10U     /* of a GPU after that */
#define DEMO_PODS ((size_t)3) /* with unequal shares: training, notebook, inference */
#define DEMO_MOST 7U          /* most for one pod; plan/allocations.h says how many can be advertised then */
#define DEMO_ADVERTISED(gpus) ((size_t)(DEMO_MOST - 1 + (gpus) * (DEMO_REPLICAS - DEMO_MOST + 1)))
#define DEMO_USABLE_MIB 32285U /* 32,605 MiB less a reserve of 320 */
#define DEMO_DECLARED_MIB (DEMO_USABLE_MIB * 6 / 10)
#define DEMO_LARGEST_MIB (DEMO_USABLE_MIB * DEMO_MOST / DEMO_REPLICAS)

extern const char *const demo_uuids[DEMO_GPUS];
#define DEMO_H100 "GPU-5b8c1e0a-7d24-4f39-9a61-0c3e8d52b7f4" /* the GPU of the steps with claims and MIG */

struct demo {
        uv_loop_t loop;
        struct signals signals;
        struct sim_node node;
        struct mps_link *link;
        const struct mps_status *daemons; /* owned by the link; NULL: no report yet */
        char *fault;                      /* the newest one that a daemon reported, or NULL */
        const char *lost_gpu;             /* the GPU that is out of service now, or NULL */
        const char *busiest;              /* the GPU of the largest pod */
        const char *folder;               /* all that the demonstration writes is in it */
        const char *library;              /* the simulated NVML */
        const char *cuda_library;         /* the simulated CUDA */
        struct demo_pod *pods;            /* NULL, or the three of the unequal shares, which run until demo_stop() */
        unsigned int use[DEMO_GPUS];      /* what the programs on each GPU make of its SMs, in percent */
        unsigned int replicas;            /* of a GPU, in the configuration in force */
        size_t offered;                   /* allocatable replicas while all GPUs are healthy */
        unsigned int most_permille;       /* the most that one container may have, of threads and of memory */
        uint64_t most_mib;
        bool colour;
        bool keeps;        /* the node at the end, until Ctrl-C */
        uint64_t pause_ms; /* after each step, unless Enter comes before; 0: none */
        unsigned int n_steps;
        bool interrupted;
        bool wrong; /* something was not as expected */
};

enum demo_style { DEMO_PLAIN, DEMO_BOLD, DEMO_DIM, DEMO_GREEN, DEMO_RED, DEMO_YELLOW, DEMO_CYAN, DEMO_MAGENTA };

/* An empty text if colours are off. */
const char *demo_style(const struct demo *demo, enum demo_style wanted);
void demo_heading(const struct demo *demo, const char *text);
/*
 * Begins the next step by a heading with its number; where the demonstration pauses, after the last one was read.
 * False: it is to end.
 */
bool demo_step(struct demo *demo, const char *text);
/* Reports that something is not as expected. */
void demo_fail(struct demo *demo, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * The configurations: one resource with equal shares; a resource for each GPU; containers that declare what they need;
 * one resource with unequal shares; and one GPU, an H100, that is shared by DRA, or divided by MIG as the node's label
 * says.
 */
enum demo_parts { DEMO_EQUAL_PARTS, DEMO_EACH_GPU, DEMO_DECLARED, DEMO_ANY_PARTS, DEMO_CLAIMS, DEMO_MIG };
/*
 * |program|: warpshare; |programs|: the folder of the simulated MPS. demo_stop() is needed even after a failure, and
 * another demo_start() may follow it.
 */
int demo_start(struct demo *demo, enum demo_parts parts, const char *program, const char *programs,
        struct error *err) MUST_USE;
void demo_stop(struct demo *demo);
/* The GPU at that position no longer answers; -1: all GPUs answer. What the pods' programs use follows |use|. */
void demo_set_gpus(struct demo *demo, int lost);

/*
 * Waits as sim_node_wait() does, except that it returns at once when the demonstration is to end: |is_true| must not
 * concern what the caller has on its stack for a callback.
 */
bool demo_wait(struct demo *demo, bool (*is_true)(void *data), void *data, uint64_t timeout_ms);
/* Waits until |wanted| devices of a resource are allocatable; false: the timeout has passed, or the agent has ended. */
bool demo_wait_count(struct demo *demo, const char *resource, size_t wanted);
/* The same for DEMO_RESOURCE; shows capacity and allocatable as kubectl does, or in a line, with how long it took. */
void demo_show_counts(struct demo *demo, size_t wanted, bool is_brief);
/* Draws the replicas of each GPU. */
void demo_draw(const struct demo *demo);
/* Shows capacity and allocatable of each GPU's own resource. */
void demo_show_counts_of_each(struct demo *demo, size_t wanted);
void demo_show_equal_pod(struct demo *demo);
bool demo_run_pods(struct demo *demo);
void demo_show_pods(struct demo *demo);
void demo_end_pods(struct demo *demo);
/* Shows what `warpshare probe` measures in one of the pods. */
void demo_show_limit(struct demo *demo);
void demo_show_pod_of_two_gpus(struct demo *demo);
void demo_show_declared_pods(struct demo *demo);
/* Divides the GPU; then, with a pod on one of its devices, divides it anew. */
void demo_show_mig(struct demo *demo);
void demo_show_mig_change(struct demo *demo);
/* Shows shares of one GPU by DRA, and a claim for the whole GPU, which waits until they have ended. */
void demo_show_claims(struct demo *demo);
/*
 * Starts programs in the pods, shows what `warpshare top` says of the node, and lets |meanwhile| run before the
 * programs end.
 */
void demo_show_use(struct demo *demo, void (*meanwhile)(struct demo *demo));
/* That of the agent's metrics: the kernel chose it, and the agent's log has it; 0: not yet. */
unsigned int demo_port(const struct demo *demo);
void demo_show_daemons(struct demo *demo);
bool demo_has_daemons(void *demo); /* all are ready for the configuration in force, or the agent has ended */
