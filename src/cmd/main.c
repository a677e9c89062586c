/*
 * The one binary: picks the command by its first argument.
 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cmd/command.h"

struct command {
        const char *name;
        const char *summary;
        int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
        {"agent", "advertise this node's GPUs to kubelet and hand out shares of them", command_agent},
        {"demo", "show all of it on simulated GPUs, without a GPU and without a cluster", command_demo},
};

static void print_help(FILE *to)
{
        fputs("Warpshare shares NVIDIA GPUs among the containers of a Kubernetes node.\n\n"
              "usage: warpshare COMMAND [OPTION...]\n\n"
              "commands:\n",
                to);
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].summary);
        fputs("\n'warpshare COMMAND --help' says more; 'warpshare --version' tells the version.\n", to);
}

int main(int argc, char **argv)
{
        const char *word = argc > 1 ? argv[1] : NULL;

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
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                if (strcmp(word, commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        fprintf(stderr, "warpshare: '%s' is not a command; 'warpshare --help' lists them\n", word);
        return EXIT_USAGE;
}
