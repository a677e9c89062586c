/*
 * The agent's command lines: our own, and that of NVIDIA's k8s-device-plugin, whose name in argv[0] makes us behave as its
 * users and charts expect: log lines in klog's form, status 1 for a wrong flag, its form of the version.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <warpshare_commit.h>

#include "base/strbuf.h"
#include "cmd/agent.h"
#include "cmd/command.h"
#include "config/config.h"

struct manner {
        const char *program;
        const char *what; /* in --help */
        const char *version;
        const char *log_format; /* where neither command line nor environment names one */
        int usage_status;
        bool usage_shows_help;
        bool drop_in; /* see struct option_set */
};

static void put_help(const struct manner *manner, struct strbuf *text)
{
        strbuf_printf(text, "usage: %s [OPTION...]\n\n%s\n", manner->program, manner->what);
        strbuf_puts(text, "Precedence: command line, environment, file, default.\n\n");
        option_print_help(text);
        strbuf_puts(text,
                "\nDP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS in the environment name Xids, or 'all', that do not make\n"
                "a GPU unhealthy, or do; without them, every critical Xid does but those of applications.\n");
}

static int print_help(const struct manner *manner)
{
        struct strbuf text = STRBUF_INIT;

        put_help(manner, &text);
        fputs(text.data, stdout);
        strbuf_done(&text);
        return 0;
}

static int fail_usage(const struct manner *manner, const struct error *err)
{
        struct strbuf text = STRBUF_INIT;

        if (manner->usage_shows_help) {
                put_help(manner, &text);
                strbuf_putc(&text, '\n');
        }
        fprintf(stderr, "%s%s: %s\n", text.data, manner->program, err->text);
        strbuf_done(&text);
        return manner->usage_status;
}

static void print_warning(const char *text, void *data UNUSED)
{
        fprintf(stderr, "warning: %s\n", text);
}

static int check(const struct option_set *options)
{
        struct arena arena = ARENA_INIT;
        const struct config *config;
        struct error err;
        int status = EXIT_FAILED;

        if (config_build(options, &arena, &config, print_warning, NULL, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
        } else {
                if (*config->path)
                        printf("config '%s' is valid\n", config->path);
                else
                        puts("the configuration is valid, without a file");
                status = 0;
        }
        arena_done(&arena);
        return status;
}

static int print_schema(void)
{
        _free_ char *text = config_schema();

        puts(text);
        return 0;
}

static int run_agent(const struct manner *manner, struct option_set *options)
{
        const char **format = &options->values[option_find("log-format")];

        if (!*format)
                *format = manner->log_format;
        return agent_run(options);
}

static int run(const struct manner *manner, int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct option_set options;
        struct error err;

        signal(SIGPIPE, SIG_IGN); /* a peer that closed its socket is an error code, not the end of us */
        mallopt(M_ARENA_MAX, 1);  /* the second thread allocates little; an arena of its own would cost more */
        if (option_set_parse(&options, &arena, argc, argv, environ, &err) < 0)
                return fail_usage(manner, &err);
        options.drop_in = manner->drop_in;
        if (options.help)
                return print_help(manner);
        if (options.version)
                return puts(manner->version) < 0;
        if (options.print_schema)
                return print_schema();
        if (options.check)
                return check(&options);
        return run_agent(manner, &options);
}

int command_agent(int argc, char **argv)
{
        static const struct manner manner = {
                .program = "warpshare agent",
                .what = "Reads this node's GPUs from NVML, makes the resources that the configuration asks for, and serves them\n"
                        "to kubelet until it is told to stop. SIGHUP reads the configuration and the GPUs again, and so does a\n"
                        "change of the configuration file; SIGTERM stops.\n",
                .version = "warpshare " WARPSHARE_VERSION,
                .log_format = "text",
                .usage_status = EXIT_USAGE,
        };

        return run(&manner, argc, argv);
}

int command_device_plugin(int argc, char **argv)
{
        static const struct manner manner = {
                .program = "nvidia-device-plugin",
                .what = "Warpshare in the place of NVIDIA's k8s-device-plugin: the same options, variables, configuration file and\n"
                        "resources. SIGHUP reads the configuration and the GPUs again, and so does a change of the configuration\n"
                        "file; SIGTERM stops. Log lines are those of klog; all else is as in 'warpshare agent'.\n",
                .version = "NVIDIA Device Plugin version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
                .log_format = "klog",
                .usage_status = EXIT_FAILED,
                .usage_shows_help = true,
                .drop_in = true,
        };

        return run(&manner, argc, argv);
}
