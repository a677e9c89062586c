// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/demo/pod.h"

/* ---- looks ---- */

const char *demo_style(const struct demo *demo, enum demo_style wanted)
{
        static const char *const codes[] = {
                [DEMO_PLAIN] = "\x1b[0m",
                [DEMO_BOLD] = "\x1b[1m",
                [DEMO_DIM] = "\x1b[2m",
                [DEMO_GREEN] = "\x1b[32m",
                [DEMO_RED] = "\x1b[31m",
                [DEMO_YELLOW] = "\x1b[33m",
                [DEMO_CYAN] = "\x1b[36m",
                [DEMO_MAGENTA] = "\x1b[35m",
        };

        return demo->colour ? codes[wanted] : "";
}

void demo_fail(struct demo *demo, const char *format, ...)
{
        va_list args;

        if (demo->interrupted) /* what it waits for may not come: Ctrl-C ends the programs of the node, too */
                return;
        demo->wrong = true;
        printf("  %sNot as it should be: ", demo_style(demo, DEMO_RED));
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("%s\n", demo_style(demo, DEMO_PLAIN));
}

/* ---- waiting ---- */

struct waiting {
        const struct demo *demo;
        bool (*is_true)(void *data);
        void *data;
};

static bool is_over(void *data)
{
        const struct waiting *waiting = data;

        return waiting->demo->interrupted || waiting->is_true(waiting->data);
}

bool demo_wait(struct demo *demo, bool (*is_true)(void *data), void *data, uint64_t timeout_ms)
{
        struct waiting waiting = {demo, is_true, data};

        return sim_node_wait(&demo->node, is_over, &waiting, timeout_ms) && is_true(data);
}

/* ---- what kubelet counts ---- */

struct count {
        const struct demo *demo;
        const char *resource;
        size_t wanted;
};

static bool is_allocatable(void *data)
{
        const struct count *count = data;

        return kubelet_allocatable(count->demo->node.kubelet, count->resource) == count->wanted ||
               !count->demo->node.agent->runs;
}

bool demo_wait_count(struct demo *demo, const char *resource, size_t wanted)
{
        struct count count = {demo, resource, wanted};

        return demo_wait(demo, is_allocatable, &count, DEMO_PATIENCE_MS) && demo->node.agent->runs;
}

/* A row for each GPU and a cell for each replica; the devices come GPU by GPU. */
struct picture {
        const struct demo *demo;
        char gpu[64]; /* of the row being drawn; empty before the first */
        struct cell {
                enum demo_style style;
                const char *text;
        } cells[DEMO_EQUAL];
        unsigned int n_cells;
        unsigned int held;
        unsigned int unhealthy; /* reserved replicas too: to kubelet these are unhealthy */
};

static bool is_lost_gpu(const struct demo *demo, const char *gpu)
{
        return demo->lost_gpu && strcmp(gpu, demo->lost_gpu) == 0;
}

static void end_row(struct picture *picture)
{
        const struct demo *demo = picture->demo;
        if (!picture->gpu[0])
                return;
        printf("  %s%.12s…%s  ", demo_style(demo, DEMO_DIM), picture->gpu, demo_style(demo, DEMO_PLAIN));
        for (unsigned int i = 0; i < picture->n_cells; i++)
                printf("%s%s", demo_style(demo, picture->cells[i].style), picture->cells[i].text);
        printf("%s  ", demo_style(demo, DEMO_PLAIN));
        if (is_lost_gpu(demo, picture->gpu))
                printf("%s%u unhealthy%s\n", demo_style(demo, DEMO_RED), picture->unhealthy,
                        demo_style(demo, DEMO_PLAIN));
        else
                printf("%u in use, %u reserved\n", picture->held, picture->unhealthy);
        *picture = (struct picture){.demo = demo};
}

