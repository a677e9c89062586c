// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare agent: it reads GPUs by NVML and offers them to kubelet. Here the modules begin and end (agent.h). SIGHUP
 * and a changed file load the configuration again; SIGTERM and others stop the agent.
 */
#include "agent/agent.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <warpshare_commit.h>

#include "agent/cdi.h"
#include "agent/mig.h"
#include "agent/page.h"
#include "agent/plans.h"
#include "agent/rollout.h"
#include "agent/serve.h"
#include "base/error.h"
#include "base/io/worker.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "node/config/nodeconfig.h"
#include "node/dra/driver.h"
#include "node/kubelet/plugins.h"
#include "node/pages/usage.h"
#include "node/status/api.h"
#include "node/status/log.h"
#include "node/status/node_labels.h"
#include "node/status/read.h"
#include "node/status/report.h"
#include "node/status/watch.h"

struct agent_program {
        struct agent agent;
        struct agent_plans plans;
        struct agent_cdi cdi;
        struct agent_serving serving;
        struct agent_page page;
        struct node_clients *clients; /* NULL: the API server is not used */
        struct signals signals;
        int status;
};

/* ---- stop ---- */

static void agent_on_closed(void *data UNUSED)
{
}

static void stop_agent(struct agent *agent, int status)
{
        struct agent_program *program = container_of(agent, struct agent_program, agent);

        if (agent->is_stopping)
                return;
        agent->is_stopping = true;
        program->status = status;
        signals_close(&program->signals);
        agent_plans_close(&program->plans);
        agent_cdi_close(&program->cdi);
        agent->configs = agent_config_close(agent->configs);
        agent_page_close(&program->page);
        agent_rollout_close(TAKE_PTR(agent->rollout));
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_hand_over(TAKE_PTR(agent->dra));
        plugins_close(agent->plugins, agent_on_closed, agent);
        ledger_close(agent->ledger, agent_on_closed, agent);
        gpu_monitor_close(agent->monitor, agent_on_closed, agent);
        node_report_close(agent->report);
        node_events_close(agent->events);
        agent->labels = node_labels_close(agent->labels);
        program->clients = node_clients_close(program->clients);
        agent->watch = node_watch_close(agent->watch);
        agent->api = agent_api_close(agent->api); /* after everything that has a watch of its client */
}

/* ---- signals ---- */

static void on_agent_signal(uv_signal_t *handle, int number)
{
        struct agent *agent = handle->data;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number != SIGHUP) {
                stop_agent(agent, 0);
                return;
        }
        agent_plans_log_again(agent->plans);
        agent_api_refresh(agent->api);
        agent_config_refresh(agent->configs);
        (void)agent_plans_load(agent);
        gpu_monitor_rescan(agent->monitor); /* also if the configuration was refused: it may be the GPUs that changed */
}

/* ---- the log ---- */

static unsigned int log_choice(const struct option_set *options, const char *flag)
{
        const struct option *option = &option_table[option_find(flag)];
        const char *value = option_set_get(options, flag);

        return option_position(option, value ? value : option->fallback);
}

/* Neither option can be set in the configuration file, so the log can be set up before the file is read. */
void agent_setup_log(const struct option_set *options)
{
        log_setup((enum log_level)log_choice(options, "log-level"), (enum log_format)log_choice(options, "log-format"));
}

/* ---- the cluster ---- */

/* The client has its credentials. All other modules have requests in the client's queue, which are sent now. */
static void on_agent_connected(void *data)
{
        struct agent *agent = data;

        node_labels_connected(agent->labels, agent_api_client(agent->api));
}

static void on_report_pods(const char *unit, enum node_event event, const char *text, void *data)
{
        const struct agent *agent = data;

        ledger_report_pods(agent->ledger, unit, event, text);
}

static void report_to_cluster(struct agent *agent, const struct config *config)
{
        const struct node_report_options options = {
                .loop = &agent->loop,
                .health = &agent->health,
                .client = agent_api_client(agent->api),
                .watch = agent->watch,
                .events = agent->events,
                .config = config,
                .report_pods = on_report_pods,
                .data = agent,
        };

        agent->report = node_report_new(&options);
}

/*
 * |reason|: the driver is about to be unloaded; NULL: no longer. The agent decides this, since the MPS supervisor does
 * not know the API server and has no policy. The supervisor carries out the order alone if the agent leaves the node
 * first.
 */
static void on_clients_changed(const char *reason, void *data)
{
        struct agent *agent = data;

        if (reason) {
                log_warn("clients of the driver are to leave this node: MPS daemons end, with their clients",
                        LOG_STR("event", node_event_reason(NODE_EVENT_CLIENTS_LEAVE)), LOG_STR("reason", reason));
                node_events_report(agent->events, NODE_EVENT_CLIENTS_LEAVE,
                        "clients of the driver are to leave this node (%s): MPS daemons end, with their clients",
                        reason);
        } else {
                log_info("clients of the driver may be on this node again",
                        LOG_STR("event", node_event_reason(NODE_EVENT_CLIENTS_RETURN)));
                node_events_report(agent->events, NODE_EVENT_CLIENTS_RETURN,
                        "clients of the driver may be on this node again: MPS daemons start");
        }
        ledger_leave_gpus(agent->ledger, reason != NULL);
}

/* ---- callbacks of the modules ---- */

static void on_holdings_changed(void *data)
{
        struct agent *agent = data;

        if (!agent->is_stopping)
                plugins_refresh(agent->plugins);
}

static bool on_repeat(const char *resource, void *data)
{
        struct agent *agent = data;

        return !agent->is_stopping && plugins_repeat(agent->plugins, resource);
}

static void on_wants_pods(void *data)
{
        struct agent *agent = data;

        dra_driver_read_pods(agent->dra);
}

