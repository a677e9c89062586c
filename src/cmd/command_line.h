/*
 * The command line of a command that has a few of the agent's options, with their names in the environment, and some of its
 * own. All else on the command line is an error; all else in the environment is for other commands.
 */
#pragma once

#include "config/option.h"

struct command_line {
        const char *const *shared; /* flags of option_table, NULL-terminated; NULL: all of them */
        const struct option *own;  /* its key is not looked at */
        size_t n_own;
};

/* |values|: of |own|, by position; the default where nothing is set. |argv| without what stands before the flags. */
int command_line_parse(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, char *const *environment, struct error *err) MUST_USE;

/* The options, for --help. */
void command_line_print_help(const struct command_line *line, struct strbuf *text);

/* |set|'s options of the log, or their defaults; |format| NULL: that of the table. */
void command_line_setup_log(const struct option_set *set, const char *format);

/* The value that is set, or the default of the table. */
const char *command_line_get(const struct option_set *set, const char *flag);
