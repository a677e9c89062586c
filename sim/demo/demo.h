/*
 * The parts of the demonstration: the simulated node (node.c), what it shows and compares with the expected figures
 * (show.c, several.c), and the sequence (demo.c). Figures that depend on each other are defined here.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/client/link.h"
#include "sim/node/node.h"

#define DEMO_PATIENCE_MS UINT64_C(60000) /* a machine may be busy, or emulated */
#define DEMO_RESOURCE "nvidia.com/gpu"
#define DEMO_GPUS 4U
#define DEMO_DRIVER "550.163.01"
#define DEMO_EQUAL 20U /* replicas of a GPU while all shares are equal: a pod has one, and none is reserved */
#define DEMO_EQUAL_MIB 1630U
#define DEMO_REPLICAS 10U /* of a GPU after that */
#define DEMO_MOST 7U      /* most for one pod; share/allocations.h says how many can be advertised then */
#define DEMO_ADVERTISED(gpus) ((size_t)(DEMO_MOST - 1 + (gpus) * (DEMO_REPLICAS - DEMO_MOST + 1)))
#define DEMO_USABLE_MIB 32285U /* 32,605 MiB less a reserve of 320 */
#define DEMO_DECLARED_MIB (DEMO_USABLE_MIB * 6 / 10)
#define DEMO_LARGEST_MIB (DEMO_USABLE_MIB * DEMO_MOST / DEMO_REPLICAS)

extern const char *const demo_uuids[DEMO_GPUS];
#define DEMO_H100 "GPU-5b8c1e0a-7d24-4f39-9a61-0c3e8d52b7f4" /* the GPU of the steps with claims and MIG */

struct demo {
        uv_loop_t loop;
        uv_signal_t interrupt;
        struct sim_node node;
        struct mps_link *link;
        const struct mps_status *daemons; /* owned by the link; NULL: no report yet */
        char *fault;                      /* the newest one that a daemon reported, or NULL */
        const char *lost_gpu;             /* the GPU that is out of service now, or NULL */
        const char *busiest;              /* the GPU of the largest pod */
        const char *library;
        unsigned int replicas;      /* of a GPU, in the configuration in force */
        size_t offered;             /* allocatable replicas while all GPUs are healthy */
        unsigned int most_permille; /* the most that one container may have, of threads and of memory */
        uint64_t most_mib;
        bool colour;
        bool interrupted;
        bool wrong; /* something was not as expected */
};

enum demo_style { DEMO_PLAIN, DEMO_BOLD, DEMO_DIM, DEMO_GREEN, DEMO_RED, DEMO_YELLOW, DEMO_CYAN, DEMO_MAGENTA };

/* An empty text if colours are off. */
const char *demo_style(const struct demo *demo, enum demo_style wanted);
void demo_heading(const struct demo *demo, const char *text);
/* Reports that something is not as expected. */
void demo_fail(struct demo *demo, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * The configurations: one resource with equal shares; a resource for each GPU; containers that declare what they need;
 * one resource with unequal shares; and one GPU, an H100, that is shared by DRA, or divided by MIG as the node's label
 * says.
 */
enum demo_parts { DEMO_EQUAL_PARTS, DEMO_EACH_GPU, DEMO_DECLARED, DEMO_ANY_PARTS, DEMO_CLAIMS, DEMO_MIG };
/*
 * |program|: warpshare; |library| and |programs|: those of the simulation. demo_stop() is needed even after a failure,
 * and another demo_start() may follow it.
 */
int demo_start(struct demo *demo, enum demo_parts parts, const char *program, const char *library, const char *programs,
        struct error *err) MUST_USE;
void demo_stop(struct demo *demo);
/* The GPU at that position no longer answers; -1: all GPUs answer. */
void demo_set_lost(struct demo *demo, int gpu);

/* Waits until |wanted| devices of a resource are allocatable; false: the timeout has passed, or the agent has ended. */
bool demo_wait_count(struct demo *demo, const char *resource, size_t wanted);
/* The same for DEMO_RESOURCE; shows capacity and allocatable, and how long it took. */
void demo_show_counts(struct demo *demo, size_t wanted);
/* Shows capacity and allocatable of each GPU's own resource. */
void demo_show_counts_of_each(struct demo *demo, size_t wanted);
void demo_show_table_head(const struct demo *demo, const char *what);
void demo_show_equal_pod(struct demo *demo);
void demo_show_pods(struct demo *demo);
void demo_show_pod_of_two_gpus(struct demo *demo);
void demo_show_declared_pods(struct demo *demo);
void demo_show_mig(struct demo *demo);
/* Shows shares of one GPU by DRA, and a claim for the whole GPU, which waits until they have ended. */
void demo_show_claims(struct demo *demo);
/* Shows what `warpshare top` says of the node, with three pods. */
void demo_show_top(struct demo *demo);
void demo_show_daemons(struct demo *demo);
bool demo_has_daemons(void *demo); /* all are ready for the configuration in force, or the agent has ended */
