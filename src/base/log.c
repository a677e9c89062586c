// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"

static enum log_level least_level = LOG_INFO;
static enum log_format output_format = LOG_TEXT;

static size_t lost;    /* bytes that were dropped since the last write that succeeded */
static bool is_within; /* the last line was written without its end */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/*
 * A line that is being built. Once something does not fit, the rest is left out; a character or an escape is never cut
 * in two. There is always room for the characters that close the line: RESERVE bytes that only put_closing() may use.
 */
#define RESERVE ((size_t)32)
#define NUMBER_ROOM ((size_t)32) /* for a number, or for the beginning of a text */
#define CUT "\xe2\x80\xa6"       /* "…" */
struct cursor {
        char *at;
        size_t left; /* without the reserve */
        bool is_json;
        bool is_full;
        bool is_reported; /* the cut is visible: a text ends with CUT */
};

/* Puts all bytes, or none. */
static void put_bytes_of(struct cursor *cursor, const char *bytes, size_t size)
{
        cursor->is_full = cursor->is_full || size > cursor->left;
        if (cursor->is_full)
                return;
        memcpy(cursor->at, bytes, size);
        cursor->at += size;
        cursor->left -= size;
}

static void put_char(struct cursor *cursor, char c)
{
        put_bytes_of(cursor, &c, 1);
}

static void log_put_text(struct cursor *cursor, const char *text)
{
        put_bytes_of(cursor, text, strlen(text));
}

static void put_closing(struct cursor *cursor, const char *text)
{
        cursor->at = stpcpy(cursor->at, text);
}

/* Marks the cut, after a text from outside. */
static void report_cut(struct cursor *cursor)
{
        if (!cursor->is_full || cursor->is_reported)
                return;
        put_closing(cursor, CUT);
        cursor->is_reported = true;
}

/*
 * Puts the character at |text|; a byte that is not valid UTF-8 and a hidden character (base/text.h) are put as escapes,
 * beyond U+FFFF as JSON does, by two halves. So a line is always UTF-8. Returns how many bytes of |text| were used.
 */
static size_t put_escaped(struct cursor *cursor, const char *text)
{
        size_t length = text_utf8_length(text);
        uint32_t code = 0;
        char escape[16];

        if (length == 0)
                snprintf(escape, sizeof(escape), cursor->is_json ? "\\\\x%02x" : "\\x%02x", (unsigned char)*text);
        else if (*text == '\n')
                strcpy(escape, "\\n");
        else if (!text_hidden_length(text, &code))
                snprintf(escape, sizeof(escape), "%.*s", (int)length, text);
        else if (code > 0xffff)
                snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                        0xdc00 + (code & 0x3ff));
        else
                snprintf(escape, sizeof(escape), "\\u%04x", code);
        log_put_text(cursor, escape);
        return MAX(length, (size_t)1);
}

static void put_message(struct cursor *cursor, const char *text)
{
        while (*text && !cursor->is_full)
                text += put_escaped(cursor, text);
        report_cut(cursor);
}

static void put_quoted(struct cursor *cursor, const char *text)
{
        put_char(cursor, '"');
        if (cursor->is_full)
                return;
        while (*text && !cursor->is_full) {
                if (*text == '"' || *text == '\\') {
                        put_bytes_of(cursor, (const char[]){'\\', *text++}, 2);
                        continue;
                }
                text += put_escaped(cursor, text);
        }
        report_cut(cursor);
        put_closing(cursor, "\"");
        cursor->left -= MIN(cursor->left, (size_t)1); /* refills the reserve, which the quote was taken from */
}

static bool log_is_plain(const char *text)
{
        if (!*text)
                return false;
        while (*text) {
                size_t length = text_utf8_length(text);

                if (length == 0 || strchr(" \"=\\", *text) || text_hidden_length(text, NULL))
                        return false;
                text += length;
        }
        return true;
}

/* Whether there is room for the key and the beginning of a value: no line ends with half a key. */
static bool log_has_room(struct cursor *cursor, const struct log_field *field)
{
        cursor->is_full = cursor->is_full || cursor->left < strlen(field->key) + NUMBER_ROOM;
        return !cursor->is_full;
}

static void log_put_number(struct cursor *cursor, int64_t number)
{
        char digits[32];

        snprintf(digits, sizeof(digits), "%lld", (long long)number);
        log_put_text(cursor, digits);
}

