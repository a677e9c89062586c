#include "cmd/commands.h"

const struct command *const command_table[] = {
        &command_agent,
        &command_dashboard,
        &command_demo,
        &command_doctor,
        &command_labels,
        &command_plan,
        &command_probe,
        &command_mig,
        &command_run_in_share,
        &command_mps,
        &command_top,
        &command_uninstall,
        &command_device_plugin,
        &command_mps_control_daemon,
        &command_config_manager,
        &command_gpu_feature_discovery,
        &command_nvidia_mig_manager,
        &command_nvidia_mig_parted,
        &command_kubectl,
        NULL,
};

const struct command command_main = {
        .name = "warpshare",
        .summary = "share NVIDIA GPUs among the containers of a Kubernetes node",
        .below = command_table,
        .shared = command_none,
        .program = "warpshare",
        .help = "usage: warpshare COMMAND [OPTION...]\n\n"
                "Warpshare shares NVIDIA GPUs among the containers of a Kubernetes node.\n\n",
        .more_help =
                "\n'warpshare COMMAND --help' says more. Started by the name of a command, as a link 'nvidia-device-plugin' does,\n"
                "the program is that command.\n",
};
