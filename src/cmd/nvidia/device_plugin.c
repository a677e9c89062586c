/*
 * The agent in the place of NVIDIA's k8s-device-plugin, whose name in argv[0] makes us behave as its users and charts expect: log lines in
 * klog's form, status 1 for a wrong flag, its form of the version.
 */
#include <warpshare_commit.h>

#include "cmd/agent/command.h"
#include "cmd/commands.h"

const struct command_line command_device_plugin_line = {
        .program = "nvidia-device-plugin",
        .help = "usage: nvidia-device-plugin [OPTION...]\n\n"
                "Warpshare in the place of NVIDIA's k8s-device-plugin: the same options, variables, configuration file and\n"
                "resources. SIGHUP reads the configuration and the GPUs again, and so does a change of the configuration\n"
                "file; SIGTERM stops. Log lines are those of klog; all else is as in 'warpshare agent'.\n\n" AGENT_COMMAND_PRECEDENCE,
        .more_help = agent_command_more_help,
        .version = "NVIDIA Device Plugin version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_agent = true,
        .is_drop_in = true,
};

int command_device_plugin(int argc, char **argv)
{
        return agent_command_run(&command_device_plugin_line, argc, argv);
}
