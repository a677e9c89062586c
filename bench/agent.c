// SPDX-License-Identifier: Apache-2.0
/*
 * What kubelet would see of the agent, measured from outside: a node is started, one thing measured, the node stopped.
 * bench/run repeats it and knows the budgets.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bench/calls.h"
#include "bench/figure.h"
#include "bench/node.h"
#include "bench/outage.h"
#include "bench/process.h"

#define LOG_PAUSE_MS 10U
#define RUN_PAUSE_MS 5U
#define XID_PAUSE_MS 1000U /* a plugin may listen to its GPUs only some time after it has registered */
#define LINES 200U
#define PROCESSES 100U

struct bench {
        uv_loop_t loop;
        struct node_options options;
        struct node node;
        struct calls calls;
        unsigned int seconds;
        unsigned int times;
        struct error err;
};

/* ---- what the agent itself does, however busy the machine is ---- */

static uint64_t agent_cpu(const struct bench *bench)
{
        struct error ignored;
        uint64_t ran = 0;

        (void)!process_cpu(bench->node.sim.agent->process.pid, &ran, &ignored);
        return ran;
}

/* Of each of |times| that |what| was done since |then|. */
static void print_agent_cpu(const struct bench *bench, const char *what, uint64_t then, unsigned int times)
{
        _free_ char *name = xasprintf("%s_cpu", what);

        figure_print_one(name, "us", (double)(agent_cpu(bench) - then) / 1000 / MAX(times, 1U));
}

/* ---- start ---- */

static int measure_start(struct bench *bench)
{
        const struct node *node = &bench->node;

        figure_print_one("start_to_register", "ms", (double)(node->registered_ns - node->sim.started_ns) / 1e6);
        figure_print_one("start_to_devices", "ms", (double)(node->list_ns - node->sim.started_ns) / 1e6);
        print_agent_cpu(bench, "start", 0, 1);
        return 0;
}

/* ---- Allocate, GetPreferredAllocation, ListAndWatch ---- */

static int measure_allocate(struct bench *bench)
{
        struct figure figure = {.name = "allocate", .unit = "us"};
        const uint64_t then = agent_cpu(bench);
        int rc = calls_allocate(&bench->node, &bench->calls, &figure, &bench->err);

        print_agent_cpu(bench, "allocate", then, bench->calls.count + CALLS_WARM_UP);
        figure_print(&figure);
        return rc;
}

static int measure_prefer(struct bench *bench)
{
        struct figure figure = {.name = "prefer", .unit = "us"};
        const uint64_t then = agent_cpu(bench);
        int rc = calls_prefer(&bench->node, &bench->calls, &figure, &bench->err);

        print_agent_cpu(bench, "prefer", then, bench->calls.count + CALLS_WARM_UP);
        figure_print(&figure);
        return rc;
}

static int measure_list(struct bench *bench)
{
        struct figure figure = {.name = "list", .unit = "us"};
        const uint64_t then = agent_cpu(bench);
        int rc = calls_list(&bench->node, &bench->calls, &figure, &bench->err);

        print_agent_cpu(bench, "list", then, bench->calls.count);
        figure_print(&figure);
        return rc;
}

/* ---- memory, and what it takes of the processor ---- */

static pid_t agent_pid(const struct bench *bench)
{
        return bench->node.sim.agent->process.pid;
}

