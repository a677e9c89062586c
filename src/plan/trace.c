// SPDX-License-Identifier: Apache-2.0
#include "plan/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

/* ---- values ---- */

/* Seconds, with or without a fraction, or "2020-06-09 18:41:01", which is taken as UTC. */
static bool trace_time(const char *text, int64_t *ret)
{
        struct tm tm = {0};
        const char *rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
        char *end;
        double value;

        if (rest && !*rest) {
                *ret = timegm(&tm);
                return *ret >= 0 && *ret <= TRACE_MAX_SECONDS;
        }
        value = strtod(text, &end);
        if (end == text || *end || !(value >= 0 && value <= (double)TRACE_MAX_SECONDS))
                return false;
        *ret = (int64_t)value;
        return true;
}

static bool trace_number(const char *text, double most, double *ret)
{
        char *end;

        *ret = strtod(text, &end);
        return end != text && !*end && *ret >= 0 && *ret <= most;
}

/* ---- a request ---- */

static void trace_add(struct trace *trace, const struct trace_request *request, unsigned int pods)
{
        if (trace->n_requests + pods > trace->capacity) {
                trace->capacity = MAX(2 * trace->capacity, trace->n_requests + pods + 1024);
                trace->requests = xrealloc(trace->requests, trace->capacity * sizeof(*trace->requests));
        }
        for (unsigned int i = 0; i < pods; i++)
                trace->requests[trace->n_requests++] = *request;
}

static void trace_refuse(struct trace *trace, const char *format, ...) PRINTF_LIKE(2, 3);
static void trace_refuse(struct trace *trace, const char *format, ...)
{
        va_list args;

        if (trace->n_bad++ > 0)
                return;
        va_start(args, format);
        vsnprintf(trace->first_bad, sizeof(trace->first_bad), format, args);
        va_end(args);
        text_clean(trace->first_bad);
}

/* ---- the forms of CSV ---- */

enum field {
        FIELD_START,
        FIELD_RUNS, /* when it began to run, if that is later */
        FIELD_END,
        FIELD_REPLICAS,
        FIELD_MEMORY,
        FIELD_THREADS,
        FIELD_PEAK,
        FIELD_SM_MEAN,
        FIELD_SM_PEAK,
        FIELD_GPUS,
        FIELD_MILLI,
        FIELD_PERCENT,
        FIELD_PODS,
        FIELDS
};

#define MAX_MIB 16777216.0 /* more than any GPU has */

/* The largest value of each that is not a time. */
static const double most[FIELDS] = {
        [FIELD_REPLICAS] = 50000,
        [FIELD_MEMORY] = MAX_MIB,
        [FIELD_THREADS] = 100,
        [FIELD_PEAK] = MAX_MIB,
        [FIELD_SM_MEAN] = 100,
        [FIELD_SM_PEAK] = 100,
        [FIELD_GPUS] = (double)TRACE_MAX_GPUS * TRACE_MAX_PODS,
        [FIELD_MILLI] = 1000,
        [FIELD_PERCENT] = 100.0 * TRACE_MAX_GPUS,
        [FIELD_PODS] = TRACE_MAX_PODS,
};

struct form {
        const char *name;
        const char *columns[FIELDS]; /* NULL: it has none of this meaning */
        unsigned int needed;         /* bits of those by which it is recognised */
};

#define BIT(field) (1U << FIELD_##field)

static const struct form forms[] = {
        {"openb",
                {[FIELD_START] = "creation_time",
                        [FIELD_RUNS] = "scheduled_time",
                        [FIELD_END] = "deletion_time",
                        [FIELD_GPUS] = "num_gpu",
                        [FIELD_MILLI] = "gpu_milli"},
                BIT(START) | BIT(END) | BIT(GPUS) | BIT(MILLI)},
        {"pai",
                {[FIELD_START] = "start_time",
                        [FIELD_END] = "end_time",
                        [FIELD_PERCENT] = "plan_gpu",
                        [FIELD_PODS] = "inst_num"},
                BIT(START) | BIT(END) | BIT(PERCENT) | BIT(PODS)},
        {"helios",
                {[FIELD_START] = "submit_time",
                        [FIELD_RUNS] = "start_time",
                        [FIELD_END] = "end_time",
                        [FIELD_GPUS] = "gpu_num",
                        [FIELD_PODS] = "node_num"},
                BIT(START) | BIT(RUNS) | BIT(END) | BIT(GPUS) | BIT(PODS)},
        {"ours",
                {[FIELD_START] = "start",
                        [FIELD_END] = "end",
                        [FIELD_REPLICAS] = "replicas",
                        [FIELD_MEMORY] = "memory_mib",
                        [FIELD_THREADS] = "threads_percent",
                        [FIELD_PEAK] = "memory_peak_mib",
                        [FIELD_SM_MEAN] = "sm_mean_percent",
                        [FIELD_SM_PEAK] = "sm_peak_percent"},
                BIT(START) | BIT(END) | BIT(REPLICAS)},
};

