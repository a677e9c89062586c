#include "cmd/cli/command.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

const struct command *command_find(const struct command *table, const char *name)
{
        for (const struct command *command = table; command->name; command++)
                if (strcmp(name, command->name) == 0)
                        return command;
        return NULL;
}

int command_refuse_word(const char *program, const struct command *table, const char *word)
{
        const char *names[64];
        const char *nearest;
        size_t count = 0;

        for (const struct command *command = table; command->name && count < ARRAY_SIZE(names); command++)
                names[count++] = command->name;
        nearest = text_nearest(word, names, count);
        if (nearest)
                fprintf(stderr, "%s: '%.100s' is not a command; did you mean '%s'?\n", program, word, nearest);
        else
                fprintf(stderr, "%s: '%.100s' is not a command; '%s --help' lists them\n", program, word, program);
        return EXIT_USAGE;
}
