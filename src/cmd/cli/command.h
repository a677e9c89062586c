/*
 * A command: a function that takes the arguments after its own name (argv[0] is the name itself) and returns the exit
 * status of the process. What it understands is in its command line, of which the manual and the completion of shells
 * are made.
 */
#pragma once

#include "base/exit_status.h"
#include "cmd/cli/command_line.h"

struct command {
        const char *name;
        const char *summary; /* one line */
        int (*run)(int argc, char **argv);
        const struct command_line *line;
        const struct command *below; /* the commands that may follow its name; NULL: none */
};

/* |table| ends with one that has no name. NULL: no such command. */
const struct command *command_find(const struct command *table, const char *name);

/*
 * Says that |word|, which follows |program| ("warpshare mps"), is none of |table|, and which is like it. Returns the
 * exit status.
 */
int command_refuse_word(const char *program, const struct command *table, const char *word);
