// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any JSON as the objects of a cluster, {"pod": …, "node": …, "agent": …, "events": […], "claims": […],
 * "page": {…}}. Each is read, the pod is explained and the node examined; both have something to say.
 *
 *         tools/fuzz 60 fuzz-cluster-objects
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/checkup.h"
#include "cluster/why.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void explain(const struct cluster_view *view, const json_t *root, struct arena *arena)
{
        const struct why_input input = {.pod = json_object_get(root, "pod"),
                .events = json_object_get(root, "events"),
                .claims = json_object_get(root, "claims"),
                .view = view};
        struct why why;

        why_explain(&why, arena, &input);
        if (!why.sentence || !*why.sentence)
                abort();
        for (size_t i = 0; i < why.n_nodes; i++)
                if (!why.nodes[i].reason)
                        abort();
}

static void examine(const struct cluster_view *view, const json_t *root)
{
        const struct checkup_input input = {
                .view = view, .node = view->nodes[0], .events = json_object_get(root, "events"), .now = 1795687200};
        json_t *findings = checkup_make(&input);
        const json_t *finding;
        size_t i;

        if (json_array_size(findings) == 0)
                abort();
        json_array_foreach(findings, i, finding) if (!json_string_value(json_object_get(finding, "found"))) abort();
        json_decref(findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *root = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
        struct arena arena = ARENA_INIT;
        struct cluster_node node = {.name = "n1", .state = CLUSTER_AGENT_SILENT, .reason = "it does not answer"};
        const struct cluster_node *nodes[] = {&node};
        const struct cluster_pod *pods[1];
        struct cluster_view view = {.nodes = nodes, .n_nodes = 1, .pods = pods};
        struct node_page page;
        struct error err;
        char *text;

        if (!root)
                return 0;
        node.object = cluster_node_read(json_object_get(root, "node"), &arena);
        node.agent = cluster_agent_read(json_object_get(root, "agent"), &arena);
        pods[0] = cluster_pod_read(json_object_get(root, "pod"), &arena);
        view.n_pods = pods[0] ? 1 : 0;
        text = json_dumps(json_object_get(root, "page"), 0);
        if (text && node_page_read(&page, &arena, text, strlen(text), &err) == 0) {
                node.page = &page;
                node.state = CLUSTER_AGENT_ANSWERS;
        }
        explain(&view, root, &arena);
        examine(&view, root);
        free(text);
        json_decref(root);
        arena_done(&arena);
        return 0;
}
