// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/demo/program.h"

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

struct demo_limits demo_pod_connect(struct demo *demo, const struct demo_pod *pod)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *const argv[] = {
                arena_printf(&arena, "%s/warpshare-mps-sim-client", demo->node.mps_programs), "--brief", NULL};
        struct demo_limits limits = {0};
        int status;
        _free_ char *text = demo_output(demo, argv, demo_environment(&arena, pod, NULL), &status);
        const char *connected = text ? strstr(text, "connected ") : NULL;

        if (text && (!connected || sscanf(connected, "connected server=%*d percentage=%lf sms=%*u limit=%u",
                                           &limits.threads, &limits.memory_mib) != 2))
                demo_fail(demo, "a program of %s should be a client of MPS, and says: %s", pod->name, text);
        return limits;
}
