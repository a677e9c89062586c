// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare probe: a CUDA program that measures what its container really gets of a GPU. The CUDA part runs in a
 * process of its own, since any CUDA call may hang; print.c prints what was found.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cmd/commands.h"
#include "cmd/probe/probe.h"
#include "gpu/hangs.h"
#include "gpu/nvml_read.h"
#include "gpu/nvml.h"

enum { EXIT_NO_CUDA = 3 };

#define SECONDS_MAX 3600U
#define WATCH_WINDOW 0.25
#define USUAL_WINDOW 0.1
#define METADATA_FILES_MAX ((size_t)64)
#define METADATA_SIZE_MAX ((size_t)1024 * 1024)

/* ---- options ---- */

enum {
        JSON,
        DEVICE,
        WATCH,
        MEMORY,
        NO_MEMORY,
        TIMEOUT,
        LIBCUDA,
        LIBNVML,
        METADATA,
        LOAD,
        SWEEP,
        BEGIN_AT,
        FAULT,
};

static const struct option own[] = {
        [JSON] = COMMAND_FLAG("json", "one JSON object instead of the table"),
        [DEVICE] = COMMAND_TEXT("device", "0", "N", "which of the visible GPUs, from 0"),
        [WATCH] = COMMAND_TEXT("watch", "", "SECONDS",
                "how long to measure the throughput, in windows of 250 ms: least, median and most show the "
                "effect of neighbours; empty: one second"),
        [MEMORY] = COMMAND_TEXT("memory", "", "MIB|all",
                "how much memory to try at most, held for milliseconds; empty: 64 MiB more than the limit, "
                "to detect a limit that is not in force, or 1024 MiB without a limit"),
        [NO_MEMORY] = COMMAND_FLAG("no-memory", "do not try to allocate memory"),
        [TIMEOUT] = COMMAND_TEXT("timeout", "30", "SECONDS", "how long a step may take"),
        [LIBCUDA] = COMMAND_TEXT("cuda-library", "", "PATH", "instead of libcuda.so.1"),
        [LIBNVML] = COMMAND_TEXT("nvml-library", "", "PATH",
                "instead of libnvidia-ml.so.1, which reports how many SMs the whole GPU has"),
        [METADATA] = COMMAND_TEXT("device-metadata", "/var/run/kubernetes.io/dra-device-attributes", "FOLDER",
                "where the container's device metadata is, which names its share"),
        [LOAD] =
                COMMAND_TEXT("load", "", "SECONDS", "for tests: run a load of multiply-adds, and report the work done"),
        [SWEEP] = COMMAND_TEXT("sweep", "", "SECONDS",
                "for tests: run nine loads for so long each, one after another: compute, memory and launches, each in a small, "
                "a medium and a large grid"),
        [BEGIN_AT] = COMMAND_TEXT("begin-at", "", "TIME",
                "for tests: begin the load at that time, in seconds since the epoch, so that loads can be "
                "compared"),
        [FAULT] = COMMAND_FLAG(
                "fault", "for tests: write to an invalid address. Under MPS that ends EVERY client of the GPU"),
};

static const char help[] = "usage: warpshare probe [OPTION...]\n"
                           "\n"
                           "Measures what this container really gets of its GPU, and compares it with its\n"
                           "allocation.\n"
                           "\n";

static const char more_help[] =
        "\n"
        "The allocation is read from device metadata and from the environment: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,\n"
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, WARPSHARE_THREAD_PERCENTAGE, WARPSHARE_MEMORY_LIMIT_MIB,\n"
        "WARPSHARE_SMS; where two differ, the lower counts. It holds when MPS is in use, when memory can be\n"
        "allocated up to the limit and no further (768 MiB less is accepted, which CUDA's own context may take),\n"
        "and when the number of SMs differs by two at most, since the hardware assigns them in pairs.\n"
        "\n"
        "exit status: 0 it holds, or there is none; 1 it does not; 2 wrong usage; 3 CUDA cannot be used: the\n"
        "error is shown with what it means under MPS.\n";

static int refuse_value(size_t position, const char *value, const char *form, struct error *err)
{
        return error_set(err, ERROR_INVALID, "--%s %.40s: must be %s", own[position].flag, value, form);
}

static int read_seconds(size_t position, const char *text, unsigned int *ret, struct error *err)
{
        uint64_t value;

        if (!text_to_uint(text, SECONDS_MAX, &value) || value == 0)
                return refuse_value(position, text, "a number of seconds from 1 to 3600", err);
        *ret = (unsigned int)value;
        return 0;
}

