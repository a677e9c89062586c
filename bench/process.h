// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel says about a process and the children that it has now, its workers: their memory and how often they
 * woke up. From proc(5).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct process_memory {
        double pss_kib; /* shared pages count by the number of processes that share them */
        double rss_kib;
        double private_kib;   /* in no other process */
        double anonymous_kib; /* in no file */
};

/* All of their memory, or with |mapping| only what is mapped from files whose path contains it. */
int process_memory(pid_t pid, const char *mapping, struct process_memory *ret, struct error *err) MUST_USE;

/* Nanoseconds that they have run. */
int process_cpu(pid_t pid, uint64_t *ret, struct error *err) MUST_USE;

/* Their context switches: each time one of them waits, it must be woken again. */
int process_switches(pid_t pid, uint64_t *ret, struct error *err) MUST_USE;
