/*
 * The command line of a command that has some of the agent's options, with their names in the environment, and some of
 * its own. All else on the command line of ours is an error; all else in the environment is for other commands.
 *
 * It is data: --help, manual page and shell completion are made of it.
 */
#pragma once

#include "config/option.h"

struct command_line {
        const char *const *shared; /* flags of option_table, NULL-terminated; NULL: all of them */
        const struct option *own;  /* its key is not looked at */
        size_t n_own;
        const char *program; /* "warpshare plan": begins its messages, names its page */
        /*
         * What --help says before the options: "usage: …", an empty line, paragraphs with an empty line after each;
         * lines that begin with blanks stay as they are. |more_help|, an empty line and such paragraphs, follows the
         * options; NULL: nothing.
         */
        const char *help;
        const char *more_help;
        const char *version;     /* what --version says; NULL: "warpshare " and the number */
        unsigned int most_words; /* how many arguments that are no flags it takes; they are in option_set.words */
        bool takes_letters;      /* a value may follow the letter of an own option at once, as in "-nteam-a" */
        bool takes_joined;       /* letters of own options may stand together, as in "-mf FILE" */
        bool passes_words;       /* of a drop-in: flags go on after a word that it ignores; else that word ends them */
        bool lists_own_only;     /* --help leaves the shared options to the agent's */
        bool is_agent;           /* it has --check and --print-schema */
        /*
         * Wrong usage is answered as NVIDIA's programs do: all of --help first, status 1. The words "help" and "h" show
         * the help; other words are ignored with a warning, except the first one of the agent.
         */
        bool is_drop_in;
};

/* |shared| of a command that shares none. */
extern const char *const command_line_none[];

/* An option of several commands. */
#define COMMAND_LINE_OUTPUT                                                                                            \
        {                                                                                                              \
                .flag = "output", .type = OPTION_CHOICE, .choices = command_line_outputs, .fallback = "table",         \
                .argument = "WORD", .help = "table for people, or json for programs"                                   \
        }
extern const char *const command_line_outputs[];

/*
 * Reads command line and environment, and answers --help and --version. True: the command has its turn. False: it is
 * over with |*ret_status|; what was wrong has been said.
 */
bool command_line_read(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, int *ret_status) MUST_USE;

/* Says what is wrong; for the command to return. The second is for a wrong value on the command line. */
int command_line_fail(const struct command_line *line, const struct error *err);
int command_line_refuse(const struct command_line *line, const struct error *err);

/* A config_warn_fn: for standard error. */
void command_line_warn(const char *text, void *data);

/* Standard output is for somebody who likes colours: a terminal, and no NO_COLOR. */
bool command_line_wants_colours(void);

/*
 * |values|: of |own|, by position; the default where nothing is set, on the command line or in its variables. |argv|
 * without what stands before the flags.
 */
int command_line_parse(const struct command_line *line, struct option_set *set, const char **values,
        struct arena *arena, int argc, char *const *argv, char *const *environment, struct error *err) MUST_USE;

void command_line_print_help(const struct command_line *line, struct strbuf *text);

/* |word| is one by which a drop-in shows its help. */
bool command_line_asks_for_help(const struct command_line *line, const char *word) MUST_USE;

/* Each option that counts, in the order of --help, then the shared ones that it leaves out; NULL after the last. */
const struct option *command_line_option(const struct command_line *line, size_t position);

/* |set|'s options of the log, or their defaults; |format| NULL: that of the table. */
void command_line_setup_log(const struct option_set *set, const char *format);
