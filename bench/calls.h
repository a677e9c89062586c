// SPDX-License-Identifier: Apache-2.0
/*
 * What a plugin's calls take, seen from outside: one after the other on one connection, as kubelet makes them.
 * Microseconds from the call to the end of the answer.
 */
#pragma once

#include "bench/figure.h"
#include "bench/node.h"

#define CALLS_TIMEOUT_MS 5000U
#define CALLS_WARM_UP 200U /* calls before those that count; lists need none */

struct calls {
        unsigned int count;
        unsigned int wanted;   /* devices a preference is asked for */
        unsigned int pause_ms; /* between two */
};

/* Of one device, each time another. */
int calls_allocate(struct node *node, const struct calls *calls, struct figure *figure, struct error *err) MUST_USE;

/* Among all devices, in an order that has nothing to do with the list's. */
int calls_prefer(struct node *node, const struct calls *calls, struct figure *figure, struct error *err) MUST_USE;

/* ListAndWatch until the first list is there, each time over a connection of its own, whose making counts. Also prints
 * list_size, KiB. */
int calls_list(struct node *node, const struct calls *calls, struct figure *figure, struct error *err) MUST_USE;
