// SPDX-License-Identifier: Apache-2.0
#include "bench/figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"

void figure_add(struct figure *figure, double sample)
{
        if (figure->count == figure->capacity) {
                figure->capacity = figure->capacity ? figure->capacity * 2 : 64;
                figure->samples = xrealloc(figure->samples, figure->capacity * sizeof(*figure->samples));
        }
        figure->samples[figure->count++] = sample;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a;
        double y = *(const double *)b;

        return (x > y) - (x < y);
}

void figure_print(struct figure *figure)
{
        const double *sorted = figure->samples;
        size_t count = figure->count;

        if (figure->count == 0)
                return;
        qsort(figure->samples, figure->count, sizeof(*figure->samples), compare);
        printf("%s\t%s\t%.9g\t%.9g\t%.9g\t%.9g\t%zu\n", figure->name, figure->unit,
                (sorted[(count - 1) / 2] + sorted[count / 2]) / 2, sorted[(count - 1) * 99 / 100], sorted[0],
                sorted[count - 1], count);
        fflush(stdout);
        free(figure->samples);
        *figure = (struct figure){.name = figure->name, .unit = figure->unit};
}

void figure_print_one(const char *name, const char *unit, double value)
{
        struct figure figure = {.name = name, .unit = unit};

        figure_add(&figure, value);
        figure_print(&figure);
}

int64_t clock_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