static enum demo_style style_of_pod(const char *pod)
{
        return pod[0] == 'n' ? DEMO_YELLOW : pod[0] == 't' ? DEMO_CYAN : DEMO_MAGENTA;
}

static struct cell cell_of(const struct picture *picture, bool healthy, const char *pod)
{
        if (is_lost_gpu(picture->demo, picture->gpu))
                return (struct cell){DEMO_RED, pod ? "█" : "×"};
        if (pod)
                return (struct cell){style_of_pod(pod), "█"};
        return healthy ? (struct cell){DEMO_GREEN, "░"} : (struct cell){DEMO_DIM, "·"};
}

static void draw_device(const char *id, bool healthy, const char *pod, void *data)
{
        struct picture *picture = data;
        size_t length = strcspn(id, ":");

        if (length != strlen(picture->gpu) || strncmp(picture->gpu, id, length) != 0) {
                end_row(picture);
                snprintf(picture->gpu, sizeof(picture->gpu), "%.*s", (int)length, id);
        }
        picture->held += pod != NULL;
        picture->unhealthy += !healthy;
        if (picture->n_cells < ARRAY_SIZE(picture->cells))
                picture->cells[picture->n_cells++] = cell_of(picture, healthy, pod);
}

void demo_draw(const struct demo *demo)
{
        struct picture picture = {.demo = demo};

        putchar('\n');
        kubelet_each_device(demo->node.kubelet, DEMO_RESOURCE, draw_device, &picture);
        end_row(&picture);
        fflush(stdout);
}

void demo_show_counts(struct demo *demo, size_t wanted, bool is_brief)
{
        uint64_t started = uv_hrtime();
        enum demo_style style;
        size_t capacity;
        size_t allocatable;
        double took_ms;

        demo_wait_count(demo, DEMO_RESOURCE, wanted);
        took_ms = (double)(uv_hrtime() - started) / 1e6;
        capacity = kubelet_capacity(demo->node.kubelet, DEMO_RESOURCE);
        allocatable = kubelet_allocatable(demo->node.kubelet, DEMO_RESOURCE);
        style = allocatable == demo->offered ? DEMO_GREEN : DEMO_RED;
        if (is_brief)
                printf("  Allocatable: %s%zu%s of %zu  %s(after %.*f ms)%s\n", demo_style(demo, style), allocatable,
                        demo_style(demo, DEMO_PLAIN), capacity, demo_style(demo, DEMO_DIM), took_ms < 10 ? 1 : 0,
                        took_ms, demo_style(demo, DEMO_PLAIN));
        else
                printf("  %s$ kubectl describe node demo%s\n"
                       "  Capacity:\n    " DEMO_RESOURCE ":  %s%zu%s\n"
                       "  Allocatable:\n    " DEMO_RESOURCE ":  %s%zu%s\n",
                        demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN), demo_style(demo, DEMO_BOLD), capacity,
                        demo_style(demo, DEMO_PLAIN), demo_style(demo, style), allocatable,
                        demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
        if (allocatable != wanted || capacity != (size_t)DEMO_GPUS * demo->replicas)
                demo_fail(demo, "kubelet should count %zu of %u", wanted, DEMO_GPUS * demo->replicas);
}

void demo_show_counts_of_each(struct demo *demo, size_t wanted)
{
        printf("  %s$ kubectl describe node demo%s\n  Allocatable:\n", demo_style(demo, DEMO_DIM),
                demo_style(demo, DEMO_PLAIN));
        for (unsigned int i = 0; i < DEMO_GPUS; i++) {
                _free_ char *resource = xasprintf(DEMO_RESOURCE "%u", i);
                bool is_there = demo_wait_count(demo, resource, wanted);

                printf("    %s:  %s%zu%s\n", resource, demo_style(demo, is_there ? DEMO_GREEN : DEMO_RED),
                        kubelet_allocatable(demo->node.kubelet, resource), demo_style(demo, DEMO_PLAIN));
                if (!is_there)
                        demo_fail(demo, "kubelet should count %zu of it", wanted);
        }
        putchar('\n');
        fflush(stdout);
}