struct reader {
        struct trace *trace;
        const char *name;
        const char *at;
        const char *end;
        unsigned int line; /* of the record that was read last */
        unsigned int next_line;
        const struct form *form;
        int column[FIELDS]; /* position; -1: not there */
        char *cells[TRACE_MAX_COLUMNS];
        size_t n_cells;
        char text[TRACE_MAX_COLUMNS + TRACE_MAX_CELL]; /* the cells of one record, each with its end */
};

/* Reads a cell into |into|; false: it is too long. |*ret_last|: it is the last of its record. */
static bool reader_cell(struct reader *reader, char **into, const char *limit, bool *ret_last)
{
        bool is_quoted = reader->at < reader->end && *reader->at == '"';

        reader->at += is_quoted;
        for (; reader->at < reader->end; reader->at++) {
                char c = *reader->at;

                if (is_quoted && c == '"') {
                        if (reader->at + 1 == reader->end || reader->at[1] != '"') {
                                is_quoted = false;
                                continue;
                        }
                        reader->at++;
                } else if (!is_quoted && (c == ',' || c == '\n')) {
                        break;
                } else if (!is_quoted && c == '\r') {
                        continue;
                }
                reader->next_line += c == '\n';
                if (*into + 1 >= limit)
                        return false;
                *(*into)++ = c ? c : '?';
        }
        if (*into >= limit)
                return false;
        *(*into)++ = '\0';
        *ret_last = reader->at >= reader->end || *reader->at == '\n';
        reader->next_line += *ret_last;
        reader->at += reader->at < reader->end;
        return true;
}

enum { RECORD_END, RECORD_READ, RECORD_BAD };

static int reader_record(struct reader *reader)
{
        char *into = reader->text;
        bool is_last = false;

        if (reader->at >= reader->end)
                return RECORD_END;
        reader->line = reader->next_line;
        for (reader->n_cells = 0; !is_last; reader->n_cells++) {
                char *cell = into;

                if (reader->n_cells == TRACE_MAX_COLUMNS ||
                        !reader_cell(reader, &into, reader->text + sizeof(reader->text), &is_last)) {
                        const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));

                        reader->at = newline ? newline + 1 : reader->end;
                        reader->next_line++;
                        return RECORD_BAD;
                }
                reader->cells[reader->n_cells] = cell;
        }
        return RECORD_READ;
}

/* The columns of |form| in the record that was read last; false: it lacks some. */
static bool reader_is_form(struct reader *reader, const struct form *form)
{
        for (size_t field = 0; field < FIELDS; field++) {
                reader->column[field] = -1;
                for (size_t i = 0; form->columns[field] && i < reader->n_cells; i++)
                        if (strcmp(reader->cells[i], form->columns[field]) == 0)
                                reader->column[field] = (int)i;
                if (form->needed & 1U << field && reader->column[field] < 0)
                        return false;
        }
        reader->form = form;
        return true;
}

static bool reader_find_form(struct reader *reader)
{
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
                if (reader_is_form(reader, &forms[i]))
                        return true;
        return false;
}

/* The cell of |field|, or "" where it is not known. Traces that come of pandas write "nan". */
static const char *reader_value(const struct reader *reader, enum field field)
{
        int column = reader->column[field];
        const char *text = column >= 0 && (size_t)column < reader->n_cells ? reader->cells[column] : "";

        return strcasecmp(text, "nan") == 0 || strcmp(text, "None") == 0 ? "" : text;
}

static bool reader_refuse(struct reader *reader, enum field field, const char *bound)
{
        trace_refuse(reader->trace, "trace '%.80s' line %u, column %s: '%.40s' is not %s", reader->name, reader->line,
                reader->form->columns[field], reader_value(reader, field), bound);
        return false;
}

/* |ret| stays -1 where nothing is known. */
static bool reader_time(struct reader *reader, enum field field, int64_t *ret)
{
        const char *text = reader_value(reader, field);

        *ret = -1;
        return !*text || trace_time(text, ret) || reader_refuse(reader, field, "a time in seconds or a date");
}

/* 0 where nothing is known. */
static bool reader_number(struct reader *reader, enum field field, double *ret)
{
        const char *text = reader_value(reader, field);
        char bound[64];

        *ret = 0;
        if (!*text || trace_number(text, most[field], ret))
                return true;
        snprintf(bound, sizeof(bound), "a number from 0 to %.0f", most[field]);
        return reader_refuse(reader, field, bound);
}

