// SPDX-License-Identifier: Apache-2.0
/*
 * A trace: recorded requests for GPUs, read from a text. Pure: bytes in, requests out. It does not know what a
 * configuration makes of a request (plan/replay.h).
 *
 * The form is recognised by the first line. Of CSV (RFC 4180) the columns have names, stand in any order, and those
 * without a meaning here are ignored. An empty cell is not known.
 *
 *   ours      start, end, replicas and others of trace_columns(): containers that had shares, one a line. Times are
 *             Unix seconds; without an end the container ran until the end of the trace
 *   openb     name, num_gpu, gpu_milli, creation_time, deletion_time, scheduled_time: Alibaba's
 *             cluster-trace-gpu-v2023. Its memory_mib is main memory, so it is ignored; gpu_milli counts where num_gpu
 *             is 1
 *   pai       job_name, inst_num, plan_gpu, start_time, end_time: pai_task_table of Alibaba's cluster-trace-gpu-v2020,
 *             with the line of its .header file on top. plan_gpu is percent of a GPU for each of inst_num instances
 *   helios    job_id, gpu_num, node_num, submit_time, start_time, end_time: cluster_log.csv of SenseTime's Helios. A
 *             job has a pod for each of its nodes
 *   philly    not CSV but a JSON list: Microsoft's cluster_job_log. A job has a pod for each machine of its last
 *             attempt, and ran as long as all of its attempts together
 *
 * These columns are documented in the README of each trace (docs/replay.md has the links). A request begins to wait
 * when it was submitted, where the trace has that, and runs as long as it ran then. Pods of one job are independent.
 *
 * A line that cannot be used is left out and counted, and so is one that asks for no GPU; the first of those with a
 * mistake is kept as a sentence that names file, line, column and value.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define TRACE_MAX_TEXT ((size_t)256 * 1024 * 1024) /* bytes of a file */
#define TRACE_MAX_REQUESTS ((size_t)1000000)       /* of all files together */
#define TRACE_MAX_COLUMNS ((size_t)64)
#define TRACE_MAX_CELL ((size_t)4096)         /* bytes */
#define TRACE_MAX_PODS 10000U                 /* of one job */
#define TRACE_MAX_GPUS 64U                    /* of one pod */
#define TRACE_MAX_SECONDS INT64_C(8000000000) /* a time, or how long a request ran: until the year 2223 */

struct trace_request {
        int64_t start;                 /* seconds on any clock: it begins to wait */
        int64_t duration;              /* seconds that it runs; -1: until the end of the trace */
        unsigned int gpus;             /* whole GPUs; 0: a part of one */
        unsigned int part_permille;    /* of one GPU; 0: not known */
        unsigned int replicas;         /* that it had; 0: not known */
        uint64_t memory_mib;           /* its limit; 0: not known, like all that follows */
        unsigned int threads_permille; /* its limit, of a whole GPU */
        uint64_t peak_mib;             /* the most memory that it used */
        unsigned int sm_mean_permille; /* of a whole GPU, while it ran */
        unsigned int sm_peak_permille;
};

struct trace {
        struct trace_request *requests; /* in the order of the files; trace_end() sorts them */
        size_t n_requests;
        size_t capacity;
        const char *form;     /* of the last text: "ours", "openb", … */
        size_t n_rows;        /* lines or jobs that were read */
        size_t n_without_gpu; /* that ask for none */
        size_t n_bad;         /* that were left out for a mistake */
        char first_bad[256];  /* the first of them */
};

/* Adds the requests of |text|, which |name| stands for in errors. At first |trace| is zero. */
int trace_read(struct trace *trace, const char *name, const char *text, size_t size, struct error *err) MUST_USE;

/*
 * After the last text: requests that ran on end with the trace, and all are sorted by the time of their start. Fails if
 * there is none.
 */
int trace_end(struct trace *trace, struct error *err) MUST_USE;

void trace_done(struct trace *trace);