static int print_memory(struct bench *bench, const char *when)
{
        _free_ char *pss = xasprintf("pss_%s", when);
        _free_ char *rss = xasprintf("rss_%s", when);
        _free_ char *private = xasprintf("private_%s", when);
        _free_ char *anonymous = xasprintf("anonymous_%s", when);
        _free_ char *simulator = xasprintf("simulator_%s", when);
        _free_ char *real = realpath(bench->options.library, NULL); /* as the kernel names it */
        struct process_memory memory;
        struct process_memory library;

        if (!real)
                return error_errno(&bench->err, errno, "find '%s'", bench->options.library);
        if (process_memory(agent_pid(bench), NULL, &memory, &bench->err) < 0 ||
                process_memory(agent_pid(bench), real, &library, &bench->err) < 0)
                return -1;
        figure_print_one(pss, "KiB", memory.pss_kib);
        figure_print_one(rss, "KiB", memory.rss_kib);
        figure_print_one(private, "KiB", memory.private_kib);
        figure_print_one(anonymous, "KiB", memory.anonymous_kib);
        figure_print_one(simulator, "KiB", library.pss_kib);
        return 0;
}

static int measure_memory(struct bench *bench)
{
        const double n_calls = bench->calls.count + CALLS_WARM_UP;
        struct figure ignored = {0};
        uint64_t before;
        uint64_t after;
        int rc;

        if (print_memory(bench, "registered") < 0 || process_cpu(agent_pid(bench), &before, &bench->err) < 0)
                return -1;
        rc = calls_allocate(&bench->node, &bench->calls, &ignored, &bench->err);
        free(ignored.samples);
        node_pause(&bench->node, LOG_PAUSE_MS); /* what follows the last answer */
        if (rc < 0 || process_cpu(agent_pid(bench), &after, &bench->err) < 0)
                return -1;
        figure_print_one("cpu_registered", "ms", (double)before / 1e6);
        figure_print_one("cpu_allocate", "us", (double)(after - before) / 1000 / n_calls);
        return print_memory(bench, "allocated");
}

static void on_ran(const V1beta1__ContainerAllocateResponse *options, const char *error, void *data)
{
        struct bench *bench = data;

        if (!options)
                (void)!error_set(&bench->err, ERROR_UNAVAILABLE, "a pod did not start: %s", error);
}

/* Pods as kubelet runs them, which is asked for them again and again and has each in its record. */
static int measure_containers(struct bench *bench)
{
        const unsigned int most = bench->options.gpus * bench->options.replicas;
        const struct kubelet_request request = {NODE_RESOURCE, 1};

        for (unsigned int i = 0; i < MIN(bench->calls.count, most); i++) {
                _free_ char *pod = xasprintf("pod-%u", i);

                kubelet_run(bench->node.sim.kubelet, pod, &request, 1, on_ran, bench);
                node_pause(&bench->node, RUN_PAUSE_MS);
        }
        node_pause(&bench->node, (uint64_t)bench->seconds * 1000);
        return bench->err.text[0] ? -1 : print_memory(bench, "containers");
}

/* ---- Xid ---- */

struct count {
        const struct kubelet *kubelet;
        size_t before;
};

static bool has_fewer(void *data)
{
        const struct count *count = data;

        return kubelet_allocatable(count->kubelet, NODE_RESOURCE) < count->before;
}

/* Each GPU in turn, quickly: none is healthy again before the last one failed. */
static int measure_xid(struct bench *bench)
{
        struct figure figure = {.name = "xid_to_list", .unit = "ms"};
        const uint64_t then = agent_cpu(bench);
        struct figure shares = {.name = "xid_shares", .unit = "shares"};

        node_pause(&bench->node, XID_PAUSE_MS);
        for (unsigned int i = 0; i < bench->options.gpus; i++) {
                struct count count = {bench->node.sim.kubelet, 0};
                int64_t started = clock_ns();

                count.before = kubelet_allocatable(count.kubelet, NODE_RESOURCE);
                if (node_add_xid(&bench->node, &bench->err) < 0)
                        return -1;
                if (!sim_node_wait(&bench->node.sim, has_fewer, &count, CALLS_TIMEOUT_MS))
                        return error_set(&bench->err, ERROR_TIMEOUT, "the Xid of GPU %u changed no device list", i);
                figure_add(&figure, (double)(bench->node.list_ns - started) / 1e6);
                figure_add(&shares, (double)(count.before - kubelet_allocatable(count.kubelet, NODE_RESOURCE)));
        }
        print_agent_cpu(bench, "xid", then, bench->options.gpus);
        figure_print(&figure);
        figure_print(&shares);
        return 0;
}

