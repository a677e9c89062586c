#include "config/option.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "config/go_value.h"
#include "config/word.h"

#define BLANKS " \t\r\n\v\f"

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

static int option_read_environment(
        struct option_set *set, struct arena *arena, char *const *environment, struct error *err)
{
        for (size_t i = 0; i < option_count; i++) {
                if (set->values[i])
                        continue; /* the command line wins */
                if (option_from_environment(&option_table[i], environment, arena, &set->values[i], err) < 0)
                        return -1;
                if (set->values[i])
                        set->sources[i] = OPTION_ENVIRONMENT;
        }
        return 0;
}

/* ---- command line ---- */

static bool is_flag(const struct option *option, const char *name, size_t length)
{
        if (strlen(option->flag) == length && memcmp(option->flag, name, length) == 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                if (strlen(option->aliases[i]) == length && memcmp(option->aliases[i], name, length) == 0)
                        return true;
        return false;
}

static bool *find_switch(struct option_set *set, const char *name, size_t length)
{
        bool *const switches[OPTION_SWITCHES] = {
                [OPTION_CHECK] = &set->check,
                [OPTION_PRINT_SCHEMA] = &set->print_schema,
                [OPTION_HELP] = &set->help,
                [OPTION_VERSION] = &set->version,
        };

        for (size_t i = 0; i < OPTION_SWITCHES; i++)
                if (is_flag(&option_switches[i], name, length))
                        return switches[i];
        return NULL;
}

static int option_fail_unknown(const char *name, size_t length, struct error *err)
{
        _free_ const char **candidates = xcalloc(option_count * 4 + OPTION_SWITCHES, sizeof(*candidates));
        char word[64];
        const char *nearest = NULL;
        size_t count = 0;

        for (size_t i = 0; i < OPTION_SWITCHES; i++)
                candidates[count++] = option_switches[i].flag;

        for (size_t i = 0; i < option_count; i++) {
                candidates[count++] = option_table[i].flag;
                for (size_t j = 0; j < ARRAY_SIZE(option_table[i].aliases) && option_table[i].aliases[j]; j++)
                        candidates[count++] = option_table[i].aliases[j];
        }
        if (length < sizeof(word)) {
                memcpy(word, name, length);
                word[length] = '\0';
                nearest = text_nearest(word, candidates, count);
        }
        if (nearest)
                return error_set(
                        err, ERROR_INVALID, "unknown flag '--%.*s'; did you mean '--%s'?", (int)length, name, nearest);
        return error_set(
                err, ERROR_INVALID, "unknown flag '--%.*s'; --help lists all", (int)MIN(length, (size_t)100), name);
}

/* The command line is read before the environment, so what is there to append to stood on the command line. */
static int option_read_value(
        struct option_set *set, struct arena *arena, size_t position, const char *value, struct error *err)
{
        const struct option *option = &option_table[position];
        const char *earlier = set->values[position];

        if (option_check(option, value, arena, &set->values[position], err) < 0)
                return -1;
        if (option_is_list(option) && earlier && *earlier &&
                option_check(option, arena_printf(arena, "%s,%s", earlier, value), arena, &set->values[position], err) <
                        0)
                return -1;
        set->sources[position] = OPTION_FLAG;
        return 0;
}

static int read_arguments(struct option_set *set, struct arena *arena, int argc, char *const *argv, struct error *err)
{
        for (int i = 1; i < argc; i++) {
                const char *name = argv[i];
                const char *value;
                size_t length;
                size_t position = 0;
                bool *is_on;

                if (name[0] != '-' || strcmp(name, "-") == 0 || strcmp(name, "--") == 0)
                        return error_set(
                                err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", name);
                name += name[1] == '-' ? 2 : 1;
                length = strcspn(name, "=");
                value = name[length] ? name + length + 1 : NULL;
                is_on = find_switch(set, name, length);
                if (is_on) {
                        if (!text_to_bool(value ? value : "true", is_on))
                                return error_set(err, ERROR_INVALID,
                                        "%.*s: '%.100s' is not a boolean, use true or false", (int)length, name, value);
                        continue;
                }
                while (position < option_count && !is_flag(&option_table[position], name, length))
                        position++;
                if (position == option_count)
                        return option_fail_unknown(name, length, err);
                if (!value && option_table[position].type == OPTION_BOOL)
                        value = "true";
                if (!value && i + 1 == argc)
                        return error_set(err, ERROR_INVALID, "--%s: needs a value", name);
                if (!value)
                        value = argv[++i];
                if (option_read_value(set, arena, position, value, err) < 0)
                        return error_prefix(err, "%s", option_table[position].flag);
        }
        return 0;
}

int option_set_parse(struct option_set *set, struct arena *arena, int argc, char *const *argv, char *const *environment,
        struct error *err)
{
        *set = (struct option_set){
                .values = ARENA_ARRAY(arena, const char *, option_count),
                .sources = ARENA_ARRAY(arena, enum option_source, option_count),
        };
        if (read_arguments(set, arena, argc, argv, err) < 0)
                return -1;
        if (set->help || set->version || set->print_schema)
                return 0; /* to be answered even where the environment is broken */
        return option_read_environment(set, arena, environment, err);
}
