// SPDX-License-Identifier: Apache-2.0
/*
 * The node that is measured on: sim/node.h with as many GPUs and replicas as wanted, and the times at which things
 * happened.
 */
#pragma once

#include "sim/node/node.h"

#define NODE_RESOURCE "nvidia.com/gpu"

struct node_options {
        const char *agent;   /* the program */
        const char *library; /* the simulated NVML */
        const char *mps;     /* folder of the simulated MPS programs */
        unsigned int gpus;
        unsigned int replicas;  /* 1: not shared; up to 48 under MPS, beyond that by time-slicing */
        const pid_t *processes; /* on the GPUs in turn; NULL: none */
        unsigned int n_processes;
        const char *agent_options[2];
        bool syncs_log;  /* sim/node.h, also the next */
        bool is_drop_in; /* without MPS */
};

struct node {
        struct sim_node sim;
        struct node_options options;
        unsigned int n_xids; /* written to the scenario so far: GPU 0, 1, 2, … */
        int64_t registered_ns;
        int64_t list_ns; /* of the newest change of a device list */
        int64_t gone_ns; /* when kubelet began to count no device, 0: since it was set so it never has; and when it */
        int64_t back_ns; /* counted all of them again, 0: it does not yet */
};

/*
 * Returns when kubelet has all devices, or fails after ten seconds. Under MPS the agent is started once more then, so
 * that its start is measured and not that of the MPS daemons.
 */
int node_start(struct node *node, uv_loop_t *loop, const struct node_options *options, struct error *err) MUST_USE;

/* Whether kubelet counts every device as healthy. */
bool node_is_whole(const struct node *node);

/* The next GPU raises Xid 79. */
int node_add_xid(struct node *node, struct error *err) MUST_USE;

/* The socket of the one resource, for the caller to free; NULL if there is none. */
char *node_plugin_socket(const struct node *node);

/* Nothing is done but what the node does by itself. */
void node_pause(struct node *node, uint64_t ms);

/* Accepts a node whose start failed. */
void node_stop(struct node *node);
