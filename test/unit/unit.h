// SPDX-License-Identifier: Apache-2.0
/*
 * What every unit test includes: cmocka with the headers it expects, and the two macros that keep a list of tests
 * short.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* The call must succeed; a failure shows the error's text. */
#define assert_ok(call, err)                                                                                           \
        do {                                                                                                           \
                if ((call) < 0)                                                                                        \
                        fail_msg("%s: %s", #call, (err)->text);                                                        \
        } while (0)

/* The call must fail with exactly this kind and text. */
#define assert_fails(call, err, expected_kind, expected_text)                                                          \
        do {                                                                                                           \
                if ((call) == 0)                                                                                       \
                        fail_msg("%s succeeded, expected: %s", #call, (expected_text));                                \
                assert_string_equal((err)->text, (expected_text));                                                     \
                assert_int_equal((err)->kind, (expected_kind));                                                        \
        } while (0)
