// SPDX-License-Identifier: Apache-2.0
/*
 * Something that asks NVML, in a process of its own (base/io/worker.h): for commands, which do one thing after the
 * other. It may read, think and print as long as it likes, but a call into the driver that does not return ends it, and
 * a library that crashes does not end the command.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

#define APART_CALL_MS UINT64_C(10000) /* a call that waits by design has more (NVML_CALL_LASTING) */

/*
 * Runs in the process, which has all that the program has, also its standard streams and the memory that |data| points
 * to.
 */
typedef int apart_fn(const void *data, struct strbuf *answer, struct error *err);

enum { APART_LOST = 1 };

/*
 * Waits until it has run. -1: it failed, with its error; APART_LOST: a call took longer than APART_CALL_MS, or the
 * process ended, and |err| names the call and the GPU. |answer|, or NULL, is appended on success. Where a process could
 * not be ended, no other is begun.
 */
int apart_run(apart_fn *run, const void *data, struct strbuf *answer, struct error *err) MUST_USE;
