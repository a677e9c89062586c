#include "cmd/doctor/toolkit_config.h"

#include <ctype.h>
#include <string.h>

/* A part of a line: from |at| to before |end|. */
struct part {
        const char *at;
        const char *end;
};

static bool toolkit_config_is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct part *part)
{
        while (part->at < part->end && toolkit_config_is_blank(*part->at))
                part->at++;
}

static bool toolkit_config_is_at(const struct part *part, char c)
{
        return part->at < part->end && *part->at == c;
}

static bool toolkit_config_is_text(const struct part *part, const char *text)
{
        const size_t length = strlen(text);

        return (size_t)(part->end - part->at) == length && memcmp(part->at, text, length) == 0;
}

/* A string in quotes, which |part| begins with. False: it does not end in this line. */
static bool skip_string(struct part *part)
{
        const char quote = *part->at++;

        while (part->at < part->end && *part->at != quote)
                part->at += *part->at == '\\' && quote == '"' && part->at + 1 < part->end ? 2 : 1;
        if (!toolkit_config_is_at(part, quote))
                return false;
        part->at++;
        return true;
}

/*
 * The key that |line| begins with, without its quotes. A key of several parts, with dots, is none of ours: then |ret|
 * is empty. False: there is none, or no '=' after it.
 */
static bool take_key(struct part *line, struct part *ret)
{
        size_t n_parts = 0;

        do {
                const char *begin;
                size_t quotes = 0;

                line->at += n_parts > 0;
                skip_blanks(line);
                begin = line->at;
                if (toolkit_config_is_at(line, '"') || toolkit_config_is_at(line, '\'')) {
                        quotes = 1;
                        if (!skip_string(line))
                                return false;
                } else {
                        while (line->at < line->end && (isalnum((unsigned char)*line->at) || strchr("-_", *line->at)))
                                line->at++;
                        if (line->at == begin)
                                return false;
                }
                *ret = (struct part){begin + quotes, line->at - quotes};
                n_parts++;
                skip_blanks(line);
        } while (toolkit_config_is_at(line, '.'));
        if (n_parts > 1)
                ret->at = ret->end;
        if (!toolkit_config_is_at(line, '='))
                return false;
        line->at++;
        return true;
}

/*
 * The value that is the rest of |line|, without blanks and comment. False: there is none, or it is not over at the end
 * of the line.
 */
static bool toolkit_config_take_value(struct part *line, struct part *ret)
{
        unsigned int depth = 0;

        skip_blanks(line);
        ret->at = ret->end = line->at;
        while (line->at < line->end && *line->at != '#') {
                const char c = *line->at;

                if (c == '"' || c == '\'') {
                        if (line->end - line->at >= 3 && line->at[1] == c && line->at[2] == c)
                                return false;
                        if (!skip_string(line))
                                return false;
                        ret->end = line->at;
                        continue;
                }
                depth += c == '[' || c == '{';
                if (c == ']' || c == '}') {
                        if (depth == 0)
                                return false;
                        depth--;
                }
                line->at++;
                if (!toolkit_config_is_blank(c))
                        ret->end = line->at;
        }
        return depth == 0 && ret->end > ret->at;
}

struct reading {
        struct toolkit_config config;
        bool says_mounts;
        unsigned int line;
};

static int set_key(struct reading *reading, const char *name, bool *is_said, bool *ret, const struct part *value,
        struct error *err)
{
        if (*is_said)
                return error_set(err, ERROR_INVALID, "line %u: %s is there a second time", reading->line, name);
        if (!toolkit_config_is_text(value, "true") && !toolkit_config_is_text(value, "false"))
                return error_set(err, ERROR_INVALID, "line %u: %s is neither true nor false", reading->line, name);
        *is_said = true;
        *ret = toolkit_config_is_text(value, "true");
        return 0;
}

static int toolkit_config_read_line(struct reading *reading, struct part line, struct error *err)
{
        struct toolkit_config *config = &reading->config;
        struct part key;
        struct part value;

        if (!take_key(&line, &key) || !toolkit_config_take_value(&line, &value))
                return error_set(
                        err, ERROR_INVALID, "line %u: no key with a value that is on this line", reading->line);
        if (toolkit_config_is_text(&key, TOOLKIT_ENVVAR))
                return set_key(reading, TOOLKIT_ENVVAR, &config->says_envvar, &config->takes_envvar, &value, err);
        if (toolkit_config_is_text(&key, TOOLKIT_MOUNTS))
                return set_key(reading, TOOLKIT_MOUNTS, &reading->says_mounts, &config->takes_mounts, &value, err);
        return 0;
}

int toolkit_config_read(struct toolkit_config *ret, const char *text, struct error *err)
{
        struct reading reading = {.config = {.takes_envvar = true}};

        while (*text) {
                struct part line = {text, text + strcspn(text, "\n")};

                text = line.end + (*line.end == '\n');
                reading.line++;
                skip_blanks(&line);
                if (toolkit_config_is_at(&line, '['))
                        break;
                if (line.at < line.end && *line.at != '#' && toolkit_config_read_line(&reading, line, err) < 0)
                        return -1;
        }
        *ret = reading.config;
        return 0;
}
