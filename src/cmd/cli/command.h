// SPDX-License-Identifier: Apache-2.0
/*
 * A command: what stands on its command line, as data, of which --help, the manual and the completion of shells are
 * made, and the function that carries it out.
 *
 * A command has some of the agent's options, with their names in the environment, and some of its own. Anything else on
 * the command line of ours is an error; anything else in the environment is for other commands.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "config/option.h"

struct command_call;

struct command {
        const char *name;    /* the word by which it is called */
        const char *summary; /* one line */
        /*
         * Carries it out, and returns the exit status; COMMAND_FAILED, or COMMAND_REFUSED for wrong usage, with |err|,
         * which is printed. NULL: one of |below| has to follow.
         */
        int (*run)(struct command_call *call, struct error *err);
        /* Called before the command line is read, or NULL. -1: the command continues; else it is the exit status. */
        int (*begin)(int argc, char **argv);
        const struct command *const *below; /* the commands that may follow its name, NULL-terminated; NULL: none */

        const char *const *shared; /* flags of option_table, NULL-terminated; NULL: all of them */
        const struct option *own;  /* their keys do not count */
        size_t n_own;
        const char *program; /* "warpshare plan": begins its messages, names its page */
        /*
         * The text of --help before the options: "usage: …", an empty line, paragraphs with an empty line after each;
         * lines that begin with blanks stay as they are. |more_help|, an empty line and such paragraphs, follows the
         * options; NULL: nothing.
         */
        const char *help;
        const char *more_help;
        const char *version;     /* the answer to --version; NULL: "warpshare " and the number */
        unsigned int most_words; /* how many arguments that are not flags it takes; they are in option_set.words */
        int lost_status;         /* where |is_apart|: the exit status after NVML did not return; 0: EXIT_FAILED */
        bool takes_letters;      /* a value may follow the letter of an own option at once, as in "-nteam-a" */
        bool takes_joined;       /* letters of own options may stand together, as in "-mf FILE" */
        bool passes_words;       /* of a drop-in: flags may follow a word that it ignores; else that word ends them */
        bool lists_own_only;     /* --help leaves the shared options to the agent's */
        bool ends_at_dashes;     /* arguments after "--" are not read, but handed on in |after| */
        bool is_agent;           /* it has --check and --print-schema */
        bool is_apart;           /* |run| asks NVML, and so runs in a process of its own (gpu/apart.h) */
        bool is_service;         /* it runs until a signal: signals wait until its loop handles them */
        /*
         * Wrong usage is answered as NVIDIA's programs do: all of --help first, status 1. The words "help" and "h" show
         * the help; other words are ignored with a warning, except the first one of the agent.
         */
        bool is_drop_in;
};

enum { COMMAND_FAILED = -1, COMMAND_REFUSED = -2 };

/* The command line of a command that is carried out. */
struct command_call {
        const struct command *command;
        struct option_set set;
        const char **values; /* of command->own, by position: what is set, or its default */
        struct arena arena;  /* lives as long as the call */
        char **after;        /* where |ends_at_dashes|: what follows "--"; NULL: there is none */
};

/* ---- tables ---- */

#define COMMAND_OWN(options) .own = (options), .n_own = ARRAY_SIZE(options)

/* Options of a command: a switch, a text, and one of some words. More members may follow. */
#define COMMAND_FLAG(name, meaning, ...)                                                                               \
        {                                                                                                              \
                .flag = (name), .type = OPTION_BOOL, .fallback = "false", .help = (meaning)__VA_OPT__(, ) __VA_ARGS__  \
        }
#define COMMAND_TEXT(name, preset, placeholder, meaning, ...)                                                          \
        {                                                                                                              \
                .flag = (name), .type = OPTION_STRING, .fallback = (preset), .argument = (placeholder),                \
                .help = (meaning)__VA_OPT__(, ) __VA_ARGS__                                                            \
        }
#define COMMAND_CHOICE(name, words, preset, meaning, ...)                                                              \
        {                                                                                                              \
                .flag = (name), .type = OPTION_CHOICE, .choices = (words), .fallback = (preset), .argument = "WORD",   \
                .help = (meaning)__VA_OPT__(, ) __VA_ARGS__                                                            \
        }
#define COMMAND_WORDS(name, placeholder, meaning)                                                                      \
        {                                                                                                              \
                .flag = (name), .type = OPTION_WORDS, .fallback = "", .argument = (placeholder), .help = (meaning)     \
        }
#define COMMAND_OUTPUT COMMAND_CHOICE("output", command_outputs, "table", "table for people, or json for programs")

extern const char *const command_outputs[];

/* |shared| of a command that shares none. */
extern const char *const command_none[];

/* ---- for a command ---- */

/* The value of an own option is this text; or true. */
bool command_has(const struct command_call *call, size_t position, const char *value);
bool command_is_set(const struct command_call *call, size_t position);

/* The value of an own option as a number; |of|: "" or " of seconds", for the message. */
int command_number(const struct command_call *call, size_t position, const char *of, uint64_t least, uint64_t most,
        uint64_t *ret, struct error *err) MUST_USE;

/* Returns COMMAND_REFUSED, with the message in |err|. */
int command_refuse(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* Says on standard error what failed. */
void command_fail(const struct command *command, const struct error *err);

/* A config_warn_fn: for standard error. */
void command_warn(const char *text, void *data);

/* Standard output is a terminal, and the environment has no NO_COLOR. */
bool command_wants_colours(void);

/* The columns of the terminal that is standard output; without one COLUMNS counts; 0: lines have no bound. */
unsigned int command_width(void);

/* Prints and releases |json|; |flags| are those of json_dumps(). */
void command_print_json(json_t *json, size_t flags);

/* |set|'s options of the log, or their defaults; |format| NULL: that of the table. */
void command_setup_log(const struct option_set *set, const char *format);

/* ---- for cmd/commands.h, the manual and tests ---- */

/*
 * Reads command line and environment, and answers --help and --version. True: the command has its turn, and |ret| an
 * arena to be released. False: it is over with |*ret_status|, and what was wrong has been printed.
 */
bool command_read(
        struct command_call *ret, const struct command *command, int argc, char **argv, int *ret_status) MUST_USE;

/* The exit status for what |run| has returned; what failed is printed. */
int command_status(const struct command *command, int status, const struct error *err);

/*
 * |values|: of |own|, by position; the default where nothing is set, on the command line or in its variables. |argv|
 * without what stands before the flags.
 */
int command_parse(const struct command *command, struct option_set *set, const char **values, struct arena *arena,
        int argc, char *const *argv, char *const *environment, struct error *err) MUST_USE;

void command_print_help(const struct command *command, struct strbuf *text);
int command_print_help_now(const struct command *command); /* on standard output; returns 0 */

/* |word| is one by which a drop-in shows its help. */
bool command_asks_for_help(const struct command *command, const char *word) MUST_USE;

/* Each option that counts, in the order of --help, then the shared ones that it leaves out; NULL after the last. */
const struct option *command_option(const struct command *command, size_t position);

/* NULL: |table|, NULL-terminated, has no such command. */
const struct command *command_find(const struct command *const *table, const char *name);

/*
 * Says that |word|, which follows |program| ("warpshare mps"), is not in |table|, and which is like it. Returns the
 * exit status.
 */
int command_refuse_word(const char *program, const struct command *const *table, const char *word);
