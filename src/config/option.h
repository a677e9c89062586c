// SPDX-License-Identifier: Apache-2.0
/*
 * The one table of options, and what command line and environment said about them. A row is all there is of an option:
 * flag, variable, key of the file, help, JSON Schema, the member of struct config and its printed form follow from it.
 *
 * Rules (those of NVIDIA's k8s-device-plugin): Go's flag syntax: -x and --x are the same, "--x v" or "--x=v",
 * a bare bool flag is true and "--x=false" is false. "Set" means: given on the command line, or an environment variable
 * present, even if empty. Of several environment names the first that is present wins. An empty variable is false for a
 * bool and "" for a string, and an empty list of free words; for a choice, a list of choices and a list of numbers it
 * counts as unset, since none of their values is empty and charts do set DEVICE_LIST_STRATEGY="". A flag that is
 * repeated counts with its last value; a list is appended to. Elements of lists are trimmed.
 *
 * Values are checked and put in one spelling where they are read: "true" or "false", one of the choices, elements of
 * lists joined by commas, choices without repetitions ("" for an empty list).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

enum option_type {
        OPTION_STRING,
        OPTION_BOOL,
        OPTION_CHOICE,
        OPTION_LIST,    /* of choices: separated by commas, or in the file a word or a list */
        OPTION_WORDS,   /* of any words */
        OPTION_NUMBERS, /* of numbers that are among the choices, written as Go reads them (config/go_value.h) */
};

/* The form of the value in struct config. */
enum option_member {
        OPTION_APART,     /* nothing: the option is asked for by its name */
        OPTION_TO_TEXT,   /* const char * */
        OPTION_TO_BOOL,   /* bool: true, or a list that is not empty */
        OPTION_TO_BIT,    /* unsigned int, of which |bit| is set where the option is true */
        OPTION_TO_NUMBER, /* an enum or unsigned int: the position of the choice, or |values| there */
        OPTION_TO_SET,    /* unsigned int: the bit at the position of each choice of the list */
        OPTION_TO_WORDS,  /* const char *const *, NULL-terminated */
};

struct option {
        const char *flag;       /* "mig-strategy" */
        const char *aliases[3]; /* further flags */
        const char *environment[3];
        const char *key; /* "flags.migStrategy", or NULL: not in the file */
        /* NULL-terminated, for OPTION_CHOICE, OPTION_LIST and OPTION_NUMBERS; of a string: some of the values */
        const char *const *choices;
        const char *fallback;       /* the default, in text; NULL: see option_switches */
        const char *argument;       /* the placeholder in --help: "PATH" */
        const char *help;           /* one line */
        size_t offset;              /* of the member in struct config */
        const unsigned int *values; /* by position among |choices|; NULL: the position itself */
        enum option_type type;
        enum option_member member;
        unsigned int bit;
        bool grants_root; /* its user can become root on the node: with config-keys-from-flags-only not from the file */
        bool is_below_kubelet; /* the default moves with --kubelet-root */
        bool is_quiet;         /* left out of the printed configuration while it is false */
};

/* The offset of |member|, which must have the type |expected|, or be as large (an enum): else it does not compile. */
#define TYPED_OFFSET(type, member, expected)                                                                           \
        (offsetof(type, member) +                                                                                      \
                0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((type *)NULL)->member), expected) ? 1 : -1]))
#define ENUM_OFFSET(type, member)                                                                                      \
        (offsetof(type, member) + 0 * sizeof(char[sizeof(((type *)NULL)->member) == sizeof(unsigned int) ? 1 : -1]))

extern const struct option option_table[];
extern const size_t option_count;

/*
 * Flags that ask for something else than to run. They are options without a value and without a default: --help and
 * --version are those of every command, the two before them of the agent only.
 */
enum { OPTION_CHECK, OPTION_PRINT_SCHEMA, OPTION_HELP, OPTION_VERSION, OPTION_SWITCHES };
extern const struct option option_switches[OPTION_SWITCHES];

enum option_source { OPTION_DEFAULT, OPTION_ENVIRONMENT, OPTION_FLAG };

struct option_set {
        const char **values; /* by position in option_table; NULL: not set */
        enum option_source *sources;
        bool help;
        bool version;
        bool check;        /* only say whether the configuration is right */
        bool is_read_only; /* nothing is served, so settings without which an agent cannot serve have a default */
        bool print_schema; /* only print config_schema() */
        const char *const *words; /* arguments that are not flags, for a command that takes some */
        size_t n_words;
        const char *passed_word; /* the first one that a drop-in ignores; NULL: none */
        /* started by a name of NVIDIA's: where the file is silent, MPS is laid out as its components do */
        bool drop_in;
};

/* Nothing is set. The lists are in |arena|. cmd/cli/command.h parses a command line. */
void option_set_init(struct option_set *set, struct arena *arena);

/* The value set on command line or in the environment, or NULL. |flag| must be in the table. */
const char *option_set_get(const struct option_set *set, const char *flag);

/* Likewise, or the default of the table where nothing is set. */
const char *option_set_value(const struct option_set *set, const char *flag);

/*
 * The option's value in |environment|, checked; |*ret| is NULL where it has none. Errors name the variable.
 */
int option_from_environment(const struct option *option, char *const *environment, struct arena *arena,
        const char **ret, struct error *err) MUST_USE;

bool option_is_list(const struct option *option);

/* Position in the table. |flag| must be in it; aliases do not count. */
size_t option_find(const char *flag);

/* Position of |value| among the choices of |option|, which must have it: the value of the enum. */
unsigned int option_position(const struct option *option, const char *value);

/*
 * Checks one value, from wherever it comes, and gives its one spelling. A list is one text here. Errors begin with the
 * value: "'x' is not a boolean, use true or false"; the caller knows where it stood.
 */
int option_check(const struct option *option, const char *value, struct arena *arena, const char **ret,
        struct error *err) MUST_USE;

/* True if the first alias is a letter, which help shows before the flag: "-o, --output". */
bool option_has_letter(const struct option *option);

/* Prints the option's part of --help: flags, meaning, default, environment, YAML key, aligned for 100 columns. */
void option_print_one(struct strbuf *help, const struct option *option);
