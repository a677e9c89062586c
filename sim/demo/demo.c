// SPDX-License-Identifier: Apache-2.0
/*
 * The demonstration: everything on simulated GPUs, step by step. Every figure that it shows comes from kubelet, from a
 * container's options or from an MPS daemon. If a figure is not the expected one, the demonstration says so and fails.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io/keeper.h"
#include "sim/demo/demo.h"

#define FAILING_GPU 2

/* The arguments with which `warpshare demo` starts this program; all are needed. */
enum { PROGRAM = 1, NVML_LIBRARY, CUDA_LIBRARY, MPS_PROGRAMS, COLOUR, PAUSE, KEEP, LOG, ALL, COUNT };

/* ---- the story ---- */

static void collect_pids(const struct demo *demo, pid_t pids[DEMO_GPUS])
{
        for (size_t i = 0; i < DEMO_GPUS; i++) {
                const struct mps_daemon_status *daemon =
                        demo->daemons ? mps_status_find_unit(demo->daemons, demo_uuids[i]) : NULL;

                pids[i] = daemon ? daemon->pid : 0;
        }
}

static void show_agent_log(const struct demo *demo)
{
        FILE *log = fopen(demo->node.log, "re");
        char line[4096];

        if (!log)
                return;
        printf("\n  %swhat the agent logged:%s\n", demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN));
        while (fgets(line, sizeof(line), log))
                printf("  %s%s%s", demo_style(demo, DEMO_DIM), line, demo_style(demo, DEMO_PLAIN));
        fclose(log);
}

static bool is_interrupted(void *demo)
{
        return ((struct demo *)demo)->interrupted;
}

static void keep(struct demo *demo)
{
        const struct sim_node *node = &demo->node;

        demo_heading(demo, "The node stays up, and the programs run, until Ctrl-C. Try:");
        printf("  %s top --metrics-address=127.0.0.1:%u\n      who uses what of which GPU\n", node->program,
                demo_port(demo));
        printf("  %s mps status --mps-directory=%s\n      the MPS daemons, and whose shares they serve\n",
                node->program, node->mps_root);
        printf("  %s\n      the agent's log\n", node->log);
        printf("  %s\n      the GPUs: edit it and watch the agent's log\n", node->scenario);
        printf("  %s\n      the configuration; 'kill -HUP %d' puts a change in force\n", node->config,
                node->agent->process.pid);
        printf("  WARPSHARE_SIM_SCENARIO=%s LD_PRELOAD=%s nvidia-smi\n      NVIDIA's own tool on the simulated GPUs\n",
                node->scenario, demo->library);
        fflush(stdout);
        while (!sim_node_wait(&demo->node, is_interrupted, demo, 3600000))
                ;
}

static bool has_fault(void *demo)
{
        return ((struct demo *)demo)->fault != NULL;
}

static void kill_daemon(struct demo *demo)
{
        pid_t before[DEMO_GPUS];
        pid_t after[DEMO_GPUS];
        size_t changed = 0;
        size_t killed = 0;

        demo_show_daemons(demo);
        if (demo->interrupted || demo->wrong)
                return;
        while (demo_uuids[killed] != demo->busiest)
                killed++;
        collect_pids(demo, before);
        demo->lost_gpu = demo->busiest;
        kill(before[killed], SIGKILL);
        demo_show_counts(demo, DEMO_ADVERTISED(DEMO_GPUS - 1), true);
        demo_draw(demo);
        demo_wait(demo, has_fault, demo, DEMO_PATIENCE_MS);
        printf("\n  %swarpshare mps says:%s %s\n\n", demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN),
                demo->fault ? demo->fault : "nothing");
        demo->lost_gpu = NULL;
        demo_show_counts(demo, DEMO_ADVERTISED(DEMO_GPUS), true);
        demo_wait(demo, demo_has_daemons, demo, DEMO_PATIENCE_MS);
        collect_pids(demo, after);
        for (size_t i = 0; i < DEMO_GPUS; i++)
                changed += before[i] != after[i];
        printf("  It has PID %d now; %zu of the %u daemons were touched.\n", (int)after[killed], changed, DEMO_GPUS);
        if (changed != 1 || before[killed] == after[killed] || !demo->fault)
                demo_fail(demo, "one daemon should have been restarted, and no other");
}

