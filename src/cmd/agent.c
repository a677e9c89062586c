/*
 * warpshare agent: NVML in, kubelet out. This file only connects: the monitor's inventory and the configuration become a
 * generation, its plan goes to the plugins, health follows; signals reload and stop. A generation that cannot be built
 * leaves the one in force.
 */
#include <assert.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/log.h"
#include "cmd/command.h"
#include "cmd/generation.h"
#include "gpu/monitor.h"
#include "kubelet/plugins.h"

/* A driver that hangs may keep the monitor's thread for ever; the rest is closed by then. */
#define STOP_DEADLINE_MS UINT64_C(3000)

struct agent {
        uv_loop_t loop;
        struct option_set options;
        struct settings *settings; /* the newest that was valid */
        struct gpu_monitor *monitor;
        struct plugins *plugins;
        struct generation *current; /* NULL before the first inventory */
        struct generation *previous;
        uv_signal_t signals[4];
        uv_timer_t deadline;
        bool stopping;
        int status;
};

/* ---- stop ---- */

static void on_monitor_closed(void *data)
{
        struct agent *agent = data;

        uv_close((uv_handle_t *)&agent->deadline, NULL);
}

static void on_plugins_closed(void *data UNUSED)
{
}

static void on_deadline(uv_timer_t *timer)
{
        struct agent *agent = timer->data;

        log_warn("an NVML call does not return; leaving without it");
        _exit(agent->status);
}

static void stop(struct agent *agent, int status)
{
        if (agent->stopping)
                return;
        agent->stopping = true;
        agent->status = status;
        for (size_t i = 0; i < ARRAY_SIZE(agent->signals); i++)
                uv_close((uv_handle_t *)&agent->signals[i], NULL);
        uv_timer_start(&agent->deadline, on_deadline, STOP_DEADLINE_MS, 0);
        plugins_close(agent->plugins, on_plugins_closed, agent);
        gpu_monitor_close(agent->monitor, on_monitor_closed, agent);
}

/* ---- what the monitor says ---- */

static void log_inventory(const struct inventory *inventory)
{
        log_info("GPUs found", LOG_UINT("gpus", inventory->n_gpus), LOG_STR("driver", inventory->driver_version));
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (gpu->failure)
                        log_warn("GPU cannot be used", LOG_UINT("index", gpu->index), LOG_STR("gpu", gpu->uuid),
                                LOG_STR("reason", gpu->failure));
                else
                        log_info("GPU", LOG_UINT("index", gpu->index), LOG_STR("gpu", gpu->uuid),
                                LOG_STR("name", gpu->name), LOG_UINT("memory_mib", gpu->memory >> 20),
                                LOG_INT("numa", gpu->numa_node), LOG_UINT("mig", gpu->n_mig_devices));
        }
}

static void log_plan(const struct plan *plan)
{
        if (plan->n_resources == 0)
                log_info("no GPU to advertise, waiting for one");
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                log_info("resource", LOG_STR("name", resource->name),
                        LOG_STR("sharing", sharing_strategy_name(resource->strategy)),
                        LOG_UINT("units", resource->n_units), LOG_UINT("devices", resource->n_devices));
        }
}

static void on_inventory(struct inventory *inventory, void *data)
{
        struct agent *agent = data;
        struct generation *next = NULL;
        struct error err;

        if (agent->stopping) {
                inventory_free(inventory);
                return;
        }
        if (!agent->current || !inventory_is_same(agent->current->inventory, inventory))
                log_inventory(inventory);
        if (generation_new(&next, agent->settings, inventory, &err) < 0) {
                inventory_free(inventory);
                log_error(agent->current ? "change refused, the plan in force stays" : "no plan can be made",
                        LOG_ERR(&err));
                if (!agent->current)
                        stop(agent, EXIT_FAILED);
                return;
        }
        log_plan(next->plan);
        plugins_apply(agent->plugins, next->plan);
        generation_free(agent->previous);
        agent->previous = agent->current;
        agent->current = next;
}

static void on_unavailable(const char *reason, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        if (!agent->current && agent->settings->config->fail_on_init_error) {
                log_error("NVML cannot be used (failOnInitError: false would wait)", LOG_STR("reason", reason));
                stop(agent, EXIT_FAILED);
                return;
        }
        log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
}

static void on_health(const char *uuid, bool healthy, const char *reason, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        if (healthy)
                log_info("healthy again", LOG_STR("unit", uuid));
        else
                log_warn("unhealthy", LOG_STR("unit", uuid), LOG_STR("reason", reason));
        plugins_set_health(agent->plugins, uuid, healthy);
}

/* ---- signals ---- */

static void on_stranded(void *data)
{
        log_error("kubelet's directory was removed on the host and cannot be seen from here any more; "
                  "leaving, so that a new container sees the new one");
        stop(data, EXIT_FAILED);
}

/* Neither option is in the file, so they hold before the file is read. */
static void setup_log(const struct option_set *options)
{
        static const char *const names[] = {"debug", "info", "warn", "error"};
        const char *wanted = option_set_get(options, "log-level");
        const char *format = option_set_get(options, "log-format");
        enum log_level level = LOG_INFO;

        for (size_t i = 0; wanted && i < ARRAY_SIZE(names); i++)
                if (strcmp(wanted, names[i]) == 0)
                        level = (enum log_level)i;
        log_setup(level, format && strcmp(format, "json") == 0 ? LOG_JSON : LOG_TEXT);
}

static void log_config(const struct config *config)
{
        _free_ char *text = config_print(config);

        log_block(LOG_INFO, "Running with config:", text); /* NVIDIA's words: people search for them */
}

