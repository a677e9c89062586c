/*
 * A made-up node for the tests of the policy: GPUs with links, a configuration, and the plan of the two.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "share/plan.h"

struct node {
        struct arena arena;
        struct inventory inventory;
        struct config config;
        struct sharing_section section;
        struct shared_resource shared;
        struct strbuf warnings;
        struct error err;
        struct plan *plan;
};

#define GIB ((uint64_t)1024 * 1024 * 1024)

/* GPUs "GPU-0", "GPU-1", … of 24 GiB, Ampere, without any known link, on driver 580; time-slicing settings are none. */
static inline struct node node_new(size_t n_gpus)
{
        struct node node = {.warnings = STRBUF_INIT};
        struct inventory *inventory = &node.inventory;

        inventory->driver_version = "580.105.08";
        inventory->gpus = ARENA_ARRAY(&node.arena, struct gpu, n_gpus);
        inventory->n_gpus = n_gpus;
        for (size_t i = 0; i < n_gpus; i++) {
                struct gpu_link *links = ARENA_ARRAY(&node.arena, struct gpu_link, n_gpus);

                for (size_t j = 0; j < n_gpus; j++)
                        links[j].level = i == j ? 0 : GPU_UNKNOWN_INT;
                inventory->gpus[i] = (struct gpu){
                        .uuid = arena_printf(&node.arena, "GPU-%zu", i),
                        .name = "NVIDIA A10",
                        .index = (unsigned int)i,
                        .architecture = GPU_ARCHITECTURE_AMPERE,
                        .compute_major = 8,
                        .numa_node = -1,
                        .memory = 24 * GIB,
                        .links = links,
                };
        }
        node.config = (struct config){
                .path = "/config/config.yaml", .mps_root = "/run/nvidia/mps", .device_lists = DEVICE_LIST_ENVVAR};
        return node;
}

static inline void node_done(struct node *node)
{
        if (node->plan)
                plan_done(node->plan);
        arena_done(&node->arena);
        strbuf_done(&node->warnings);
}

/* Also after the node was moved: the configuration points into it. */
static inline void node_share(struct node *node, enum sharing_strategy strategy, unsigned int replicas)
{
        bool is_mps = strategy == SHARING_MPS;

        node->shared = (struct shared_resource){
                .section = &node->section,
                .path = is_mps ? "sharing.mps.resources[0]" : "sharing.timeSlicing.resources[0]",
                .name = "nvidia.com/gpu",
                .replicas = replicas,
                .line = 12,
        };
        node->section.strategy = strategy;
        node->section.resources = &node->shared;
        node->section.n_resources = 1;
        node->config.sharing.mps = is_mps ? &node->section : NULL;
        node->config.sharing.time_slicing = is_mps ? NULL : &node->section;
}

static inline void node_link(struct node *node, size_t a, size_t b, int level, unsigned int nvlinks)
{
        struct gpu_link link = {.level = level, .nvlinks = nvlinks};

        /* The links are in the node's arena; they are const for everybody else. */
        ((struct gpu_link *)(uintptr_t)node->inventory.gpus[a].links)[b] = link;
        ((struct gpu_link *)(uintptr_t)node->inventory.gpus[b].links)[a] = link;
}

static inline void node_warn(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static inline int node_plan(struct node *node)
{
        return plan_build(
                &node->plan, &node->arena, &node->config, &node->inventory, node_warn, &node->warnings, &node->err);
}
