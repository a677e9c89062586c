/*
 * warpshare probe: a CUDA program that finds out what its container really gets of a GPU. The CUDA part is in a child process
 * (probe_work.c), since any call of it may hang; here are the options, the deadlines and the exit status.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/probe.h"

enum { EXIT_NO_CUDA = 3 };

#define SECONDS_MAX 3600U
#define WATCH_WINDOW 0.25
#define USUAL_WINDOW 0.1

static void print_help(void)
{
        fputs("Measures what this container really gets of its GPU, and compares it with what it was granted.\n\n"
              "usage: warpshare probe [OPTION...]\n\n"
              "  --json                one JSON object instead of the table\n"
              "  --device N            which of the visible GPUs, from 0 (default 0)\n"
              "  --watch SECONDS       measure the throughput so long, in windows of 250 ms: least, median and most show what\n"
              "                        neighbours do to it (default: one second)\n"
              "  --memory MIB|all      how much memory to try at most. Default: the limit and 64 MiB more, so that a limit\n"
              "                        that is not in force shows; without a limit 1024. It is held for milliseconds\n"
              "  --no-memory           do not try\n"
              "  --timeout SECONDS     how long a step may take (default 30)\n"
              "  --cuda-library PATH   instead of libcuda.so.1\n"
              "  --nvml-library PATH   instead of libnvidia-ml.so.1, which tells how many SMs the whole GPU has\n"
              "  --help\n\n"
              "to test with:\n"
              "  --load SECONDS        be a load of multiply-adds, and tell the work done\n"
              "  --begin-at TIME       begin the load at that time, in seconds since the epoch: loads to be compared\n"
              "  --fault               write where nothing is. Under MPS that ends EVERY client of the GPU\n\n"
              "What was granted is what the environment says: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,\n"
              "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, WARPSHARE_THREAD_PERCENTAGE, WARPSHARE_MEMORY_LIMIT_MIB, WARPSHARE_SMS;\n"
              "of two, the lower. It holds when MPS is in use; when no more memory than the limit can be allocated, and no\n"
              "less than the limit without 768 MiB, which is room for CUDA's own context; and when the SMs are those granted,\n"
              "give or take two, since the hardware gives them in pairs.\n\n"
              "exit status: 0 it holds, or nothing was granted; 1 it does not; 2 wrong usage; 3 CUDA cannot be used: the\n"
              "error is shown with what it means under MPS.\n",
                stdout);
}

/* ---- options ---- */

static int refuse(const char *option, const char *value, const char *form)
{
        fprintf(stderr, "warpshare probe: --%s %s: must be %s\n", option, value, form);
        return -1;
}

static int read_seconds(const char *option, const char *text, unsigned int *ret)
{
        uint64_t value;

        if (!text_to_uint(text, SECONDS_MAX, &value) || value == 0)
                return refuse(option, text, "a number of seconds from 1 to 3600");
        *ret = (unsigned int)value;
        return 0;
}

static int read_memory(struct probe_options *options, const char *text)
{
        uint64_t value;

        if (strcmp(text, "all") == 0) {
                options->memory = PROBE_MEMORY_ALL;
                return 0;
        }
        if (!text_to_uint(text, UINT32_MAX, &value) || value == 0)
                return refuse("memory", text, "a number of MiB, or 'all'");
        options->memory = PROBE_MEMORY_CEILING;
        options->memory_mib = (unsigned int)value;
        return 0;
}

static int read_time(struct probe_options *options, const char *text)
{
        char *end;

        options->begin_at = strtod(text, &end);
        if (*end || end == text || !isfinite(options->begin_at) || options->begin_at <= 0 || options->begin_at > 1e11)
                return refuse("begin-at", text, "seconds since the epoch");
        return 0;
}

static int read_device(struct probe_options *options, const char *text)
{
        uint64_t value;

        if (!text_to_uint(text, 255, &value))
                return refuse("device", text, "a number from 0 to 255");
        options->device = (unsigned int)value;
        return 0;
}

/* 1: help is wanted. */
static int take_option(struct probe_options *options, int letter)
{
        unsigned int seconds = 0;

        switch (letter) {
        case 'j':
                options->json = true;
                return 0;
        case 'd':
                return read_device(options, optarg);
        case 'w':
        case 'l':
                if (read_seconds(letter == 'w' ? "watch" : "load", optarg, &seconds) < 0)
                        return -1;
                options->seconds = seconds;
                options->window = letter == 'w' ? WATCH_WINDOW : USUAL_WINDOW;
                if (letter == 'l')
                        options->kind = PROBE_LOAD;
                return 0;
        case 'b':
                return read_time(options, optarg);
        case 'f':
                options->kind = PROBE_FAULT;
                return 0;
        case 'm':
                return read_memory(options, optarg);
        case 'M':
                options->memory = PROBE_MEMORY_NONE;
                return 0;
        case 't':
                return read_seconds("timeout", optarg, &options->timeout_s);
        case 'c':
                options->cuda_library = optarg;
                return 0;
        case 'n':
                options->nvml_library = optarg;
                return 0;
        case 'h':
                return 1;
        default:
                return -1;
        }
}