/* |put_value| puts the value of a field that is a text. */
static void put_fields(struct cursor *cursor, const struct log_field *fields,
        void (*put_value)(struct cursor *cursor, const char *text))
{
        for (const struct log_field *field = fields; field->key && log_has_room(cursor, field); field++) {
                put_char(cursor, cursor->is_json ? ',' : ' ');
                if (cursor->is_json)
                        put_quoted(cursor, field->key);
                else
                        log_put_text(cursor, field->key);
                put_char(cursor, cursor->is_json ? ':' : '=');
                if (field->text)
                        put_value(cursor, field->text);
                else
                        log_put_number(cursor, field->number);
        }
}

static void put_time(struct cursor *cursor, int64_t unix_us)
{
        time_t seconds = unix_us / 1000000;
        char text[80];
        struct tm parts;

        gmtime_r(&seconds, &parts);
        snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, (int)(unix_us / 1000 % 1000));
        log_put_text(cursor, text);
}

static void log_put_json(struct cursor *cursor, const struct log_event *event)
{
        log_put_text(cursor, "{\"time\":\"");
        put_time(cursor, event->unix_us);
        log_put_text(cursor, "\",\"level\":\"");
        log_put_text(cursor, level_names[event->level]);
        log_put_text(cursor, "\",\"msg\":");
        put_quoted(cursor, event->message);
        put_fields(cursor, event->fields, put_quoted);
        if (cursor->is_full)
                put_closing(cursor, ",\"cut\":true");
        put_closing(cursor, "}");
}

/* Without quotes where nothing can be misread. */
static void put_word(struct cursor *cursor, const char *text)
{
        if (log_is_plain(text))
                put_message(cursor, text);
        else
                put_quoted(cursor, text);
}

static void put_plain(struct cursor *cursor, const struct log_event *event)
{
        put_time(cursor, event->unix_us);
        put_char(cursor, ' ');
        log_put_text(cursor, level_names[event->level]);
        log_put_text(cursor, strlen(level_names[event->level]) < 5 ? "  " : " ");
        put_message(cursor, event->message);
        put_fields(cursor, event->fields, put_word);
}

/* "I1120 10:06:00.123456       1 agent.c:98] " */
static void put_klog_header(struct cursor *cursor, const struct log_event *event)
{
        static const char letters[] = {[LOG_DEBUG] = 'I', [LOG_INFO] = 'I', [LOG_WARN] = 'W', [LOG_ERROR] = 'E'};
        const char *slash = strrchr(event->place.file, '/');
        time_t seconds = event->unix_us / 1000000;
        char text[128];
        struct tm parts;

        localtime_r(&seconds, &parts);
        snprintf(text, sizeof(text), "%c%02d%02d %02d:%02d:%02d.%06d %7d %.40s:%d] ", letters[event->level],
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                (int)(event->unix_us % 1000000), event->pid, slash ? slash + 1 : event->place.file, event->place.line);
        log_put_text(cursor, text);
}

/* Each line is indented, so that none looks like an event. */
static void put_klog_block(struct cursor *cursor, const char *text)
{
        log_put_text(cursor, "<\n");
        while (*text && !cursor->is_full) {
                put_char(cursor, '\t');
                while (*text && *text != '\n' && !cursor->is_full)
                        text += put_escaped(cursor, text);
                put_char(cursor, '\n');
                text += *text == '\n';
        }
        if (cursor->is_full) {
                report_cut(cursor);
                put_closing(cursor, "\n");
        }
        put_closing(cursor, " >");
        cursor->left -= MIN(cursor->left, (size_t)2);
}

static void put_klog_value(struct cursor *cursor, const char *text)
{
        if (strchr(text, '\n'))
                put_klog_block(cursor, text);
        else
                put_quoted(cursor, text);
}

static void put_klog(struct cursor *cursor, const struct log_event *event)
{
        put_klog_header(cursor, event);
        if (!event->fields->key) {
                put_message(cursor, event->message);
                return;
        }
        put_quoted(cursor, event->message);
        put_fields(cursor, event->fields, put_klog_value);
}

size_t log_format_line(char *line, size_t size, enum log_format format, const struct log_event *event)
{
        static void (*const put[])(struct cursor * cursor, const struct log_event *event) = {
                [LOG_TEXT] = put_plain, [LOG_JSON] = log_put_json, [LOG_KLOG] = put_klog};
        struct cursor cursor = {.at = line, .left = size - RESERVE, .is_json = format == LOG_JSON};

        assert(size >= LOG_LINE_LEAST);
        put[format](&cursor, event);
        if (format != LOG_JSON && cursor.is_full && !cursor.is_reported)
                put_closing(&cursor, " " CUT);
        put_closing(&cursor, "\n");
        return (size_t)(cursor.at - line);
}

