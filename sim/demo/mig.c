// SPDX-License-Identifier: Apache-2.0
/*
 * MIG by label: what a configuration changes is drawn by `warpshare mig plan`, the node's label makes the agent change
 * it, and what the node offers follows. A pod that holds a MIG device that stays does not notice.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "sim/demo/program.h"

#define LABEL "nvidia.com/mig.config"
#define STATE "nvidia.com/mig.config.state"
#define SMALL "nvidia.com/mig-1g.10gb"

struct offer {
        const char *resource;
        size_t count;
};

/* ---- what is drawn ---- */

/* The drawing of a GPU is as wide as a narrow terminal: what is indented is so by less. */
static void show_plan(struct demo *demo, const char *config)
{
        _free_ char *library = xasprintf("--nvml-library=%s", demo->node.library);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", demo->node.scenario);
        const char *const argv[] = {demo->node.program, "mig", "plan", "--config", config, library, NULL};
        const char *const environment[] = {scenario, NULL};
        int status;
        _free_ char *text = demo_output(demo, argv, environment, &status);
        size_t length;

        printf("  %s$ warpshare mig plan --config %s%s\n", demo_style(demo, DEMO_DIM), config,
                demo_style(demo, DEMO_PLAIN));
        for (const char *line = text; line && *line; line += length + (line[length] == '\n')) {
                length = strcspn(line, "\n");
                if (length)
                        printf("%.*s\n", (int)length - (text_starts_with(line, "    ") ? 2 : 0),
                                line + (text_starts_with(line, "    ") ? 2 : 0));
        }
        fflush(stdout);
        if (text && status != 0)
                demo_fail(demo, "the configuration %s should fit", config);
}

/* ---- what is wanted, and what is offered ---- */

static const char *label_of(const struct demo *demo, const char *name)
{
        const json_t *node = json_object_get(cluster_objects(demo->node.cluster, CLUSTER_NODES), SIM_NODE_NAME);
        const json_t *labels = json_object_get(json_object_get(node, "metadata"), "labels");
        const char *value = json_string_value(json_object_get(labels, name));

        return value ? value : "";
}

static void set_label(struct demo *demo, const char *config)
{
        json_t *node =
                json_deep_copy(json_object_get(cluster_objects(demo->node.cluster, CLUSTER_NODES), SIM_NODE_NAME));
        json_t *metadata = json_object_get(node, "metadata");

        if (!json_object_get(metadata, "labels"))
                json_object_set_new(metadata, "labels", json_object());
        json_object_set_new(json_object_get(metadata, "labels"), LABEL, json_string(config));
        json_object_del(json_object_get(metadata, "labels"), STATE);
        cluster_put(demo->node.cluster, CLUSTER_NODES, node);
        printf("\n  %s$ kubectl label node demo --overwrite " LABEL "=%s%s\n", demo_style(demo, DEMO_DIM), config,
                demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
}

static bool is_success(void *data)
{
        const struct demo *demo = data;

        return !demo->node.agent->runs || strcmp(label_of(demo, STATE), "success") == 0;
}

static void show_offers(struct demo *demo, const struct offer *offers, size_t n_offers)
{
        if (!demo_wait(demo, is_success, demo, DEMO_PATIENCE_MS))
                demo_fail(demo, "the configuration should be there; its state is '%s'", label_of(demo, STATE));
        printf("  " STATE ": %s%s%s\n  Allocatable:\n", demo_style(demo, DEMO_GREEN), label_of(demo, STATE),
                demo_style(demo, DEMO_PLAIN));
        for (size_t i = 0; i < n_offers; i++) {
                const bool is_there = demo_wait_count(demo, offers[i].resource, offers[i].count);

                printf("    %s:  %s%zu%s\n", offers[i].resource, demo_style(demo, is_there ? DEMO_GREEN : DEMO_RED),
                        kubelet_allocatable(demo->node.kubelet, offers[i].resource), demo_style(demo, DEMO_PLAIN));
                if (!is_there)
                        demo_fail(demo, "kubelet should count %zu of %s", offers[i].count, offers[i].resource);
        }
        fflush(stdout);
}

void demo_show_mig(struct demo *demo)
{
        static const struct offer balanced[] = {
                {SMALL, 2}, {"nvidia.com/mig-2g.20gb", 1}, {"nvidia.com/mig-3g.40gb", 1}, {DEMO_RESOURCE, 0}};

        if (!demo_wait_count(demo, DEMO_RESOURCE, 1)) {
                demo_fail(demo, "kubelet should count one GPU");
                return;
        }
        show_plan(demo, "all-balanced");
        set_label(demo, "all-balanced");
        show_offers(demo, balanced, ARRAY_SIZE(balanced));
}

void demo_show_mig_change(struct demo *demo)
{
        static const struct offer small[] = {{SMALL, 7}, {"nvidia.com/mig-2g.20gb", 0}, {"nvidia.com/mig-3g.40gb", 0}};
        struct demo_pod notebook = {.name = "notebook", .requests = {{SMALL, 1}}, .n_requests = 1};

        if (demo_pod_run(demo, &notebook)) {
                printf("  The pod notebook has %s.\n  It stays where it is:\n\n",
                        container_variable(&notebook.container, "NVIDIA_VISIBLE_DEVICES"));
                show_plan(demo, "all-1g.10gb");
                set_label(demo, "all-1g.10gb");
                show_offers(demo, small, ARRAY_SIZE(small));
        }
        demo_pod_done(&notebook);
}
