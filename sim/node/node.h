// SPDX-License-Identifier: Apache-2.0
/*
 * A simulated node, for the demonstration and the benchmarks. It has a folder with a scenario of GPUs, a configuration
 * and kubelet's directory. The kubelet stand-in runs in this process; the agent, the real program, is a child; on
 * request `warpshare mps` is another child, with simulated control daemons. If the node has a driver, device nodes,
 * mounts and CDI devices of containers can be resolved.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "sim/cluster/cluster.h"
#include "sim/kubelet/dra.h"
#include "sim/kubelet/kubelet.h"

/*
 * |is_drop_in|: |agent| is any program that takes the place of NVIDIA's plugin, also that itself. It gets the
 * configuration file, finds |library| by its usual name in LD_LIBRARY_PATH, which is the library's folder, and nothing
 * else is told to it. So kubelet's folder is the usual one: have something of your own mounted at /var/lib.
 */
struct sim_node_options {
        uv_loop_t *loop;
        const char *agent;              /* the program */
        const char *library;            /* the simulated NVML */
        const char *scenario;           /* YAML, described in docs/simulator.md */
        const char *config;             /* YAML, the agent's configuration file */
        const char *mps_programs;       /* folder of the simulated MPS programs; NULL: MPS is not there */
        const char *mps_scenario;       /* the GPUs as those see them, docs/simulator.md */
        unsigned int n_device_nodes;    /* GPUs of the driver; 0: there is none but NVML */
        const char *driver_version;     /* that of the scenario */
        const char *above;              /* the folder in which the node makes its own; NULL: /tmp */
        const char *agent_options[2];   /* more for the agent; NULL: none */
        bool is_drop_in;                /* below */
        bool has_dra;                   /* it is in a cluster, and kubelet looks for DRA drivers */
        bool syncs_log;                 /* each line of the agent's log is on the disk before the write returns */
        struct kubelet_options kubelet; /* its callbacks; the rest is filled in */
};

/* One of our processes. */
struct sim_process {
        uv_process_t process;
        bool runs;
};

#define SIM_NODE_NAME "demo" /* in the cluster */

struct sim_node {
        uv_loop_t *loop;
        struct kubelet *kubelet;
        struct cluster *cluster; /* NULL without DRA, as is the next */
        struct kubelet_dra *dra;
        struct sim_process agents[2];
        struct sim_process *agent; /* the one that serves */
        struct sim_process mps;
        int64_t started_ns; /* monotonic clock, before the agent's process was started */
        char *program;
        char *library;
        char *mps_programs;     /* NULL: none */
        char *agent_options[2]; /* NULL: none */
        bool syncs_log;
        bool is_drop_in;
        char *folder; /* removed at the end */
        char *scenario_directory;
        char *scenario; /* paths of the files in it */
        char *config;
        char *log;     /* the agent's */
        char *mps_log; /* that of `warpshare mps` */
        char *mps_root;
        char *mps_scenario;
        char *driver_root;
        char *cdi_root;
        bool has_device_nodes; /* also false if this process may not create any */
        char *kubelet_directory;
        char *pod_resources_directory; /* beside that folder, as kubelet has it */
        char *pod_resources;           /* the socket in it */
};

/* Returns when the agent's process was started. sim_node_stop() is needed even after a failure. */
int sim_node_start(struct sim_node *node, const struct sim_node_options *options, struct error *err) MUST_USE;

/* Ends the agent and starts it again; returns when its process was started. */
int sim_node_restart_agent(struct sim_node *node, struct error *err) MUST_USE;

/*
 * As in a rolling update: starts another agent beside the one that serves; the new one waits until the other has ended.
 */
int sim_node_start_next(struct sim_node *node, struct error *err) MUST_USE;

/* Sends SIGTERM to the agent that serves; from now on |agent| is the next one. */
void sim_node_hand_over(struct sim_node *node);

/* Replaces the scenario: other GPUs, or the same in another state. Programs on the node see it at once. */
int sim_node_set_scenario(struct sim_node *node, const char *text, struct error *err) MUST_USE;

/* Runs the loop until |is_true| returns true; false: the timeout has passed. */
bool sim_node_wait(struct sim_node *node, bool (*is_true)(void *data), void *data, uint64_t timeout_ms);

/* Ends the processes (SIGTERM, later SIGKILL) and kubelet, and removes the folder. Accepts a zeroed node. */
void sim_node_stop(struct sim_node *node);

/* For the owner of |above|: removes that folder with all that is in it, as far as it is there. */
void sim_node_remove(const char *folder);
