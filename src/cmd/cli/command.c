// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the arguments: own options, options of the table, switches and words. config/option.h checks their values.
 */
#include "cmd/cli/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

const char *const command_none[] = {NULL};
const char *const command_outputs[] = {"table", "json", NULL};

/* NULL after the last one. */
static const struct option *shared_at(const struct command *command, size_t position)
{
        if (!command->shared)
                return position < option_count ? &option_table[position] : NULL;
        return command->shared[position] ? &option_table[option_find(command->shared[position])] : NULL;
}

/* NULL after the last one. */
static const struct option *switch_at(const struct command *command, size_t position)
{
        position += command->is_agent ? 0 : OPTION_HELP;
        return position < OPTION_SWITCHES ? &option_switches[position] : NULL;
}

static bool cli_is_called(const struct option *option, const char *name)
{
        if (strcmp(option->flag, name) == 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                if (strcmp(option->aliases[i], name) == 0)
                        return true;
        return false;
}

static int unknown_flag(const struct command *command, const char *name, struct error *err)
{
        const char *candidates[256];
        const struct option *option;
        const char *nearest;
        size_t count = 0;

        for (size_t i = 0; (option = command_option(command, i)); i++) {
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

/* A command line while it is read. */
struct reading {
        const struct command *command;
        struct option_set *set;
        const char **values;                   /* of command->own */
        const char *switches[OPTION_SWITCHES]; /* NULL: not set */
        struct arena *arena;
        int argc;
        char *const *argv;
        int position;
        const char **words; /* command->most_words */
};

/* An option, and where its value goes. */
struct place {
        const struct option *option; /* NULL: there is none */
        const char **value;
};

static struct place find_own(struct reading *reading, const char *name)
{
        const struct command *command = reading->command;

        for (size_t i = 0; i < command->n_own; i++)
                if (cli_is_called(&command->own[i], name))
                        return (struct place){&command->own[i], &reading->values[i]};
        return (struct place){NULL, NULL};
}

static struct place find_option(struct reading *reading, const char *name)
{
        const struct command *command = reading->command;
        const struct option *option;

        for (size_t i = 0; (option = shared_at(command, i)); i++)
                if (cli_is_called(option, name))
                        return (struct place){option, &reading->set->values[option - option_table]};
        for (size_t i = 0; (option = switch_at(command, i)); i++)
                if (cli_is_called(option, name))
                        return (struct place){option, &reading->switches[option - option_switches]};
        return find_own(reading, name);
}

/* Takes the text behind the '=', or the next argument. |name| is what the option is called in a message. */
static int command_take_value(struct reading *reading, const struct place *place, const char *name,
        const char *inline_value, struct error *err)
{
        const struct option *option = place->option;
        const char *earlier = *place->value;
        const char *value = inline_value;

        if (!value && option->type == OPTION_BOOL)
                value = "true";
        else if (!value && reading->position + 1 < reading->argc)
                value = reading->argv[++reading->position];
        if (!value)
                return error_set(err, ERROR_INVALID, "--%s: needs a value", name);
        if (option_is_list(option) && earlier && *earlier)
                value = arena_printf(reading->arena, "%s,%s", earlier, value);
        if (option_check(option, value, reading->arena, place->value, err) < 0)
                return error_prefix(err, "%s", option->flag);
        return 0;
}

/*
 * Takes the options m and f of "-mf FILE": each letter is an option, all but the last are booleans, and the last may
 * take the next argument. Returns 0 if the word is something else.
 */
static int take_joined(struct reading *reading, const char *letters, const char *inline_value, struct error *err)
{
        for (const char *letter = letters; *letter; letter++) {
                const struct place place = find_own(reading, (const char[]){*letter, '\0'});

                if (!place.option || (letter[1] && place.option->type != OPTION_BOOL))
                        return 0;
        }
        for (; *letters; letters++) {
                const struct place place = find_own(reading, (const char[]){*letters, '\0'});

                if (command_take_value(reading, &place, place.option->flag, letters[1] ? NULL : inline_value, err) < 0)
                        return -1;
        }
        return 1;
}

/* Finds for "nteam-a" the option with the letter n, if it takes a value; the value is the rest. */
static struct place find_letter(struct reading *reading, const char *text, const char **ret_value)
{
        const struct place place = find_own(reading, (const char[]){*text, '\0'});

        if (!place.option || place.option->type == OPTION_BOOL || !text[1])
                return (struct place){NULL, NULL};
        *ret_value = text + 1;
        return place;
}

/* Sets the shared options that the command line has not set. Of the table, the environment counts for these only. */
static int command_settle_shared(struct reading *reading, char *const *environment, struct error *err)
{
        struct option_set *set = reading->set;
        const struct option *option;

        for (size_t i = 0; (option = shared_at(reading->command, i)); i++) {
                const char **value = &set->values[option - option_table];
                const bool is_flag = *value;

                if (!is_flag && option_from_environment(option, environment, reading->arena, value, err) < 0)
                        return -1;
                if (*value)
                        set->sources[option - option_table] = is_flag ? OPTION_FLAG : OPTION_ENVIRONMENT;
        }
        return 0;
}

/* Sets the own options that the command line has not set. */
static int settle_own(const struct command *command, const char **values, struct arena *arena, char *const *environment,
        struct error *err)
{
        for (size_t i = 0; i < command->n_own; i++) {
                if (!values[i] && option_from_environment(&command->own[i], environment, arena, &values[i], err) < 0)
                        return -1;
                if (!values[i])
                        values[i] = command->own[i].fallback;
        }
        return 0;
}

enum word_use { WORD_FLAG, WORD_TAKEN, WORD_PASSED, WORD_LAST, WORD_WRONG };

/*
 * Decides what to do with |word|, at |position|. NVIDIA's programs run with any word on their command line; those of
 * k8s-device-plugin stop reading at the first one, as Go's flag package does. The agent does not start if its first
 * word is not a command, since that may be a typing error.
 */
static enum word_use use_word(const struct command *command, const char *word, int position, size_t n_words)
{
        const size_t dashes = strcmp(word, "-") == 0 ? 0 : strspn(word, "-"); /* "-" is the name of standard input */
        const bool is_first = position == 1;

        if (dashes > 0 && dashes <= 2 && word[dashes])
                return WORD_FLAG;
        if (dashes == 0 && n_words < command->most_words)
                return WORD_TAKEN;
        if (!command->is_drop_in || dashes > 2 || (command->is_agent && is_first && dashes == 0))
                return WORD_WRONG;
        return command->passes_words && strcmp(word, "--") != 0 ? WORD_PASSED : WORD_LAST;
}

bool command_asks_for_help(const struct command *command, const char *word)
{
        return command->is_drop_in && (strcmp(word, "help") == 0 || strcmp(word, "h") == 0);
}

/* |word| begins with one or two dashes, and something follows them. */
static int read_flag(struct reading *reading, const char *word, struct error *err)
{
        const struct command *command = reading->command;
        const char *begin = word + strspn(word, "-");
        const size_t length = strcspn(begin, "=");
        const char *value = begin[length] ? begin + length + 1 : NULL;
        const char *name = arena_strndup(reading->arena, begin, length);
        const bool has_one_dash = begin == word + 1;
        struct place place = find_own(reading, name);
        const char *called = name;
        int rc = 0;

        if (!place.option && command->takes_letters && has_one_dash)
                place = find_letter(reading, begin, &value);
        if (place.option)
                called = place.option->flag;
        else
                place = find_option(reading, name);
        if (place.option)
                return command_take_value(reading, &place, called, value, err);
        if (command->takes_joined && has_one_dash)
                rc = take_joined(reading, name, value, err);
        return rc ? MIN(rc, 0) : unknown_flag(command, name, err);
}

/* 1: nothing after it is read. */
static int cli_read_word(struct reading *reading, const char *word, struct error *err)
{
        struct option_set *set = reading->set;
        const enum word_use use = use_word(reading->command, word, reading->position, set->n_words);

        if (use == WORD_FLAG)
                return read_flag(reading, word, err);
        if (use == WORD_TAKEN) {
                reading->words[set->n_words++] = word;
                return 0;
        }
        if (!set->passed_word && command_asks_for_help(reading->command, word)) {
                reading->switches[OPTION_HELP] = "true";
                return 1;
        }
        if (use == WORD_WRONG)
                return error_set(err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", word);
        if (!set->passed_word)
                set->passed_word = word;
        return use == WORD_LAST;
}

static bool is_on(const struct reading *reading, size_t position)
{
        return text_is_same(reading->switches[position], "true");
}

int command_parse(const struct command *command, struct option_set *set, const char **values, struct arena *arena,
        int argc, char *const *argv, char *const *environment, struct error *err)
{
        struct reading reading = {
                .command = command,
                .set = set,
                .values = values,
                .arena = arena,
                .argc = argc,
                .argv = argv,
                .words = ARENA_ARRAY(arena, const char *, command->most_words),
        };
        int rc = 0;

        option_set_init(set, arena);
        for (size_t i = 0; i < command->n_own; i++)
                values[i] = NULL;
        for (reading.position = 1; rc == 0 && reading.position < argc; reading.position++)
                rc = cli_read_word(&reading, argv[reading.position], err);
        if (rc < 0)
                return -1;
        set->words = reading.words;
        set->help = is_on(&reading, OPTION_HELP);
        set->version = is_on(&reading, OPTION_VERSION);
        set->check = is_on(&reading, OPTION_CHECK);
        set->print_schema = is_on(&reading, OPTION_PRINT_SCHEMA);
        if (set->help || set->version || set->print_schema)
                return 0; /* to be answered even where the environment is broken */
        if (command_settle_shared(&reading, environment, err) < 0)
                return -1;
        return settle_own(command, values, arena, environment, err);
}

/* Each option that --help lists, in its order; NULL after the last. */
static const struct option *listed_at(const struct command *command, size_t position)
{
        const struct option *option;

        if (position < command->n_own)
                return &command->own[position];
        position -= command->n_own;
        for (size_t i = 0; !command->lists_own_only && (option = shared_at(command, i)); i++)
                if (position-- == 0)
                        return option;
        return switch_at(command, position);
}

const struct option *command_option(const struct command *command, size_t position)
{
        const struct option *option = listed_at(command, position);

        if (option || !command->lists_own_only)
                return option;
        for (size_t i = 0; listed_at(command, i); i++)
                position--;
        return shared_at(command, position);
}

void command_print_help(const struct command *command, struct strbuf *text)
{
        const struct option *option;

        if (command->help)
                strbuf_puts(text, command->help);
        for (size_t i = 0; (option = listed_at(command, i)); i++)
                option_print_one(text, option);
        if (command->more_help)
                strbuf_puts(text, command->more_help);
}

void command_warn(const char *text, void *data UNUSED)
{
        fprintf(stderr, "warning: %s\n", text);
}

void command_fail(const struct command *command, const struct error *err)
{
        fprintf(stderr, "%s: %s\n", command->program, err->text);
}

int command_refuse(struct error *err, const char *format, ...)
{
        struct strbuf text = STRBUF_INIT;
        va_list args;

        va_start(args, format);
        strbuf_vprintf(&text, format, args);
        va_end(args);
        error_raise(err, ERROR_INVALID, "%s", text.data);
        strbuf_done(&text);
        return COMMAND_REFUSED;
}

int command_status(const struct command *command, int status, const struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (status >= 0)
                return status;
        if (status == COMMAND_REFUSED && command->is_drop_in) {
                command_print_help(command, &text);
                fprintf(stderr, "%s\n", text.data);
        }
        command_fail(command, err);
        return status == COMMAND_REFUSED && !command->is_drop_in ? EXIT_USAGE : EXIT_FAILED;
}

int command_print_help_now(const struct command *command)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        command_print_help(command, &text);
        fputs(text.data, stdout);
        return 0;
}

bool command_read(struct command_call *ret, const struct command *command, int argc, char **argv, int *ret_status)
{
        struct option_set *set = &ret->set;
        bool is_read = false;
        struct error err;

        *ret = (struct command_call){.command = command};
        for (int i = 1; command->ends_at_dashes && !ret->after && i < argc; i++)
                if (strcmp(argv[i], "--") == 0) {
                        ret->after = argv + i + 1;
                        argc = i;
                }
        ret->values = ARENA_ARRAY(&ret->arena, const char *, command->n_own);
        if (command_parse(command, set, ret->values, &ret->arena, argc, argv, environ, &err) < 0)
                *ret_status = command_status(command, COMMAND_REFUSED, &err);
        else if (set->help)
                *ret_status = command_print_help_now(command);
        else if (set->version)
                *ret_status = puts(command->version ? command->version : "warpshare " WARPSHARE_VERSION) < 0;
        else
                is_read = true;
        if (!is_read) {
                arena_done(&ret->arena);
                return false;
        }
        if (set->passed_word && strcmp(set->passed_word, "--") != 0)
                fprintf(stderr,
                        "%s: warning: '%.100s'%s ignored, as by NVIDIA's program; a boolean is written --flag=false\n",
                        command->program, set->passed_word, command->passes_words ? " is" : " and all after it are");
        set->drop_in = command->is_drop_in;
        return true;
}

bool command_has(const struct command_call *call, size_t position, const char *value)
{
        return strcmp(call->values[position], value) == 0;
}

bool command_is_set(const struct command_call *call, size_t position)
{
        return command_has(call, position, "true");
}

int command_number(const struct command_call *call, size_t position, const char *of, uint64_t least, uint64_t most,
        uint64_t *ret, struct error *err)
{
        const char *value = call->values[position];

        if (text_to_uint(value, most, ret) && *ret >= least)
                return 0;
        return command_refuse(err, "%s: '%.40s' is not a number%s from %" PRIu64 " to %" PRIu64,
                call->command->own[position].flag, value, of, least, most);
}

bool command_wants_colours(void)
{
        const char *no = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(no && *no);
}

#define COLUMNS_MAX 10000U

unsigned int command_width(void)
{
        struct winsize size = {0};
        const char *columns = getenv("COLUMNS");
        uint64_t width = 0;

        if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
                return size.ws_col;
        return columns && text_to_uint(columns, COLUMNS_MAX, &width) ? (unsigned int)width : 0;
}

void command_print_json(json_t *json, size_t flags)
{
        json_dumpf(json, stdout, flags);
        putchar('\n');
        json_decref(json);
}

void command_setup_log(const struct option_set *set, const char *format)
{
        const struct option *levels = &option_table[option_find("log-level")];
        const struct option *formats = &option_table[option_find("log-format")];
        const char *chosen = option_set_get(set, "log-format");

        if (!chosen)
                chosen = format ? format : formats->fallback;
        log_setup((enum log_level)option_position(levels, option_set_value(set, "log-level")),
                (enum log_format)option_position(formats, chosen));
}

/* ---- tables of commands ---- */

const struct command *command_find(const struct command *const *table, const char *name)
{
        for (; *table; table++)
                if (strcmp(name, (*table)->name) == 0)
                        return *table;
        return NULL;
}

int command_refuse_word(const char *program, const struct command *const *table, const char *word)
{
        const char *names[64];
        const char *nearest;
        size_t count = 0;

        for (; *table && count < ARRAY_SIZE(names); table++)
                names[count++] = (*table)->name;
        nearest = text_nearest(word, names, count);
        if (nearest)
                fprintf(stderr, "%s: '%.100s' is not a command; did you mean '%s'?\n", program, word, nearest);
        else
                fprintf(stderr, "%s: '%.100s' is not a command; '%s --help' lists them\n", program, word, program);
        return EXIT_USAGE;
}
