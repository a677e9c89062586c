/*
 * The one binary: picks the command by the name it was started with, or else by its first argument.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/command.h"

static void print_help(FILE *to)
{
        fputs("Warpshare shares NVIDIA GPUs among the containers of a Kubernetes node.\n\n"
              "usage: warpshare COMMAND [OPTION...]\n\n"
              "commands:\n",
                to);
        for (const struct command *command = command_table; command->name; command++)
                fprintf(to, "  %-20s %s\n", command->name, command->summary);
        fputs("\n'warpshare COMMAND --help' says more; 'warpshare --version' tells the version. Started by the name of a\n"
              "command, as a link 'nvidia-device-plugin' does, the program is that command.\n",
                to);
}

int main(int argc, char **argv)
{
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
        const char *word = argc > 1 ? argv[1] : NULL;
        const struct command *command = command_find(command_table, name);

        if (command)
                return command->run(argc, argv);
        if (!word) {
                print_help(stderr);
                return EXIT_USAGE;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
                print_help(stdout);
                return 0;
        }
        if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0) {
                puts("warpshare " WARPSHARE_VERSION);
                return 0;
        }
        command = command_find(command_table, word);
        if (command)
                return command->run(argc - 1, argv + 1);
        fprintf(stderr, "warpshare: '%s' is not a command; 'warpshare --help' lists them\n", word);
        return EXIT_USAGE;
}
