#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
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

static void put_quoted(struct cursor *cursor, const char *text)
{
        static const char hex[] = "0123456789abcdef";

        put_char(cursor, '"');
        for (; *text; text++) {
                unsigned char c = (unsigned char)*text;

                if (c == '"' || c == '\\') {
                        put_char(cursor, '\\');
                        put_char(cursor, (char)c);
                } else if (c == '\n') {
                        put_text(cursor, "\\n");
                } else if (c < 0x20 || c == 0x7f) {
                        put_text(cursor, "\\u00");
                        put_char(cursor, hex[c >> 4]);
                        put_char(cursor, hex[c & 15]);
                } else {
                        put_char(cursor, (char)c);
                }
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

static void put_time(struct cursor *cursor, int64_t unix_ms)
{
        time_t seconds = unix_ms / 1000;
        char text[80];
        struct tm parts;

        gmtime_r(&seconds, &parts);
        snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, (int)(unix_ms % 1000));
        put_text(cursor, text);
}

static void put_json(struct cursor *cursor, enum log_level level, int64_t unix_ms, const char *message,
        const struct log_field *fields)
{
        put_text(cursor, "{\"time\":\"");
        put_time(cursor, unix_ms);
        put_text(cursor, "\",\"level\":\"");
        put_text(cursor, level_names[level]);
        put_text(cursor, "\",\"msg\":");
        put_quoted(cursor, message);
        for (; fields->key; fields++) {
                put_char(cursor, ',');
                put_quoted(cursor, fields->key);
                put_char(cursor, ':');
                if (fields->text)
                        put_quoted(cursor, fields->text);
                else
                        put_number(cursor, fields->number);
        }
        put_char(cursor, '}');
}

static void put_plain(struct cursor *cursor, enum log_level level, int64_t unix_ms, const char *message,
        const struct log_field *fields)
{
        put_time(cursor, unix_ms);
        put_char(cursor, ' ');
        put_text(cursor, level_names[level]);
        put_text(cursor, strlen(level_names[level]) < 5 ? "  " : " ");
        put_text(cursor, message);
        for (; fields->key; fields++) {
                put_char(cursor, ' ');
                put_text(cursor, fields->key);
                put_char(cursor, '=');
                if (!fields->text)
                        put_number(cursor, fields->number);
                else if (is_plain(fields->text))
                        put_text(cursor, fields->text);
                else
                        put_quoted(cursor, fields->text);
        }
}

size_t log_format_line(char *line, size_t size, enum log_format format, enum log_level level, int64_t unix_ms,
        const char *message, const struct log_field *fields)
{
        struct cursor cursor = {.at = line, .left = size - 2};

        if (format == LOG_JSON)
                put_json(&cursor, level, unix_ms, message, fields);
        else
                put_plain(&cursor, level, unix_ms, message, fields);
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

void log_write(enum log_level level, const char *message, const struct log_field *fields)
{
        struct timespec now;
        char line[4096];
        size_t length;

        clock_gettime(CLOCK_REALTIME, &now);
        length = log_format_line(line, sizeof(line), output_format, level,
                (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, message, fields);
        write_out(line, length);
}

void log_block(enum log_level level, const char *message, const char *text)
{
        if (!log_is_on(level))
                return;
        if (output_format == LOG_JSON) {
                log_write(level, message, (const struct log_field[]){LOG_STR("text", text), {NULL}});
                return;
        }
        log_write(level, message, (const struct log_field[]){{NULL}});
        write_out(text, strlen(text));
        write_out("\n", 1);
}
