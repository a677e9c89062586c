// SPDX-License-Identifier: Apache-2.0
/*
 * A monitor on the simulated NVML, and what it told. For the tests of gpu/monitor.c, which are two programs.
 */
#pragma once

#include <uv.h>

#include "gpu/monitor.h"
#include "base/io/loop.h"
#include "scenario.h"

#define A "GPU-00000000-0000-4000-8000-00000000000a"
#define B "GPU-00000000-0000-4000-8000-00000000000b"
#define MIG_1 "MIG-00000000-0000-4000-8000-000000000001"
#define MIG_2 "MIG-00000000-0000-4000-8000-000000000002"

/* For what is to come at once: long for the slowest machine, and less than the monitor's own refresh. */
#define PATIENCE_MS 20000

/* A driver that says whether a GPU needs a recovery action; without, the simulated one is 535, which does not. */
#define REPORTS "driverVersion: 550.163.01\n"

#define MIG_GPU                                                                                                        \
        REPORTS "gpus:\n"                                                                                              \
                "- model: A100-40GB\n"                                                                                 \
                "  uuid: " A "\n"                                                                                      \
                "  mig:\n"                                                                                             \
                "    devices:\n"                                                                                       \
                "    - {profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1 "}\n"                                            \
                "    - {profile: 3g.20gb, gi: 2, ci: 0, uuid: " MIG_2 "}\n"

#define TWO_T4S "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B "}]\n"
#define TWO_GPUS REPORTS TWO_T4S

/* What the monitor told, as text: "inventory 2", "unavailable …", "- <uuid> <reason>", "+ <uuid>". */
struct fixture {
        uv_loop_t loop;
        struct gpu_monitor *monitor;
        struct inventory *inventory;
        char reported[200][320];
        size_t n_reported;
        bool is_closed;
        bool close_on_inventory;
};

static inline char *next_line(struct fixture *fixture)
{
        assert_true(fixture->n_reported < ARRAY_SIZE(fixture->reported));
        return fixture->reported[fixture->n_reported++];
}

static inline void on_closed(void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static inline void on_inventory(struct inventory *inventory, void *data)
{
        struct fixture *fixture = data;

        inventory_free(fixture->inventory);
        fixture->inventory = inventory;
        snprintf(next_line(fixture), sizeof(fixture->reported[0]), "inventory %zu", inventory->n_gpus);
        if (fixture->close_on_inventory)
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
}

static inline void on_unavailable(const char *reason, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->reported[0]), "unavailable %s", reason);
}

static inline void on_health(const char *uuid, bool healthy, const char *reason, uint64_t xid UNUSED, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->reported[0]), healthy ? "+ %s" : "- %s %s", uuid, reason);
}

static inline void on_unheard(const char *reason, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->reported[0]), "unheard %s", reason ? reason : "no more");
}

struct line {
        const struct fixture *fixture;
        const char *begin;
        size_t from;
        size_t at;
};

static inline bool is_reported(void *data)
{
        struct line *line = data;

        for (line->at = line->from; line->at < line->fixture->n_reported; line->at++)
                if (strncmp(line->fixture->reported[line->at], line->begin, strlen(line->begin)) == 0)
                        return true;
        return false;
}

/* Runs the loop until a line that begins with |text| was told after the first |from| lines; returns its position. */
static inline size_t expect(struct fixture *fixture, size_t from, const char *text)
{
        struct line line = {fixture, text, from, from};

        if (!loop_run_until(&fixture->loop, is_reported, &line, PATIENCE_MS)) {
                for (size_t i = 0; i < fixture->n_reported; i++)
                        print_message("# told: %s\n", fixture->reported[i]);
                fail_msg("not told within %u ms: %s", PATIENCE_MS, text);
        }
        return line.at;
}

static inline bool never(void *data UNUSED)
{
        return false;
}

/* In steps: when the machine stood still for a while, that was one of them, and the monitor has the others. */
static inline void run_for(struct fixture *fixture, uint64_t ms)
{
        for (uint64_t step = 0; step < ms; step += 10)
                loop_run_until(&fixture->loop, never, NULL, 10);
}

static inline struct gpu_monitor_options quick(struct fixture *fixture)
{
        return (struct gpu_monitor_options){
                .library = scenario_library(),
                .paths = {.system_root = "", .driver_root = ""},
                .wait_ms = 50,
                .retry_ms = 20,
                .probe_ms = 20,
                .on_inventory = on_inventory,
                .on_unavailable = on_unavailable,
                .on_health = on_health,
                .on_unheard = on_unheard,
                .data = fixture,
        };
}

static inline void start_with(struct fixture *fixture, const char *scenario, const struct gpu_monitor_options *options)
{
        scenario_write(scenario);
        fixture->monitor = gpu_monitor_new(&fixture->loop, options);
}

static inline void start(struct fixture *fixture, const char *scenario)
{
        struct gpu_monitor_options options = quick(fixture);

        start_with(fixture, scenario, &options);
}

static inline int setup(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        uv_loop_init(&fixture->loop);
        *state = fixture;
        return 0;
}

static inline bool is_closed(void *fixture)
{
        return ((struct fixture *)fixture)->is_closed;
}

static inline void wait_closed(struct fixture *fixture)
{
        assert_true(loop_run_until(&fixture->loop, is_closed, fixture, PATIENCE_MS));
        fixture->monitor = NULL;
}

static inline int teardown(void **state)
{
        struct fixture *fixture = *state;

        if (fixture->monitor && !fixture->is_closed) {
                size_t reported = fixture->n_reported;

                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture);
                assert_int_equal(fixture->n_reported, reported);
        }
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&fixture->loop), 0);
        inventory_free(fixture->inventory);
        free(fixture);
        return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
