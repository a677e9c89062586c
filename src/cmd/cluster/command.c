/* kubectl warpshare: the same program as a plugin of kubectl, which looks at the whole cluster. */
#include <stdio.h>
#include <string.h>

#include "cmd/cluster/command.h"
#include "cmd/commands.h"

static const char help[] =
        "usage: kubectl warpshare COMMAND [OPTION...]\n"
        "       kubectl warpshare top [NODE...]       who uses what of which GPU\n"
        "       kubectl warpshare shares [NODE...]    the shares of GPUs, a line for each\n"
        "       kubectl warpshare nodes [NODE...]     the nodes, their GPUs and agents\n"
        "       kubectl warpshare why [POD]           why a pod waits, or was refused, in a sentence\n"
        "       kubectl warpshare doctor NODE         what is wrong on a node, as far as it can be seen from here\n"
        "\n"
        "Who shares which GPU of the cluster. It asks the agents of the nodes through the API server, with your rights\n"
        "and your kubeconfig, and changes nothing. Put 'kubectl-warpshare', a link to 'warpshare', into your PATH, and\n"
        "kubectl finds it.\n"
        "\n"
        "  kubectl warpshare top -n team-a\n"
        "  kubectl warpshare why train-0 -n team-a\n"
        "  kubectl warpshare shares -A -o csv >shares.csv\n"
        "\n";

const struct command_line command_kubectl_line = {
        .shared = command_line_none,
        .program = "kubectl-warpshare",
        .help = help,
        .more_help =
                "\nFlags come last, since kubectl takes none before the plugin's name: 'kubectl warpshare top --context=…'.\n",
};

const struct command command_kubectl_table[] = {
        {"doctor", "say what is wrong on a node, as far as it can be seen from afar", kubectl_doctor,
                &kubectl_doctor_line, NULL},
        {"nodes", "show the nodes of the cluster with their GPUs and agents", kubectl_nodes, &kubectl_nodes_line, NULL},
        {"shares", "list the shares of GPUs, what each was granted and uses", kubectl_shares, &kubectl_shares_line,
                NULL},
        {"top", "show who uses what of which GPU of the cluster", kubectl_top, &kubectl_top_line, NULL},
        {"why", "say in a sentence why a pod waits or was refused", kubectl_why, &kubectl_why_line, NULL},
        {0},
};

int command_kubectl(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *word = argc > 1 ? argv[1] : NULL;
        const struct command *command = word ? command_find(command_kubectl_table, word) : NULL;
        struct option_set set;
        struct error err;
        int status;

        if (command)
                return command->run(argc - 1, argv + 1);
        if (word && *word != '-')
                return command_refuse_word("kubectl-warpshare", command_kubectl_table, word);
        if (!command_line_read(&command_kubectl_line, &set, NULL, &arena, argc, argv, &status))
                return status;
        error_raise(&err, ERROR_INVALID, "no command; 'kubectl warpshare --help' lists them");
        return command_line_refuse(&command_kubectl_line, &err);
}
