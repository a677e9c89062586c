/*
 * The agent as a replacement of NVIDIA's k8s-device-plugin. With that name in argv[0] it behaves as its users and
 * charts expect: log lines in klog's format, exit status 1 for a wrong flag, its format of the version.
 */
#include <warpshare_commit.h>

#include "cmd/agent/command.h"
#include "cmd/commands.h"

const struct command command_device_plugin = {
        .name = "nvidia-device-plugin",
        .summary = "the agent as a drop-in for NVIDIA's device plugin",
        .run = agent_command_run,
        .program = "nvidia-device-plugin",
        .help = "usage: nvidia-device-plugin [OPTION...]\n"
                "\n"
                "Warpshare as a drop-in for NVIDIA's k8s-device-plugin: the same options, variables,\n"
                "configuration file and resources. SIGHUP reads the configuration and the GPUs again, and so does\n"
                "a change of the configuration file; SIGTERM ends it. Log lines have klog's format; all else is\n"
                "as in 'warpshare agent'.\n"
                "\n" AGENT_COMMAND_PRECEDENCE,
        .more_help = agent_command_more_help,
        .version = "NVIDIA Device Plugin version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_agent = true,
        .is_drop_in = true,
        .is_service = true,
};
