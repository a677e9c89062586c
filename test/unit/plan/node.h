// SPDX-License-Identifier: Apache-2.0
/*
 * A made-up node for the tests of the policy: GPUs with links, a configuration, and the plan of the two.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "plan/plan.h"

struct node {
        struct arena arena;
        struct inventory inventory;
        struct config config;
        struct sharing_section section;
        struct shared_resource shared;
        struct sharing_section *sections[SHARING_MPS + 1]; /* of node_add_entry() */
        size_t n_entries;
        struct strbuf warnings;
        struct error err;
        struct plan *plan;
        const struct allocate_binding *binding; /* of requests, plan/allocate.h; NULL: none */
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
                .path = "/config/config.yaml", .mps.root = "/run/nvidia/mps", .devices.lists = DEVICE_LIST_ENVVAR};
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
        node->section.tier_limit = MPS_TIER_NAMESPACE;
        node->section.resources = &node->shared;
        node->section.n_resources = 1;
        node->config.sharing.mps = is_mps ? &node->section : NULL;
        node->config.sharing.time_slicing = is_mps ? NULL : &node->section;
}

#define NODE_MAX_ENTRIES 160

/* One more entry of the section of |strategy|, at line 10, 11, …, for all units of |name|: for the test to change. */
static inline struct shared_resource *node_add_entry(
        struct node *node, enum sharing_strategy strategy, const char *name, unsigned int replicas)
{
        bool is_mps = strategy == SHARING_MPS;
        struct sharing_section *section = node->sections[strategy];
        struct shared_resource *entries;

        if (!section) {
                section = node->sections[strategy] = ARENA_NEW(&node->arena, struct sharing_section);
                section->strategy = strategy;
                section->tier_limit = MPS_TIER_NAMESPACE;
                section->resources = ARENA_ARRAY(&node->arena, struct shared_resource, NODE_MAX_ENTRIES);
                *(is_mps ? &node->config.sharing.mps : &node->config.sharing.time_slicing) = section;
        }
        entries = (struct shared_resource *)(uintptr_t)section->resources;
        entries[section->n_resources] = (struct shared_resource){
                .section = section,
                .path = arena_printf(&node->arena, "sharing.%s.resources[%zu]", is_mps ? "mps" : "timeSlicing",
                        section->n_resources),
                .name = name,
                .replicas = replicas,
                .line = 10 + (int)node->n_entries++,
        };
        return &entries[section->n_resources++];
}

/* "MIG-<gpu>-<index>" of 14 multiprocessors and 5 GiB for each slice; |profile| NULL or "3g…", "1c.3g…". */
static inline struct mig_device *node_add_mig(struct node *node, size_t gpu, const char *profile)
{
        struct gpu *parent = &node->inventory.gpus[gpu];
        unsigned int index = (unsigned int)parent->n_mig_devices;
        unsigned int compute = profile ? (unsigned int)strtoul(profile, NULL, 10) : 1;
        unsigned int slices = profile && profile[1] == 'c' ? (unsigned int)strtoul(profile + 3, NULL, 10) : compute;
        struct mig_device *devices = ARENA_ARRAY(&node->arena, struct mig_device, index + 1);

        if (index)
                memcpy(devices, parent->mig_devices, index * sizeof(*devices));
        devices[index] = (struct mig_device){
                .uuid = arena_printf(&node->arena, "MIG-%zu-%u", gpu, index),
                .profile = profile,
                .index = index,
                .gpu_instance = 7 + index,
                .gpu_instance_cap = 30 + (int)index * 2,
                .compute_instance_cap = 31 + (int)index * 2,
                .attributes = {.gpu_slices = slices, .compute_slices = compute, .multiprocessors = 14 * compute},
                .memory = slices * 5 * GIB,
        };
        parent->mig_enabled = true;
        parent->mig_devices = devices;
        parent->n_mig_devices = index + 1;
        return &devices[index];
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
