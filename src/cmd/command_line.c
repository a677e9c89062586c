/*
 * Arguments are told apart here; those of the option table are parsed where the agent's are.
 */
#include "cmd/command_line.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

static const char *const switches[] = {"help", "h", "version", "v"};

/* NULL after the last one. */
static const struct option *shared_at(const struct command_line *line, size_t position)
{
        if (!line->shared)
                return position < option_count ? &option_table[position] : NULL;
        return line->shared[position] ? &option_table[option_find(line->shared[position])] : NULL;
}

/* The environment has its say about each variable that a shared option reads, and about no other. */
static char **pick_environment(const struct command_line *line, struct arena *arena, char *const *environment)
{
        const struct option *option;
        char **picked = NULL;
        size_t count = 0;
        size_t n = 0;

        while (environment[n])
                n++;
        picked = ARENA_ARRAY(arena, char *, n + 1);
        for (size_t i = 0; i < n; i++) {
                size_t length = strcspn(environment[i], "=");

                for (size_t k = 0; (option = shared_at(line, k)); k++) {
                        for (size_t j = 0; j < ARRAY_SIZE(option->environment) && option->environment[j]; j++)
                                if (strlen(option->environment[j]) == length &&
                                        strncmp(option->environment[j], environment[i], length) == 0)
                                        picked[count++] = environment[i];
                }
        }
        return picked;
}

static bool is_switch(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(switches); i++)
                if (strcmp(switches[i], name) == 0)
                        return true;
        return false;
}

static const struct option *find_shared(const struct command_line *line, const char *name)
{
        const struct option *option;

        for (size_t i = 0; (option = shared_at(line, i)); i++) {
                if (strcmp(option->flag, name) == 0)
                        return option;
                for (size_t j = 0; j < ARRAY_SIZE(option->aliases) && option->aliases[j]; j++)
                        if (strcmp(option->aliases[j], name) == 0)
                                return option;
        }
        return NULL;
}

static const struct option *find_own(const struct command_line *line, const char *name)
{
        for (size_t i = 0; i < line->n_own; i++)
                if (strcmp(line->own[i].flag, name) == 0)
                        return &line->own[i];
        return NULL;
}

static int unknown_flag(const struct command_line *line, const char *name, struct error *err)
{
        const char *candidates[64];
        const struct option *option;
        const char *nearest;
        size_t count = 0;

        for (size_t i = 0; (option = shared_at(line, i)) && count < ARRAY_SIZE(candidates); i++)
                candidates[count++] = option->flag;
        for (size_t i = 0; i < line->n_own && count < ARRAY_SIZE(candidates); i++)
                candidates[count++] = line->own[i].flag;
        nearest = text_nearest(name, candidates, count);
        if (nearest)
                return error_set(err, ERROR_INVALID, "unknown flag '--%.100s'; did you mean '--%s'?", name, nearest);
        return error_set(err, ERROR_INVALID, "unknown flag '--%.100s'; --help lists all", name);
}

struct arguments {
        int argc;
        char *const *argv;
        int position;
};

/* What follows the '=', or the next argument. */
static const char *take_value(struct arguments *arguments, const char *inline_value)
{
        if (inline_value)
                return inline_value;
        return arguments->position + 1 < arguments->argc ? arguments->argv[++arguments->position] : NULL;
}

static int take_own(struct arguments *arguments, const struct option *option, const char *inline_value,
        const char **ret, struct arena *arena, struct error *err)
{
        const char *value = inline_value;

        if (option->type == OPTION_BOOL)
                value = value ? value : "true";
        else
                value = take_value(arguments, inline_value);
        if (!value)
                return error_set(err, ERROR_INVALID, "--%s: needs a value", option->flag);
        if (option_check(option, value, arena, ret, err) < 0)
                return error_prefix(err, "%s", option->flag);
        return 0;
}

int command_line_parse(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, char *const *environment, struct error *err)
{
        struct arguments arguments = {argc, argv, 0};
        char **rest = ARENA_ARRAY(arena, char *, (size_t)argc + 2);
        int n_rest = 0;

        rest[n_rest++] = arena_strdup(arena, argc > 0 ? argv[0] : "");
        for (size_t i = 0; i < line->n_own; i++)
                values[i] = line->own[i].fallback;
        for (arguments.position = 1; arguments.position < argc; arguments.position++) {
                char *word = argv[arguments.position];
                const char *name = word + strspn(word, "-");
                const char *equals = strchr(name, '=');
                const struct option *option;

                if (name == word || name > word + 2 || !*name)
                        return error_set(
                                err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", word);
                name = arena_strndup(arena, name, equals ? (size_t)(equals - name) : strlen(name));
                option = find_own(line, name);
                if (option) {
                        if (take_own(&arguments, option, equals ? equals + 1 : NULL, &values[option - line->own], arena,
                                    err) < 0)
                                return -1;
                        continue;
                }
                option = find_shared(line, name);
                if (!option && !is_switch(name))
                        return unknown_flag(line, name, err);
                rest[n_rest++] = word;
                if (!equals && option && option->type != OPTION_BOOL && arguments.position + 1 < argc)
                        rest[n_rest++] = argv[++arguments.position];
        }
        return option_set_parse(set, arena, n_rest, rest, pick_environment(line, arena, environment), err);
}

void command_line_print_help(const struct command_line *line, struct strbuf *text)
{
        const struct option *option;

        for (size_t i = 0; i < line->n_own; i++)
                option_print_one(text, &line->own[i]);
        for (size_t i = 0; (option = shared_at(line, i)); i++)
                option_print_one(text, option);
}

const char *command_line_get(const struct option_set *set, const char *flag)
{
        const char *value = option_set_get(set, flag);

        return value ? value : option_table[option_find(flag)].fallback;
}

void command_line_setup_log(const struct option_set *set, const char *format)
{
        const struct option *levels = &option_table[option_find("log-level")];
        const struct option *formats = &option_table[option_find("log-format")];
        const char *chosen = option_set_get(set, "log-format");

        if (!chosen)
                chosen = format ? format : formats->fallback;
        log_setup((enum log_level)option_position(levels, command_line_get(set, "log-level")),
                (enum log_format)option_position(formats, chosen));
}
