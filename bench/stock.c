// SPDX-License-Identifier: Apache-2.0
#include "bench/stock.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan/prefer.h"

static struct gpu_link *make_links(struct stock *stock, size_t n_gpus, size_t from)
{
        struct gpu_link *links = ARENA_ARRAY(&stock->arena, struct gpu_link, n_gpus);

        for (size_t to = 0; to < n_gpus; to++) {
                if (to == from)
                        continue;
                links[to].level = to / 4 == from / 4 ? 20 : 50;
                links[to].nvlinks = to / 2 == from / 2 ? 4 : 0;
                links[to].p2p = true;
        }
        return links;
}

static void make_inventory(struct stock *stock, size_t n_gpus)
{
        struct inventory *inventory = &stock->inventory;

        inventory->driver_version = "580.105.08";
        inventory->gpus = ARENA_ARRAY(&stock->arena, struct gpu, n_gpus);
        inventory->n_gpus = n_gpus;
        for (size_t i = 0; i < n_gpus; i++)
                inventory->gpus[i] = (struct gpu){
                        .uuid = arena_printf(&stock->arena, "GPU-%08zx-9c6b-4d21-a7f3-%012zx",
                                i * 2654435761U & 0xffffffffU, i * 40503),
                        .name = "NVIDIA H100 80GB HBM3",
                        .index = (unsigned int)i,
                        .architecture = GPU_ARCHITECTURE_HOPPER,
                        .compute_major = 9,
                        .numa_node = (int)(i / 4 % 2),
                        .memory = (uint64_t)81559 << 20,
                        .links = make_links(stock, n_gpus, i),
                };
}

void stock_plan(struct stock *stock)
{
        struct error err;

        if (stock->plan)
                plan_done(stock->plan);
        arena_done(&stock->plan_arena);
        if (plan_build(&stock->plan, &stock->plan_arena, &stock->config, &stock->inventory, NULL, NULL, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                exit(1);
        }
        stock->resource = &stock->plan->resources[0];
}

/* kubelet's candidates come from a Go map: in any order. */
static void shuffle_ids(struct stock *stock)
{
        const struct resource *resource = stock->resource;
        uint32_t random = 1;

        stock->ids = ARENA_ARRAY(&stock->arena, const char *, resource->n_devices);
        for (size_t i = 0; i < resource->n_devices; i++) {
                size_t at;

                random = random * 1664525U + 1013904223U;
                at = (random >> 8) % (i + 1);
                stock->ids[i] = stock->ids[at];
                stock->ids[at] = arena_strdup(&stock->arena, resource->devices[i].id);
        }
}

void stock_init(struct stock *stock, size_t n_gpus, enum sharing_strategy strategy, unsigned int replicas)
{
        *stock = (struct stock){
                .config = {.path = "bench", .mps.root = "/run/nvidia/mps", .devices.lists = DEVICE_LIST_ENVVAR}};
        stock->section = (struct sharing_section){
                .strategy = strategy,
                .provisioning = PROVISIONING_WEIGHTED,
                .daemon_scope = DAEMON_SCOPE_RESOURCE,
                .resources = &stock->shared,
                .n_resources = 1,
        };
        stock->shared = (struct shared_resource){
                .section = &stock->section, .path = "bench", .name = "nvidia.com/gpu", .replicas = replicas};
        if (strategy == SHARING_MPS)
                stock->config.sharing.mps = &stock->section;
        else if (strategy == SHARING_TIME_SLICING)
                stock->config.sharing.time_slicing = &stock->section;
        make_inventory(stock, n_gpus);
        stock_plan(stock);
        shuffle_ids(stock);
}

void stock_done(struct stock *stock)
{
        plan_done(stock->plan);
        arena_done(&stock->plan_arena);
        arena_done(&stock->arena);
}

void stock_choose(const struct stock *stock, size_t wanted)
{
        const struct prefer_request request = {
                .available = stock->ids, .n_available = stock->resource->n_devices, .size = wanted};
        struct arena scratch = ARENA_INIT;
        const char *ids[64];
        struct error err;
        size_t count;

        if (prefer(stock->resource, &request, &scratch, ids, &count, &err) < 0 || count != wanted) {
                fprintf(stderr, "prefer: %s\n", err.text);
                exit(1);
        }
        arena_done(&scratch);
}
