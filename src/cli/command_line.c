/*
 * Arguments are told apart here; those of the option table are parsed where the agent's are.
 */
#include "cli/command_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/command.h"

const char *const command_line_none[] = {NULL};
const char *const command_line_outputs[] = {"table", "json", NULL};

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

/* NULL after the last one. */
static const struct option *switch_at(const struct command_line *line, size_t position)
{
        position += line->is_agent ? 0 : OPTION_HELP;
        return position < OPTION_SWITCHES ? &option_switches[position] : NULL;
}

static bool is_called(const struct option *option, const char *name)
{
        if (strcmp(option->flag, name) == 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                if (strcmp(option->aliases[i], name) == 0)
                        return true;
        return false;
}

static bool is_switch(const struct command_line *line, const char *name)
{
        const struct option *option;

        for (size_t i = 0; (option = switch_at(line, i)); i++)
                if (is_called(option, name))
                        return true;
        return false;
}

static const struct option *find_shared(const struct command_line *line, const char *name)
{
        const struct option *option;

        for (size_t i = 0; (option = shared_at(line, i)); i++)
                if (is_called(option, name))
                        return option;
        return NULL;
}

static const struct option *find_own(const struct command_line *line, const char *name)
{
        for (size_t i = 0; i < line->n_own; i++)
                if (is_called(&line->own[i], name))
                        return &line->own[i];
        return NULL;
}

/* Of "nteam-a" the option with the letter n that takes a value; the value is the rest. */
static const struct option *find_letter(const struct command_line *line, const char *text, const char **ret_value)
{
        const char letter[] = {*text, '\0'};
        const struct option *option = find_own(line, letter);

        if (!option || option->type == OPTION_BOOL || !text[1])
                return NULL;
        *ret_value = text + 1;
        return option;
}

static int unknown_flag(const struct command_line *line, const char *name, struct error *err)
{
        const char *candidates[256];
        const struct option *option;
        const char *nearest;
        size_t count = 0;

        for (size_t i = 0; (option = command_line_option(line, i)); i++) {
                if (count < ARRAY_SIZE(candidates))
                        candidates[count++] = option->flag;
                for (size_t j = 0; j < ARRAY_SIZE(option->aliases) && option->aliases[j]; j++)
                        if (count < ARRAY_SIZE(candidates) && option->aliases[j][1]) /* no letter */
                                candidates[count++] = option->aliases[j];
        }
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
        const char *earlier = *ret;

        if (option->type == OPTION_BOOL)
                value = value ? value : "true";
        else
                value = take_value(arguments, inline_value);
        if (!value)
                return error_set(err, ERROR_INVALID, "--%s: needs a value", option->flag);
        if (option_is_list(option) && earlier && *earlier)
                value = arena_printf(arena, "%s,%s", earlier, value);
        if (option_check(option, value, arena, ret, err) < 0)
                return error_prefix(err, "%s", option->flag);
        return 0;
}

/* Those that the command line has not set. */
static int settle_own(const struct command_line *line, const char **values, struct arena *arena,
        char *const *environment, struct error *err)
{
        for (size_t i = 0; i < line->n_own; i++) {
                if (!values[i] && option_from_environment(&line->own[i], environment, arena, &values[i], err) < 0)
                        return -1;
                if (!values[i])
                        values[i] = line->own[i].fallback;
        }
        return 0;
}

int command_line_parse(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, char *const *environment, struct error *err)
{
        const char **words = ARENA_ARRAY(arena, const char *, line->most_words);
        struct arguments arguments = {argc, argv, 0};
        char **rest = ARENA_ARRAY(arena, char *, (size_t)argc + 2);
        size_t n_words = 0;
        int n_rest = 0;

        rest[n_rest++] = arena_strdup(arena, argc > 0 ? argv[0] : "");
        for (size_t i = 0; i < line->n_own; i++)
                values[i] = NULL;
        for (arguments.position = 1; arguments.position < argc; arguments.position++) {
                char *word = argv[arguments.position];
                const char *name = word + strspn(word, "-");
                const char *equals = strchr(name, '=');
                const struct option *option;
                const bool has_one_dash = name == word + 1;
                const char *value;

                if (name == word && n_words < line->most_words) {
                        words[n_words++] = word;
                        continue;
                }
                if (name == word || name > word + 2 || !*name)
                        return error_set(
                                err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", word);
                name = arena_strndup(arena, name, equals ? (size_t)(equals - name) : strlen(name));
                value = equals ? equals + 1 : NULL;
                option = find_own(line, name);
                if (!option && line->takes_letters && has_one_dash)
                        option = find_letter(line, word + 1, &value);
                if (option) {
                        if (take_own(&arguments, option, value, &values[option - line->own], arena, err) < 0)
                                return -1;
                        continue;
                }
                option = find_shared(line, name);
                if (!option && !is_switch(line, name))
                        return unknown_flag(line, name, err);
                rest[n_rest++] = word;
                if (!equals && option && option->type != OPTION_BOOL && arguments.position + 1 < argc)
                        rest[n_rest++] = argv[++arguments.position];
        }
        if (option_set_parse(set, arena, n_rest, rest, pick_environment(line, arena, environment), err) < 0)
                return -1;
        set->words = words;
        set->n_words = n_words;
        if (set->help || set->version)
                return 0; /* to be answered even where the environment is broken */
        return settle_own(line, values, arena, environment, err);
}

void command_line_print_help(const struct command_line *line, struct strbuf *text)
{
        const struct option *option;

        if (line->help)
                strbuf_puts(text, line->help);
        for (size_t i = 0; i < line->n_own; i++)
                option_print_one(text, &line->own[i]);
        for (size_t i = 0; !line->lists_own_only && (option = shared_at(line, i)); i++)
                option_print_one(text, option);
        for (size_t i = 0; (option = switch_at(line, i)); i++)
                option_print_one(text, option);
        if (line->more_help)
                strbuf_puts(text, line->more_help);
}

const struct option *command_line_option(const struct command_line *line, size_t position)
{
        const struct option *option;

        if (position < line->n_own)
                return &line->own[position];
        position -= line->n_own;
        for (size_t i = 0; !line->lists_own_only && (option = shared_at(line, i)); i++)
                if (position-- == 0)
                        return option;
        for (size_t i = 0; (option = switch_at(line, i)); i++)
                if (position-- == 0)
                        return option;
        return line->lists_own_only ? shared_at(line, position) : NULL;
}

static int print_help(const struct command_line *line)
{
        struct strbuf text = STRBUF_INIT;

        command_line_print_help(line, &text);
        fputs(text.data, stdout);
        strbuf_done(&text);
        return 0;
}

void command_line_warn(const char *text, void *data UNUSED)
{
        fprintf(stderr, "warning: %s\n", text);
}

int command_line_fail(const struct command_line *line, const struct error *err)
{
        fprintf(stderr, "%s: %s\n", line->program, err->text);
        return EXIT_FAILED;
}

int command_line_refuse(const struct command_line *line, const struct error *err)
{
        struct strbuf text = STRBUF_INIT;

        if (line->is_drop_in) {
                command_line_print_help(line, &text);
                strbuf_putc(&text, '\n');
        }
        fprintf(stderr, "%s%s: %s\n", text.data, line->program, err->text);
        strbuf_done(&text);
        return line->is_drop_in ? EXIT_FAILED : EXIT_USAGE;
}

bool command_line_read(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, int *ret_status)
{
        struct error err;

        if (command_line_parse(line, set, values, arena, argc, argv, environ, &err) < 0) {
                *ret_status = command_line_refuse(line, &err);
                return false;
        }
        if (set->help) {
                *ret_status = print_help(line);
                return false;
        }
        if (set->version) {
                *ret_status = puts(line->version ? line->version : "warpshare " WARPSHARE_VERSION) < 0;
                return false;
        }
        set->drop_in = line->is_drop_in;
        return true;
}

bool command_line_wants_colours(void)
{
        const char *no = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(no && *no);
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