static void reload(struct agent *agent)
{
        struct settings *settings;
        struct error err;

        if (settings_new(&settings, &agent->options, &err) < 0) {
                log_error("configuration refused, the one in force stays", LOG_ERR(&err));
                return;
        }
        settings_unref(agent->settings);
        agent->settings = settings;
        log_config(settings->config);
        gpu_monitor_rescan(agent->monitor); /* and its inventory makes the next generation */
}

static void on_signal(uv_signal_t *handle, int number)
{
        struct agent *agent = handle->data;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number == SIGHUP)
                reload(agent);
        else
                stop(agent, 0);
}

static int listen_to_signals(struct agent *agent, struct error *err)
{
        static const int numbers[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT};

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                int rc = uv_signal_init(&agent->loop, &agent->signals[i]);

                agent->signals[i].data = agent;
                if (rc == 0)
                        rc = uv_signal_start(&agent->signals[i], on_signal, numbers[i]);
                if (rc < 0)
                        return error_errno(err, -rc, "listen to signal %d", numbers[i]);
        }
        return 0;
}

/* ---- start ---- */

/* Which Xids count, as NVIDIA's plugin takes it from the environment. */
static void read_health_policy(struct health_policy *policy)
{
        struct strbuf ignored = STRBUF_INIT;

        health_policy_parse(policy, getenv("DP_DISABLE_HEALTHCHECKS"), getenv("DP_ENABLE_HEALTHCHECKS"), &ignored);
        if (ignored.size)
                log_warn(
                        "DP_DISABLE_HEALTHCHECKS or DP_ENABLE_HEALTHCHECKS: neither numbers of Xids nor 'all' or 'xids', ignored",
                        LOG_STR("words", ignored.data));
        strbuf_done(&ignored);
}

static int start(struct agent *agent, struct error *err)
{
        const struct config *config = agent->settings->config;
        struct health_policy policy;
        const struct plugins_options plugins = {
                .loop = &agent->loop,
                .kubelet_socket = config->kubelet_socket,
                .on_stranded = on_stranded,
                .data = agent,
        };
        const struct gpu_monitor_options monitor = {
                .library = config->nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver_root_ctr},
                .policy = &policy,
                .on_inventory = on_inventory,
                .on_unavailable = on_unavailable,
                .on_health = on_health,
                .data = agent,
        };

        read_health_policy(&policy);
        /* First the thread that reads the GPUs, since that takes longest. */
        if (gpu_monitor_new(&agent->monitor, &agent->loop, &monitor, err) < 0)
                return -1;
        return plugins_new(&agent->plugins, &plugins, err);
}

static void close_handle(uv_handle_t *handle, void *data UNUSED)
{
        uv_close(handle, NULL);
}

/* Before anything was started: only the loop and the signals are there to be closed. */
static int give_up(struct agent *agent, const char *what, const struct error *err)
{
        log_error(what, LOG_ERR(err));
        uv_walk(&agent->loop, close_handle, NULL);
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        uv_loop_close(&agent->loop);
        return EXIT_FAILED;
}

static int run(struct agent *agent)
{
        struct error err;

        setup_log(&agent->options);
        uv_loop_init(&agent->loop);
        uv_timer_init(&agent->loop, &agent->deadline);
        agent->deadline.data = agent;
        /* Before the rest: a SIGHUP that comes early is carried out later, instead of ending the process. */
        if (listen_to_signals(agent, &err) < 0)
                return give_up(agent, "cannot start", &err);
        if (settings_new(&agent->settings, &agent->options, &err) < 0)
                return give_up(agent, "configuration refused", &err);
        log_info("warpshare agent", LOG_STR("version", WARPSHARE_VERSION));
        log_config(agent->settings->config);
        if (start(agent, &err) < 0) {
                /* Nothing is served yet, and a thread may be inside the driver: the process goes as it is. */
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED);
        }
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        generation_free(agent->previous);
        generation_free(agent->current);
        settings_unref(agent->settings);
        uv_loop_close(&agent->loop);
        log_info("stopped");
        return agent->status;
}

static void print_help(void)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text,
                "usage: warpshare agent [OPTION...]\n\n"
                "Reads this node's GPUs from NVML, makes the resources that the configuration asks for, and serves them\n"
                "to kubelet until it is told to stop. SIGHUP reads the configuration and the GPUs again; SIGTERM stops.\n\n"
                "Precedence: command line, environment, file, default.\n\n");
        option_print_help(&text);
        strbuf_puts(&text,
                "\nDP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS in the environment name Xids, or 'all', that do not make\n"
                "a GPU unhealthy, or do; without them, every critical Xid does but those of applications.\n");
        fputs(text.data, stdout);
        strbuf_done(&text);
}

int command_agent(int argc, char **argv)
{
        struct agent agent = {0};
        struct arena arena = ARENA_INIT;
        struct error err;
        int status;

        signal(SIGPIPE, SIG_IGN); /* a peer that closed its socket is an error code, not the end of us */
        mallopt(M_ARENA_MAX, 1);  /* the second thread allocates little; an arena of its own would cost more */
        if (option_set_parse(&agent.options, &arena, argc, argv, environ, &err) < 0) {
                fprintf(stderr, "warpshare agent: %s\n", err.text);
                status = EXIT_USAGE;
        } else if (agent.options.help) {
                print_help();
                status = 0;
        } else if (agent.options.version) {
                puts("warpshare " WARPSHARE_VERSION);
                status = 0;
        } else {
                status = run(&agent);
        }
        arena_done(&arena);
        return status;
}