static void lose_gpu(struct demo *demo)
{
        demo->lost_gpu = demo_uuids[FAILING_GPU];
        demo_set_gpus(demo, FAILING_GPU);
        demo_show_counts(demo, DEMO_ADVERTISED(DEMO_GPUS - 1), true);
        demo_draw(demo);
        puts("\n  It answers again: three good probes, and its replicas are back by themselves.\n");
        demo->lost_gpu = NULL;
        demo_set_gpus(demo, -1);
        demo_show_counts(demo, DEMO_ADVERTISED(DEMO_GPUS), true);
        demo_draw(demo);
}

static void show_equal_parts(struct demo *demo)
{
        if (!demo_step(demo, "Each GPU in 20 equal parts: the node has 80, and a pod may have one"))
                return;
        demo_show_counts(demo, demo->offered, false);
        if (!demo->wrong)
                demo_show_equal_pod(demo);
}

static void show_each_gpu(struct demo *demo)
{
        if (!demo_step(demo, "A resource for each GPU (scope: individual), and a container that has two"))
                return;
        if (!demo->node.has_device_nodes) {
                puts("  Not shown: no device nodes can be made in /tmp here, and a container sees two\n"
                     "  GPUs by theirs.");
                return;
        }
        demo_show_counts_of_each(demo, DEMO_REPLICAS);
        if (!demo->wrong)
                demo_show_pod_of_two_gpus(demo);
}

static void show_declared(struct demo *demo)
{
        if (!demo_step(demo, "Containers say themselves what they need (provisioning: declared)"))
                return;
        if (demo_wait_count(demo, DEMO_RESOURCE, demo->offered))
                demo_show_declared_pods(demo);
        else
                demo_fail(demo, "kubelet should count %zu", demo->offered);
}

static void show_any_parts(struct demo *demo)
{
        printf("%sWarpshare%s on a simulated node: 4 × Tesla V100-SXM2-32GB, shared by MPS.\n",
                demo_style(demo, DEMO_BOLD), demo_style(demo, DEMO_PLAIN));
        printf("%sThe agent and warpshare mps are the real ones; GPUs, NVIDIA's MPS and CUDA,\n"
               "kubelet and container runtime are stand-ins.%s\n",
                demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN));
        if (!demo_step(demo, "Unequal shares: three pods ask for 70 %, 30 % and 20 % of a GPU"))
                return;
        demo_show_counts(demo, demo->offered, true);
        if (demo->wrong)
                return;
        demo_show_pods(demo);
        printf("\n"
               "  The scheduler only counts replicas, so %zu of %u are reserved: then every pod\n"
               "  that it admits finds its own on one GPU. Claims (DRA), a resource for each\n"
               "  GPU, and equal parts need no reserve.\n",
                (size_t)DEMO_GPUS * DEMO_REPLICAS - demo->offered, DEMO_GPUS * DEMO_REPLICAS);
        if (demo_step(demo, "A limit that bites: what a program of notebook gets, and what is refused"))
                demo_show_limit(demo);
        if (demo_step(demo, "The MPS daemon of training is killed (-9): only its GPU is unhealthy"))
                kill_daemon(demo);
        if (demo_step(demo, "A GPU falls off the bus (Xid 79): its replicas go, the rest serves on"))
                lose_gpu(demo);
}

static void show_claims(struct demo *demo)
{
        if (!demo_step(demo, "Claims instead of replicas (DRA): the scheduler sees what is left of each GPU"))
                return;
        if (demo->node.has_device_nodes)
                demo_show_claims(demo);
        else
                puts("  Not shown: no device nodes can be made in /tmp here, and a claim's container\n"
                     "  sees its GPU by them.");
}

