#include "sim/demo/pod.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/child.h"

/* ---- kubelet and the container runtime ---- */

static void on_answer(const V1beta1__ContainerAllocateResponse *options, const char *error, void *data)
{
        struct demo_pod *pod = data;

        pod->is_answered = true;
        if (!options)
                error_set(&pod->err, ERROR_UNAVAILABLE, "%s", error);
        else if (container_make(&pod->container, options, pod->own, pod->demo->node.cdi_root, &pod->err) < 0)
                pod->container = (struct container){0};
}

static bool is_answered(void *pod)
{
        return ((struct demo_pod *)pod)->is_answered;
}

bool demo_pod_run(struct demo *demo, struct demo_pod *pod)
{
        pod->demo = demo;
        kubelet_run(demo->node.kubelet, pod->name, pod->requests, pod->n_requests, on_answer, pod);
        if (!sim_node_wait(&demo->node, is_answered, pod, DEMO_PATIENCE_MS))
                demo_fail(demo, "kubelet got no answer for %s", pod->name);
        else if (!pod->container.variables)
                demo_fail(demo, "%s does not run: %s", pod->name, pod->err.text);
        return pod->container.variables;
}

void demo_pod_done(struct demo_pod *pod)
{
        container_done(&pod->container);
}

/* ---- a program in it ---- */

struct connection {
        struct demo_limits limits;
        char text[256]; /* the program's output, if it does not have the limits */
        bool has_ended;
};

/* The program runs outside the container: a variable with a path that is mounted gets the path on the node. */
static const char *const *make_environment(struct arena *arena, const struct container *container)
{
        const char **environment = ARENA_ARRAY(arena, const char *, json_object_size(container->variables) + 1);
        const json_t *value;
        const char *name;
        size_t count = 0;

        json_object_foreach(container->variables, name, value)
        {
                const json_t *mounted = json_object_get(container->mounts, json_string_value(value));

                environment[count++] = arena_printf(arena, "%s=%s", name, json_string_value(mounted ? mounted : value));
        }
        return environment;
}

static void on_end(const struct child_result *result, void *data)
{
        struct connection *connection = data;
        const char *said = strstr(result->output, "connected ");

        connection->has_ended = true;
        if (!said || sscanf(said, "connected server=%*d percentage=%lf sms=%*u limit=%u", &connection->limits.threads,
                             &connection->limits.memory_mib) != 2)
                snprintf(connection->text, sizeof(connection->text), "%s", result->output);
}

static bool has_ended(void *connection)
{
        return ((struct connection *)connection)->has_ended;
}

struct demo_limits demo_pod_connect(struct demo *demo, const struct demo_pod *pod)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *program = arena_printf(&arena, "%s/warpshare-mps-sim-client", demo->node.mps_programs);
        struct connection connection = {0};
        const struct child_options options = {
                .argv = (const char *const[]){program, "--brief", NULL},
                .environment = make_environment(&arena, &pod->container),
                .timeout_ms = DEMO_PATIENCE_MS,
                .on_end = on_end,
                .data = &connection,
        };
        struct child *child;
        struct error err;

        if (child_run(&child, &demo->loop, &options, &err) < 0) {
                demo_fail(demo, "%s", err.text);
                return connection.limits;
        }
        sim_node_wait(&demo->node, has_ended, &connection, 0);
        if (connection.text[0])
                demo_fail(demo, "a program of %s should be a client of MPS, and says: %s", pod->name, connection.text);
        return connection.limits;
}
