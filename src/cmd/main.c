/*
 * The one binary: picks the command by the name it was started with, or else by its first argument.
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
        {"doctor", "say what is wrong on this node, what that means and what to do about it", command_doctor},
        {"plan", "tell what a configuration makes of a node's GPUs, before anything runs", command_plan},
        {"probe", "measure in a container what it really gets of its GPU", command_probe},
        {"mps", "supervise this node's MPS control daemons", command_mps},
        {"nvidia-device-plugin", "the agent, in the place and with the manners of NVIDIA's plugin",
                command_device_plugin},
        {"mps-control-daemon", "the MPS supervisor, in the place and with the manners of NVIDIA's",
                command_mps_control_daemon},
};

static void print_help(FILE *to)
{
        fputs("Warpshare shares NVIDIA GPUs among the containers of a Kubernetes node.\n\n"
              "usage: warpshare COMMAND [OPTION...]\n\n"
              "commands:\n",
                to);
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                fprintf(to, "  %-20s %s\n", commands[i].name, commands[i].summary);
        fputs("\n'warpshare COMMAND --help' says more; 'warpshare --version' tells the version. Started by the name of a\n"
              "command, as a link 'nvidia-device-plugin' does, the program is that command.\n",
                to);
}

static const struct command *find_command(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                if (strcmp(name, commands[i].name) == 0)
                        return &commands[i];
        return NULL;
}

int main(int argc, char **argv)
{
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
        const char *word = argc > 1 ? argv[1] : NULL;
        const struct command *command = find_command(name);

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
        command = find_command(word);
        if (command)
                return command->run(argc - 1, argv + 1);
        fprintf(stderr, "warpshare: '%s' is not a command; 'warpshare --help' lists them\n", word);
        return EXIT_USAGE;
}
