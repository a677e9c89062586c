/*
 * The node of the demonstration: a folder with a configuration, a scenario of simulated GPUs and kubelet's directory; a
 * kubelet stand-in in this process, and the real agent as a child of it. It tells no story; cmd/demo.c does.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "sim/kubelet/kubelet.h"

struct demo_node {
        uv_loop_t *loop;
        struct kubelet *kubelet;
        uv_process_t agent;
        bool agent_runs;
        int64_t agent_status;
        char *folder; /* removed at the end */
        char *library;
        char *scenario;
        char *config;
        char *kubelet_directory;
        char *log;
};

/* Finds the simulator's library: |named| if not NULL, else beside this program. */
int demo_node_start(struct demo_node *node, uv_loop_t *loop, const char *named_library, struct error *err) MUST_USE;

/* The GPU with this index stops answering and raises Xid 79; or answers again. */
int demo_node_set_lost(struct demo_node *node, unsigned int gpu, bool lost, struct error *err) MUST_USE;

/* Runs the loop until |is_true| or the time is over; false then. */
bool demo_node_wait(
        struct demo_node *node, bool (*is_true)(struct demo_node *node, void *data), void *data, uint64_t timeout_ms);

/* TERM to the agent, end of kubelet, removal of the folder. Accepts a node that never started. */
void demo_node_stop(struct demo_node *node);
