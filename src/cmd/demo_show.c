#include "cmd/demo.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

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

void demo_heading(const struct demo *demo, const char *text)
{
        printf("\n%s%s%s\n\n", demo_style(demo, DEMO_BOLD), text, demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
}

void demo_fail(struct demo *demo, const char *format, ...)
{
        va_list args;

        demo->wrong = true;
        printf("  %sNot as it should be: ", demo_style(demo, DEMO_RED));
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("%s\n", demo_style(demo, DEMO_PLAIN));
}

/* ---- what kubelet counts ---- */

struct count {
        const struct demo *demo;
        size_t wanted;
};

static bool is_allocatable(void *data)
{
        const struct count *count = data;

        return kubelet_allocatable(count->demo->node.kubelet, DEMO_RESOURCE) == count->wanted ||
               !count->demo->node.agent->runs;
}

/* One row a GPU and one cell a replica; the devices come GPU by GPU. */
struct picture {
        const struct demo *demo;
        char gpu[64]; /* of the row being drawn; empty before the first */
        struct cell {
                enum demo_style style;
                const char *text;
        } cells[DEMO_EQUAL];
        unsigned int n_cells;
        unsigned int held;
        unsigned int unhealthy; /* those that are only kept back among them: kubelet knows no difference */
};

static bool is_struck(const struct demo *demo, const char *gpu)
{
        return demo->struck && strcmp(gpu, demo->struck) == 0;
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
        if (is_struck(demo, picture->gpu))
                printf("%s%u unhealthy%s\n", demo_style(demo, DEMO_RED), picture->unhealthy,
                        demo_style(demo, DEMO_PLAIN));
        else
                printf("%u in use, %u kept back\n", picture->held, picture->unhealthy);
        *picture = (struct picture){.demo = demo};
}

static enum demo_style style_of_pod(const char *pod)
{
        return pod[0] == 'n' ? DEMO_YELLOW : pod[0] == 't' ? DEMO_CYAN : DEMO_MAGENTA;
}

static struct cell cell_of(const struct picture *picture, bool healthy, const char *pod)
{
        if (is_struck(picture->demo, picture->gpu))
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

static void draw(const struct demo *demo)
{
        struct picture picture = {.demo = demo};

        putchar('\n');
        kubelet_each_device(demo->node.kubelet, DEMO_RESOURCE, draw_device, &picture);
        end_row(&picture);
        fflush(stdout);
}

void demo_show_counts(struct demo *demo, size_t wanted, uint64_t timeout_ms)
{
        struct count count = {.demo = demo, .wanted = wanted};
        uint64_t started = uv_hrtime();
        size_t capacity;
        size_t allocatable;
        double took_ms;

        sim_node_wait(&demo->node, is_allocatable, &count, timeout_ms);
        took_ms = (double)(uv_hrtime() - started) / 1e6;
        capacity = kubelet_capacity(demo->node.kubelet, DEMO_RESOURCE);
        allocatable = kubelet_allocatable(demo->node.kubelet, DEMO_RESOURCE);
        printf("  %s$ kubectl describe node demo%s\n", demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN));
        printf("  Capacity:\n    " DEMO_RESOURCE ":  %s%zu%s\n", demo_style(demo, DEMO_BOLD), capacity,
                demo_style(demo, DEMO_PLAIN));
        printf("  Allocatable:\n    " DEMO_RESOURCE ":  %s%zu%s      %s(after %.*f ms)%s\n",
                demo_style(demo, allocatable == demo->offered ? DEMO_GREEN : DEMO_RED), allocatable,
                demo_style(demo, DEMO_PLAIN), demo_style(demo, DEMO_DIM), took_ms < 10 ? 1 : 0, took_ms,
                demo_style(demo, DEMO_PLAIN));
        draw(demo);
        if (allocatable != wanted || capacity != (size_t)DEMO_GPUS * demo->replicas)
                demo_fail(demo, "kubelet should count %zu of %u", wanted, DEMO_GPUS * demo->replicas);
}

/* ---- pods ---- */

struct pod {
        const char *name;
        unsigned int replicas;
        bool answered;
        char *error;
        char *gpu; /* NVIDIA_VISIBLE_DEVICES */
        double threads;
        unsigned int memory_mib;
};

static const char *find_value(const struct kubelet_answer *answer, const char *name)
{
        for (size_t i = 0; i < answer->n_environment; i++)
                if (strcmp(answer->names[i], name) == 0)
                        return answer->values[i];
        return "";
}

static void on_admitted(const struct kubelet_answer *answer, void *data)
{
        struct pod *pod = data;

        pod->answered = true;
        if (!answer->admitted) {
                pod->error = xstrdup(answer->error);
                return;
        }
        pod->gpu = xstrdup(find_value(answer, "NVIDIA_VISIBLE_DEVICES"));
        pod->threads = strtod(find_value(answer, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), NULL);
        if (sscanf(find_value(answer, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=%uM", &pod->memory_mib) != 1)
                pod->memory_mib = 0;
}

static bool is_answered(void *pod)
{
        return ((struct pod *)pod)->answered;
}

static void check_pod(struct demo *demo, const struct pod *pod)
{
        unsigned int memory = DEMO_USABLE_MIB * pod->replicas / DEMO_REPLICAS;

        if (pod->memory_mib < memory - pod->replicas || pod->memory_mib > memory + pod->replicas)
                demo_fail(demo, "%s should have %u MiB", pod->name, memory);
        if (pod->threads < 10.0 * pod->replicas - 0.05 || pod->threads > 10.0 * pod->replicas + 0.05)
                demo_fail(demo, "%s should have %u %% of the threads", pod->name, 10 * pod->replicas);
        if (strchr(pod->gpu, ','))
                demo_fail(demo, "%s should have one GPU", pod->name);
}

/* False: it was not admitted, and that was told. */
static bool ask(struct demo *demo, struct pod *pod)
{
        kubelet_admit(demo->node.kubelet, pod->name, DEMO_RESOURCE, pod->replicas, on_admitted, pod);
        if (!sim_node_wait(&demo->node, is_answered, pod, 5000))
                demo_fail(demo, "kubelet got no answer for %s", pod->name);
        else if (pod->error)
                demo_fail(demo, "%s was refused: %s", pod->name, pod->error);
        return pod->gpu != NULL;
}

static void print_pod(const struct demo *demo, const struct pod *pod)
{
        printf("  %s%-10s%s " DEMO_RESOURCE ": %-4u %-42s %5.1f %%  %6.2f GiB\n",
                demo_style(demo, style_of_pod(pod->name)), pod->name, demo_style(demo, DEMO_PLAIN), pod->replicas,
                pod->gpu, pod->threads, pod->memory_mib / 1024.0);
        fflush(stdout);
}

static void print_head(const struct demo *demo)
{
        printf("  %s%-10s %-20s %-42s %7s  %10s%s\n", demo_style(demo, DEMO_DIM), "POD", "ASKS FOR", "GETS", "THREADS",
                "MEMORY", demo_style(demo, DEMO_PLAIN));
}

static void free_pod(struct pod *pod)
{
        free(pod->gpu);
        free(pod->error);
}

/* The limits of equal parts are the daemon's: the container is told of none. */
void demo_show_equal_pod(struct demo *demo)
{
        struct pod pod = {.name = "notebook", .replicas = 1};
        const struct mps_daemon_status *daemon;

        print_head(demo);
        if (ask(demo, &pod)) {
                daemon = demo->daemons ? mps_status_find_unit(demo->daemons, pod.gpu) : NULL;
                pod.threads = daemon ? daemon->threads_permille / 10.0 : 0;
                pod.memory_mib = daemon ? (unsigned int)daemon->limit_mib : 0;
                print_pod(demo, &pod);
        }
        draw(demo);
        free_pod(&pod);
}

void demo_show_pods(struct demo *demo)
{
        struct pod pods[] = {{"training", 7}, {"notebook", 3}, {"inference", 2}};

        print_head(demo);
        for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
                if (ask(demo, &pods[i])) {
                        print_pod(demo, &pods[i]);
                        check_pod(demo, &pods[i]);
                }
        draw(demo);
        for (size_t i = 0; i < DEMO_GPUS && !demo->wrong; i++)
                if (strcmp(pods[0].gpu, demo_uuids[i]) == 0)
                        demo->busiest = demo_uuids[i];
        for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
                free_pod(&pods[i]);
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

bool demo_has_daemons(void *data)
{
        const struct demo *demo = data;
        size_t ready = 0;

        for (size_t i = 0; demo->daemons && i < demo->daemons->n_daemons; i++)
                ready += demo->daemons->daemons[i].state == MPS_READY &&
                         demo->daemons->daemons[i].threads_permille == demo->most_permille;
        return ready == DEMO_GPUS || !demo->node.agent->runs;
}

void demo_show_daemons(struct demo *demo)
{
        printf("  %s%-13s   %-8s %8s  %8s  %10s   %s%s\n", demo_style(demo, DEMO_DIM), "MPS DAEMON", "STATE", "PID",
                "AT MOST", "", "TIER", demo_style(demo, DEMO_PLAIN));
        if (!sim_node_wait(&demo->node, demo_has_daemons, demo, 5000) || !demo->node.agent->runs) {
                demo_fail(demo, "%u MPS daemons should be ready", DEMO_GPUS);
                return;
        }
        for (size_t i = 0; i < DEMO_GPUS; i++)
                show_daemon(demo, &demo->daemons->daemons[i]);
        putchar('\n');
        fflush(stdout);
}
