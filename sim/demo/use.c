// SPDX-License-Identifier: Apache-2.0
/*
 * What the pods with unequal shares have, and use: `warpshare probe` in one of them, and `warpshare top` of the node,
 * from the agent's own page of it.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sim/demo/program.h"

#define NOTEBOOK ((size_t)1) /* of the pods */

/* ---- a limit that bites ---- */

/* CUDA is a stand-in, too, with the numbers of the pod's GPU: of its memory, CUDA does not see the driver's part. */
static char *write_cuda_scenario(struct demo *demo, const char *uuid)
{
        _free_ char *text =
                xasprintf("name: Tesla V100-SXM2-32GB\nuuid: %s\nmultiprocessors: 80\ncomputeCapability: 7\n"
                          "memory: 32349\ngflops: 196\nbandwidth: 900\n",
                        uuid);
        char *path = xasprintf("%s/cuda.yaml", demo->node.folder);
        struct error err;

        if (file_write(path, text, strlen(text), &err) < 0)
                demo_fail(demo, "%s", err.text);
        return path;
}

void demo_show_limit(struct demo *demo)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct demo_pod *pod = &demo->pods[NOTEBOOK];
        _free_ char *cuda = write_cuda_scenario(demo, container_variable(&pod->container, "NVIDIA_VISIBLE_DEVICES"));
        const char *const argv[] = {demo->node.program, "probe",
                arena_printf(&arena, "--cuda-library=%s", demo->cuda_library),
                arena_printf(&arena, "--nvml-library=%s", demo->library), NULL};
        const char *const more[] = {arena_printf(&arena, "WARPSHARE_CUDA_SIM=%s", cuda),
                arena_printf(&arena, "WARPSHARE_SIM_SCENARIO=%s", demo->node.scenario), NULL};
        int status = 0;
        _free_ char *text = demo_output(demo, argv, demo_environment(&arena, pod, more), &status);

        if (!text)
                return;
        demo_print(demo, "kubectl exec notebook -- warpshare probe", text, 13);
        puts("\n  Here the stand-ins of CUDA and MPS refuse; on a GPU the driver does.");
        fflush(stdout);
        if (status != 0 || !strstr(text, "could be allocated, then it was refused") ||
                !strstr(text, "SMs          24 at one time"))
                demo_fail(demo, "notebook should have its limits, and no more");
}

/* ---- who uses what ---- */

unsigned int demo_port(const struct demo *demo)
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

/* In GiB, as `warpshare top` writes it. */
static char *amount(unsigned int mib)
{
        return xasprintf(" %.1f GiB ", mib / 1024.0);
}

/* Each pod in a line with what it uses; and the agent knows the MPS servers by now. */
static bool has_all(const struct demo *demo, const char *text, const unsigned int *use)
{
        for (size_t i = 0; i < DEMO_PODS; i++) {
                const char *line = strstr(text, demo->pods[i].name);
                _free_ char *used = amount(use[i]);
                const char *found = line ? strstr(line, used) : NULL;

                if (!found || found > strchr(line, '\n'))
                        return false;
        }
        return strstr(text, ", busy ") && !strstr(text, "(hidden)");
}

static bool has_ended(void *demo)
{
        return !((struct demo *)demo)->node.agent->runs;
}

/* The GPUs are read each second, and so is kubelet's list of who holds what. */
static char *look_until_all_are_there(struct demo *demo, const unsigned int *use)
{
        static const char *const environment[] = {"COLUMNS=78", NULL};
        const uint64_t until_ms = uv_now(&demo->loop) + DEMO_PATIENCE_MS;

        while (uv_now(&demo->loop) < until_ms && !demo->wrong && !demo->interrupted) {
                _free_ char *address = xasprintf("--metrics-address=127.0.0.1:%u", demo_port(demo));
                const char *const argv[] = {demo->node.program, "top", "--once", address, NULL};
                int status = 0;
                char *text = demo_port(demo) ? demo_output(demo, argv, environment, &status) : NULL;

                if (text && status != 0)
                        demo_fail(demo, "warpshare top says: %s", text);
                else if (text && has_all(demo, text, use))
                        return text;
                free(text);
                if (demo_wait(demo, has_ended, demo, 200))
                        break;
        }
        if (!demo->wrong)
                demo_fail(demo, "warpshare top should name the pods, and what they use");
        return NULL;
}

/* The programs of a pod keep the SMs that it has busy most of the time. */
static void show_use_on_gpus(struct demo *demo)
{
        for (size_t i = 0; i < DEMO_PODS; i++)
                for (size_t j = 0; j < DEMO_GPUS; j++)
                        if (strcmp(container_variable(&demo->pods[i].container, "NVIDIA_VISIBLE_DEVICES"),
                                    demo_uuids[j]) == 0)
                                demo->use[j] += (unsigned int)demo->pods[i].requests[0].count * 9;
        demo_set_gpus(demo, -1);
}

void demo_show_use(struct demo *demo, void (*meanwhile)(struct demo *demo))
{
        static const unsigned int use[DEMO_PODS] = {18 * 1024, 2560, 4608}; /* MiB */
        struct demo_program programs[DEMO_PODS] = {0};
        _free_ char *text = NULL;

        if (!demo_wait_count(demo, DEMO_RESOURCE, demo->offered)) {
                demo_fail(demo, "kubelet should count %zu", demo->offered);
                return;
        }
        demo_wait(demo, demo_has_daemons, demo, DEMO_PATIENCE_MS);
        if (demo_run_pods(demo)) {
                show_use_on_gpus(demo);
                for (size_t i = 0; i < DEMO_PODS && !demo->wrong; i++)
                        demo_program_start(demo, &programs[i], &demo->pods[i], use[i]);
                text = demo->wrong ? NULL : look_until_all_are_there(demo, use);
        }
        if (text)
                demo_print(demo, "warpshare top --once", text, 4);
        if (text && meanwhile)
                meanwhile(demo);
        for (size_t i = 0; i < DEMO_PODS; i++)
                demo_program_end(demo, &programs[i]);
}
