// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting in a test: the loop runs until |condition| holds, which is asked each millisecond. One that does not within a
 * minute fails the test, and is named.
 */
#pragma once

#include "unit.h"

#include <uv.h>

#include "base/io/loop.h"

#define UNTIL_MS UINT64_C(60000)

static inline bool until_never(void *data)
{
        (void)data;
        return false;
}

#define UNTIL(loop, condition)                                                                                         \
        do {                                                                                                           \
                const uint64_t until_start = uv_hrtime();                                                              \
                                                                                                                       \
                while (!(condition)) {                                                                                 \
                        if (uv_hrtime() - until_start > UNTIL_MS * 1000000)                                            \
                                fail_msg("never came: %s", #condition);                                                \
                        loop_run_until((loop), until_never, NULL, 1);                                                  \
                }                                                                                                      \
        } while (0)