/* ---- start ---- */

static int start_modules(struct agent_program *program, struct error *err)
{
        struct agent *agent = &program->agent;
        const struct config *config = agent_plans_config(&program->plans);
        struct ledger_options ledger = {.loop = &agent->loop,
                .config = config,
                .on_change = on_holdings_changed,
                .on_held = agent_plans_on_held,
                .repeat = on_repeat,
                .wants_pods = on_wants_pods,
                .health = &agent->health,
                .data = agent};
        const struct agent_api_options api = {
                .loop = &agent->loop, .config = config, .connected = on_agent_connected, .data = agent};
        struct kube_client *client;
        struct plugins_options plugins = {
                .loop = &agent->loop,
                .kubelet_socket = config->kubelet.socket,
                .health = &agent->health,
                .on_stranded = agent_serving_stranded,
                .on_serving = agent_serving_changed,
                .data = &program->serving,
        };
        const struct gpu_monitor_options monitor = {
                .library = config->driver.nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver.mounted_root},
                .discovery = node_platform_choice(config),
                .policy = agent_plans_policy(&program->plans),
                .on_inventory = agent_plans_on_inventory,
                .on_unavailable = agent_plans_on_unavailable,
                .on_health = agent_plans_on_health,
                .after_health = agent_plans_after_health,
                .on_unheard = agent_plans_on_unheard,
                .on_hang = agent_plans_on_hang,
                /* Samples are read from the metrics port alone. */
                .sample_ms = *config->metrics.address ? config->metrics.usage_seconds * UINT64_C(1000) : 0,
                .on_samples = agent_plans_on_samples,
                .data = agent,
        };
        struct agent_config_cluster cluster;

        agent->usage = monitor.sample_ms ? node_usage_new() : NULL;
        /* First what reads the GPUs, since that takes longest. */
        agent->monitor = gpu_monitor_new(&agent->loop, &monitor);
        agent->api = agent_api_new(&api);
        client = agent_api_client(agent->api);
        agent->watch = client ? node_watch_new(client, config->node.name) : NULL;
        agent->events = node_events_new(&agent->loop, client, config->node.name, config->node.events);
        ledger.events = agent->events;
        ledger.client = client;
        if (ledger_new(&agent->ledger, &ledger, err) < 0)
                return -1;
        if (agent->watch)
                program->clients = node_clients_new(agent->watch, on_clients_changed, agent);
        report_to_cluster(agent, config);
        agent->rollout = agent_rollout_new(agent);
        plugins.broker = ledger_broker(agent->ledger);
        if (plugins_new(&agent->plugins, &plugins, err) < 0)
                return -1;
        agent_page_begin(&program->page);
        /* agent_config_connect() may replace the settings. */
        cluster = (struct agent_config_cluster){
                client, config->node.name, agent->watch, agent->events, client && config->node.config_annotations};
        if (agent_config_connect(agent->configs, &cluster, err) < 0)
                return -1;
        if (agent_config_is_waiting(agent->configs)) /* kubelet waits for the API server, too */
                agent_api_refresh(agent->api);
        if (plugins_is_serving(agent->plugins))
                agent_serving_begin(&program->serving);
        return 0;
}

static void close_handle(uv_handle_t *handle, void *data UNUSED)
{
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

/* Ends before anything was started: only the loop, the signals and the configuration are to be closed. */
static int agent_give_up(struct agent *agent, const char *what, const struct error *err)
{
        log_error(what, LOG_ERR(err));
        agent_config_close(agent->configs);
        uv_walk(&agent->loop, close_handle, NULL);
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        uv_loop_close(&agent->loop);
        return EXIT_FAILED;
}

static void agent_init_objects(struct agent_program *program, struct settings *settings)
{
        struct agent *agent = &program->agent;

        agent->plans = &program->plans;
        agent->cdi = &program->cdi;
        agent_plans_init(&program->plans, agent, settings);
        agent_cdi_init(&program->cdi, agent);
        agent_page_init(&program->page, agent, &program->serving);
}

int agent_run(const struct option_set *options, const struct keeper_crashes *crashes)
{
        struct agent_program program = {
                .agent = {.stop = stop_agent}, .serving = {.agent = &program.agent, .crashes = *crashes}};
        struct agent *agent = &program.agent;
        const struct agent_config_options configs = {
                .loop = &agent->loop, .options = options, .changed = agent_plans_reload, .data = agent};
        struct settings *settings;
        struct error err;

        loop_init(&agent->loop);
        /* Signals come first: an early SIGHUP waits until the agent can handle it, instead of ending the process. */
        if (signals_listen(&program.signals, &agent->loop, on_agent_signal, agent, &err) < 0 ||
                agent_config_new(&agent->configs, &configs, &err) < 0)
                return agent_give_up(agent, "cannot start", &err);
        if (agent_config_begin(agent->configs, &settings, &err) < 0)
                return agent_give_up(agent, "configuration refused", &err);
        agent_init_objects(&program, settings);
        log_info("warpshare agent", LOG_STR("version", WARPSHARE_VERSION));
        if (crashes->total)
                log_error("the agent was ended by a signal, and is started again", LOG_STR("event", "AgentRestarted"),
                        LOG_STR("signal", strsignal(crashes->signal)), LOG_UINT("times", crashes->total),
                        LOG_INT("lived_ms", crashes->lived_ms));
        node_log_config(settings->config);
        if (start_modules(&program, &err) < 0) {
                /* Nothing is served yet. */
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED);
        }
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        unit_health_clear(&agent->health);
        agent_plans_done(&program.plans);
        agent_cdi_done(&program.cdi);
        node_usage_free(agent->usage);
        worker_close_loop(&agent->loop);
        log_info("stopped");
        return program.status;
}
