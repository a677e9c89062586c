// SPDX-License-Identifier: Apache-2.0
/*
 * A cluster as a program, for tests: what is to be known as the second argument, names of nodes to ask soon on standard
 * input, one a line, and on standard output the view after each change, a JSON object a line.
 *
 *     cluster-driver KUBECONFIG '{"interval_ms": 200}'
 *
 * Everything is closed at the end of input; then the loop must end by itself, and what it leaks the sanitizer tells.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/strbuf.h"
#include "cluster/cluster.h"

struct driver {
        uv_loop_t loop;
        uv_pipe_t input;
        char piece[65536];
        struct kube_client *client;
        struct cluster *cluster;
};

static json_t *page_json(const struct node_page *page)
{
        size_t shares = 0;

        if (!page)
                return json_null();
        for (size_t i = 0; i < page->n_gpus; i++)
                for (size_t j = 0; j < page->gpus[i].n_units; j++)
                        shares += page->gpus[i].units[j].n_shares;
        return json_pack("{s:f, s:i, s:i}", "time", page->time, "gpus", (int)page->n_gpus, "shares", (int)shares);
}

static json_t *node_json(const struct cluster_node *node)
{
        return json_pack("{s:s, s:b, s:s?, s:s, s:s?, s:I, s:o, s:I}", "name", node->name, "has_object",
                node->object != NULL, "agent", node->agent ? node->agent->pod : NULL, "state",
                cluster_agent_state_name(node->state), "reason", node->reason, "since", (json_int_t)node->since, "page",
                page_json(node->page), "version", (json_int_t)node->version);
}

static json_t *trouble_json(const struct error *trouble)
{
        return trouble ? json_string(trouble->text) : json_null();
}

static void on_driver_change(void *data)
{
        struct driver *driver = data;
        const struct cluster_view *view = cluster_view(driver->cluster);
        json_t *nodes = json_array();
        json_t *pods = json_array();
        json_t *more = json_object();
        json_t *too_large = json_array();
        json_t *json;

        for (size_t i = 0; i < view->n_nodes; i++)
                json_array_append_new(nodes, node_json(view->nodes[i]));
        for (size_t i = 0; i < view->n_pods; i++)
                json_array_append_new(pods, json_sprintf("%s/%s", view->pods[i]->namespace, view->pods[i]->name));
        for (size_t i = 0; i < view->n_more; i++)
                json_object_set_new(more, view->more[i].namespace, json_integer((json_int_t)view->more[i].count));
        for (size_t i = 0; i < view->n_too_large; i++)
                json_array_append_new(too_large, trouble_json(view->too_large[i]));
        json = json_pack("{s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", (json_int_t)view->version,
                "complete", view->is_complete, "nodes", nodes, "pods", pods, "nodes_trouble",
                trouble_json(view->nodes_trouble), "agents_trouble", trouble_json(view->agents_trouble), "pods_trouble",
                trouble_json(view->pods_trouble), "more", more, "too_large", too_large);
        json_dumpf(json, stdout, JSON_COMPACT);
        json_decref(json);
        putchar('\n');
        fflush(stdout);
}

static void on_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buffer)
{
        struct driver *driver = container_of(handle, struct driver, input);

        *buffer = uv_buf_init(driver->piece, sizeof(driver->piece));
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer UNUSED)
{
        struct driver *driver = container_of(stream, struct driver, input);

        if (count < 0) {
                uv_close((uv_handle_t *)&driver->input, NULL);
                driver->cluster = cluster_close(driver->cluster);
                driver->client = kube_client_close(driver->client, NULL, NULL);
        }
}

static const char *text_of(const json_t *options, const char *key)
{
        return json_string_value(json_object_get(options, key));
}

static uint64_t number_of(const json_t *options, const char *key)
{
        return (uint64_t)json_integer_value(json_object_get(options, key));
}

int main(int argc, char **argv)
{
        struct driver driver = {0};
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        json_t *wanted = argc == 3 ? json_loads(argv[2], 0, NULL) : NULL;
        struct error err;

        signal(SIGPIPE, SIG_IGN);
        uv_loop_init(&driver.loop);
        if (!wanted || kube_client_open(&driver.client, &driver.loop, argv[1], &err) != 0) {
                fprintf(stderr, "cluster-driver: %s\n", wanted ? err.text : "usage: cluster-driver KUBECONFIG OPTIONS");
                return 2;
        }
        options.client = driver.client;
        options.agent_namespace = text_of(wanted, "agent_namespace");
        options.agent_selector = text_of(wanted, "agent_selector");
        options.pod_namespace = text_of(wanted, "pod_namespace");
        options.node = text_of(wanted, "node");
        options.query = text_of(wanted, "query");
        options.interval_ms = number_of(wanted, "interval_ms");
        options.deadline_ms = number_of(wanted, "deadline_ms");
        options.on_change = on_driver_change;
        options.data = &driver;
        driver.cluster = cluster_start(&options);
        json_decref(wanted);
        uv_pipe_init(&driver.loop, &driver.input, 0);
        uv_pipe_open(&driver.input, 0);
        uv_read_start((uv_stream_t *)&driver.input, on_alloc, on_input);
        uv_run(&driver.loop, UV_RUN_DEFAULT);
        return uv_loop_close(&driver.loop) == 0 ? 0 : 3;
}
