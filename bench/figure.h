// SPDX-License-Identifier: Apache-2.0
/*
 * One measured figure of one run, as a line that bench/run reads: name, unit, median, 99th percentile, least, most and
 * number of samples, separated by tabs. It knows no budget: bench/run compares, over several runs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct figure {
        const char *name;
        const char *unit;
        double *samples;
        size_t count;
        size_t capacity;
};

void figure_add(struct figure *figure, double sample);

/* Prints and empties it. A figure without samples prints nothing. */
void figure_print(struct figure *figure);

/* A figure that is one value. */
void figure_print_one(const char *name, const char *unit, double value);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t clock_ns(void);