static bool reader_times(struct reader *reader, struct trace_request *request)
{
        int64_t runs;
        int64_t end;

        if (!reader_time(reader, FIELD_START, &request->start) || !reader_time(reader, FIELD_RUNS, &runs) ||
                !reader_time(reader, FIELD_END, &end))
                return false;
        if (request->start < 0)
                return reader_refuse(reader, FIELD_START, "a time, and without it the line has no place");
        runs = MAX(runs, request->start);
        request->duration = end < 0 ? -1 : end - runs;
        return end < 0 || end >= runs || reader_refuse(reader, FIELD_END, "at or after its start");
}

/* Reads its size. |*ret_pods| 0: it asks for none. */
static bool reader_sizes(struct reader *reader, struct trace_request *request, unsigned int *ret_pods)
{
        double number[FIELDS];
        double gpus;

        for (size_t field = FIELD_REPLICAS; field < FIELDS; field++)
                if (!reader_number(reader, (enum field)field, &number[field]))
                        return false;
        request->replicas = (unsigned int)number[FIELD_REPLICAS];
        request->memory_mib = (uint64_t)number[FIELD_MEMORY];
        request->threads_permille = (unsigned int)(number[FIELD_THREADS] * 10);
        request->peak_mib = (uint64_t)number[FIELD_PEAK];
        request->sm_mean_permille = (unsigned int)(number[FIELD_SM_MEAN] * 10);
        request->sm_peak_permille = (unsigned int)(number[FIELD_SM_PEAK] * 10);
        *ret_pods = reader->form->columns[FIELD_PODS] ? (unsigned int)number[FIELD_PODS] : 1;
        if (!reader->form->columns[FIELD_GPUS] && !reader->form->columns[FIELD_PERCENT])
                return true;
        gpus = number[FIELD_PERCENT] / 100;
        if (reader->form->columns[FIELD_GPUS])
                gpus = number[FIELD_GPUS] / MAX(*ret_pods, 1U);
        if (reader->form->columns[FIELD_MILLI] && number[FIELD_GPUS] == 1 && number[FIELD_MILLI] > 0)
                gpus = number[FIELD_MILLI] / 1000;
        if (gpus > TRACE_MAX_GPUS)
                return reader_refuse(reader, FIELD_GPUS, "at most 64 GPUs for each pod");
        request->part_permille = gpus < 1 ? (unsigned int)ceil(gpus * 1000) : 0;
        request->gpus = gpus < 1 ? 0 : (unsigned int)ceil(gpus);
        if (gpus == 0)
                *ret_pods = 0;
        return true;
}

static int too_many(const char *name, struct error *err)
{
        return error_set(err, ERROR_INVALID, "trace '%s': more than %zu requests; replay a part of it", name,
                TRACE_MAX_REQUESTS);
}

static int read_csv(struct reader *reader, struct error *err)
{
        struct trace *trace = reader->trace;
        int rc = reader_record(reader);

        if (rc != RECORD_READ || !reader_find_form(reader))
                return error_set(err, ERROR_INVALID,
                        "trace '%s' line 1: these are not the columns of a trace; ours has start, end, replicas and more, and those of Alibaba, Helios and Philly are known (docs/replay.md)",
                        reader->name);
        trace->form = reader->form->name;
        while ((rc = reader_record(reader)) != RECORD_END) {
                struct trace_request request = {0};
                unsigned int pods;

                if (rc == RECORD_READ && reader->n_cells == 1 && !*reader->cells[0])
                        continue;
                trace->n_rows++;
                if (rc == RECORD_BAD)
                        trace_refuse(trace, "trace '%.80s' line %u: longer than %zu bytes or %zu columns", reader->name,
                                reader->line, TRACE_MAX_CELL, TRACE_MAX_COLUMNS);
                if (rc == RECORD_BAD || !reader_sizes(reader, &request, &pods) ||
                        (pods > 0 && !reader_times(reader, &request)))
                        continue;
                trace->n_without_gpu += pods == 0;
                if (trace->n_requests + pods > TRACE_MAX_REQUESTS)
                        return too_many(reader->name, err);
                trace_add(trace, &request, pods);
        }
        return 0;
}

/* ---- Philly ---- */

static bool philly_time(const json_t *object, const char *key, int64_t *ret)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text && trace_time(text, ret);
}