static int probe_read_memory(struct probe_options *options, const char *text, struct error *err)
{
        uint64_t value;

        if (strcmp(text, "all") == 0) {
                options->memory = PROBE_MEMORY_ALL;
                return 0;
        }
        if (!text_to_uint(text, UINT32_MAX, &value) || value == 0)
                return refuse_value(MEMORY, text, "a number of MiB, or 'all'", err);
        options->memory = PROBE_MEMORY_CEILING;
        options->memory_mib = (unsigned int)value;
        return 0;
}

static int read_time(struct probe_options *options, const char *text, struct error *err)
{
        char *end;

        options->begin_at = strtod(text, &end);
        if (*end || end == text || !isfinite(options->begin_at) || options->begin_at <= 0 || options->begin_at > 1e11)
                return refuse_value(BEGIN_AT, text, "seconds since the epoch", err);
        return 0;
}

/* How long the child works, and what it does. */
static int read_work(struct probe_options *options, const char *const *values, struct error *err)
{
        unsigned int seconds = 1;

        if (*values[WATCH]) {
                if (read_seconds(WATCH, values[WATCH], &seconds, err) < 0)
                        return -1;
                options->window = WATCH_WINDOW;
        }
        if (*values[LOAD]) {
                if (read_seconds(LOAD, values[LOAD], &seconds, err) < 0)
                        return -1;
                options->window = USUAL_WINDOW;
                options->kind = PROBE_LOAD;
        }
        if (*values[SWEEP]) {
                if (read_seconds(SWEEP, values[SWEEP], &seconds, err) < 0)
                        return -1;
                options->kind = PROBE_SWEEP;
        }
        if (strcmp(values[FAULT], "true") == 0)
                options->kind = PROBE_FAULT;
        options->seconds = seconds;
        return 0;
}

static const char *probe_path_of(const char *value)
{
        return *value ? value : NULL;
}

static int probe_read_options(struct probe_options *options, const struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        uint64_t device;

        *options = (struct probe_options){
                .memory = PROBE_MEMORY_CAREFUL,
                .window = USUAL_WINDOW,
                .json = command_is_set(call, JSON),
                .cuda_library = probe_path_of(values[LIBCUDA]),
                .nvml_library = probe_path_of(values[LIBNVML]),
                .metadata = values[METADATA],
        };
        if (!text_to_uint(values[DEVICE], 255, &device))
                return refuse_value(DEVICE, values[DEVICE], "a number from 0 to 255", err);
        options->device = (unsigned int)device;
        if (*values[MEMORY] && probe_read_memory(options, values[MEMORY], err) < 0)
                return -1;
        if (command_is_set(call, NO_MEMORY))
                options->memory = PROBE_MEMORY_NONE;
        if (*values[BEGIN_AT] && read_time(options, values[BEGIN_AT], err) < 0)
                return -1;
        if (read_work(options, values, err) < 0)
                return -1;
        return read_seconds(TIMEOUT, values[TIMEOUT], &options->timeout_s, err);
}

/* ---- deadlines ---- */

static uint64_t work_ms(const struct probe_options *options)
{
        double now = (double)time(NULL);
        double wait = options->begin_at > now ? options->begin_at - now : 0;
        double work = options->kind == PROBE_SWEEP ? MEASURE_SWEEP_LOADS * (options->seconds + MEASURE_SWEEP_PAUSE_S)
                                                   : options->seconds;

        return (uint64_t)((work + MIN(wait, (double)SECONDS_MAX)) * 1000);
}

/* ---- the work ---- */

/* Without a limit, at most this much is taken, since it is missing for others during the measurement. */
#define CAREFUL_MIB UINT64_C(1024)

struct probe {
        const struct probe_options *options;
        struct probe_result *result;
        struct cuda cuda;
        struct measure measure;
};

