#include "cmd/commands.h"

const struct command command_table[] = {
        {"agent", "advertise this node's GPUs to kubelet and hand out shares of them", command_agent,
                &command_agent_line, NULL},
        {"dashboard", "serve a page of the whole cluster: who uses what of which GPU", command_dashboard,
                &command_dashboard_line, NULL},
        {"demo", "show all of it on simulated GPUs, without a GPU and without a cluster", command_demo,
                &command_demo_line, NULL},
        {"doctor", "say what is wrong on this node, what that means and what to do about it", command_doctor,
                &command_doctor_line, NULL},
        {"labels", "show the labels of this node, or remove those that were published", command_labels,
                &command_labels_line, NULL},
        {"plan", "show what a configuration makes of a node's GPUs, before anything runs", command_plan,
                &command_plan_line, NULL},
        {"probe", "measure in a container what it really gets of its GPU", command_probe, &command_probe_line, NULL},
        {"mig", "plan, change and show the MIG geometry of this node's GPUs", command_mig, &command_mig_line,
                command_mig_table},
        {"run", "start a program in a share of a GPU, on a machine without Kubernetes", command_run, &command_run_line,
                NULL},
        {"mps", "supervise this node's MPS control daemons", command_mps, &command_mps_line, command_mps_table},
        {"top", "show who uses what of this node's GPUs", command_top, &command_top_line, NULL},
        {"uninstall", "remove what is left on this node and on its Node object", command_uninstall,
                &command_uninstall_line, NULL},
        {"nvidia-device-plugin", "the agent as a drop-in for NVIDIA's device plugin", command_device_plugin,
                &command_device_plugin_line, NULL},
        {"mps-control-daemon", "the MPS supervisor as a drop-in for NVIDIA's MPS control daemon",
                command_mps_control_daemon, &command_mps_control_daemon_line, command_mps_control_daemon_table},
        {"config-manager", "choose a configuration by the node's label, as a drop-in for NVIDIA's config manager",
                command_config_manager, &command_config_manager_line, NULL},
        {"gpu-feature-discovery", "label the node, as a drop-in for NVIDIA's GPU feature discovery",
                command_gpu_feature_discovery, &command_gpu_feature_discovery_line, NULL},
        {"nvidia-mig-manager", "the MIG geometry by the node's label, as a drop-in for NVIDIA's MIG manager",
                command_nvidia_mig_manager, &command_nvidia_mig_manager_line, NULL},
        {"nvidia-mig-parted", "the MIG geometry, as a drop-in for NVIDIA's mig-parted", command_nvidia_mig_parted,
                &command_nvidia_mig_parted_line, command_nvidia_mig_parted_table},
        {"kubectl-warpshare", "who shares which GPU of the cluster, as a plugin of kubectl", command_kubectl,
                &command_kubectl_line, command_kubectl_table},
        {0},
};

static const struct command_line main_line = {
        .shared = command_line_none,
        .program = "warpshare",
        .help = "usage: warpshare COMMAND [OPTION...]\n\n"
                "Warpshare shares NVIDIA GPUs among the containers of a Kubernetes node.\n\n",
        .more_help =
                "\n'warpshare COMMAND --help' says more. Started by the name of a command, as a link 'nvidia-device-plugin' does,\n"
                "the program is that command.\n",
};

const struct command command_main = {
        "warpshare", "share NVIDIA GPUs among the containers of a Kubernetes node", NULL, &main_line, command_table};
