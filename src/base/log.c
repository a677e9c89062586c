#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level least_level = LOG_INFO;
static enum log_format output_format = LOG_TEXT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of the order of lines */
static size_t lost;                                      /* bytes, since the last that could be written */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* What is left of a line that is being built. Everything below stops writing, silently, when it is full. */
struct cursor {
        char *at;
        size_t left;
};

static void put_char(struct cursor *cursor, char c)
{
        if (cursor->left == 0)
                return;
        *cursor->at++ = c;
        cursor->left--;
}

static void put_text(struct cursor *cursor, const char *text)
{
        for (; *text; text++)
                put_char(cursor, *text);
}

/* Control characters never get into a line as they are. */
static void put_escaped(struct cursor *cursor, char c)
{
        static const char hex[] = "0123456789abcdef";
        unsigned char code = (unsigned char)c;

        if (c == '\n') {
                put_text(cursor, "\\n");
        } else if (code < 0x20 || code == 0x7f) {
                put_text(cursor, "\\u00");
                put_char(cursor, hex[code >> 4]);
                put_char(cursor, hex[code & 15]);
        } else {
                put_char(cursor, c);
        }
}

static void put_message(struct cursor *cursor, const char *text)
{
        for (; *text; text++)
                put_escaped(cursor, *text);
}

static void put_quoted(struct cursor *cursor, const char *text)
{
        put_char(cursor, '"');
        for (; *text; text++) {
                if (*text == '"' || *text == '\\')
                        put_char(cursor, '\\');
                put_escaped(cursor, *text);
        }
        put_char(cursor, '"');
}

static bool is_plain(const char *text)
{
        if (!*text)
                return false;
        for (; *text; text++)
                if ((unsigned char)*text <= ' ' || *text == '"' || *text == '=' || *text == '\\' || *text == 0x7f)
                        return false;
        return true;
}

static void put_number(struct cursor *cursor, int64_t number)
{
        char digits[32];

        snprintf(digits, sizeof(digits), "%lld", (long long)number);
        put_text(cursor, digits);
}

static void put_time(struct cursor *cursor, int64_t unix_us)
{
        time_t seconds = unix_us / 1000000;
        char text[80];
        struct tm parts;

        gmtime_r(&seconds, &parts);
        snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, (int)(unix_us / 1000 % 1000));
        put_text(cursor, text);
}

static void put_json(struct cursor *cursor, const struct log_event *event)
{
        put_text(cursor, "{\"time\":\"");
        put_time(cursor, event->unix_us);
        put_text(cursor, "\",\"level\":\"");
        put_text(cursor, level_names[event->level]);
        put_text(cursor, "\",\"msg\":");
        put_quoted(cursor, event->message);
        for (const struct log_field *field = event->fields; field->key; field++) {
                put_char(cursor, ',');
                put_quoted(cursor, field->key);
                put_char(cursor, ':');
                if (field->text)
                        put_quoted(cursor, field->text);
                else
                        put_number(cursor, field->number);
        }
        put_char(cursor, '}');
}

static void put_plain(struct cursor *cursor, const struct log_event *event)
{
        put_time(cursor, event->unix_us);
        put_char(cursor, ' ');
        put_text(cursor, level_names[event->level]);
        put_text(cursor, strlen(level_names[event->level]) < 5 ? "  " : " ");
        put_message(cursor, event->message);
        for (const struct log_field *field = event->fields; field->key; field++) {
                put_char(cursor, ' ');
                put_text(cursor, field->key);
                put_char(cursor, '=');
                if (!field->text)
                        put_number(cursor, field->number);
                else if (is_plain(field->text))
                        put_text(cursor, field->text);
                else
                        put_quoted(cursor, field->text);
        }
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
        put_text(cursor, text);
}

/* Each line is indented, so none can be taken for an event. */
static void put_klog_block(struct cursor *cursor, const char *text)
{
        put_text(cursor, "<\n");
        while (*text) {
                put_char(cursor, '\t');
                for (; *text && *text != '\n'; text++)
                        put_escaped(cursor, *text);
                put_char(cursor, '\n');
                text += *text == '\n';
        }
        put_text(cursor, " >");
}

static void put_klog(struct cursor *cursor, const struct log_event *event)
{
        put_klog_header(cursor, event);
        if (!event->fields->key) {
                put_message(cursor, event->message);
                return;
        }
        put_quoted(cursor, event->message);
        for (const struct log_field *field = event->fields; field->key; field++) {
                put_char(cursor, ' ');
                put_text(cursor, field->key);
                put_char(cursor, '=');
                if (!field->text)
                        put_number(cursor, field->number);
                else if (strchr(field->text, '\n'))
                        put_klog_block(cursor, field->text);
                else
                        put_quoted(cursor, field->text);
        }
}

size_t log_format_line(char *line, size_t size, enum log_format format, const struct log_event *event)
{
        static void (*const put[])(struct cursor * cursor, const struct log_event *event) = {
                [LOG_TEXT] = put_plain, [LOG_JSON] = put_json, [LOG_KLOG] = put_klog};
        struct cursor cursor = {.at = line, .left = size - 2};

        put[format](&cursor, event);
        *cursor.at++ = '\n';
        *cursor.at = '\0';
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
 * Whoever reads our log may stop reading, and a pipe that is full must not stop the node: what does not fit is dropped and
 * counted. A pipe that is ready takes PIPE_BUF bytes without blocking (pipe(7)).
 */
static bool write_some(const char *bytes, size_t size)
{
        struct pollfd output = {.fd = STDERR_FILENO, .events = POLLOUT};

        return poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) && write(STDERR_FILENO, bytes, size) >= 0;
}

static void put_bytes(const char *bytes, size_t size)
{
        char notice[128];

        if (lost) {
                int length = snprintf(notice, sizeof(notice), "(%zu bytes of log were lost: nobody read them)\n", lost);

                if (!write_some(notice, (size_t)length)) {
                        lost += size;
                        return;
                }
                lost = 0;
        }
        while (size) {
                size_t piece = MIN(size, (size_t)PIPE_BUF);

                if (!write_some(bytes, piece)) {
                        lost += size;
                        return;
                }
                bytes += piece;
                size -= piece;
        }
}

static void write_out(const char *bytes, size_t size)
{
        pthread_mutex_lock(&lock);
        put_bytes(bytes, size);
        pthread_mutex_unlock(&lock);
}

void log_write(enum log_level level, struct log_place place, const char *message, const struct log_field *fields)
{
        struct log_event event = {
                .level = level, .place = place, .pid = getpid(), .message = message, .fields = fields};
        struct timespec now;
        char line[4096];

        clock_gettime(CLOCK_REALTIME, &now);
        event.unix_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        write_out(line, log_format_line(line, sizeof(line), output_format, &event));
}

void log_write_format(enum log_level level, struct log_place place, const char *format, ...)
{
        char message[1024];
        va_list args;

        if (!log_is_on(level))
                return;
        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        log_write(level, place, message, (const struct log_field[]){{NULL}});
}

void log_write_block(enum log_level level, struct log_place place, const char *message, const char *text)
{
        if (!log_is_on(level))
                return;
        if (output_format == LOG_JSON) {
                log_write(level, place, message, (const struct log_field[]){LOG_STR("text", text), {NULL}});
                return;
        }
        log_write(level, place, message, (const struct log_field[]){{NULL}});
        write_out(text, strlen(text));
        write_out("\n", 1);
}