/* ---- idle ---- */

static int measure_idle(struct bench *bench)
{
        uint64_t before;
        uint64_t after;
        int64_t started;

        node_pause(&bench->node, 3000);
        started = clock_ns();
        if (process_switches(agent_pid(bench), &before, &bench->err) < 0)
                return -1;
        node_pause(&bench->node, (uint64_t)bench->seconds * 1000);
        if (process_switches(agent_pid(bench), &after, &bench->err) < 0)
                return -1;
        figure_print_one("idle_wakeups", "/s", (double)(after - before) * 1e9 / (double)(clock_ns() - started));
        return 0;
}

/* ---- who uses what ---- */

/* What the agent takes of a core, and its memory, with PROCESSES on the GPUs. */
static int measure_usage(struct bench *bench)
{
        struct process_memory memory;
        uint64_t before;
        uint64_t after;
        int64_t started;

        node_pause(&bench->node, 3000);
        started = clock_ns();
        if (process_cpu(agent_pid(bench), &before, &bench->err) < 0)
                return -1;
        node_pause(&bench->node, (uint64_t)bench->seconds * 1000);
        if (process_cpu(agent_pid(bench), &after, &bench->err) < 0 ||
                process_memory(bench->node.sim.agent->process.pid, NULL, &memory, &bench->err) < 0)
                return -1;
        figure_print_one("usage_cpu", "%", (double)(after - before) * 100 / (double)(clock_ns() - started));
        figure_print_one("usage_pss", "KiB", memory.pss_kib);
        figure_print_one("usage_private", "KiB", memory.private_kib);
        return 0;
}

/* Programs of which nothing is wanted but that they are there. */
static void start_processes(pid_t processes[PROCESSES])
{
        const pid_t parent = getpid();

        for (size_t i = 0; i < PROCESSES; i++) {
                processes[i] = fork();
                if (processes[i] < 0)
                        abort();
                if (processes[i] == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        while (getppid() == parent)
                                pause();
                        _exit(0);
                }
        }
}

static void end_processes(const pid_t processes[PROCESSES])
{
        for (size_t i = 0; i < PROCESSES; i++) {
                kill(processes[i], SIGKILL);
                (void)waitpid(processes[i], NULL, 0);
        }
}

/* ---- outages ---- */

static int measure_update(struct bench *bench)
{
        struct figure figure = {.name = "update", .unit = "ms"};
        int rc = outage_of_updates(&bench->node, bench->times, &figure, &bench->err);

        figure_print(&figure);
        return rc;
}

static int measure_restart(struct bench *bench)
{
        struct figure figure = {.name = "restart", .unit = "ms"};
        int rc = outage_of_restarts(&bench->node, bench->times, &figure, &bench->err);

        figure_print(&figure);
        return rc;
}

static int measure_kill(struct bench *bench)
{
        struct figure figure = {.name = "kill", .unit = "ms"};
        int rc = outage_of_kills(&bench->node, bench->times, &figure, &bench->err);

        figure_print(&figure);
        return rc;
}

/* ---- the log ---- */

/* How long the line of an allocation takes where the agent's log is. */
static int measure_line(struct bench *bench)
{
        static const char line[] = "2026-01-01T00:00:00.000Z info  allocated resource=nvidia.com/gpu "
                                   "unit=GPU-00000000-1111-2222-3333-444444444444 replicas=1 of=48 memory_mib=1699 "
                                   "threads_permille=20\n";
        struct figure figure = {.name = "line", .unit = "us"};
        int log = open(bench->node.sim.log, O_WRONLY | O_APPEND | O_CLOEXEC | (bench->options.syncs_log ? O_DSYNC : 0));
        int rc = 0;

        if (log < 0)
                return error_errno(&bench->err, errno, "open '%s'", bench->node.sim.log);
        for (unsigned int i = 0; i < LINES && rc == 0; i++) {
                int64_t started = clock_ns();

                if (write(log, line, strlen(line)) < 0)
                        rc = error_errno(&bench->err, errno, "write to '%s'", bench->node.sim.log);
                figure_add(&figure, (double)(clock_ns() - started) / 1000);
        }
        close(log);
        figure_print(&figure);
        return rc;
}