/* False: the times are not known. */
static bool philly_times(const json_t *job, struct trace_request *request)
{
        const json_t *attempts = json_object_get(job, "attempts");
        int64_t first = -1;
        bool runs_on = false;

        for (size_t i = 0; i < json_array_size(attempts); i++) {
                const json_t *attempt = json_array_get(attempts, i);
                int64_t start;
                int64_t end;

                if (!philly_time(attempt, "start_time", &start))
                        continue;
                first = first < 0 ? start : first;
                runs_on = !philly_time(attempt, "end_time", &end);
                if (!runs_on && end > start)
                        request->duration += end - start;
        }
        if (!philly_time(job, "submitted_time", &request->start))
                request->start = first;
        if (runs_on)
                request->duration = -1;
        return first >= 0;
}

static int philly_add(struct trace *trace, const char *name, size_t position, const json_t *job, struct error *err)
{
        const json_t *attempts = json_object_get(job, "attempts");
        const json_t *last = json_array_get(attempts, json_array_size(attempts) - 1);
        const json_t *machines = json_object_get(last, "detail");
        struct trace_request request = {0};

        trace->n_rows++;
        if (!json_is_object(job) || !philly_times(job, &request)) {
                trace_refuse(trace, "trace '%.80s' job %zu: attempts: none has a start_time that is a date", name,
                        position + 1);
                return 0;
        }
        if (json_array_size(machines) == 0)
                trace->n_without_gpu++;
        if (trace->n_requests + json_array_size(machines) > TRACE_MAX_REQUESTS)
                return too_many(name, err);
        for (size_t i = 0; i < json_array_size(machines); i++) {
                size_t gpus = json_array_size(json_object_get(json_array_get(machines, i), "gpus"));

                request.gpus = (unsigned int)gpus;
                if (gpus > TRACE_MAX_GPUS)
                        trace_refuse(trace, "trace '%.80s' job %zu, detail %zu: gpus: %zu, at most %u are possible",
                                name, position + 1, i + 1, gpus, TRACE_MAX_GPUS);
                else if (gpus > 0)
                        trace_add(trace, &request, 1);
        }
        return 0;
}

static int read_philly(struct trace *trace, const char *name, const char *text, size_t size, struct error *err)
{
        json_error_t error;
        json_t *root = json_loadb(text, size, 0, &error);
        int rc = 0;

        if (!root)
                return error_set(err, ERROR_INVALID, "trace '%s' line %d: not JSON: %s", name, error.line, error.text);
        trace->form = "philly";
        for (size_t i = 0; rc == 0 && i < json_array_size(root); i++)
                rc = philly_add(trace, name, i, json_array_get(root, i), err);
        json_decref(root);
        return rc;
}

/* ---- a text ---- */

int trace_read(struct trace *trace, const char *name, const char *text, size_t size, struct error *err)
{
        size_t blanks = 0;
        struct reader *reader;
        int rc;

        if (size > TRACE_MAX_TEXT)
                return error_set(
                        err, ERROR_INVALID, "trace '%s': %zu bytes, at most %zu are read", name, size, TRACE_MAX_TEXT);
        if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
                text += 3;
                size -= 3;
        }
        while (blanks < size && memchr(" \t\r\n", text[blanks], 4))
                blanks++;
        if (blanks < size && text[blanks] == '[')
                return read_philly(trace, name, text, size, err);
        reader = xcalloc(1, sizeof(*reader));
        *reader = (struct reader){.trace = trace, .name = name, .at = text, .end = text + size, .next_line = 1};
        rc = read_csv(reader, err);
        free(reader);
        return rc;
}

static int compare_starts(const void *a, const void *b)
{
        const struct trace_request *first = a;
        const struct trace_request *second = b;

        return (first->start > second->start) - (first->start < second->start);
}

int trace_end(struct trace *trace, struct error *err)
{
        int64_t last = 0;

        if (trace->n_requests == 0)
                return error_set(err, ERROR_INVALID,
                        "the trace has no request that can be replayed: of %zu rows %zu ask for no GPU and %zu have a mistake%s%s",
                        trace->n_rows, trace->n_without_gpu, trace->n_bad, trace->n_bad ? ": " : "", trace->first_bad);
        for (size_t i = 0; i < trace->n_requests; i++)
                last = MAX(last, trace->requests[i].start + MAX(trace->requests[i].duration, 0));
        for (size_t i = 0; i < trace->n_requests; i++)
                if (trace->requests[i].duration < 0)
                        trace->requests[i].duration = last - trace->requests[i].start;
        /* Equal keys keep their order only in a stable sort, which glibc's is while there is memory. */
        qsort(trace->requests, trace->n_requests, sizeof(*trace->requests), compare_starts);
        return 0;
}

void trace_done(struct trace *trace)
{
        free(trace->requests);
        *trace = (struct trace){0};
}
