// SPDX-License-Identifier: Apache-2.0
/* Prints a plan for people and for scripts, as `warpshare plan` does. Pure: a plan in, text out. */
#pragma once

#include "base/strbuf.h"
#include "node/dra/layout.h"
#include "plan/mps_wanted.h"
#include "plan/share.h"

#define PLAN_VIEW_COUNTS_MAX 16U

/* A number of replicas for which the share is shown: a number, or a part of what the unit has. */
struct plan_count {
        enum { COUNT_NUMBER, COUNT_HALF, COUNT_ALL } kind;
        unsigned int number;
};

struct plan_view {
        const struct plan *plan;
        struct mps_wanted daemons;
        const struct dra_layout *dra; /* what the API server would get if it has all features; NULL: DRA is off */
        struct plan_count counts[PLAN_VIEW_COUNTS_MAX];
        size_t n_counts;
        const char *simulated; /* the model or the file; NULL: the GPUs are those of this node */
        const char **warnings;
        size_t n_warnings;
};

/* "1,half,all" → counts. The error names the word. */
int plan_counts_read(struct plan_view *view, const char *text, struct error *err) MUST_USE;

/* The counts for |unit|, sorted, each once; at most PLAN_VIEW_COUNTS_MAX. */
size_t plan_counts_of(const struct plan_view *view, const struct unit *unit, unsigned int *ret);

/*
 * The setting that refuses a request for |k| replicas of |resource|, or NULL. If k is refused, all larger requests are,
 * too.
 */
const char *plan_refusal(const struct resource *resource, unsigned int k);

/* The number of its devices that kubelet sees as healthy while none is in use. */
size_t plan_advertised(const struct resource *resource);

/* Whether no claim can be given both, since together they would need more of something than their GPU has. */
bool plan_dra_excludes(const struct dra_device *a, const struct dra_device *b);

void plan_table_print(struct strbuf *text, const struct plan_view *view, bool has_colours);

/* The caller frees. */
char *plan_json_print(const struct plan_view *view);
