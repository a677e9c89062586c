// SPDX-License-Identifier: Apache-2.0
/* The agent, under its own name and under that of NVIDIA's device plugin. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include <warpshare_commit.h>

#include "agent/agent.h"
#include "base/io/keeper.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "config/config.h"
#include "base/io/loop.h"
#include "node/config/source.h"
#include "plan/plan.h"

#define LARGE 65536 /* bytes: what is larger has pages of its own, which go back to the kernel with it */

#define PRECEDENCE "Precedence: command line, environment, file, default.\n\n"

static const char more_help[] =
        "\n"
        "DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS in the environment list Xids, or 'all': the first names\n"
        "those that do not make a GPU unhealthy, the second those that do. Without them every critical Xid makes it\n"
        "unhealthy, except for errors of applications.\n";

/* |text| NULL: reads the file that the options name, if any. */
static bool check_one(const struct option_set *options, const struct config_text *text)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct inventory no_gpus = {.driver_version = ""}; /* so that names are checked which no node has */
        const struct config *config;
        struct plan *plan;
        struct error err;

        if (config_build_text(options, text, &arena, &config, command_warn, NULL, &err) < 0 ||
                plan_build(&plan, &arena, config, &no_gpus, command_warn, NULL, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return false;
        }
        plan_done(plan);
        if (*config->path)
                printf("config '%s' is valid\n", config->path);
        else
                puts("the configuration is valid, without a file");
        return true;
}

/* All files that a label may name. */
static bool check_folder(const struct option_set *options, const char *folder, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct config_names names;
        bool is_good = true;

        if (config_folder_list(&names, folder, &arena, err) < 0)
                return false;
        err->text[0] = '\0';
        for (size_t i = 0; i < names.count; i++) {
                _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
                struct config_text text = {.name = names.names[i]};

                if (config_folder_read(folder, text.name, &content, err) < 0)
                        return false;
                text.text = content.data;
                text.size = content.size;
                is_good = check_one(options, &text) && is_good;
        }
        return is_good;
}

static int command_check(const struct option_set *options)
{
        const char *folder = option_set_value(options, "config-dir");
        struct error err = {0};
        bool is_good;

        if (!*folder || *option_set_value(options, "config-file"))
                return check_one(options, NULL) ? 0 : EXIT_FAILED;
        is_good = check_folder(options, folder, &err);
        if (err.text[0])
                fprintf(stderr, "%s\n", err.text);
        return is_good ? 0 : EXIT_FAILED;
}

static int print_schema(void)
{
        _free_ char *text = config_schema();

        puts(text);
        return 0;
}

static int agent_command_run(struct command_call *call, struct error *err)
{
        struct option_set *options = &call->set;
        struct keeper_crashes crashes = {0};
        const char **format;
        int status;

        mallopt(M_ARENA_MAX, 1);          /* libcurl's threads allocate little; an arena of their own would cost more */
        mallopt(M_MMAP_THRESHOLD, LARGE); /* pages of metrics, lists of the API server: there for a moment */
        mallopt(M_TRIM_THRESHOLD, LARGE);
        if (options->print_schema)
                return print_schema();
        if (options->check) {
                signals_release();
                options->is_read_only = true;
                return command_check(options);
        }
        format = &options->values[option_find("log-format")];
        if (!*format)
                *format = call->command->is_drop_in ? "klog" : "text";
        agent_setup_log(options);
        /* If the agent has replaced its own program, its parent exists already. */
        if (keeper_is_wanted(option_set_value(options, "restart-after-crash"))) {
                int rc = keeper_run("the agent", &crashes, &status, err);

                if (rc < 0)
                        log_warn("the agent runs without a parent that would start it again", LOG_ERR(err));
                if (rc == 0)
                        return status;
        }
        return agent_run(options, &crashes);
}

const struct command command_agent = {
        .name = "agent",
        .summary = "advertise this node's GPUs to kubelet and hand out shares of them",
        .run = agent_command_run,
        .program = "warpshare agent",
        .help = "usage: warpshare agent [OPTION...]\n"
                "\n"
                "Reads this node's GPUs from NVML, makes the resources that the configuration asks for, and\n"
                "serves them to kubelet. SIGHUP reads the configuration and the GPUs again, and so does a change\n"
                "of the configuration file; SIGTERM ends the agent.\n"
                "\n" PRECEDENCE,
        .more_help = more_help,
        .is_agent = true,
        .is_service = true,
};

/*
 * As a replacement of NVIDIA's k8s-device-plugin it behaves as its users and charts expect: log lines in klog's format,
 * exit status 1 for a wrong flag, its format of the version.
 */
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
                "\n" PRECEDENCE,
        .more_help = more_help,
        .version = "NVIDIA Device Plugin version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_agent = true,
        .is_drop_in = true,
        .is_service = true,
};