/* ---- pods ---- */

bool demo_has_daemons(void *data)
{
        const struct demo *demo = data;
        size_t ready = 0;

        for (size_t i = 0; demo->daemons && i < demo->daemons->n_daemons; i++)
                ready += demo->daemons->daemons[i].state == MPS_READY &&
                         demo->daemons->daemons[i].threads_permille == demo->most_permille;
        return ready == DEMO_GPUS || !demo->node.agent->runs;
}

static bool wait_for_daemons(struct demo *demo)
{
        if (demo_wait(demo, demo_has_daemons, demo, DEMO_PATIENCE_MS) && demo->node.agent->runs)
                return true;
        demo_fail(demo, "%u MPS daemons should be ready", DEMO_GPUS);
        return false;
}

static struct demo_pod make_pod(const char *name, unsigned int replicas)
{
        return (struct demo_pod){.name = name, .requests = {{DEMO_RESOURCE, replicas}}, .n_requests = 1};
}

static const char *gpu_of(const struct demo_pod *pod)
{
        return container_variable(&pod->container, "NVIDIA_VISIBLE_DEVICES");
}

/* The limits in the container's variables. */
static struct demo_limits limits_of(const struct demo_pod *pod)
{
        const char *memory = container_variable(&pod->container, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        struct demo_limits limits = {
                strtod(container_variable(&pod->container, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), NULL)};

        if (sscanf(memory, "0=%uM", &limits.memory_mib) != 1 && sscanf(memory, "%uM", &limits.memory_mib) != 1)
                limits.memory_mib = 0;
        return limits;
}

static void check_pod(struct demo *demo, const struct demo_pod *pod)
{
        const struct demo_limits has = limits_of(pod);
        unsigned int replicas = (unsigned int)pod->requests[0].count;
        unsigned int memory = DEMO_USABLE_MIB * replicas / DEMO_REPLICAS;

        if (has.memory_mib < memory - replicas || has.memory_mib > memory + replicas)
                demo_fail(demo, "%s should have %u MiB", pod->name, memory);
        if (has.threads < 10.0 * replicas - 0.05 || has.threads > 10.0 * replicas + 0.05)
                demo_fail(demo, "%s should have %u %% of the threads", pod->name, 10 * replicas);
        if (strchr(gpu_of(pod), ','))
                demo_fail(demo, "%s should have one GPU", pod->name);
}

static void print_table_head(const struct demo *demo)
{
        printf("\n  %s%-10s  %-18s  %-13s  %7s  %10s%s\n", demo_style(demo, DEMO_DIM), "POD", "ASKS FOR", "GETS",
                "THREADS", "MEMORY", demo_style(demo, DEMO_PLAIN));
}

static void print_pod(const struct demo *demo, const struct demo_pod *pod, struct demo_limits limits)
{
        printf("  %s%-10s%s  " DEMO_RESOURCE ": %-2zu  %.12s…  %5.1f %%  %6.2f GiB\n",
                demo_style(demo, style_of_pod(pod->name)), pod->name, demo_style(demo, DEMO_PLAIN),
                pod->requests[0].count, gpu_of(pod), limits.threads, limits.memory_mib / 1024.0);
        fflush(stdout);
}

/* With equal shares the daemon's default limits apply: the container has no limits of its own. */
void demo_show_equal_pod(struct demo *demo)
{
        struct demo_pod pod = make_pod("notebook", 1);
        const struct mps_daemon_status *daemon;
        struct demo_limits limits = {0};

        if (!wait_for_daemons(demo))
                return;
        print_table_head(demo);
        if (demo_pod_run(demo, &pod)) {
                daemon = demo->daemons ? mps_status_find_unit(demo->daemons, gpu_of(&pod)) : NULL;
                if (daemon)
                        limits = (struct demo_limits){daemon->threads_permille / 10.0, (unsigned int)daemon->limit_mib};
                print_pod(demo, &pod, limits);
                if (!daemon || daemon->threads_permille != demo->most_permille || daemon->limit_mib != demo->most_mib)
                        demo_fail(demo, "it should have %u MiB", (unsigned int)demo->most_mib);
        }
        demo_draw(demo);
        demo_pod_done(&pod);
}

bool demo_run_pods(struct demo *demo)
{
        const struct demo_pod pods[DEMO_PODS] = {
                make_pod("training", 7), make_pod("notebook", 3), make_pod("inference", 2)};

        demo->pods = xcalloc(DEMO_PODS, sizeof(*demo->pods));
        memcpy(demo->pods, pods, sizeof(pods));
        for (size_t i = 0; i < DEMO_PODS; i++)
                if (!demo_pod_run(demo, &demo->pods[i]))
                        return false;
        return true;
}

static void print_legend(const struct demo *demo)
{
        static const struct {
                enum demo_style style;
                const char *text;
        } signs[] = {
                {DEMO_CYAN, "█ in use"}, {DEMO_GREEN, "░ free"}, {DEMO_DIM, "· reserved"}, {DEMO_RED, "× unhealthy"}};

        fputs("                 ", stdout);
        for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
                printf("%s%s%s%s", demo_style(demo, signs[i].style), signs[i].text, demo_style(demo, DEMO_PLAIN),
                        i + 1 < ARRAY_SIZE(signs) ? "   " : "\n");
        fflush(stdout);
}

void demo_show_pods(struct demo *demo)
{
        if (!wait_for_daemons(demo) || !demo_run_pods(demo))
                return;
        print_table_head(demo);
        for (size_t i = 0; i < DEMO_PODS; i++) {
                print_pod(demo, &demo->pods[i], limits_of(&demo->pods[i]));
                check_pod(demo, &demo->pods[i]);
        }
        demo_draw(demo);
        print_legend(demo);
        for (size_t i = 0; i < DEMO_GPUS && !demo->wrong; i++)
                if (strcmp(gpu_of(&demo->pods[0]), demo_uuids[i]) == 0)
                        demo->busiest = demo_uuids[i];
}

void demo_end_pods(struct demo *demo)
{
        for (size_t i = 0; demo->pods && i < DEMO_PODS; i++)
                demo_pod_done(&demo->pods[i]);
        free(TAKE_PTR(demo->pods));
}

/* ---- MPS daemons ---- */

static void show_daemon(struct demo *demo, const struct mps_daemon_status *daemon)
{
        printf("  %.12s…   %s%-8s%s %8d  %6.1f %%  %6.2f GiB   %s\n", daemon->name,
                demo_style(demo, daemon->state == MPS_READY ? DEMO_GREEN : DEMO_RED), mps_state_name(daemon->state),
                demo_style(demo, DEMO_PLAIN), (int)daemon->pid, daemon->threads_permille / 10.0,
                (double)daemon->limit_mib / 1024, mps_tier_name(daemon->tier));
        if (daemon->state != MPS_READY || daemon->threads_permille != demo->most_permille ||
                daemon->limit_mib != demo->most_mib)
                demo_fail(demo, "it should be ready and give nobody more than %u MiB", (unsigned int)demo->most_mib);
}

void demo_show_daemons(struct demo *demo)
{
        printf("  %s%-13s   %-8s %8s  %8s  %10s   %s%s\n", demo_style(demo, DEMO_DIM), "MPS DAEMON", "STATE", "PID",
                "AT MOST", "", "TIER", demo_style(demo, DEMO_PLAIN));
        for (size_t i = 0; i < DEMO_GPUS && demo->daemons; i++)
                show_daemon(demo, &demo->daemons->daemons[i]);
        putchar('\n');
        fflush(stdout);
}
