/*
 * The one table of options, and what command line and environment said about them.
 *
 * Rules (reference/nvidia-device-plugin.md section 1.2): Go's flag syntax: -x and --x are the same, "--x v" or "--x=v",
 * a bare bool flag is true and "--x=false" is false. "Set" means: given on the command line, or an environment variable
 * present, even if empty. Of several environment names the first that is present wins. An empty variable is false for a bool and
 * "" for a string; an empty DEVICE_LIST_STRATEGY counts as unset (DESIGN.md section 5).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

enum option_type { OPTION_STRING, OPTION_BOOL, OPTION_CHOICE };

struct option {
        const char *flag;       /* "mig-strategy" */
        const char *aliases[3]; /* further flags */
        const char *environment[3];
        const char *key; /* "flags.migStrategy", or NULL: not in the file */
        enum option_type type;
        const char *const *choices; /* NULL-terminated, for OPTION_CHOICE */
        const char *fallback;       /* the default, in text */
        const char *argument;       /* the placeholder in --help: "PATH" */
        const char *help;           /* one line */
};

extern const struct option option_table[];
extern const size_t option_count;

enum option_source { OPTION_DEFAULT, OPTION_FILE, OPTION_ENVIRONMENT, OPTION_FLAG };

struct option_set {
        const char **values; /* by position in option_table; NULL: not set */
        enum option_source *sources;
        bool help;
        bool version;
};

/* Parses argv[1..] and |environment| (as environ). Strings are copied into |arena|. */
int option_set_parse(struct option_set *set, struct arena *arena, int argc, char *const *argv, char *const *environment,
        struct error *err) MUST_USE;

/* The value set on command line or in the environment, or NULL. |flag| must be in the table. */
const char *option_set_get(const struct option_set *set, const char *flag);

/* The option part of --help: flags, environment, YAML key, default, meaning, aligned for 100 columns. */
void option_print_help(struct strbuf *text);
