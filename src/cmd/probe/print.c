// SPDX-License-Identifier: Apache-2.0
/* The output of warpshare probe: a table for people, one JSON object for programs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cmd/probe/probe.h"
#include "gpu/cuda/cuda.h"

/* ---- JSON ---- */

/* 0 means unknown. */
static json_t *print_number_or_null(uint64_t value)
{
        return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *text_or_null(const char *text)
{
        return *text ? json_string(text) : json_null();
}

static json_t *print_device_of(const struct probe_report *report)
{
        const struct measure_facts *facts = &report->result->facts;
        char capability[32];
        char cuda[32];

        snprintf(capability, sizeof(capability), "%d.%d", facts->compute_major, facts->compute_minor);
        snprintf(cuda, sizeof(cuda), "%d.%d", facts->driver_version / 1000, facts->driver_version % 1000 / 10);
        return json_pack("{s:i,s:i,s:o,s:o,s:s,s:s}", "ordinal", (int)report->options->device, "visible",
                facts->devices, "name", text_or_null(facts->name), "uuid", text_or_null(facts->uuid),
                "computeCapability", capability, "cuda", cuda);
}

static json_t *print_memory_of(const struct probe_result *result)
{
        json_t *memory = json_pack("{s:I,s:I}", "totalMib", (json_int_t)(result->facts.memory >> 20), "freeMib",
                (json_int_t)(result->facts.memory_free >> 20));

        if (result->has_memory) {
                json_object_set_new(memory, "triedMib", json_integer((json_int_t)(result->memory.ceiling >> 20)));
                json_object_set_new(memory, "allocatedMib", json_integer((json_int_t)(result->memory.granted >> 20)));
                json_object_set_new(memory, "refused", json_boolean(result->memory.refused));
                json_object_set_new(memory, "heldMs", json_real((double)result->memory.held_us / 1e3));
        }
        return memory;
}

static json_t *rate_of(const struct probe_report *report)
{
        const struct measure_rate *rate = &report->result->rate;

        return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:i}", "gflop", rate->work, "seconds", rate->seconds, "gflops",
                rate->seconds > 0 ? rate->work / rate->seconds : 0.0, "least", report->spread.least, "median",
                report->spread.median, "most", report->spread.most, "windows", (int)rate->n_samples, "launches",
                (int)rate->launches);
}

static json_t *sweep_of(const struct measure_sweep *sweep)
{
        json_t *list = json_array();

        for (unsigned int i = 0; i < MEASURE_SWEEP_LOADS; i++)
                json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:f,s:i}", "kernel", sweep->loads[i].kernel, "grid",
                                                    sweep->loads[i].grid, "unit", sweep->loads[i].unit, "rate",
                                                    sweep->loads[i].rate, "launches", (int)sweep->loads[i].launches));
        return list;
}

static json_t *granted_of(const struct granted *granted)
{
        return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "threadPercentage",
                granted->threads_permille ? json_real(granted->threads_permille / 10.0) : json_null(), "memoryMib",
                print_number_or_null(granted->memory_mib), "multiprocessors", print_number_or_null(granted->sms),
                "tier", text_or_null(granted->tier), "replicas", text_or_null(granted->replicas), "fraction",
                text_or_null(granted->fraction));
}

static json_t *findings_of(const struct granted_outcome *outcome)
{
        json_t *findings = json_array();

        for (unsigned int i = 0; i < outcome->n_findings; i++)
                json_array_append_new(findings, json_pack("{s:b,s:s}", "broken", (int)outcome->findings[i].broken,
                                                        "text", outcome->findings[i].text));
        return findings;
}

static void add_measurements(json_t *root, const struct probe_report *report)
{
        const struct probe_result *result = report->result;

        json_object_set_new(root, "device", print_device_of(report));
        json_object_set_new(root, "mps", result->facts.mps < 0 ? json_null() : json_boolean(result->facts.mps));
        json_object_set_new(root, "multiprocessors",
                json_pack("{s:o,s:o,s:i,s:o,s:i,s:i}", "unit", print_number_or_null(result->unit_sms), "allocated",
                        print_number_or_null(report->outcome.sms), "reported", (int)result->facts.sms, "affinity",
                        print_number_or_null(result->facts.affinity_sms), "atOnce", (int)result->places.at_once, "seen",
                        (int)result->places.seen));
        json_object_set_new(root, "memory", print_memory_of(result));
        json_object_set_new(root, "bandwidthGbs", json_real(result->bandwidth));
        json_object_set_new(root, "throughput", rate_of(report));
        json_object_set_new(root, "allocation", granted_of(&result->granted));
        json_object_set_new(root, "holds", json_boolean(report->outcome.holds));
        json_object_set_new(root, "findings", findings_of(&report->outcome));
}

static json_t *error_of(const struct probe_report *report)
{
        const struct probe_result *result = report->result;
        const struct cuda_trouble *trouble = result->failed ? cuda_trouble(result->code) : NULL;

        return json_pack("{s:o,s:o,s:o,s:s}", "code",
                result->failed ? print_number_or_null((uint64_t)result->code) : json_null(), "name",
                trouble ? json_string(trouble->name) : json_null(), "call", text_or_null(result->call), "text",
                report->failure);
}

