// SPDX-License-Identifier: Apache-2.0
/*
 * Containers whose limits are known only when they start: one with shares of two GPUs, and those that declare what they
 * need.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "sim/demo/pod.h"

#define THREADS "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define MEMORY "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"

/* How many of the DEMO_REPLICAS of each GPU the container of the guide requests. */
#define HALF (DEMO_REPLICAS / 2)

static void check_limits(struct demo *demo, const struct demo_pod *pod, const struct demo_limits *got, double threads,
        unsigned int memory_mib)
{
        if (got->memory_mib != memory_mib || got->threads < threads - 0.05 || got->threads > threads + 0.05)
                demo_fail(demo, "a program of %s should have %.1f %% of the threads and %u MiB", pod->name, threads,
                        memory_mib);
}

/* ---- the guide's pod ---- */

static void show_row(const struct demo *demo, const char *what, const char *value)
{
        printf("    %-33s %s%s%s\n", what, demo_style(demo, DEMO_CYAN), value, demo_style(demo, DEMO_PLAIN));
}

static void show_container(const struct demo *demo, const struct container *container)
{
        static const char *const variables[] = {"CUDA_MPS_PIPE_DIRECTORY", MEMORY, THREADS};
        _cleanup_(strbuf_done) struct strbuf nodes = STRBUF_INIT;
        const json_t *source;
        const char *path;

        json_object_foreach(container->nodes, path, source)
        {
                strbuf_printf(&nodes, "%s%s", nodes.size ? " " : "", path);
        }
        printf("    device nodes      %s%s%s\n", demo_style(demo, DEMO_CYAN), nodes.data, demo_style(demo, DEMO_PLAIN));
        for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
                show_row(demo, variables[i], container_variable(container, variables[i]));
}

static void check_container(struct demo *demo, const struct container *container)
{
        _free_ char *memory = xasprintf("%uM", DEMO_USABLE_MIB * HALF / DEMO_REPLICAS); /* of each of its GPUs */
        bool sees_its_own = true;

        for (unsigned int i = 0; i < DEMO_GPUS; i++) {
                _free_ char *node = xasprintf("/dev/nvidia%u", i);

                sees_its_own &= (json_object_get(container->nodes, node) != NULL) == (i < 2);
        }
        if (!sees_its_own)
                demo_fail(demo, "it should see the first two GPUs and no other");
        if (strcmp(container_variable(container, MEMORY), memory) != 0)
                demo_fail(demo, "its memory should be %s", memory);
        if (strcmp(container_variable(container, THREADS), "50") != 0)
                demo_fail(demo, "it should have half of the threads");
}

void demo_show_pod_of_two_gpus(struct demo *demo)
{
        struct demo_pod pod = {
                .name = "both", .requests = {{DEMO_RESOURCE "0", HALF}, {DEMO_RESOURCE "1", HALF}}, .n_requests = 2};
        struct demo_limits got;

        if (demo_pod_run(demo, &pod)) {
                printf("  It asks for %s: %zu and %s: %zu. kubelet allocates each\n"
                       "  by itself and keeps the first value of a variable, so what each container\n"
                       "  needs comes by CDI. The container runtime resolves it:\n"
                       "\n",
                        pod.requests[0].resource, pod.requests[0].count, pod.requests[1].resource,
                        pod.requests[1].count);
                show_container(demo, &pod.container);
                check_container(demo, &pod.container);
                got = demo_pod_connect(demo, &pod);
                printf("\n  %sits MPS server says:%s %.1f %% of the threads, and of the first GPU %.2f GiB\n",
                        demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN), got.threads, got.memory_mib / 1024.0);
                check_limits(demo, &pod, &got, 50, DEMO_USABLE_MIB * HALF / DEMO_REPLICAS);
        }
        demo_pod_done(&pod);
}

/* ---- what containers declare ---- */

static void show_declared_pod(struct demo *demo, struct demo_pod *pod, double threads, unsigned int memory_mib)
{
        struct demo_limits got;

        if (demo_pod_run(demo, pod)) {
                got = demo_pod_connect(demo, pod);
                printf("  %s%-8s%s  %5.1f %%  %6.2f GiB  %s\n", demo_style(demo, DEMO_CYAN), pod->name,
                        demo_style(demo, DEMO_PLAIN), got.threads, got.memory_mib / 1024.0,
                        pod->own[0] ? pod->own[0] : "nothing");
                if (pod->own[0])
                        printf("  %31s%s\n", "", pod->own[1]);
                check_limits(demo, pod, &got, threads, memory_mib);
        }
        demo_pod_done(pod);
}

void demo_show_declared_pods(struct demo *demo)
{
        _free_ char *memory = xasprintf(MEMORY "=0=%uM", DEMO_DECLARED_MIB);
        struct demo_pod large = {
                .name = "large", .requests = {{DEMO_RESOURCE, 1}}, .n_requests = 1, .own = {memory, THREADS "=10"}};
        struct demo_pod other = {.name = "other", .requests = {{DEMO_RESOURCE, 1}}, .n_requests = 1};

        puts("  Replicas only say how many containers fit; each asks for " DEMO_RESOURCE ": 1.\n"
             "  What a program in it gets, as its MPS server says:\n");
        printf("  %s%-8s  %7s  %10s  %s%s\n", demo_style(demo, DEMO_DIM), "POD", "THREADS", "MEMORY", "DECLARES",
                demo_style(demo, DEMO_PLAIN));
        show_declared_pod(demo, &large, 10, DEMO_DECLARED_MIB);
        show_declared_pod(demo, &other, 100.0 / DEMO_EQUAL, DEMO_USABLE_MIB / DEMO_EQUAL);
}
