/*
 * Log lines: one event each, on standard error.
 *
 * Text form:  2026-11-20T10:06:00.123Z info  registered with kubelet resource=nvidia.com/gpu devices=80
 * JSON form:  {"time":"…","level":"info","msg":"registered with kubelet","resource":"nvidia.com/gpu","devices":80}
 *
 * The level says who must act: error: the operator; warn: maybe the operator; info: a state changed; debug: developers.
 * Values from outside are quoted where they need it, so that a hostile name cannot forge a line. Functions below cmd/ and
 * below the top of a callback return errors and do not log (HACKING.md).
 *
 *         log_info("registered with kubelet", LOG_STR("resource", name), LOG_UINT("devices", count));
 *
 * Each line is one write(2). Thread-safe. Lines longer than 4 KiB are cut. A reader that stalls costs
 * lines, never time: what a full pipe does not take is dropped, and counted in the next line that gets through.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

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

/* Set once at start, before a second thread exists. */
void log_setup(enum log_level least, enum log_format format);
bool log_is_on(enum log_level level);

void log_write(enum log_level level, const char *message, const struct log_field *fields);

/*
 * One event with a text of many lines, such as a configuration: in text form the lines follow as they are, in JSON form they
 * are the field "text".
 */
void log_block(enum log_level level, const char *message, const char *text);

#define LOG_AT(level, message, ...)                                                                                    \
        do {                                                                                                           \
                if (log_is_on(level))                                                                                  \
                        log_write((level), (message), (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){NULL}});   \
        } while (0)

#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)

/* Formats one line without writing it, newline included; for tests. Returns its length, less than |size|. */
size_t log_format_line(char *line, size_t size, enum log_format format, enum log_level level, int64_t unix_ms,
        const char *message, const struct log_field *fields);
