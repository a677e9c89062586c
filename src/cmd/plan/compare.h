// SPDX-License-Identifier: Apache-2.0
/*
 * `warpshare plan --replay`: configurations, given and generated, compared by what they would have made of a trace.
 * plan/replay.h decides; here are the files and what is printed.
 */
#pragma once

#include <jansson.h>

#include "base/strbuf.h"
#include "config/option.h"
#include "gpu/inventory.h"
#include "plan/replay.h"

#define REPLAY_MAX_CONFIGS ((size_t)64) /* that are compared */
#define REPLAY_MAX_DIVISIONS ((size_t)8)
#define REPLAY_BEST ((size_t)3) /* that are written */

struct replay_candidate {
        const char *name; /* "MPS weighted, 10 replicas", or the file */
        const char *text; /* the configuration, as YAML */
        struct replay_result result;
        const char *failure; /* why it cannot be used there; NULL: it was replayed */
};

struct replay_view {
        const char *trace; /* the files */
        struct trace requests;
        const char *hardware; /* "4 × NVIDIA A100" */
        unsigned int nodes;
        uint64_t seed;
        struct replay_candidate candidates[REPLAY_MAX_CONFIGS];
        size_t n_candidates;
};

/* A node whose GPUs are all divided into MIG devices of one profile. */
struct replay_division {
        const char *profile; /* "1g.5gb" */
        unsigned int count;  /* on each GPU */
        struct inventory *inventory;
};

struct replay_wish {
        const char *traces;         /* joined by commas */
        const char *const *configs; /* files */
        size_t n_configs;
        const char *replicas; /* of those that are generated, joined by commas; "": none is generated */
        const struct replay_division *divisions;
        size_t n_divisions;
        const char *folder;  /* where the best are written; "": nowhere */
        const char *picture; /* "": none */
};

/* Reads, replays, sorts, and writes the files. |inventory| is that of each node. */
int replay_compare_all(struct replay_view *view, const struct replay_wish *wish, const struct option_set *set,
        struct arena *arena, const struct inventory *inventory, struct error *err) MUST_USE;

/* ---- cmd/plan/compare_view.c, pure ---- */

void replay_print(struct strbuf *text, const struct replay_view *view, bool has_colours);
json_t *replay_json(const struct replay_view *view);
/* An SVG without scripts, light or dark as its reader's page is. */
void replay_draw(struct strbuf *text, const struct replay_view *view);
