// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario file of one test program: the simulated NVML reads it, and reads it again whenever it changes. The
 * library's path comes from Meson in WARPSHARE_SIM_NVML.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

static char scenario_folder[64]; /* its own: the library watches it, and /tmp is a busy place */
static char scenario_path[96];

static inline const char *scenario_library(void)
{
        const char *library = getenv("WARPSHARE_SIM_NVML");

        assert_non_null(library);
        return library;
}

/* Replaces the file as a whole. */
static inline void scenario_write(const char *text)
{
        struct error err;

        assert_ok(file_write(scenario_path, text, strlen(text), &err), &err);
}

static inline int scenario_setup(void **state UNUSED)
{
        snprintf(scenario_folder, sizeof(scenario_folder), "/tmp/warpshare-scenario-XXXXXX");
        if (!mkdtemp(scenario_folder))
                return -1;
        snprintf(scenario_path, sizeof(scenario_path), "%s/scenario.yaml", scenario_folder);
        return setenv("WARPSHARE_SIM_SCENARIO", scenario_path, 1);
}

static inline int scenario_teardown(void **state UNUSED)
{
        unlink(scenario_path);
        return rmdir(scenario_folder);
}
