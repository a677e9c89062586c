// SPDX-License-Identifier: Apache-2.0
/*
 * The time of the choice among whole GPUs: every size, on machines as they are sold, with all of their GPUs available.
 * usage: bench-topologies
 *
 * A line for each: prefer_<topology>_<size>, in microseconds.
 */
#include <stdio.h>

#include "bench/figure.h"
#include "bench/stock.h"
#include "test/unit/plan/topologies.h"

#define ROUNDS 11
#define ROUND_NS 5000000

static void link_as(struct stock *stock, const struct topology *topology)
{
        for (size_t a = 0; a < topology->n_gpus; a++) {
                struct gpu_link *links = ARENA_ARRAY(&stock->arena, struct gpu_link, topology->n_gpus);

                for (size_t b = 0; b < topology->n_gpus; b++)
                        if (a != b)
                                links[b] = topology->link(a, b);
                stock->inventory.gpus[a].links = links;
                stock->inventory.gpus[a].numa_node = a >= topology->n_gpus / 2;
        }
}

/* A sample is the mean of as many calls as take about five milliseconds. */
static void measure(const struct stock *stock, const char *topology, size_t size)
{
        char name[64];
        struct figure figure = {.name = name, .unit = "us"};

        snprintf(name, sizeof(name), "prefer_%s_%zu", topology, size);
        for (unsigned int round = 0; round < ROUNDS; round++) {
                int64_t started = clock_ns();
                unsigned int turns = 0;

                while (clock_ns() - started < ROUND_NS) {
                        stock_choose(stock, size);
                        turns++;
                }
                figure_add(&figure, (double)(clock_ns() - started) / turns / 1000);
        }
        figure_print(&figure);
}

int main(void)
{
        for (size_t i = 0; i < ARRAY_SIZE(topologies); i++) {
                struct stock stock;

                stock_init(&stock, topologies[i].n_gpus, SHARING_NONE, 0);
                link_as(&stock, &topologies[i]);
                for (size_t size = 1; size <= topologies[i].n_gpus; size++)
                        measure(&stock, topologies[i].name, size);
                stock_done(&stock);
        }
        return 0;
}
