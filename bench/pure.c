/*
 * The time of pure functions: the choice behind GetPreferredAllocation, and what grows with the number of devices.
 * usage: bench-pure
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/figure.h"
#include "bench/stock.h"
#include "kubelet/device_list.h"
#include "share/prefer.h"

#define ROUNDS 21

static void choose(const struct stock *stock, size_t wanted)
{
        const struct prefer_request request = {
                .available = stock->ids, .n_available = stock->resource->n_devices, .size = wanted};
        struct arena scratch = ARENA_INIT;
        const char *ids[64];
        struct error err;
        size_t count;

        if (prefer(stock->resource, POLICY_DISTRIBUTED, &request, &scratch, ids, &count, &err) < 0 || count != wanted) {
                fprintf(stderr, "prefer: %s\n", err.text);
                exit(1);
        }
        arena_done(&scratch);
}

/* A sample is the mean of |turns| calls, so that the clock's own time does not count. */
static void measure_choice(const char *name, const struct stock *stock, size_t wanted, unsigned int turns)
{
        struct figure figure = {.name = name, .unit = "us"};

        for (unsigned int round = 0; round < ROUNDS; round++) {
                int64_t started = clock_ns();

                for (unsigned int turn = 0; turn < turns; turn++)
                        choose(stock, wanted);
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

/* ---- growth ---- */

static bool is_healthy(const struct unit *unit UNUSED, void *data UNUSED)
{
        return true;
}

/* The worst change of plan: no id stays, so that all of the old ones retire. */
static void replace_all(const struct stock *before, const struct stock *after)
{
        struct device_list list = DEVICE_LIST_INIT;

        device_list_update(&list, before->resource, is_healthy, NULL);
        device_list_update(&list, after->resource, is_healthy, NULL);
        device_list_done(&list);
}

static void pack(const struct stock *stock)
{
        struct device_list list = DEVICE_LIST_INIT;

        device_list_update(&list, stock->resource, is_healthy, NULL);
        rpc_message_unref(device_list_pack(&list));
        device_list_done(&list);
}

/* Each step at one size, in nanoseconds a device. */
static void measure_growth(size_t n_devices)
{
        static const char *const steps[] = {"plan", "pack", "prefer", "replace"};
        struct figure figures[ARRAY_SIZE(steps)];
        char names[ARRAY_SIZE(steps)][48];
        unsigned int turns = (unsigned int)MAX((size_t)1, 50000 / n_devices);
        struct stock stock;
        struct stock other;

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                snprintf(names[i], sizeof(names[i]), "growth_%s_%zu", steps[i], n_devices);
                figures[i] = (struct figure){.name = names[i], .unit = "ns/device"};
        }
        stock_init(&stock, n_devices / 1000, SHARING_TIME_SLICING, 1000);
        stock_init(&other, 1, SHARING_NONE, 0);
        for (unsigned int round = 0; round < ROUNDS; round++) {
                for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                        int64_t started = clock_ns();

                        for (unsigned int turn = 0; turn < turns; turn++) {
                                switch (i) {
                                case 0:
                                        stock_plan(&stock);
                                        break;
                                case 1:
                                        pack(&stock);
                                        break;
                                case 2:
                                        choose(&stock, 1);
                                        break;
                                default:
                                        replace_all(&stock, &other);
                                }
                        }
                        figure_add(&figures[i], (double)(clock_ns() - started) / turns / (double)n_devices);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                figure_print(&figures[i]);
        stock_done(&stock);
        stock_done(&other);
}

int main(void)
{
        static const size_t sizes[] = {1000, 5000, 10000, 16000, 50000};

        measure_choices();
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                measure_growth(sizes[i]);
        return 0;
}