static void probe_print_json(const struct probe_report *report)
{
        json_t *root = json_object();

        if (report->failure)
                json_object_set_new(root, "error", error_of(report));
        else if (report->options->kind == PROBE_LOAD)
                json_object_set_new(root, "load", rate_of(report));
        else if (report->options->kind == PROBE_SWEEP)
                json_object_set_new(root, "sweep", sweep_of(&report->result->sweep));
        else if (report->options->kind == PROBE_FAULT)
                json_object_set_new(root, "fault", json_string(report->result->fault));
        else
                add_measurements(root, report);
        json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
        json_decref(root);
}

/* ---- for people ---- */

static void print_granted(const struct granted *granted)
{
        if (!granted->mps)
                return;
        fputs("allocation   ", stdout);
        if (*granted->replicas)
                printf("%s replicas", granted->replicas);
        if (granted->threads_permille)
                printf("%s%u.%u %% of the threads", *granted->replicas ? ", " : "", granted->threads_permille / 10,
                        granted->threads_permille % 10);
        if (granted->memory_mib)
                printf("%s%" PRIu64 " MiB", *granted->replicas || granted->threads_permille ? ", " : "",
                        granted->memory_mib);
        if (*granted->tier)
                printf(", tier %s", granted->tier);
        putchar('\n');
}

static void print_sms(const struct probe_report *report)
{
        const struct probe_result *result = report->result;

        printf("SMs          %u at one time (%u over the whole grid)", result->places.at_once, result->places.seen);
        if (report->outcome.sms)
                printf(", %u allocated", report->outcome.sms);
        if (result->unit_sms)
                printf(", the whole has %u", result->unit_sms);
        printf("; CUDA reports %u", result->facts.sms);
        if (result->facts.affinity_sms)
                printf(", execution affinity %u", result->facts.affinity_sms);
        putchar('\n');
}

static void print_memory(const struct probe_result *result)
{
        printf("memory       CUDA reports %" PRIu64 " MiB, %" PRIu64 " free", result->facts.memory >> 20,
                result->facts.memory_free >> 20);
        if (result->has_memory)
                printf("; %" PRIu64 " MiB could be allocated, %s (held for %.1f ms)", result->memory.granted >> 20,
                        result->memory.refused ? "then it was refused" : "more was not tried",
                        (double)result->memory.held_us / 1e3);
        putchar('\n');
}

static void print_rate(const struct probe_report *report)
{
        const struct measure_rate *rate = &report->result->rate;

        printf("throughput   %.0f GFLOP/s in %.1f s; in %u windows least %.0f, median %.0f, most %.0f\n",
                rate->seconds > 0 ? rate->work / rate->seconds : 0.0, rate->seconds, rate->n_samples,
                report->spread.least, report->spread.median, report->spread.most);
}

static void print_outcome(const struct granted_outcome *outcome, const struct granted *granted)
{
        for (unsigned int i = 0; i < outcome->n_findings; i++)
                printf("%s %s\n", outcome->findings[i].broken ? "BROKEN " : "remark ", outcome->findings[i].text);
        if (!outcome->holds)
                puts("\nThe allocation does NOT hold.");
        else if (granted->mps)
                puts("\nThe allocation holds.");
}

static void print_table(const struct probe_report *report)
{
        static const char *const mps[] = {"unknown to this driver", "not in use", "in use"};
        const struct probe_result *result = report->result;
        const struct measure_facts *facts = &result->facts;

        printf("GPU          %s, UUID %s, compute capability %d.%d, CUDA %d.%d\n", facts->name,
                *facts->uuid ? facts->uuid : "unknown", facts->compute_major, facts->compute_minor,
                facts->driver_version / 1000, facts->driver_version % 1000 / 10);
        printf("MPS          %s\n", mps[facts->mps + 1]);
        print_granted(&result->granted);
        print_sms(report);
        print_memory(result);
        printf("bandwidth    %.1f GB/s, read and written\n", result->bandwidth);
        print_rate(report);
        print_outcome(&report->outcome, &result->granted);
}

void probe_print(const struct probe_report *report)
{
        if (report->options->json)
                probe_print_json(report);
        else if (report->failure)
                fprintf(stderr, "warpshare probe: %s\n", report->failure);
        else if (report->options->kind == PROBE_LOAD)
                print_rate(report);
        else if (report->options->kind == PROBE_SWEEP)
                for (unsigned int i = 0; i < MEASURE_SWEEP_LOADS; i++)
                        printf("%-8s %-7s %.1f %s\n", report->result->sweep.loads[i].kernel,
                                report->result->sweep.loads[i].grid, report->result->sweep.loads[i].rate,
                                report->result->sweep.loads[i].unit);
        else if (report->options->kind == PROBE_FAULT)
                printf("fault        %s\n", report->result->fault);
        else
                print_table(report);
}