static int parse_options(struct probe_options *options, int argc, char **argv)
{
        static const struct option table[] = {
                {"json", no_argument, NULL, 'j'},
                {"device", required_argument, NULL, 'd'},
                {"watch", required_argument, NULL, 'w'},
                {"load", required_argument, NULL, 'l'},
                {"begin-at", required_argument, NULL, 'b'},
                {"fault", no_argument, NULL, 'f'},
                {"memory", required_argument, NULL, 'm'},
                {"no-memory", no_argument, NULL, 'M'},
                {"timeout", required_argument, NULL, 't'},
                {"cuda-library", required_argument, NULL, 'c'},
                {"nvml-library", required_argument, NULL, 'n'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int letter;

        *options = (struct probe_options){
                .memory = PROBE_MEMORY_CAREFUL, .seconds = 1, .window = USUAL_WINDOW, .timeout_s = 30};
        while ((letter = getopt_long(argc, argv, "h", table, NULL)) != -1) {
                int taken = take_option(options, letter);

                if (taken != 0)
                        return taken;
        }
        if (optind < argc) {
                fprintf(stderr, "warpshare probe: unexpected argument '%s'\n", argv[optind]);
                return -1;
        }
        return 0;
}

/* ---- deadlines ---- */

static const char *const step_names[PROBE_STEPS] = {
        [PROBE_STEP_LIBRARY] = "loading libcuda.so.1",
        [PROBE_STEP_INIT] = "cuInit",
        [PROBE_STEP_CONTEXT] = "cuCtxCreate",
        [PROBE_STEP_PROGRAM] = "compiling the program for this GPU",
        [PROBE_STEP_SMS] = "counting SMs",
        [PROBE_STEP_MEMORY] = "trying memory",
        [PROBE_STEP_BANDWIDTH] = "measuring bandwidth",
        [PROBE_STEP_WORK] = "working",
        [PROBE_STEP_FAULT] = "the fault",
        [PROBE_STEP_END] = "cuCtxDestroy",
        [PROBE_STEP_NVML] = "NVML",
};

static void make_steps(struct worker_step steps[PROBE_STEPS], const struct probe_options *options)
{
        double now = (double)time(NULL);
        double wait = options->begin_at > now ? options->begin_at - now : 0;

        for (unsigned int i = 0; i < PROBE_STEPS; i++)
                steps[i] =
                        (struct worker_step){.name = step_names[i], .timeout_ms = options->timeout_s * UINT64_C(1000)};
        steps[PROBE_STEP_WORK].timeout_ms += (uint64_t)((options->seconds + MIN(wait, (double)SECONDS_MAX)) * 1000);
}

static char *explain_hang(const struct probe_options *options, unsigned int step)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");

        if (step != PROBE_STEP_INIT && step != PROBE_STEP_CONTEXT)
                return xasprintf(
                        "%s does not end (%u s): the GPU or the MPS server hangs; see the kernel's log (lines with "
                        "NVRM) and server.log on the node",
                        step_names[step], options->timeout_s);
        return xasprintf(
                "%s does not return (%u s): probably an MPS server of another user id holds the daemon%s%s, since one "
                "daemon serves one user at a time unless it runs with -multiuser-server; this process has user id "
                "%u. Let the pods that share the GPU run as one user, or see 'warpshare mps status' on the node",
                step_names[step], options->timeout_s, pipe ? " in " : "", pipe ? pipe : "", (unsigned int)getuid());
}

/* Why there is nothing to judge; NULL: there is. The caller frees. */
static char *find_failure(const struct probe_options *options, const struct worker_result *worker)
{
        const struct probe_result *result = worker->shared;

        if (result->complete)
                return NULL;
        if (result->failed)
                return xstrdup(result->error.text);
        if (worker->end == WORKER_HUNG)
                return explain_hang(options, worker->step);
        return xasprintf(
                "CUDA ended the process during %s (signal %d): the driver's library and kernel module may not fit "
                "together",
                step_names[worker->step], worker->signal);
}

static int judge(const struct probe_options *options, const struct worker_result *worker)
{
        struct probe_result *result = worker->shared;
        _free_ char *failure = find_failure(options, worker);
        struct probe_report report = {.options = options, .result = result, .failure = failure};
        struct granted_measured measured = {.facts = &result->facts,
                .places = &result->places,
                .memory = result->has_memory ? &result->memory : NULL,
                .unit_sms = result->unit_sms,
                .socket = result->socket};

        report.spread = measure_spread_of(result->rate.samples, result->rate.n_samples);
        granted_judge(&report.verdict, &result->granted, &measured);
        probe_print(&report);
        if (failure)
                return result->promise_is_unclear ? EXIT_FAILED : EXIT_NO_CUDA;
        return options->kind == PROBE_ALL && !report.verdict.holds ? EXIT_FAILED : 0;
}

int command_probe(int argc, char **argv)
{
        struct worker_step steps[PROBE_STEPS];
        struct probe_options options;
        struct worker_options worker_options = {.steps = steps,
                .n_steps = PROBE_STEPS,
                .shared_size = sizeof(struct probe_result),
                .run = probe_work,
                .data = &options};
        struct worker_result worker;
        struct error err;
        int status = parse_options(&options, argc, argv);

        if (status < 0)
                return EXIT_USAGE;
        if (status > 0) {
                print_help();
                return 0;
        }
        make_steps(steps, &options);
        if (worker_run(&worker, &worker_options, &err) < 0) {
                fprintf(stderr, "warpshare probe: %s\n", err.text);
                return EXIT_NO_CUDA;
        }
        status = judge(&options, &worker);
        worker_release(&worker);
        return status;
}
