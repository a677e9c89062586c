// SPDX-License-Identifier: Apache-2.0
#include "cluster/dashboard/search.h"

#include <stdio.h>
#include <string.h>

#include "cluster/dashboard/overview.h"

struct search {
        const struct dashboard_scope *scope;
        char query[DASHBOARD_QUERY_MAX + 1];
        json_t *nodes;
        json_t *gpus;
        json_t *pods;
        json_t *marks;
        size_t n_marks;
        bool is_cut;
};

static bool contains(const struct search *search, const char *text)
{
        return text && strcasestr(text, search->query);
}

/* Takes |row|; its texts are clean, since they were read from a node's page or by cluster/node.h. */
static void search_add(struct search *search, json_t *list, json_t *row)
{
        if (json_array_size(list) < DASHBOARD_FOUND_MAX) {
                json_array_append_new(list, row);
                return;
        }
        json_decref(row);
        search->is_cut = true;
}

static bool is_found(const struct search *search, const struct report_share *share)
{
        char name[1024];

        if (!dashboard_scope_sees(search->scope, share->pod_namespace))
                return false;
        snprintf(name, sizeof(name), "%s/%s/%s", share->pod_namespace ? share->pod_namespace : "",
                share->pod ? share->pod : "", share->container ? share->container : "");
        return contains(search, name) || contains(search, share->claim);
}

static void add_mark(struct search *search, const char *unit, size_t position)
{
        json_t *positions = json_object_get(search->marks, unit);

        if (search->n_marks == DASHBOARD_MARKS_MAX) {
                search->is_cut = true;
                return;
        }
        search->n_marks++;
        if (!positions) {
                positions = json_array();
                json_object_set_new(search->marks, unit, positions);
        }
        json_array_append_new(positions, json_integer((json_int_t)position));
}

static void search_unit(struct search *search, const struct cluster_node *node, const struct report_unit *unit)
{
        for (size_t i = 0; i < unit->n_shares; i++) {
                const struct report_share *share = &unit->shares[i];

                if (!is_found(search, share))
                        continue;
                search_add(search, search->pods,
                        json_pack("{s:s*, s:s*, s:s*, s:s, s:s*}", "namespace", share->pod_namespace, "pod", share->pod,
                                "claim", share->claim, "node", node->name, "unit", unit->uuid));
                if (unit->uuid)
                        add_mark(search, unit->uuid, i);
        }
}

static void search_gpu(struct search *search, const struct cluster_node *node, const struct report_gpu *gpu)
{
        bool is_gpu_found = contains(search, gpu->uuid) || contains(search, gpu->model);

        for (size_t i = 0; i < gpu->n_units; i++) {
                is_gpu_found |= contains(search, gpu->units[i].uuid);
                search_unit(search, node, &gpu->units[i]);
        }
        if (is_gpu_found)
                search_add(search, search->gpus,
                        json_pack("{s:s, s:s*, s:s*, s:s*}", "node", node->name, "uuid", gpu->uuid, "index", gpu->index,
                                "model", gpu->model));
}

static void search_waiting(struct search *search, const struct cluster_pod *pod)
{
        char name[1024];

        snprintf(name, sizeof(name), "%s/%s", pod->namespace, pod->name);
        if (dashboard_scope_sees(search->scope, pod->namespace) && contains(search, name))
                search_add(
                        search, search->pods, json_pack("{s:s, s:s}", "namespace", pod->namespace, "pod", pod->name));
}

json_t *dashboard_search(const struct cluster_view *view, const struct dashboard_scope *scope, const char *query)
{
        struct search search = {.scope = scope,
                .nodes = json_array(),
                .gpus = json_array(),
                .pods = json_array(),
                .marks = json_object()};
        bool is_empty;

        snprintf(search.query, sizeof(search.query), "%s", query);
        is_empty = search.query[0] == '\0';
        for (size_t i = 0; !is_empty && i < view->n_pods; i++)
                search_waiting(&search, view->pods[i]);
        for (size_t i = 0; !is_empty && i < view->n_nodes; i++) {
                const struct cluster_node *node = view->nodes[i];

                if (!dashboard_overview_shows(node))
                        continue;
                if (contains(&search, node->name))
                        search_add(&search, search.nodes, json_string(node->name));
                for (size_t j = 0; node->page && j < node->page->n_gpus; j++)
                        search_gpu(&search, node, &node->page->gpus[j]);
        }
        return json_pack("{s:o, s:o, s:o, s:o, s:b}", "nodes", search.nodes, "gpus", search.gpus, "pods", search.pods,
                "marks", search.marks, "isCut", search.is_cut);
}
