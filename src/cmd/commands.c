// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.h"

#include <signal.h>
#include <string.h>

#include "base/io/loop.h"
#include "gpu/apart.h"

/* ---- how each is carried out ---- */

static int run_call(const void *data, struct strbuf *answer, struct error *err UNUSED)
{
        struct command_call *call = (struct command_call *)(uintptr_t)data;
        struct error why;
        int status = call->command->run(call, &why);

        status = command_status(call->command, status, &why);
        strbuf_append(answer, &status, sizeof(status));
        return 0;
}

static int run_apart(struct command_call *call)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        const struct command *command = call->command;
        struct error err;
        int status;

        if (apart_run(run_call, call, &answer, &err) != 0) {
                command_fail(command, &err);
                return command->lost_status ? command->lost_status : EXIT_FAILED;
        }
        memcpy(&status, answer.data, sizeof(status));
        return status;
}

static int run_here(struct command_call *call)
{
        struct error err;
        int status = call->command->run ? call->command->run(call, &err)
                                        : command_refuse(&err, "needs a command; --help lists them");

        return command_status(call->command, status, &err);
}

int command_run(const struct command *command, int argc, char **argv)
{
        const struct command *below = command->below && argc > 1 ? command_find(command->below, argv[1]) : NULL;
        struct command_call call;
        int status;

        if (command->begin) {
                status = command->begin(argc, argv);
                if (status >= 0)
                        return status;
        }
        if (below)
                return command_run(below, argc - 1, argv + 1);
        if (command->below && !command->is_drop_in && argc > 1 && argv[1][0] != '-')
                return command_refuse_word(command->program, command->below, argv[1]);
        if (command->is_service) {
                signals_hold();
                signal(SIGPIPE, SIG_IGN); /* writing to a socket that the peer has closed returns an error then */
        }
        if (!command_read(&call, command, argc, argv, &status))
                return status;
        status = command->is_apart ? run_apart(&call) : run_here(&call);
        arena_done(&call.arena);
        return status;
}

/* ---- which there are ---- */

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
