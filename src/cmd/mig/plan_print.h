/*
 * Prints a plan of MIG geometry for people and for programs. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/strbuf.h"
#include "mig/plan.h"

/* Each GPU with its memory slices, before and after. */
void mig_plan_print(struct strbuf *text, const struct mig_plan *plan, const char *config, bool has_colours);

/* The object that `warpshare mig plan --output json` prints; for json_decref(). */
json_t *mig_plan_json(const struct mig_plan *plan, const char *config);

/* Several configurations, each with its plan. */
struct mig_plan_choice {
        const char *config;
        struct mig_plan plan;
        const char *problem; /* why no plan could be made; NULL: |plan| is one */
};

void mig_plan_print_choices(
        struct strbuf *text, const struct mig_plan_choice *choices, size_t n_choices, bool has_colours);
