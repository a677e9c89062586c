// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario, read through the simulated NVML as the agent reads a node.
 */
#pragma once

#include "gpu/nvml_read.h"
#include "scenario.h"

#define NO_SYSTEM "/nowhere"

static inline struct inventory *read_below(const char *scenario, const char *root)
{
        const struct gpu_paths paths = {.system_root = root, .driver_root = ""};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        struct inventory *inventory = NULL;
        struct error err;

        scenario_write(scenario);
        assert_ok(nvml_open(&nvml, scenario_library(), "", &err), &err);
        assert_ok(nvml_read(&inventory, nvml, &paths, NULL, &err), &err);
        return inventory;
}

static inline struct inventory *read_scenario(const char *scenario)
{
        return read_below(scenario, NO_SYSTEM);
}