void log_setup(enum log_level least, enum log_format format)
{
        least_level = least;
        output_format = format;
}

bool log_is_on(enum log_level level)
{
        return level >= least_level;
}

/*
 * If the reader of the log stops reading, the pipe gets full, and the program must not wait for it: bytes that do not
 * fit are dropped and counted. A pipe that is ready takes PIPE_BUF bytes without blocking (pipe(7)).
 */
static bool log_write_some(const char *bytes, size_t size)
{
        struct pollfd output = {.fd = STDERR_FILENO, .events = POLLOUT};

        return poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) && write(STDERR_FILENO, bytes, size) >= 0;
}

/*
 * The notice about lost bytes, as JSON if the log is JSON. It begins a new line if the last one was written without its
 * end.
 */
static size_t format_notice(char notice[static LOG_LINE_LEAST])
{
        struct log_event event = {
                .level = LOG_WARN,
                .place = LOG_HERE,
                .pid = getpid(),
                .message = "log lines were lost: nobody read them",
                .fields = (const struct log_field[]){LOG_UINT("bytes", lost), {NULL}},
        };
        size_t begin = 0;

        if (is_within)
                notice[begin++] = '\n';
        if (output_format == LOG_JSON) {
                event.unix_us = clock_unix_us();
                return begin + log_format_line(notice + begin, LOG_LINE_LEAST, LOG_JSON, &event);
        }
        return begin + (size_t)sprintf(notice + begin, "(%zu bytes of log were lost: nobody read them)\n", lost);
}

static void write_out(const char *bytes, size_t size)
{
        char notice[LOG_LINE_LEAST + 1];

        if (lost) {
                size_t length = format_notice(notice);

                if (!log_write_some(notice, length)) {
                        lost += size;
                        return;
                }
                lost = 0;
                is_within = false;
        }
        for (size_t put = 0; put < size;) {
                size_t piece = MIN(size - put, (size_t)PIPE_BUF);

                if (!log_write_some(bytes + put, piece)) {
                        lost += size - put;
                        is_within = put > 0;
                        return;
                }
                put += piece;
        }
}

static void log_write_event(char *line, size_t size, const struct log_event *event)
{
        write_out(line, log_format_line(line, size, output_format, event));
}

void log_write(enum log_level level, struct log_place place, const char *message, const struct log_field *fields)
{
        const struct log_event event = {.level = level,
                .place = place,
                .unix_us = clock_unix_us(),
                .pid = getpid(),
                .message = message,
                .fields = fields};
        char line[LOG_LINE_LIMIT];

        log_write_event(line, sizeof(line), &event);
}

void log_write_format(enum log_level level, struct log_place place, const char *format, ...)
{
        char message[LOG_LINE_LIMIT]; /* as long as a line: the line cuts it, visibly */
        va_list args;

        if (!log_is_on(level))
                return;
        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        log_write(level, place, message, (const struct log_field[]){{NULL}});
}

/* Writes |text| as one line of JSON, which may be longer than LOG_LINE_LIMIT. */
static void write_block(enum log_level level, struct log_place place, const char *message, const char *text)
{
        const struct log_event event = {.level = level,
                .place = place,
                .unix_us = clock_unix_us(),
                .pid = getpid(),
                .message = message,
                .fields = (const struct log_field[]){LOG_STR("text", text), {NULL}}};
        size_t size = MIN(LOG_LINE_LIMIT + 2 * strlen(text), LOG_BLOCK_LIMIT);
        _free_ char *line = xmalloc(size);

        log_write_event(line, size, &event);
}

void log_write_block(enum log_level level, struct log_place place, const char *message, const char *text)
{
        if (!log_is_on(level))
                return;
        if (output_format == LOG_JSON) {
                write_block(level, place, message, text);
                return;
        }
        log_write(level, place, message, (const struct log_field[]){{NULL}});
        write_out(text, strlen(text));
        write_out("\n", 1);
}

/* ---- complaint ---- */

void complain(struct complaint *complaint, const char *what, const struct error *err)
{
        enum log_level level = strcmp(complaint->text, err->text) == 0 ? LOG_DEBUG : LOG_ERROR;

        snprintf(complaint->text, sizeof(complaint->text), "%s", err->text);
        LOG_AT(level, what, LOG_ERR(err));
}
