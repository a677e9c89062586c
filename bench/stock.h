// SPDX-License-Identifier: Apache-2.0
/*
 * A made-up plan, for measuring what is pure: so many GPUs of one model with so many replicas each, and every id it
 * has.
 */
#pragma once

#include "plan/plan.h"

struct stock {
        struct arena arena; /* of config and inventory */
        struct inventory inventory;
        struct config config;
        struct sharing_section section;
        struct shared_resource shared;
        struct arena plan_arena;
        struct plan *plan;
        const struct resource *resource;
        const char **ids; /* of all its devices, in an order that has nothing to do with the plan's */
};

/* Replicas 0: not shared. GPUs are linked in pairs by four NVLinks, and otherwise across the PCI tree. */
void stock_init(struct stock *stock, size_t n_gpus, enum sharing_strategy strategy, unsigned int replicas);
void stock_done(struct stock *stock);

/* One choice of |wanted| devices, 64 at most, among all of them. */
void stock_choose(const struct stock *stock, size_t wanted);

/* Builds the plan anew. */
void stock_plan(struct stock *stock);