/*
 * Each call finds an agent that has written the line of the one before: kubelet does not ask for one container after
 * the other, either.
 */
static int measure_log(struct bench *bench)
{
        bench->calls.pause_ms = LOG_PAUSE_MS;
        return measure_allocate(bench) < 0 ? -1 : measure_line(bench);
}

/* ---- for another client ---- */

static void on_stdin(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        *(bool *)poll->data = true;
}

static bool is_set(void *data)
{
        return *(bool *)data;
}

/* Prints the plugin's socket and waits for the end of stdin, ten minutes at most. */
static int hold(struct bench *bench)
{
        _free_ char *path = node_plugin_socket(&bench->node);
        bool over = false;
        uv_poll_t input;

        if (!path)
                return error_set(&bench->err, ERROR_NOT_FOUND, "no socket of the plugin in kubelet's directory");
        puts(path);
        fflush(stdout);
        uv_poll_init(&bench->loop, &input, 0);
        input.data = &over;
        uv_poll_start(&input, UV_READABLE | UV_DISCONNECT, on_stdin);
        sim_node_wait(&bench->node.sim, is_set, &over, UINT64_C(600000));
        uv_close((uv_handle_t *)&input, NULL);
        uv_run(&bench->loop, UV_RUN_NOWAIT); /* |input| goes with this function */
        return 0;
}

/* ---- command line ---- */

static const struct measure {
        const char *name;
        int (*run)(struct bench *bench);
        const char *help;
        const char *agent_options[2];
        bool syncs_log;
        bool has_processes;
} measures[] = {
        {"start", measure_start, "from making the process to Register, and to the first device list"},
        {"memory", measure_memory, "after registration, and after --calls allocations, and what these took of a core"},
        {"containers", measure_containers, "memory with --calls pods of one device each, after --seconds"},
        {"allocate", measure_allocate, "Allocate of one device, one call after the other"},
        {"list", measure_list, "ListAndWatch until the first list, each time over a new connection"},
        {"prefer", measure_prefer, "GetPreferredAllocation of --wanted among all devices"},
        {"xid", measure_xid, "from writing an event to the scenario to the list that says it"},
        {"idle", measure_idle, "wake-ups a second of all threads, over --seconds"},
        {"usage", measure_usage,
                "part of a core, over --seconds, with 100 processes that are read every 5 s, and memory",
                .agent_options = {"--metrics-address=127.0.0.1:0"}, .has_processes = true},
        {"no-usage", measure_usage, "the same with nothing read",
                .agent_options = {"--metrics-address=127.0.0.1:0", "--usage-interval=off"}, .has_processes = true},
        {"update", measure_update, "kubelet without a device while another agent takes over, --times"},
        {"restart", measure_restart, "kubelet without a device while the agent is ended and started again, --times"},
        {"kill", measure_kill, "from the end of the agent by -9 until all devices are back, --times",
                .agent_options = {"--restart-after-crash=always"}},
        {"slow-log", measure_log, "Allocate with a pause after each; each line of the log goes to the disk at once",
                .syncs_log = true},
        {"no-log", measure_log, "the same with nothing logged", .agent_options = {"--log-level=error"}},
        {"hold", hold, "prints the plugin's socket and waits for the end of input"},
};

