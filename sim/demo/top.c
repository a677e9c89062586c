/* The end of the demonstration: `warpshare top` of the node, from the agent's own page of it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/child.h"
#include "sim/demo/pod.h"

#define PATIENCE_MS UINT64_C(60000)
#define COLUMNS ((size_t)108) /* as a terminal of that width would cut lines */

struct look {
        bool has_ended;
        int status;
        char *text;
};

static void on_looked(const struct child_result *result, void *data)
{
        struct look *look = data;

        look->has_ended = true;
        look->status = result->status;
        look->text = xstrdup(result->output);
}

static bool has_looked(void *data)
{
        return ((struct look *)data)->has_ended;
}

/* The kernel chose it, and the agent's log has it; 0: not yet. */
static unsigned int find_port(const struct demo *demo)
{
        FILE *log = fopen(demo->node.log, "re");
        unsigned int port = 0;
        char line[4096];

        while (log && !port && fgets(line, sizeof(line), log)) {
                const char *found = strstr(line, " metrics ") ? strstr(line, " port=") : NULL;

                if (found && sscanf(found, " port=%u", &port) != 1)
                        port = 0;
        }
        if (log)
                fclose(log);
        return port;
}

/* The text, for the caller to free; NULL: there was none, which has been said. */
static char *look_at(struct demo *demo, unsigned int port)
{
        _free_ char *address = xasprintf("--metrics-address=127.0.0.1:%u", port);
        struct look look = {0};
        const struct child_options options = {
                .argv = (const char *const[]){demo->node.program, "top", "--once", address, NULL},
                .environment = (const char *const[]){NULL},
                .timeout_ms = PATIENCE_MS,
                .on_end = on_looked,
                .data = &look,
        };
        struct child *child;
        struct error err;

        if (child_run(&child, &demo->loop, &options, &err) < 0) {
                demo_fail(demo, "%s", err.text);
                return NULL;
        }
        sim_node_wait(&demo->node, has_looked, &look, UINT64_MAX);
        if (look.status == 0)
                return look.text;
        demo_fail(demo, "warpshare top says: %s", look.text);
        free(look.text);
        return NULL;
}

static bool names_all(const char *text, const struct demo_pod *pods, size_t n_pods)
{
        for (size_t i = 0; i < n_pods; i++)
                if (!strstr(text, pods[i].name))
                        return false;
        return true;
}

static bool has_ended(void *demo)
{
        return !((struct demo *)demo)->node.agent->runs;
}

/* The GPUs are read each few seconds, and so is kubelet's list of who holds what. */
static char *look_until_all_are_named(struct demo *demo, const struct demo_pod *pods, size_t n_pods)
{
        const uint64_t until_ms = uv_now(&demo->loop) + PATIENCE_MS;

        while (uv_now(&demo->loop) < until_ms && !demo->wrong) {
                const unsigned int port = find_port(demo);
                char *text = port ? look_at(demo, port) : NULL;

                if (text && names_all(text, pods, n_pods) && strstr(text, ", busy "))
                        return text;
                free(text);
                if (sim_node_wait(&demo->node, has_ended, demo, 200))
                        break;
        }
        if (!demo->wrong)
                demo_fail(demo, "warpshare top should name the pods");
        return NULL;
}

void demo_show_top(struct demo *demo)
{
        struct demo_pod pods[] = {{.name = "training", .requests = {{DEMO_RESOURCE, 7}}, .n_requests = 1},
                {.name = "notebook", .requests = {{DEMO_RESOURCE, 3}}, .n_requests = 1},
                {.name = "inference", .requests = {{DEMO_RESOURCE, 2}}, .n_requests = 1}};
        _free_ char *text = NULL;

        if (!demo_wait_count(demo, DEMO_RESOURCE, demo->offered)) {
                demo_fail(demo, "kubelet should count %zu", demo->offered);
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(pods) && !demo->wrong; i++)
                demo_pod_run(demo, &pods[i]);
        text = demo->wrong ? NULL : look_until_all_are_named(demo, pods, ARRAY_SIZE(pods));
        if (text)
                printf("  %s$ warpshare top --once%s\n", demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN));
        for (const char *line = text; line && *line;) {
                const size_t length = strcspn(line, "\n");

                printf("  %.*s\n", (int)MIN(length, COLUMNS), line);
                line += length + (line[length] == '\n');
        }
        fflush(stdout);
        for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
                demo_pod_done(&pods[i]);
}