static const char *const probe_step_names[PROBE_STEPS] = {
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

static void work_begin(const struct probe *probe, enum probe_step step)
{
        gpu_call_about(CALL_ON_DRIVER, CALL_NO_INDEX, NULL);
        worker_own_call()->index = step; /* explain_loss() reads it */
        gpu_call_begin(probe_step_names[step], step == PROBE_STEP_WORK ? probe->options->work_ms : 0);
}

static const char *from_environment(const char *name, void *data UNUSED)
{
        return getenv(name);
}

/* The directory in which CUDA searches for a control daemon. */
static bool has_socket(const struct granted *granted)
{
        _free_ char *path = xasprintf("%s/control", *granted->pipe ? granted->pipe : "/tmp/nvidia-mps");
        struct stat status;

        return stat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* A file that cannot be read counts for nothing: the environment and the other files say what is known. */
static void read_metadata(struct granted *granted, const char *folder, const char *uuid)
{
        _free_ char *pattern = xasprintf("%s/*/*/*/*-metadata.json", folder);
        glob_t found;

        if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
                for (size_t i = 0; i < MIN(found.gl_pathc, METADATA_FILES_MAX); i++) {
                        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                        struct error err;

                        if (file_read(found.gl_pathv[i], METADATA_SIZE_MAX, &text, &err) < 0 ||
                                granted_read_metadata(granted, text.data, text.size, uuid, &err) < 0)
                                log_warn("device metadata that cannot be read", LOG_STR("file", found.gl_pathv[i]),
                                        LOG_ERR(&err));
                }
        globfree(&found);
}

static int work_start(struct probe *probe, struct error *err)
{
        struct probe_result *result = probe->result;

        work_begin(probe, PROBE_STEP_LIBRARY);
        if (cuda_open(&probe->cuda, probe->options->cuda_library, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_INIT);
        if (measure_init(&probe->measure, &probe->cuda, (int)probe->options->device, &result->facts, err) < 0)
                return -1;
        if (granted_read(&result->granted, from_environment, NULL, (int)probe->options->device, result->facts.uuid,
                    err) < 0) {
                result->promise_is_unclear = true;
                return -1;
        }
        read_metadata(&result->granted, probe->options->metadata, result->facts.uuid);
        result->socket = has_socket(&result->granted);
        work_begin(probe, PROBE_STEP_CONTEXT);
        if (measure_create_context(&probe->measure, &result->facts, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_PROGRAM);
        return measure_load(&probe->measure, err);
}

static uint64_t memory_ceiling(const struct probe *probe)
{
        uint64_t granted = granted_memory_ceiling(&probe->result->granted);

        switch (probe->options->memory) {
        case PROBE_MEMORY_CEILING:
                return (uint64_t)probe->options->memory_mib << 20;
        case PROBE_MEMORY_ALL:
                return probe->result->facts.memory;
        default:
                return granted ? granted : CAREFUL_MIB << 20;
        }
}

static int measure_all(struct probe *probe, struct error *err)
{
        struct probe_result *result = probe->result;

        work_begin(probe, PROBE_STEP_SMS);
        if (measure_find_places(&probe->measure, &result->places, err) < 0)
                return -1;
        if (probe->options->memory != PROBE_MEMORY_NONE) {
                work_begin(probe, PROBE_STEP_MEMORY);
                if (measure_try_memory(&probe->measure, memory_ceiling(probe), &result->memory, err) < 0)
                        return -1;
                result->has_memory = true;
        }
        work_begin(probe, PROBE_STEP_BANDWIDTH);
        return measure_bandwidth(&probe->measure, &result->bandwidth, err);
}

static int work_run(struct probe *probe, struct error *err)
{
        const struct probe_options *options = probe->options;
        struct error fault;

        if (work_start(probe, err) < 0)
                return -1;
        if (options->kind == PROBE_FAULT) {
                work_begin(probe, PROBE_STEP_FAULT);
                /* A broken context is the expected result here, and cannot be destroyed any more. */
                if (measure_fault(&probe->measure, &fault) < 0)
                        snprintf(probe->result->fault, sizeof(probe->result->fault), "%s", fault.text);
                return 0;
        }
        if (options->kind == PROBE_ALL && measure_all(probe, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_WORK);
        if (options->kind == PROBE_SWEEP) {
                if (measure_sweep(&probe->measure, options->seconds, options->begin_at, &probe->result->sweep, err) < 0)
                        return -1;
        } else if (measure_work(&probe->measure, options->seconds, options->window, options->begin_at,
                           &probe->result->rate, err) < 0)
                return -1;
        work_begin(probe, PROBE_STEP_END);
        return measure_destroy_context(&probe->measure, err);
}

/* SMs of the whole unit. CUDA reports a UUID, but not whether it is a GPU's or a MIG device's. */
static unsigned int work_read_unit(const struct nvml *nvml, const char *uuid)
{
        _free_ char *gpu = xasprintf("GPU-%s", uuid);
        _free_ char *mig = xasprintf("MIG-%s", uuid);
        nvmlDeviceAttributes_t attributes = {0};
        unsigned int cores = 0;
        nvmlDevice_t device;
        int major = 0;
        int minor = 0;

        if (NVML_CALL(nvml, device_get_by_uuid, mig, &device) == NVML_SUCCESS)
                return NVML_CALL(nvml, device_get_attributes, device, &attributes) == NVML_SUCCESS
                               ? attributes.multiprocessorCount
                               : 0;
        if (NVML_CALL(nvml, device_get_by_uuid, gpu, &device) != NVML_SUCCESS ||
                NVML_CALL(nvml, device_get_cores, device, &cores) != NVML_SUCCESS ||
                NVML_CALL(nvml, device_get_compute_capability, device, &major, &minor) != NVML_SUCCESS)
                return 0;
        return multiprocessors_of(cores, major, minor);
}

/*
 * In a process of its own (base/io/worker.h), since CUDA may hang, or end it. It reports each step, with the enum as
 * |index|, and puts each value into |result| at once, so that values are kept if it hangs or ends later.
 */
static void probe_work(const struct probe_options *options, struct probe_result *result)
{
        struct probe probe = {.options = options, .result = result};
        struct nvml *nvml = NULL;
        struct error ignored;

        if (work_run(&probe, &result->error) < 0) {
                result->code = probe.cuda.failed;
                snprintf(
                        result->call, sizeof(result->call), "%s", probe.cuda.failed_call ? probe.cuda.failed_call : "");
                result->failed = true;
                return;
        }
        result->complete = true;
        if (probe.options->kind != PROBE_ALL)
                return;
        work_begin(&probe, PROBE_STEP_NVML);
        if (nvml_open(&nvml, probe.options->nvml_library, NULL, &ignored) == 0) {
                result->unit_sms = work_read_unit(nvml, result->facts.uuid);
                nvml_close(nvml);
        }
}

static char *explain_hang(const struct probe_options *options, unsigned int step)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");

        if (step != PROBE_STEP_INIT && step != PROBE_STEP_CONTEXT)
                return xasprintf(
                        "%s does not end (%u s): the GPU or the MPS server hangs; see the kernel's log (lines with "
                        "NVRM) and server.log on the node",
                        probe_step_names[step], options->timeout_s);
        return xasprintf(
                "%s does not return (%u s): probably an MPS server of another user id holds the daemon%s%s, since one "
                "daemon serves one user at a time unless it runs with -multiuser-server; this process has user id "
                "%u. Let the pods that share the GPU run as one user, or see 'warpshare mps status' on the node",
                probe_step_names[step], options->timeout_s, pipe ? " in " : "", pipe ? pipe : "",
                (unsigned int)getuid());
}

/* Its process was lost with |cause|. */
static char *explain_loss(
        const struct probe_options *options, const struct worker_alone *alone, const struct error *cause)
{
        const unsigned int step = MIN(alone->lost.index, PROBE_STEPS - 1U);

        if (cause->kind == ERROR_EXHAUSTED)
                return xstrdup(cause->text);
        if (cause->kind == ERROR_TIMEOUT)
                return explain_hang(options, step);
        return xasprintf(
                "CUDA ended the process during %s (signal %d): the driver's library and kernel module may not fit "
                "together",
                probe_step_names[step], alone->signal);
}

/* |failure|: why the measurement failed; NULL: it did not. */
static int report_result(const struct probe_options *options, struct probe_result *result, const char *failure)
{
        struct probe_report report = {.options = options, .result = result, .failure = failure};
        struct granted_measured measured = {.facts = &result->facts,
                .places = &result->places,
                .memory = result->has_memory ? &result->memory : NULL,
                .unit_sms = result->unit_sms,
                .socket = result->socket};

        report.spread = measure_spread_of(result->rate.samples, result->rate.n_samples);
        granted_check(&report.outcome, &result->granted, &measured);
        probe_print(&report);
        if (failure)
                return result->promise_is_unclear ? EXIT_FAILED : EXIT_NO_CUDA;
        return options->kind == PROBE_ALL && !report.outcome.holds ? EXIT_FAILED : 0;
}

struct job {
        const struct probe_options *options;
        struct probe_result *result; /* both processes share it */
};

static void serve_job(const void *message UNUSED, size_t size UNUSED, struct strbuf *answer UNUSED, const void *data)
{
        const struct job *job = data;

        probe_work(job->options, job->result);
}

static int measure_and_report(const struct probe_options *options, struct probe_result *result)
{
        const struct job job = {options, result};
        struct strbuf nothing = STRBUF_INIT;
        _free_ char *failure = NULL;
        struct worker_alone alone;
        struct error err;
        int rc;

        worker_alone_begin(&alone, "warpshare-cuda", serve_job, &job);
        rc = worker_alone_ask(&alone, "", 1, options->timeout_s * UINT64_C(1000), &nothing, &err);
        worker_alone_end(&alone);
        if (!result->complete)
                failure = result->failed ? xstrdup(result->error.text)
                          : rc < 0       ? explain_loss(options, &alone, &err)
                                         : NULL;
        return report_result(options, result, failure);
}

static int probe_run(struct command_call *call, struct error *err)
{
        struct probe_options options;
        struct probe_result *result;
        int status;

        if (probe_read_options(&options, call, err) < 0)
                return COMMAND_REFUSED;
        options.work_ms = work_ms(&options);
        result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (result == MAP_FAILED)
                alloc_fail();
        status = measure_and_report(&options, result);
        munmap(result, sizeof(*result));
        return status;
}

const struct command command_probe = {
        .name = "probe",
        .summary = "measure in a container what it really gets of its GPU",
        .run = probe_run,
        .shared = command_none,
        COMMAND_OWN(own),
        .program = "warpshare probe",
        .help = help,
        .more_help = more_help,
};
