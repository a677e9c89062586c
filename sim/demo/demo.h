/*
 * The demonstration in parts: the simulated node (node.c), what is shown of it and compared with what was promised (show.c,
 * several.c), and the story (demo.c). Figures that follow from each other stand here.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "mps/client/link.h"
#include "sim/node/node.h"

#define DEMO_RESOURCE "nvidia.com/gpu"
#define DEMO_GPUS 4U
#define DEMO_DRIVER "550.163.01"
#define DEMO_EQUAL 20U /* replicas of a GPU while all parts are equal: a pod has one, and nothing is reserved */
#define DEMO_EQUAL_MIB 1630U
#define DEMO_REPLICAS 10U /* of a GPU after that */
#define DEMO_MOST 7U      /* that one pod may ask for: share/allocations.h says how many can be advertised then */
#define DEMO_ADVERTISED(gpus) ((size_t)(DEMO_MOST - 1 + (gpus) * (DEMO_REPLICAS - DEMO_MOST + 1)))
#define DEMO_USABLE_MIB 32285U /* 32,605 MiB but for a reserve of 320 */
#define DEMO_DECLARED_MIB (DEMO_USABLE_MIB * 6 / 10)
#define DEMO_LARGEST_MIB (DEMO_USABLE_MIB * DEMO_MOST / DEMO_REPLICAS)

extern const char *const demo_uuids[DEMO_GPUS];
#define DEMO_H100 "GPU-5b8c1e0a-7d24-4f39-9a61-0c3e8d52b7f4" /* of the part with claims */

struct demo {
        uv_loop_t loop;
        uv_signal_t interrupt;
        struct sim_node node;
        struct mps_link *link;
        const struct mps_status *daemons; /* borrowed from the link; NULL: nobody reports any */
        char *fault;                      /* the newest that a daemon reported, or NULL */
        const char *struck;               /* the GPU that is out of service now, or NULL */
        const char *busiest;              /* the GPU of the largest pod */
        const char *library;
        unsigned int replicas;      /* of a GPU, by the configuration in force */
        size_t offered;             /* what kubelet counts while all is well */
        unsigned int most_permille; /* the most that a container may have: threads, memory */
        uint64_t most_mib;
        bool colour;
        bool interrupted;
        bool wrong; /* something was not as promised */
};

enum demo_style { DEMO_PLAIN, DEMO_BOLD, DEMO_DIM, DEMO_GREEN, DEMO_RED, DEMO_YELLOW, DEMO_CYAN, DEMO_MAGENTA };

/* Nothing where no colours are wanted. */
const char *demo_style(const struct demo *demo, enum demo_style wanted);
void demo_heading(const struct demo *demo, const char *text);
/* What was promised did not come. */
void demo_fail(struct demo *demo, const char *format, ...) PRINTF_LIKE(2, 3);

/* The configurations: a resource of equal parts, one for each GPU, one of which containers declare what they need, one of any
 * parts; and one GPU, an H100, that belongs to DRA. */
enum demo_parts { DEMO_EQUAL_PARTS, DEMO_EACH_GPU, DEMO_DECLARED, DEMO_ANY_PARTS, DEMO_CLAIMS };
/* |program|: warpshare; |library| and |programs|: of the simulation. To be stopped after a failure, too; may be started again then. */
int demo_start(struct demo *demo, enum demo_parts parts, const char *program, const char *library, const char *programs,
        struct error *err) MUST_USE;
void demo_stop(struct demo *demo);
/* The GPU at that position answers no more; -1: all of them do. */
void demo_set_lost(struct demo *demo, int gpu);

/* Waits for kubelet to count |wanted| of a resource allocatable; false: it does not. */
bool demo_wait_count(struct demo *demo, const char *resource, size_t wanted, uint64_t timeout_ms);
/* The same of DEMO_RESOURCE, and shows both counts, with the time it took. */
void demo_show_counts(struct demo *demo, size_t wanted, uint64_t timeout_ms);
/* What kubelet counts of each GPU's own resource. */
void demo_show_counts_of_each(struct demo *demo, size_t wanted);
void demo_show_table_head(const struct demo *demo, const char *what);
void demo_show_equal_pod(struct demo *demo);
void demo_show_pods(struct demo *demo);
void demo_show_pod_of_two_gpus(struct demo *demo);
void demo_show_declared_pods(struct demo *demo);
/* Shares of one GPU by DRA, and the whole GPU, which waits for them. */
void demo_show_claims(struct demo *demo);
void demo_show_daemons(struct demo *demo);
bool demo_has_daemons(void *demo); /* all are ready by the configuration in force, or the agent is gone */
