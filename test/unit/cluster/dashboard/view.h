// SPDX-License-Identifier: Apache-2.0
/* A cluster for tests: nodes with pages as text, and pods that wait. */
#pragma once

#include "unit.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/cluster.h"
#include "cluster/dashboard/viewer.h"
#include "node/report/node_page.h"

static struct arena view_arena;
static struct cluster_view view;
static const struct cluster_node *view_nodes[600];
static struct cluster_node view_node_list[600];
static const struct cluster_pod *view_pods[8];
static const struct dashboard_scope sees_all = {.sees_all = true};

static int view_set_up(void **state UNUSED)
{
        view_arena = (struct arena)ARENA_INIT;
        view = (struct cluster_view){.version = 1, .nodes = view_nodes, .pods = view_pods, .is_complete = true};
        return 0;
}

static int view_tear_down(void **state UNUSED)
{
        arena_done(&view_arena);
        return 0;
}

/* ' stands for ". */
static inline char *quoted(const char *text)
{
        char *copy = arena_strdup(&view_arena, text);

        for (char *c = copy; *c; c++)
                if (*c == '\'')
                        *c = '"';
        return copy;
}

static inline const struct node_page *page_of(const char *text)
{
        struct node_page *page = ARENA_NEW(&view_arena, struct node_page);
        const char *json = quoted(text);
        struct error err;

        assert_ok(node_page_read(page, &view_arena, json, strlen(json), &err), &err);
        return page;
}

/* By name, in order. |page| NULL: none. */
static inline struct cluster_node *view_add(const char *name, const char *page)
{
        struct cluster_node *node = &view_node_list[view.n_nodes];

        *node = (struct cluster_node){.name = arena_strdup(&view_arena, name),
                .version = view.version,
                .state = page ? CLUSTER_AGENT_ANSWERS : CLUSTER_AGENT_NONE,
                .page = page ? page_of(page) : NULL};
        view_nodes[view.n_nodes++] = node;
        return node;
}

static inline void view_wait_for(const char *namespace, const char *name)
{
        struct cluster_pod *pod = ARENA_NEW(&view_arena, struct cluster_pod);

        *pod = (struct cluster_pod){
                .namespace = namespace, .name = name, .phase = "Pending", .reason = "Unschedulable"};
        view_pods[view.n_pods++] = pod;
}

/* Takes |json|; |expected| with ' for ". Members may come in any order. */
static inline void assert_json(json_t *json, const char *expected)
{
        json_t *wanted = json_loads(quoted(expected), JSON_DECODE_ANY, NULL);
        char *text = json ? json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : strdup("nothing");

        assert_non_null(wanted);
        if (!json_equal(json, wanted))
                fail_msg("%s\nis not\n%s", text, expected);
        free(text);
        json_decref(json);
        json_decref(wanted);
}

/* One GPU that two namespaces share, with an event. */
#define PAGE_A                                                                                                         \
        "{'version': 1, 'node': 'a', 'driver': '570', 'gpus': [{'uuid': 'GPU-a', 'index': '0', 'model': 'NVIDIA L4', " \
        "'memory': 1000, 'memoryUsed': 310, 'utilization': 0.204, 'units': [{'uuid': 'GPU-a', 'index': '0', "          \
        "'sharing': 'mps', 'by': 'device-plugin', 'replicas': 10, 'granted': 7, 'reserved': 2, 'memory': 1000, "       \
        "'shares': ["                                                                                                  \
        "{'namespace': 'team-a', 'pod': 'train', 'container': 'main', 'replicas': 3, 'memoryLimit': 300, "             \
        "'memoryUsed': 150, 'sm': 0.1, 'memoryPeak': 200, 'history': [0.5]}, "                                         \
        "{'namespace': 'team-b', 'pod': 'serve', 'container': 'main', 'replicas': 4, 'memoryLimit': 400}]}]}], "       \
        "'events': [{'time': 7, 'kind': 'Warning', 'reason': 'Fault', 'unit': 'GPU-a', 'text': 'by team-b/serve'}]}"
