/*
 * warpshare demo: the whole thing on simulated GPUs, told as a story. Every figure shown is what kubelet was told, what a
 * container would get or what an MPS daemon says; where one differs from what the story promises, the demonstration says so and fails.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "cmd/command.h"
#include "cmd/simulator.h"
#include "mps/link.h"
#include "sim/node/node.h"

#define RESOURCE "nvidia.com/gpu"
#define GPUS 4U
#define REPLICAS 10U
#define MOST 7U /* that one pod may ask for: share/grants.h says how many can be advertised then */
#define ADVERTISED(gpus) ((size_t)(MOST - 1 + (gpus) * (REPLICAS - MOST + 1)))
#define FAILING_GPU 2
#define USABLE_MIB 32285U /* 32,605 MiB but for a reserve of 320 */
#define LARGEST_MIB (USABLE_MIB * MOST / REPLICAS)

static const char *const uuids[GPUS] = {
        "GPU-f24067f0-df23-46da-b2a7-704d860216fa",
        "GPU-0ccc6449-9f0e-4c5b-8d0a-3d1c7a52be11",
        "GPU-f411c36a-51d7-4b9f-a3e8-90c2e6f4d723",
        "GPU-ca2a1141-7c68-4e0d-b5f1-16a84b3c9e02",
};

struct pod {
        const char *name;
        unsigned int replicas;
        bool answered;
        char *error;
        char *gpu; /* NVIDIA_VISIBLE_DEVICES */
        double threads;
        unsigned int memory_mib;
};

struct demo {
        uv_loop_t loop;
        uv_signal_t interrupt;
        struct sim_node node;
        struct mps_link *link;
        const struct mps_status *daemons; /* borrowed from the link; NULL: nobody tells */
        char *fault;                      /* the newest that a daemon told, or NULL */
        const char *struck;               /* the GPU that is out of service now, or NULL */
        const char *busiest;              /* the GPU of the largest pod */
        char *library;
        bool colour;
        bool interrupted;
        bool wrong; /* something was not as promised */
};

/* ---- looks ---- */

enum style { PLAIN, BOLD, DIM, GREEN, RED, YELLOW, CYAN, MAGENTA };

static const char *style(const struct demo *demo, enum style wanted)
{
        static const char *const codes[] = {
                [PLAIN] = "\x1b[0m",
                [BOLD] = "\x1b[1m",
                [DIM] = "\x1b[2m",
                [GREEN] = "\x1b[32m",
                [RED] = "\x1b[31m",
                [YELLOW] = "\x1b[33m",
                [CYAN] = "\x1b[36m",
                [MAGENTA] = "\x1b[35m",
        };

        return demo->colour ? codes[wanted] : "";
}

static void heading(const struct demo *demo, const char *text)
{
        printf("\n%s%s%s\n\n", style(demo, BOLD), text, style(demo, PLAIN));
        fflush(stdout);
}

/* What was promised did not come. */
static void fail(struct demo *demo, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(struct demo *demo, const char *format, ...)
{
        va_list args;

        demo->wrong = true;
        printf("  %sNot as it should be: ", style(demo, RED));
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("%s\n", style(demo, PLAIN));
}

/* ---- the node ---- */

static const char config_text[] = "version: v1\n"
                                  "flags:\n"
                                  "  mpsRoot: /run/nvidia/mps\n"
                                  "sharing:\n"
                                  "  mps:\n"
                                  "    provisioning: weighted\n"
                                  "    maxPerRequest: 7\n"
                                  "    resources:\n"
                                  "    - name: nvidia.com/gpu\n"
                                  "      replicas: 10\n";

/* The four GPUs; |lost| is the position of one that answers no more and has raised Xid 79, or -1. The caller frees. */
static char *make_scenario(int lost)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "driverVersion: 550.163.01\ncudaVersion: \"12.4\"\ngpus:\n");
        for (int i = 0; i < (int)GPUS; i++)
                strbuf_printf(&text, "- {model: V100-32GB, uuid: %s, numa: %d%s}\n", uuids[i], i / 2,
                        i == lost ? ", lost: true" : "");
        if (lost >= 0)
                strbuf_printf(&text, "events:\n- {gpu: %d, xid: 79}\n", lost);
        return strbuf_take(&text);
}

/* The same as the simulated MPS programs see them. */
static char *make_mps_scenario(void)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "version: 550\n");
        for (unsigned int i = 0; i < GPUS; i++)
                strbuf_printf(&text, "gpu: %s sms=80 memory=32768 cc=7 name=V100\n", uuids[i]);
        return strbuf_take(&text);
}

