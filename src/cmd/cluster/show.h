// SPDX-License-Identifier: Apache-2.0
/* How the commands of kubectl-warpshare show a view of the cluster: tables, JSON and CSV. Pure: from a view to text. */
#pragma once

#include <jansson.h>

#include "base/strbuf.h"
#include "cmd/cli/columns.h"
#include "cluster/cluster.h"

enum show_sort { SHOW_BY_MEMORY, SHOW_BY_SM, SHOW_BY_POD };

struct show {
        const char *scope;        /* only pods of this namespace; NULL: of every one */
        const char *const *names; /* only these nodes; none: all */
        size_t n_names;
        enum show_sort sort; /* of pods */
        bool is_wide;
        bool has_headers;
        bool has_colours;
};

void show_nodes(struct strbuf *text, const struct cluster_view *view, const struct show *show);
void show_gpus(
        struct strbuf *text, const struct cluster_view *view, const struct show *show); /* with their pods below them */
void show_shares(struct strbuf *text, const struct cluster_view *view, const struct show *show); /* a line for each */
void show_shares_csv(struct strbuf *text, const struct cluster_view *view, const struct show *show);

/* {"nodes": [...]}: each with its object's and its agent's state, and the agent's page as it is; a new reference. */
json_t *show_json(const struct cluster_view *view, const struct show *show);