static int usage(void)
{
        printf("usage: bench-agent --agent=PROGRAM --library=NVML --mps-programs=FOLDER [OPTION...] MEASURE\n\n"
               "Starts a node of simulated GPUs with the agent on it, measures one thing, prints figures (bench/figure.h).\n\n"
               "  --drop-in                PROGRAM is one in the place of nvidia-device-plugin, started as it is (sim/node.h)\n"
               "  --gpus=N --replicas=N    of the node (8, 48); 1 replica: not shared, above 48 or a drop-in: by time-slicing\n"
               "  --calls=N                requests (10000)\n"
               "  --wanted=N               devices a preference is asked for (1)\n"
               "  --seconds=N              of idling (12)\n"
               "  --times=N                outages (5)\n\nmeasures:\n");
        for (size_t i = 0; i < ARRAY_SIZE(measures); i++)
                printf("  %-10s %s\n", measures[i].name, measures[i].help);
        return 2;
}

static const struct measure *parse(struct bench *bench, int argc, char **argv)
{
        static const struct option options[] = {{"agent", required_argument, NULL, 'a'},
                {"library", required_argument, NULL, 'l'}, {"mps-programs", required_argument, NULL, 'm'},
                {"gpus", required_argument, NULL, 'g'}, {"replicas", required_argument, NULL, 'r'},
                {"calls", required_argument, NULL, 'c'}, {"wanted", required_argument, NULL, 'w'},
                {"seconds", required_argument, NULL, 's'}, {"times", required_argument, NULL, 't'},
                {"drop-in", no_argument, NULL, 'd'}, {0}};
        unsigned int *number = NULL;
        int option;

        bench->options.gpus = 8;
        bench->options.replicas = 48;
        bench->calls.count = 10000;
        bench->calls.wanted = 1;
        bench->seconds = 12;
        bench->times = 5;
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case 'a':
                        bench->options.agent = optarg;
                        continue;
                case 'm':
                        bench->options.mps = optarg;
                        continue;
                case 'l':
                        bench->options.library = optarg;
                        continue;
                case 'd':
                        bench->options.is_drop_in = true;
                        continue;
                case 'g':
                        number = &bench->options.gpus;
                        break;
                case 'r':
                        number = &bench->options.replicas;
                        break;
                case 'c':
                        number = &bench->calls.count;
                        break;
                case 'w':
                        number = &bench->calls.wanted;
                        break;
                case 's':
                        number = &bench->seconds;
                        break;
                case 't':
                        number = &bench->times;
                        break;
                default:
                        return NULL;
                }
                *number = (unsigned int)strtoul(optarg, NULL, 10);
        }
        if (!bench->options.agent || !bench->options.library || optind != argc - 1)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(measures); i++)
                if (strcmp(measures[i].name, argv[optind]) == 0)
                        return &measures[i];
        return NULL;
}

int main(int argc, char **argv)
{
        struct bench bench = {0};
        const struct measure *measure = parse(&bench, argc, argv);
        pid_t processes[PROCESSES];
        int rc;

        if (!measure)
                return usage();
        for (size_t i = 0; i < ARRAY_SIZE(measure->agent_options); i++)
                bench.options.agent_options[i] = measure->agent_options[i];
        bench.options.syncs_log = measure->syncs_log;
        signal(SIGPIPE, SIG_IGN); /* whoever reads the figures may end first; the agent must not be left behind */
        if (measure->has_processes) {
                start_processes(processes);
                bench.options.processes = processes;
                bench.options.n_processes = PROCESSES;
        }
        uv_loop_init(&bench.loop);
        rc = node_start(&bench.node, &bench.loop, &bench.options, &bench.err);
        if (rc == 0)
                rc = measure->run(&bench);
        node_stop(&bench.node);
        uv_run(&bench.loop, UV_RUN_DEFAULT); /* what is closing */
        uv_loop_close(&bench.loop);
        if (measure->has_processes)
                end_processes(processes);
        if (rc < 0)
                fprintf(stderr, "bench-agent %s: %s\n", measure->name, bench.err.text);
        return rc < 0 ? 1 : 0;
}