static void on_daemons(const struct mps_status *status, const char *reason UNUSED, void *data)
{
        struct demo *demo = data;

        demo->daemons = status;
        for (size_t i = 0; status && i < status->n_daemons; i++)
                if (status->daemons[i].state == MPS_FAULT) {
                        free(demo->fault);
                        demo->fault = xstrdup(status->daemons[i].reason);
                }
}

static int start_node(struct demo *demo, const char *named_library, const char *named_programs, struct error *err)
{
        _free_ char *scenario = make_scenario(-1);
        _free_ char *mps_scenario = make_mps_scenario();
        _free_ char *programs = named_programs ? xstrdup(named_programs) : simulator_find_mps(err);
        struct sim_node_options options = {
                .loop = &demo->loop,
                .agent = "/proc/self/exe",
                .scenario = scenario,
                .config = config_text,
                .mps_programs = programs,
                .mps_scenario = mps_scenario,
        };

        demo->library = named_library ? xstrdup(named_library) : programs ? simulator_find(err) : NULL;
        if (!programs || !demo->library)
                return -1;
        options.library = demo->library;
        if (sim_node_start(&demo->node, &options, err) < 0)
                return -1;
        return mps_link_new(&demo->link,
                &(struct mps_link_options){&demo->loop, demo->node.mps_root, "", 50, on_daemons, demo}, err);
}

static void on_link_closed(void *demo)
{
        ((struct demo *)demo)->link = NULL;
}

static bool is_link_closed(void *demo)
{
        return !((struct demo *)demo)->link;
}

static void stop_node(struct demo *demo)
{
        if (demo->link) {
                mps_link_close(demo->link, on_link_closed, demo);
                sim_node_wait(&demo->node, is_link_closed, demo, 5000);
        }
        sim_node_stop(&demo->node);
        free(demo->library);
        free(demo->fault);
}

/* ---- what kubelet counts ---- */

struct count {
        const struct demo *demo;
        size_t wanted;
};

static bool is_allocatable(void *data)
{
        const struct count *count = data;

        return kubelet_allocatable(count->demo->node.kubelet, RESOURCE) == count->wanted ||
               !count->demo->node.agent.runs;
}

/* One row a GPU and one cell a replica; the devices come GPU by GPU. */
struct picture {
        const struct demo *demo;
        char gpu[64]; /* of the row being drawn; empty before the first */
        struct cell {
                enum style style;
                const char *text;
        } cells[REPLICAS];
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
        printf("  %s%.12s…%s  ", style(demo, DIM), picture->gpu, style(demo, PLAIN));
        for (unsigned int i = 0; i < picture->n_cells; i++)
                printf("%s%s", style(demo, picture->cells[i].style), picture->cells[i].text);
        printf("%s  ", style(demo, PLAIN));
        if (is_struck(demo, picture->gpu))
                printf("%s%u unhealthy%s\n", style(demo, RED), picture->unhealthy, style(demo, PLAIN));
        else
                printf("%u in use, %u kept back\n", picture->held, picture->unhealthy);
        *picture = (struct picture){.demo = demo};
}

static enum style style_of_pod(const char *pod)
{
        return pod[0] == 'n' ? YELLOW : pod[0] == 't' ? CYAN : MAGENTA;
}

static struct cell cell_of(const struct picture *picture, bool healthy, const char *pod)
{
        if (is_struck(picture->demo, picture->gpu))
                return (struct cell){RED, pod ? "█" : "×"};
        if (pod)
                return (struct cell){style_of_pod(pod), "█"};
        return healthy ? (struct cell){GREEN, "░"} : (struct cell){DIM, "·"};
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
        if (picture->n_cells < REPLICAS)
                picture->cells[picture->n_cells++] = cell_of(picture, healthy, pod);
}

static void draw(const struct demo *demo)
{
        struct picture picture = {.demo = demo};

        putchar('\n');
        kubelet_each_device(demo->node.kubelet, RESOURCE, draw_device, &picture);
        end_row(&picture);
        fflush(stdout);
}

