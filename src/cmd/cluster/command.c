/* kubectl warpshare: the same program as a plugin of kubectl, which looks at the whole cluster. */
#include "cmd/cluster/session.h"
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

static const struct command *const below[] = {
        &kubectl_doctor, &kubectl_nodes, &kubectl_shares, &kubectl_top, &kubectl_why, NULL};

const struct command command_kubectl = {
        .name = "kubectl-warpshare",
        .summary = "who shares which GPU of the cluster, as a plugin of kubectl",
        .below = below,
        .shared = command_none,
        .program = "kubectl-warpshare",
        .help = help,
        .more_help =
                "\nFlags come last, since kubectl takes none before the plugin's name: 'kubectl warpshare top --context=…'.\n",
};
