/*
 * A simulated node: a folder with a scenario of GPUs, a configuration and kubelet's directory; the kubelet stand-in in this
 * process, and the agent, the real program, as a child; where it is wanted, `warpshare mps` beside it, with simulated control daemons.
 * With a driver, what containers get can be resolved: device nodes, mounts, CDI devices. For the demonstration and the benchmarks; it knows
 * neither.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "sim/cluster/cluster.h"
#include "sim/kubelet/dra.h"
#include "sim/kubelet/kubelet.h"

struct sim_node_options {
        uv_loop_t *loop;
        const char *agent;              /* the program */
        const char *library;            /* the simulated NVML */
        const char *scenario;           /* YAML, as docs/simulator.md has it */
        const char *config;             /* YAML, the agent's configuration file */
        const char *mps_programs;       /* folder of the simulated MPS programs; NULL: MPS is not there */
        const char *mps_scenario;       /* the GPUs as those see them, docs/simulator.md */
        unsigned int n_device_nodes;    /* GPUs of the driver; 0: there is none but NVML */
        const char *driver_version;     /* that of the scenario */
        const char *agent_options[2];   /* more for the agent; NULL: none */
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
        struct cluster *cluster; /* NULL, as the next: without DRA */
        struct kubelet_dra *dra;
        struct sim_process agents[2];
        struct sim_process *agent; /* the one that serves */
        struct sim_process mps;
        int64_t started_ns; /* monotonic, before the agent's process was made */
        char *program;
        char *library;
        char *mps_programs;     /* NULL: none */
        char *agent_options[2]; /* NULL: none */
        bool syncs_log;
        char *folder; /* removed at the end */
        char *scenario_directory;
        char *scenario; /* paths of the files in it */
        char *config;
        char *log;     /* the agent's */
        char *mps_log; /* of the other */
        char *mps_root;
        char *mps_scenario;
        char *driver_root;
        char *cdi_root;
        bool has_device_nodes; /* false, too, where none can be made */
        char *kubelet_directory;
        char *pod_resources_directory; /* beside it, as in a real kubelet's folder */
        char *pod_resources;           /* the socket in it */
};

/* Returns when the agent's process is made. After a failure sim_node_stop() is still due. */
int sim_node_start(struct sim_node *node, const struct sim_node_options *options, struct error *err) MUST_USE;

/* Ends the agent and starts it anew: returns when its process is made. */
int sim_node_restart_agent(struct sim_node *node, struct error *err) MUST_USE;

/* As in a rolling update: another agent beside the one that serves, which waits for the end of that. */
int sim_node_start_next(struct sim_node *node, struct error *err) MUST_USE;

/* Tells the agent that serves to end; the next one is |agent| from now on. */
void sim_node_hand_over(struct sim_node *node);

/* Other GPUs, or the same in another state: what runs on the node sees it at once. */
int sim_node_set_scenario(struct sim_node *node, const char *text, struct error *err) MUST_USE;

/* Runs the loop until |is_true| or the time is over; false then. */
bool sim_node_wait(struct sim_node *node, bool (*is_true)(void *data), void *data, uint64_t timeout_ms);

/* TERM to the processes, KILL if it does not go, end of kubelet, removal of the folder. Accepts a zeroed node. */
void sim_node_stop(struct sim_node *node);