/* Waits for kubelet to count |wanted| allocatable and shows both counts, with the time it took. */
static void show_counts(struct demo *demo, size_t wanted, uint64_t timeout_ms)
{
        struct count count = {.demo = demo, .wanted = wanted};
        uint64_t started = uv_hrtime();
        size_t capacity;
        size_t allocatable;
        double took_ms;

        sim_node_wait(&demo->node, is_allocatable, &count, timeout_ms);
        took_ms = (double)(uv_hrtime() - started) / 1e6;
        capacity = kubelet_capacity(demo->node.kubelet, RESOURCE);
        allocatable = kubelet_allocatable(demo->node.kubelet, RESOURCE);
        printf("  %s$ kubectl describe node demo%s\n", style(demo, DIM), style(demo, PLAIN));
        printf("  Capacity:\n    " RESOURCE ":  %s%zu%s\n", style(demo, BOLD), capacity, style(demo, PLAIN));
        printf("  Allocatable:\n    " RESOURCE ":  %s%zu%s      %s(after %.*f ms)%s\n",
                style(demo, allocatable == ADVERTISED(GPUS) ? GREEN : RED), allocatable, style(demo, PLAIN),
                style(demo, DIM), took_ms < 10 ? 1 : 0, took_ms, style(demo, PLAIN));
        draw(demo);
        if (allocatable != wanted || capacity != (size_t)GPUS * REPLICAS)
                fail(demo, "kubelet should count %zu of %u", wanted, GPUS * REPLICAS);
}

/* ---- pods ---- */

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
        unsigned int memory = USABLE_MIB * pod->replicas / REPLICAS;

        if (pod->memory_mib < memory - pod->replicas || pod->memory_mib > memory + pod->replicas)
                fail(demo, "%s should have %u MiB", pod->name, memory);
        if (pod->threads < 10.0 * pod->replicas - 0.05 || pod->threads > 10.0 * pod->replicas + 0.05)
                fail(demo, "%s should have %u %% of the threads", pod->name, 10 * pod->replicas);
        if (strchr(pod->gpu, ','))
                fail(demo, "%s should have one GPU", pod->name);
}

static void admit(struct demo *demo, struct pod *pod)
{
        kubelet_admit(demo->node.kubelet, pod->name, RESOURCE, pod->replicas, on_admitted, pod);
        if (!sim_node_wait(&demo->node, is_answered, pod, 5000)) {
                fail(demo, "kubelet got no answer for %s", pod->name);
                return;
        }
        if (pod->error) {
                fail(demo, "%s was refused: %s", pod->name, pod->error);
                return;
        }
        printf("  %s%-10s%s " RESOURCE ": %-4u %-42s %5.1f %%  %6.2f GiB\n", style(demo, style_of_pod(pod->name)),
                pod->name, style(demo, PLAIN), pod->replicas, pod->gpu, pod->threads, pod->memory_mib / 1024.0);
        fflush(stdout);
        check_pod(demo, pod);
}

static void show_pods(struct demo *demo)
{
        struct pod pods[] = {{"training", 7}, {"notebook", 3}, {"inference", 2}};

        printf("  %s%-10s %-20s %-42s %7s  %10s%s\n", style(demo, DIM), "POD", "ASKS FOR", "GETS", "THREADS", "MEMORY",
                style(demo, PLAIN));
        for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
                admit(demo, &pods[i]);
        draw(demo);
        for (size_t i = 0; i < GPUS && !demo->wrong; i++)
                if (strcmp(pods[0].gpu, uuids[i]) == 0)
                        demo->busiest = uuids[i];
        for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
                free(pods[i].gpu);
                free(pods[i].error);
        }
}

/* ---- MPS daemons ---- */

static void show_daemon(struct demo *demo, const struct mps_daemon_status *daemon)
{
        printf("  %.12s…   %s%-8s%s %8d  %6.1f %%  %6.2f GiB   %s\n", daemon->name,
                style(demo, daemon->state == MPS_READY ? GREEN : RED), mps_state_name(daemon->state),
                style(demo, PLAIN), (int)daemon->pid, daemon->threads_permille / 10.0, (double)daemon->limit_mib / 1024,
                mps_tier_name(daemon->tier));
        if (daemon->state != MPS_READY || daemon->threads_permille != 100 * MOST || daemon->limit_mib != LARGEST_MIB)
                fail(demo, "it should be ready and give nobody more than %u MiB", LARGEST_MIB);
}

static bool has_daemons(void *data)
{
        const struct demo *demo = data;
        size_t ready = 0;

        for (size_t i = 0; demo->daemons && i < demo->daemons->n_daemons; i++)
                ready += demo->daemons->daemons[i].state == MPS_READY;
        return ready == GPUS || !demo->node.agent.runs;
}

