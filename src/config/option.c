// SPDX-License-Identifier: Apache-2.0
#include "config/option.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "config/go_value.h"
#include "config/word.h"

#define BLANKS " \t\r\n\v\f"

void option_set_init(struct option_set *set, struct arena *arena)
{
        *set = (struct option_set){
                .values = ARENA_ARRAY(arena, const char *, option_count),
                .sources = ARENA_ARRAY(arena, enum option_source, option_count),
        };
}

size_t option_find(const char *flag)
{
        for (size_t i = 0; i < option_count; i++)
                if (strcmp(option_table[i].flag, flag) == 0)
                        return i;
        assert(false); /* an option that is not in the table */
        return 0;
}

unsigned int option_position(const struct option *option, const char *value)
{
        unsigned int position = 0;

        while (strcmp(option->choices[position], value) != 0)
                position++;
        return position;
}

bool option_is_list(const struct option *option)
{
        return option->type == OPTION_LIST || option->type == OPTION_WORDS || option->type == OPTION_NUMBERS;
}

const char *option_set_get(const struct option_set *set, const char *flag)
{
        return set->values[option_find(flag)];
}

const char *option_set_value(const struct option_set *set, const char *flag)
{
        const char *value = option_set_get(set, flag);

        return value ? value : option_table[option_find(flag)].fallback;
}

/* ---- values ---- */

/*
 * Checks one element of a list, and returns its normal spelling; |*ret| is NULL for an empty free word, which is
 * ignored.
 */
static int check_element(const struct option *option, const char *text, size_t length, struct arena *arena,
        const char **ret, struct error *err)
{
        size_t position;
        int64_t number;

        *ret = NULL;
        if (option->type == OPTION_WORDS) {
                if (length > 0)
                        *ret = arena_strndup(arena, text, length);
                return 0;
        }
        if (option->type == OPTION_NUMBERS && go_int_parse(text, length, &number)) {
                text = arena_printf(arena, "%" PRId64, number);
                length = strlen(text);
        }
        assert(option->choices);
        if (word_check(text, length, option->choices, &position, err) < 0)
                return -1;
        *ret = option->choices[position];
        return 0;
}

/* |list| is joined by commas. */
static bool has_element(const char *list, const char *element)
{
        size_t length = strlen(element);

        while (*list) {
                size_t one = strcspn(list, ",");

                if (one == length && memcmp(list, element, length) == 0)
                        return true;
                list += one;
                list += *list == ',';
        }
        return false;
}

static int check_list(
        const struct option *option, const char *text, struct arena *arena, const char **ret, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;

        for (;;) {
                const char *element;
                const char *end;
                size_t length;

                text += strspn(text, BLANKS);
                end = strchrnul(text, ',');
                length = (size_t)(end - text);
                while (length && strchr(BLANKS, text[length - 1]))
                        length--;
                if (check_element(option, text, length, arena, &element, err) < 0)
                        return -1;
                if (element && (!option->choices || !has_element(list.data, element)))
                        strbuf_printf(&list, "%s%s", list.size ? "," : "", element);
                if (!*end)
                        break;
                text = end + 1;
        }
        *ret = arena_strdup(arena, list.data);
        return 0;
}

int option_check(
        const struct option *option, const char *value, struct arena *arena, const char **ret, struct error *err)
{
        size_t position;
        bool is_true;

        switch (option->type) {
        case OPTION_STRING:
                *ret = arena_strdup(arena, value);
                return 0;
        case OPTION_BOOL:
                if (!text_to_bool(value, &is_true))
                        return error_set(err, ERROR_INVALID, "'%.100s' is not a boolean, use true or false", value);
                *ret = is_true ? "true" : "false";
                return 0;
        case OPTION_CHOICE:
                assert(option->choices);
                if (word_check(value, strlen(value), option->choices, &position, err) < 0)
                        return -1;
                *ret = option->choices[position];
                return 0;
        case OPTION_LIST:
        case OPTION_WORDS:
        case OPTION_NUMBERS:
                return check_list(option, value, arena, ret, err);
        }
        return error_set(err, ERROR_INTERNAL, "an option without a type");
}

/* ---- environment ---- */

static const char *environment_get(char *const *environment, const char *name)
{
        size_t length = strlen(name);

        for (; environment && *environment; environment++)
                if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
                        return *environment + length + 1;
        return NULL;
}

int option_from_environment(
        const struct option *option, char *const *environment, struct arena *arena, const char **ret, struct error *err)
{
        const char *value = NULL;
        const char *name = NULL;

        *ret = NULL;
        for (size_t i = 0; !value && i < ARRAY_SIZE(option->environment) && option->environment[i]; i++) {
                name = option->environment[i];
                value = environment_get(environment, name);
        }
        if (!value || (!*value && option->choices))
                return 0;
        if (!*value && option->type == OPTION_BOOL)
                value = "false";
        if (option_check(option, value, arena, ret, err) < 0)
                return error_prefix(err, "%s (environment variable %s)", option->flag, name);
        return 0;
}

/* ---- --help ---- */

#define HELP_INDENT ((size_t)32)
#define HELP_WIDTH ((size_t)100)

/* Appends the words of |text| from column |*column| on, in lines that begin at HELP_INDENT. */
static void put_words(struct strbuf *help, size_t *column, const char *text)
{
        while (*text) {
                size_t length = strcspn(text, " ");

                if (*column > HELP_INDENT && *column + 1 + length > HELP_WIDTH) {
                        strbuf_printf(help, "\n%*s", (int)HELP_INDENT, "");
                        *column = HELP_INDENT;
                } else if (*column > HELP_INDENT) {
                        strbuf_putc(help, ' ');
                        (*column)++;
                }
                strbuf_append(help, text, length);
                *column += length;
                text += length;
                text += strspn(text, " ");
        }
}

static void put_flag(struct strbuf *help, const char *flag)
{
        size_t length = strlen(flag);

        /* A flag that is too long has a line of its own. */
        if (length + 4 > HELP_INDENT) /* two spaces at least, so that eye and program see where the help begins */
                strbuf_printf(help, "  %s\n%*s", flag, (int)HELP_INDENT, "");
        else
                strbuf_printf(help, "  %s%*s", flag, (int)(HELP_INDENT - 2 - length), "");
}

bool option_has_letter(const struct option *option)
{
        return option->aliases[0] && !option->aliases[0][1];
}

void option_print_one(struct strbuf *help, const struct option *option)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t column = HELP_INDENT;
        size_t n_letters = option_has_letter(option) ? 1 : 0;

        if (n_letters)
                strbuf_printf(&text, "-%s, ", option->aliases[0]);
        strbuf_printf(
                &text, "--%s%s%s", option->flag, option->argument ? " " : "", option->argument ? option->argument : "");
        put_flag(help, text.data);
        put_words(help, &column, option->help);
        if (option->fallback) {
                strbuf_clear(&text);
                strbuf_printf(&text, "(default %s", *option->fallback ? option->fallback : "empty");
                for (size_t i = 0; i < ARRAY_SIZE(option->environment) && option->environment[i]; i++)
                        strbuf_printf(&text, "%s %s", i ? " or" : "; env", option->environment[i]);
                if (option->key)
                        strbuf_printf(&text, "; key %s", option->key);
                for (size_t i = n_letters; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                        strbuf_printf(&text, "; also --%s", option->aliases[i]);
                strbuf_puts(&text, ")");
                put_words(help, &column, text.data);
        }
        strbuf_putc(help, '\n');
}
