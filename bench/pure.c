// SPDX-License-Identifier: Apache-2.0
/*
 * The time of pure functions: the choice behind GetPreferredAllocation, and what grows with the number of devices.
 * With arguments it takes one step once, for callgrind.
 * usage: bench-pure [plan|pack|prefer|replace DEVICES]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/figure.h"
#include "bench/stock.h"
#include "node/kubelet/device_list.h"

#define ROUNDS 21

/* A sample is the mean of |turns| calls, so that the clock's own time does not count. */
static void measure_choice(const char *name, const struct stock *stock, size_t wanted, unsigned int turns)
{
        struct figure figure = {.name = name, .unit = "us"};

        for (unsigned int round = 0; round < ROUNDS; round++) {
                int64_t started = clock_ns();

                for (unsigned int turn = 0; turn < turns; turn++)
                        stock_choose(stock, wanted);
                figure_add(&figure, (double)(clock_ns() - started) / turns / 1000);
        }
        figure_print(&figure);
}

static void measure_choices(void)
{
        struct stock stock;

        stock_init(&stock, 8, SHARING_MPS, 48);
        measure_choice("prefer_384_pure", &stock, 1, 200);
        stock_done(&stock);
        stock_init(&stock, 10, SHARING_TIME_SLICING, 1000);
        measure_choice("prefer_10000_pure", &stock, 1, 10);
        stock_done(&stock);
        stock_init(&stock, 8, SHARING_NONE, 0);
        measure_choice("prefer_8_choose_3_pure", &stock, 3, 500);
        stock_done(&stock);
}

static const struct unit_health all_healthy;

/* The worst change of plan: no id stays, so that all of the old ones retire. */
static void replace_all(const struct stock *before, const struct stock *after)
{
        struct device_list list = DEVICE_LIST_INIT;

        device_list_update(&list, before->resource, &all_healthy, NULL);
        device_list_update(&list, after->resource, &all_healthy, NULL);
        device_list_done(&list);
}

static void pack(const struct stock *stock)
{
        struct device_list list = DEVICE_LIST_INIT;

        device_list_update(&list, stock->resource, &all_healthy, NULL);
        rpc_message_unref(device_list_pack(&list));
        device_list_done(&list);
}

/* ---- the steps whose cost grows ---- */

static const char *const steps[] = {"plan", "pack", "prefer", "replace"};

struct growth {
        struct stock stock;
        struct stock other;
};

static void growth_init(struct growth *growth, size_t n_devices)
{
        stock_init(&growth->stock, n_devices / 1000, SHARING_TIME_SLICING, 1000);
        stock_init(&growth->other, 1, SHARING_NONE, 0);
}

static void growth_done(struct growth *growth)
{
        stock_done(&growth->stock);
        stock_done(&growth->other);
}

/* Does not get inlined: callgrind counts in here. */
__attribute__((noinline, used)) static void take_step(struct growth *growth, size_t step)
{
        switch (step) {
        case 0:
                stock_plan(&growth->stock);
                break;
        case 1:
                pack(&growth->stock);
                break;
        case 2:
                stock_choose(&growth->stock, 1);
                break;
        default:
                replace_all(&growth->stock, &growth->other);
        }
}

/* Each step at one size, in nanoseconds a device. */
static void measure_growth(size_t n_devices)
{
        struct figure figures[ARRAY_SIZE(steps)];
        char names[ARRAY_SIZE(steps)][48];
        unsigned int turns = (unsigned int)MAX((size_t)1, 50000 / n_devices);
        struct growth growth;

        growth_init(&growth, n_devices);
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                snprintf(names[i], sizeof(names[i]), "growth_%s_%zu", steps[i], n_devices);
                figures[i] = (struct figure){.name = names[i], .unit = "ns/device"};
        }
        for (unsigned int round = 0; round < ROUNDS; round++) {
                for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                        int64_t started = clock_ns();

                        for (unsigned int turn = 0; turn < turns; turn++)
                                take_step(&growth, i);
                        figure_add(&figures[i], (double)(clock_ns() - started) / turns / (double)n_devices);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                figure_print(&figures[i]);
        growth_done(&growth);
}

static void measure_all(void)
{
        static const size_t sizes[] = {1000, 5000, 10000, 16000, 50000};

        measure_choices();
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                measure_growth(sizes[i]);
}

int main(int argc, char **argv)
{
        struct growth growth;
        size_t n_devices = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

        if (argc == 1) {
                measure_all();
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                if (n_devices < 1000 || n_devices > PLAN_MAX_DEVICES || strcmp(argv[1], steps[i]) != 0)
                        continue;
                growth_init(&growth, n_devices);
                take_step(&growth, i);
                growth_done(&growth);
                return 0;
        }
        fprintf(stderr, "usage: bench-pure [plan|pack|prefer|replace DEVICES]      (1000 to 50000)\n");
        return 2;
}