static void show_daemons(struct demo *demo)
{
        printf("  %s%-13s   %-8s %8s  %8s  %10s   %s%s\n", style(demo, DIM), "MPS DAEMON", "STATE", "PID", "AT MOST",
                "", "TIER", style(demo, PLAIN));
        if (!sim_node_wait(&demo->node, has_daemons, demo, 5000) || !demo->node.agent.runs) {
                fail(demo, "%u MPS daemons should be ready", GPUS);
                return;
        }
        for (size_t i = 0; i < GPUS; i++)
                show_daemon(demo, &demo->daemons->daemons[i]);
        putchar('\n');
        fflush(stdout);
}

static void collect_pids(const struct demo *demo, pid_t pids[GPUS])
{
        for (size_t i = 0; i < GPUS; i++) {
                const struct mps_daemon_status *daemon =
                        demo->daemons ? mps_status_find_unit(demo->daemons, uuids[i]) : NULL;

                pids[i] = daemon ? daemon->pid : 0;
        }
}

/* ---- the story ---- */

static void show_agent_log(const struct demo *demo)
{
        FILE *log = fopen(demo->node.log, "re");
        char line[4096];

        if (!log)
                return;
        printf("\n  %swhat the agent logged:%s\n", style(demo, DIM), style(demo, PLAIN));
        while (fgets(line, sizeof(line), log))
                printf("  %s%s%s", style(demo, DIM), line, style(demo, PLAIN));
        fclose(log);
}

static void set_lost(struct demo *demo, int gpu)
{
        _free_ char *scenario = make_scenario(gpu);
        struct error err;

        if (sim_node_set_scenario(&demo->node, scenario, &err) < 0)
                fail(demo, "%s", err.text);
}

static bool is_interrupted(void *demo)
{
        return ((struct demo *)demo)->interrupted;
}

static void keep(struct demo *demo)
{
        const struct sim_node *node = &demo->node;

        heading(demo, "The node stays up until Ctrl-C. Try:");
        printf("  %s\n      the agent's log\n", node->log);
        printf("  %s\n      the GPUs: edit it and watch the agent's log\n", node->scenario);
        printf("  %s\n      the configuration; 'kill -HUP %d' puts a change in force\n", node->config,
                node->agent.process.pid);
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
        pid_t before[GPUS];
        pid_t after[GPUS];
        size_t changed = 0;
        size_t killed = 0;

        while (uuids[killed] != demo->busiest)
                killed++;
        collect_pids(demo, before);
        demo->struck = demo->busiest;
        kill(before[killed], SIGKILL);
        show_counts(demo, ADVERTISED(GPUS - 1), 5000);
        sim_node_wait(&demo->node, has_fault, demo, 5000);
        printf("\n  %swarpshare mps says:%s %s\n\n", style(demo, DIM), style(demo, PLAIN),
                demo->fault ? demo->fault : "nothing");
        demo->struck = NULL;
        show_counts(demo, ADVERTISED(GPUS), 10000);
        sim_node_wait(&demo->node, has_daemons, demo, 5000);
        collect_pids(demo, after);
        for (size_t i = 0; i < GPUS; i++)
                changed += before[i] != after[i];
        printf("\n  It has PID %d now; %zu of the %u daemons were touched.\n", (int)after[killed], changed, GPUS);
        if (changed != 1 || before[killed] == after[killed] || !demo->fault)
                fail(demo, "one daemon should have been started anew, and no other");
}

static void tell(struct demo *demo)
{
        printf("%sWarpshare%s on a simulated node: 4 × Tesla V100-SXM2-32GB, each shared by MPS in %u replicas.\n",
                style(demo, BOLD), style(demo, PLAIN), REPLICAS);
        printf("%sThe agent and warpshare mps are the real ones; GPUs, NVIDIA's MPS programs and kubelet are stand-ins.%s\n",
                style(demo, DIM), style(demo, PLAIN));

        heading(demo, "1. Each GPU gets an MPS daemon; the agent registers with kubelet");
        show_daemons(demo);
        show_counts(demo, ADVERTISED(GPUS), 5000);
        if (demo->wrong)
                return;

        printf("\n  A pod may ask for up to %u replicas and gets them on one GPU. The scheduler only counts, so as many are kept\n"
               "  back as it takes to keep that promise to every pod that it admits.\n",
                MOST);

        heading(demo, "2. Three pods ask for 70 %, 30 % and 20 % of a GPU");
        show_pods(demo);
        if (demo->wrong)
                return;

        heading(demo, "3. The MPS daemon that serves training is killed (-9): only its GPU waits, and not for long");
        kill_daemon(demo);

        heading(demo, "4. A GPU falls off the bus (Xid 79): its replicas go, the rest serves on");
        demo->struck = uuids[FAILING_GPU];
        set_lost(demo, FAILING_GPU);
        show_counts(demo, ADVERTISED(GPUS - 1), 5000);

        heading(demo, "5. The GPU answers again: three good probes, and its replicas are back by themselves");
        demo->struck = NULL;
        set_lost(demo, -1);
        show_counts(demo, ADVERTISED(GPUS), 30000);
}

