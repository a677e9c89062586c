/*
 * Arguments are told apart here; those of the option table are parsed where the agent's are.
 */
#include "cmd/cli/command_line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"

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

/*
 * Of "-mf FILE" the options m and f: each letter is an option, all but the last are booleans, and the last may take the
 * next argument. 0: the word is none of that.
 */
static int take_joined(const struct command_line *line, struct arguments *arguments, const char *letters,
        const char *inline_value, const char **values, struct arena *arena, struct error *err)
{
        for (const char *letter = letters; *letter; letter++) {
                const struct option *option = find_own(line, (const char[]){*letter, '\0'});

                if (!option || (letter[1] && option->type != OPTION_BOOL))
                        return 0;
        }
        for (; *letters; letters++) {
                const struct option *option = find_own(line, (const char[]){*letters, '\0'});
                const char *value = letters[1] ? NULL : inline_value;

                if (take_own(arguments, option, value, &values[option - line->own], arena, err) < 0)
                        return -1;
        }
        return 1;
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

enum word_use { WORD_FLAG, WORD_TAKEN, WORD_PASSED, WORD_LAST, WORD_WRONG };

/*
 * What |word|, at |position|, is for. NVIDIA's programs run whatever word stands on their command line; for those of
 * k8s-device-plugin it is the last that is read, as Go's flag package has it. The agent's first word, which may be a
 * command with a slip, starts no agent.
 */
static enum word_use use_word(const struct command_line *line, const char *word, int position, size_t n_words)
{
        const size_t dashes = strspn(word, "-");
        const bool is_first = position == 1;

        if (dashes > 0 && dashes <= 2 && word[dashes])
                return WORD_FLAG;
        if (dashes == 0 && n_words < line->most_words)
                return WORD_TAKEN;
        if (!line->is_drop_in || dashes > 2 || (line->is_agent && is_first && dashes == 0))
                return WORD_WRONG;
        return line->passes_words && strcmp(word, "--") != 0 ? WORD_PASSED : WORD_LAST;
}

bool command_line_asks_for_help(const struct command_line *line, const char *word)
{
        return line->is_drop_in && (strcmp(word, "help") == 0 || strcmp(word, "h") == 0);
}

/* A command line while it is read. */
struct reading {
        const struct command_line *line;
        const char **values; /* of line->own */
        struct arena *arena;
        struct arguments arguments;
        const char **words; /* line->most_words */
        size_t n_words;
        const char *passed_word;
        char **rest; /* the program's name, and what the option table is to parse */
        int n_rest;
};

/* |word| begins with one or two dashes, and something follows them. */
static int read_flag(struct reading *reading, char *word, struct error *err)
{
        const struct command_line *line = reading->line;
        struct arguments *arguments = &reading->arguments;
        const char *name = word + strspn(word, "-");
        const char *equals = strchr(name, '=');
        const char *value = equals ? equals + 1 : NULL;
        const bool has_one_dash = name == word + 1;
        const struct option *option;
        int rc = 0;

        name = arena_strndup(reading->arena, name, equals ? (size_t)(equals - name) : strlen(name));
        option = find_own(line, name);
        if (!option && line->takes_letters && has_one_dash)
                option = find_letter(line, word + 1, &value);
        if (option)
                return take_own(arguments, option, value, &reading->values[option - line->own], reading->arena, err);
        if (line->takes_joined && has_one_dash && !is_switch(line, name))
                rc = take_joined(line, arguments, name, value, reading->values, reading->arena, err);
        if (rc)
                return MIN(rc, 0);
        option = find_shared(line, name);
        if (!option && !is_switch(line, name))
                return unknown_flag(line, name, err);
        reading->rest[reading->n_rest++] = word;
        if (!equals && option && option->type != OPTION_BOOL && arguments->position + 1 < arguments->argc)
                reading->rest[reading->n_rest++] = arguments->argv[++arguments->position];
        return 0;
}

/* 1: nothing after it is read. */
static int read_word(struct reading *reading, char *word, struct error *err)
{
        const enum word_use use = use_word(reading->line, word, reading->arguments.position, reading->n_words);

        if (use == WORD_FLAG)
                return read_flag(reading, word, err);
        if (use == WORD_TAKEN) {
                reading->words[reading->n_words++] = word;
                return 0;
        }
        if (!reading->passed_word && command_line_asks_for_help(reading->line, word)) {
                reading->rest[reading->n_rest++] = arena_strdup(reading->arena, "--help");
                return 1;
        }
        if (use == WORD_WRONG)
                return error_set(err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", word);
        if (!reading->passed_word)
                reading->passed_word = word;
        return use == WORD_LAST;
}

int command_line_parse(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, char *const *environment, struct error *err)
{
        struct reading reading = {
                .line = line,
                .values = values,
                .arena = arena,
                .arguments = {argc, argv, 0},
                .words = ARENA_ARRAY(arena, const char *, line->most_words),
                .rest = ARENA_ARRAY(arena, char *, (size_t)argc + 2),
        };
        int rc = 0;

        reading.rest[reading.n_rest++] = arena_strdup(arena, argc > 0 ? argv[0] : "");
        for (size_t i = 0; i < line->n_own; i++)
                values[i] = NULL;
        for (reading.arguments.position = 1; rc == 0 && reading.arguments.position < argc; reading.arguments.position++)
                rc = read_word(&reading, argv[reading.arguments.position], err);
        if (rc < 0 || option_set_parse(set, arena, reading.n_rest, reading.rest,
                              pick_environment(line, arena, environment), err) < 0)
                return -1;
        set->words = reading.words;
        set->n_words = reading.n_words;
        set->passed_word = reading.passed_word;
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
        if (set->passed_word && strcmp(set->passed_word, "--") != 0)
                fprintf(stderr,
                        "%s: warning: '%.100s'%s ignored, as by NVIDIA's program; a boolean is written --flag=false\n",
                        line->program, set->passed_word, line->passes_words ? " is" : " and all after it are");
        set->drop_in = line->is_drop_in;
        return true;
}

bool command_line_wants_colours(void)
{
        const char *no = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(no && *no);
}

void command_line_setup_log(const struct option_set *set, const char *format)
{
        const struct option *levels = &option_table[option_find("log-level")];
        const struct option *formats = &option_table[option_find("log-format")];
        const char *chosen = option_set_get(set, "log-format");

        if (!chosen)
                chosen = format ? format : formats->fallback;
        log_setup((enum log_level)option_position(levels, option_set_value(set, "log-level")),
                (enum log_format)option_position(formats, chosen));
}