static void show_mig(struct demo *demo)
{
        if (demo_step(demo, "MIG by label: what a configuration changes is drawn, then made"))
                demo_show_mig(demo);
        if (demo_step(demo, "Another label: the MIG device that a pod holds stays, the rest is made anew"))
                demo_show_mig_change(demo);
}

static void show_use(struct demo *demo)
{
        if (demo_step(demo, "Who was granted how much of which GPU, and who uses it"))
                demo_show_use(demo, demo->keeps ? keep : NULL);
}

static void on_signal(uv_signal_t *handle, int number UNUSED)
{
        ((struct demo *)handle->data)->interrupted = true;
}

static bool is_on(const char *value)
{
        return strcmp(value, "true") == 0;
}

/* False: it failed, or these screens are not shown: without --all only those of the unequal shares are. */
static bool begin(struct demo *demo, enum demo_parts parts, char **argv)
{
        struct error err;

        if (parts != DEMO_ANY_PARTS && !is_on(argv[ALL]))
                return false;
        if (demo_start(demo, parts, argv[PROGRAM], argv[MPS_PROGRAMS], &err) == 0)
                return true;
        fprintf(stderr, "warpshare demo: %s\n", err.text);
        demo->wrong = true;
        return false;
}

static const struct {
        enum demo_parts parts;
        void (*report)(struct demo *demo);
} scenes[] = {
        {DEMO_ANY_PARTS, show_any_parts},
        {DEMO_EQUAL_PARTS, show_equal_parts},
        {DEMO_EACH_GPU, show_each_gpu},
        {DEMO_DECLARED, show_declared},
        {DEMO_CLAIMS, show_claims},
        {DEMO_MIG, show_mig},
        {DEMO_ANY_PARTS, show_use},
};

static int run(struct demo *demo, char **argv)
{
        struct error err;

        loop_init(&demo->loop);
        if (signals_listen(&demo->signals, &demo->loop, on_signal, demo, &err) < 0) {
                fprintf(stderr, "warpshare demo: %s\n", err.text);
                return 1;
        }
        for (size_t i = 0; i < ARRAY_SIZE(scenes) && !demo->wrong && !demo->interrupted; i++) {
                bool is_last = i + 1 == ARRAY_SIZE(scenes);

                if (begin(demo, scenes[i].parts, argv)) {
                        scenes[i].report(demo);
                        if ((is_last && is_on(argv[LOG])) || demo->wrong)
                                show_agent_log(demo);
                }
                demo_stop(demo);
        }
        sim_node_remove(demo->folder); /* the parent may have been killed */
        signals_close(&demo->signals);
        uv_run(&demo->loop, UV_RUN_DEFAULT);
        uv_loop_close(&demo->loop);
        if (!demo->wrong && (!demo->interrupted || demo->keeps))
                printf("\n%sAll as it should be.%s\n", demo_style(demo, DEMO_GREEN), demo_style(demo, DEMO_PLAIN));
        return demo->wrong;
}

/* A parent cleans up after it even if it is killed; if the parent is killed, it does so itself. */
int main(int argc, char **argv)
{
        char folder[] = "/tmp/warpshare-XXXXXX";
        struct demo demo = {.folder = folder};
        struct error err;
        int status = 1;

        if (argc != COUNT) {
                fputs("'warpshare demo' starts this program\n", stderr);
                return 2;
        }
        if (!mkdtemp(folder)) {
                fprintf(stderr, "warpshare demo: create '%s': %s\n", folder, strerror(errno));
                return 1;
        }
        signals_hold();
        signal(SIGPIPE, SIG_IGN);
        demo.colour = is_on(argv[COLOUR]);
        demo.keeps = is_on(argv[KEEP]);
        demo.pause_ms = strtoull(argv[PAUSE], NULL, 10) * 1000;
        demo.library = argv[NVML_LIBRARY];
        demo.cuda_library = argv[CUDA_LIBRARY];
        switch (keeper_run_once("the demonstration", &status, &err)) {
        case 1:
                return run(&demo, argv);
        case -1:
                fprintf(stderr, "warpshare demo: %s\n", err.text);
                break;
        }
        sim_node_remove(folder);
        return status;
}
