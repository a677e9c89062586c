#include "cli/command.h"

#include <string.h>

const struct command *command_find(const struct command *table, const char *name)
{
        for (const struct command *command = table; command->name; command++)
                if (strcmp(name, command->name) == 0)
                        return command;
        return NULL;
}
