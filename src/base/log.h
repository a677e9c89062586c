// SPDX-License-Identifier: Apache-2.0
/*
 * Log lines: one event each, on standard error.
 *
 * Text form:  2026-11-20T10:06:00.123Z info  resource name=nvidia.com/gpu devices=80
 * JSON form:  {"time":"…","level":"info","msg":"resource","name":"nvidia.com/gpu","devices":80}
 * klog form:  I1120 10:06:00.123456       1 agent.c:98] "resource" name="nvidia.com/gpu" devices=80
 *
 * The klog form is what Kubernetes components and NVIDIA's plugins write (k8s.io/klog v2): local time, the process id,
 * the line of the source. A message without fields is not quoted; a value of many lines becomes a block, "key=<",
 * indented lines, " >". klog has no level below info, so debug lines have an I as well.
 *
 * The level says who must act: error: the operator; warn: maybe the operator; info: a state changed; debug: developers.
 * Values from outside are quoted if necessary, and control characters and others that are not seen (base/text.h) are
 * always escaped ("\u202e"), so that a hostile name cannot forge a line, nor look like another. Bytes that are not
 * UTF-8 are written as "\xNN", so every line is UTF-8, and every JSON line is valid JSON. Functions below cmd/ and
 * below the top of a callback return errors and do not log (HACKING.md).
 *
 * Events that NVIDIA's plugin logs as well have its texts, because people and tools search for these: "Registered
 * device plugin for '<resource>' with Kubelet". Such a line has no fields if its text ends with a name, so that nothing
 * follows the name.
 *
 *         log_info("resource", LOG_STR("name", name), LOG_UINT("devices", count));
 *
 * Each line is one write(2). Thread-safe. A line longer than LOG_LINE_LIMIT is cut between two characters, with "…"
 * there, and ends as every line does: a JSON line is still an object, with "cut":true. If the reader stalls, lines are
 * lost, but the program never waits: bytes that a full pipe does not take are dropped, and the next line that can be
 * written says how many.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LOG_LINE_LIMIT ((size_t)4096)             /* bytes: PIPE_BUF, which a pipe takes in one piece */
#define LOG_BLOCK_LIMIT ((size_t)2 * 1024 * 1024) /* of a block in JSON form, which is one line: a configuration fits */
#define LOG_LINE_LEAST ((size_t)192)              /* enough for log_format_line() without texts from outside */

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON, LOG_KLOG };

struct log_field {
        const char *key;  /* NULL ends the list */
        const char *text; /* NULL: the value is |number| */
        int64_t number;
};

static inline struct log_field log_text_field(const char *key, const char *value)
{
        return (struct log_field){.key = key, .text = value ? value : "-"};
}

#define LOG_STR(k, v) log_text_field((k), (v))
#define LOG_INT(k, v) ((struct log_field){.key = (k), .number = (int64_t)(v)})
#define LOG_UINT(k, v) LOG_INT(k, v)
#define LOG_ERR(err) LOG_STR("error", (err)->text)

/* Set once at start. */
void log_setup(enum log_level least, enum log_format format);
bool log_is_on(enum log_level level);

/* The place in the source that writes a line; |file| is __FILE__. */
struct log_place {
        const char *file;
        int line;
};
#define LOG_HERE ((struct log_place){__FILE__, __LINE__})

void log_write(enum log_level level, struct log_place place, const char *message, const struct log_field *fields);

/*
 * One event with a text of many lines, such as a configuration: in text and klog form the lines follow unchanged, in
 * JSON form they are the field "text".
 */
void log_write_block(enum log_level level, struct log_place place, const char *message, const char *text);

/* Logs a message that is formatted at run time. */
void log_write_format(enum log_level level, struct log_place place, const char *format, ...) PRINTF_LIKE(3, 4);

#define LOG_AT(level, message, ...)                                                                                    \
        do {                                                                                                           \
                if (log_is_on(level))                                                                                  \
                        log_write((level), LOG_HERE, (message),                                                        \
                                (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL}});                         \
        } while (0)

#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)
#define log_block(level, message, text) log_write_block((level), LOG_HERE, (message), (text))
#define log_text(level, ...) log_write_format((level), LOG_HERE, __VA_ARGS__)

struct log_event {
        enum log_level level;
        struct log_place place;
        int64_t unix_us;
        int pid;
        const char *message;
        const struct log_field *fields;
};

/*
 * Formats one line without writing it, newline included; for tests. Returns its length, less than |size|, which is at
 * least LOG_LINE_LEAST.
 */
size_t log_format_line(char *line, size_t size, enum log_format format, const struct log_event *event);

/* ---- complaint ---- */

/* Logs an error that may occur again and again: each new text once, and its repetitions at level debug. */

/* Zeroed at first. */
struct complaint {
        char text[sizeof(((struct error *)0)->text)];
};

void complain(struct complaint *complaint, const char *what, const struct error *err);
static inline void complaint_settle(struct complaint *complaint)
{
        complaint->text[0] = '\0';
}