static void on_interrupt(uv_signal_t *handle, int number UNUSED)
{
        ((struct demo *)handle->data)->interrupted = true;
}

static void print_help(void)
{
        puts("usage: warpshare demo [OPTION...]\n\n"
             "Starts a simulated node with 4 V100-32GB, a kubelet stand-in, the real agent and warpshare mps, lets three pods\n"
             "ask for shares, kills an MPS daemon, makes a GPU fail and come back, and ends with status 0 if all was as it should be.\n\n"
             "options:\n"
             "  --keep                 stay up until Ctrl-C, and say where things are\n"
             "  --log                  show the agent's log at the end\n"
             "  --color WHEN           always, never or auto (default: auto; NO_COLOR is respected)\n"
             "  --nvml-library PATH    the simulated NVML library\n"
             "  --mps-programs PATH    folder with the simulated MPS programs\n"
             "  -h, --help             this text");
}

struct demo_options {
        bool keep;
        bool log;
        bool help;
        const char *colour;
        const char *library;
        const char *programs;
};

static int parse_options(struct demo_options *options, int argc, char **argv)
{
        static const struct option table[] = {
                {"keep", no_argument, NULL, 'k'},
                {"log", no_argument, NULL, 'l'},
                {"color", required_argument, NULL, 'c'},
                {"nvml-library", required_argument, NULL, 'n'},
                {"mps-programs", required_argument, NULL, 'm'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int letter;

        *options = (struct demo_options){.colour = "auto"};
        while ((letter = getopt_long(argc, argv, "h", table, NULL)) != -1) {
                switch (letter) {
                case 'k':
                        options->keep = true;
                        break;
                case 'l':
                        options->log = true;
                        break;
                case 'c':
                        options->colour = optarg;
                        break;
                case 'n':
                        options->library = optarg;
                        break;
                case 'm':
                        options->programs = optarg;
                        break;
                case 'h':
                        options->help = true;
                        break;
                default:
                        return -1;
                }
        }
        if (optind < argc) {
                fprintf(stderr, "warpshare demo: unexpected argument '%s'\n", argv[optind]);
                return -1;
        }
        if (strcmp(options->colour, "auto") != 0 && strcmp(options->colour, "always") != 0 &&
                strcmp(options->colour, "never") != 0) {
                fprintf(stderr, "warpshare demo: --color %s: must be always, never or auto\n", options->colour);
                return -1;
        }
        return 0;
}

static bool wants_colour(const char *when)
{
        const char *no_colour = getenv("NO_COLOR");

        if (strcmp(when, "auto") != 0)
                return strcmp(when, "always") == 0;
        return isatty(STDOUT_FILENO) && (!no_colour || !*no_colour);
}

int command_demo(int argc, char **argv)
{
        struct demo_options options;
        struct demo demo = {0};
        struct error err;

        if (parse_options(&options, argc, argv) < 0)
                return EXIT_USAGE;
        if (options.help) {
                print_help();
                return 0;
        }
        signal(SIGPIPE, SIG_IGN);
        demo.colour = wants_colour(options.colour);
        uv_loop_init(&demo.loop);
        uv_signal_init(&demo.loop, &demo.interrupt);
        demo.interrupt.data = &demo;
        uv_signal_start(&demo.interrupt, on_interrupt, SIGINT);
        if (start_node(&demo, options.library, options.programs, &err) < 0) {
                fprintf(stderr, "warpshare demo: %s\n", err.text);
                demo.wrong = true;
        } else {
                tell(&demo);
                if (options.keep && !demo.wrong)
                        keep(&demo);
                if (options.log || demo.wrong)
                        show_agent_log(&demo);
        }
        stop_node(&demo);
        uv_close((uv_handle_t *)&demo.interrupt, NULL);
        uv_run(&demo.loop, UV_RUN_DEFAULT);
        uv_loop_close(&demo.loop);
        if (!demo.wrong)
                printf("\n%sAll as it should be.%s\n", style(&demo, GREEN), style(&demo, PLAIN));
        return demo.wrong ? EXIT_FAILED : 0;
}
