/*
 * A node to measure on: a folder with a scenario of simulated GPUs and a configuration, the kubelet stand-in in this process,
 * and the agent, the program that is measured, as a child.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "sim/kubelet/kubelet.h"

#define NODE_RESOURCE "nvidia.com/gpu"

struct node_options {
        const char *agent;   /* the program */
        const char *library; /* the simulated NVML */
        unsigned int gpus;
        unsigned int replicas; /* 1: not shared; up to 48 under MPS, beyond that by time-slicing */
};

struct node {
        uv_loop_t *loop;
        struct node_options options;
        struct kubelet *kubelet;
        uv_process_t agent;
        bool agent_runs;
        char *folder; /* removed at the end */
        char *scenario_directory;
        char *scenario;
        char *kubelet_directory;
        unsigned int n_xids; /* written to the scenario so far: GPU 0, 1, 2, … */
        int64_t started_ns;  /* before the agent's process was made */
        int64_t registered_ns;
        int64_t list_ns; /* of the newest change of a device list */
};

/* Returns when kubelet has all devices, or fails after ten seconds. */
int node_start(struct node *node, uv_loop_t *loop, const struct node_options *options, struct error *err) MUST_USE;

/* The next GPU raises Xid 79. */
int node_add_xid(struct node *node, struct error *err) MUST_USE;

/* Runs the loop until |is_true| or the time is over; false then, and when the agent ends. */
bool node_wait(struct node *node, bool (*is_true)(struct node *node, void *data), void *data, uint64_t timeout_ms);

/* The socket of the one resource, for the caller to free; NULL if there is none. */
char *node_plugin_socket(const struct node *node);

/* Accepts a node whose start failed. */
void node_stop(struct node *node);
