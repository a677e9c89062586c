/*
 * warpshare agent: it reads GPUs by NVML and offers them to kubelet. Its files only connect the modules (parts.h). Here
 * it begins and ends: SIGHUP and a changed file load the configuration again; SIGTERM and others stop the agent.
 */
#include "agent/agent.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <warpshare_commit.h>

#include "node/status/read.h"
#include "agent/parts.h"
#include "node/status/log.h"
#include "base/exit_status.h"
#include "base/io/loop.h"

/* ---- stop ---- */

static void on_closed(void *data UNUSED)
{
}

void agent_stop(struct agent *agent, int status)
{
        if (agent->stopping)
                return;
        agent->stopping = true;
        agent->status = status;
        signals_close(&agent->signals);
        uv_close((uv_handle_t *)&agent->retry, NULL);
        uv_close((uv_handle_t *)&agent->cdi_retry, NULL);
        uv_close((uv_handle_t *)&agent->cdi_repair, NULL);
        agent_leave_cdi(agent);
        uv_close((uv_handle_t *)&agent->tidy, NULL);
        uv_close((uv_handle_t *)&agent->metrics_retry, NULL);
        agent->configs = agent_config_close(agent->configs);
        agent->metrics = metrics_http_close(agent->metrics);
        agent->access = agent_access_close(agent->access);
        agent_rollout_close(TAKE_PTR(agent->rollout));
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_hand_over(TAKE_PTR(agent->dra));
        plugins_close(agent->plugins, on_closed, agent);
        ledger_close(agent->ledger, on_closed, agent);
        gpu_monitor_close(agent->monitor, on_closed, agent);
        node_report_close(agent->report);
        node_events_close(agent->events, NULL, NULL);
        agent->labels = agent_labels_close(agent->labels);
        agent->clients = node_clients_close(agent->clients);
        agent->node = node_watch_close(agent->node);
        agent->pod_labels = node_pod_labels_close(agent->pod_labels);
        agent->api = agent_api_close(agent->api); /* after everything that has a watch of its client */
}

/* ---- reload ---- */

/* Warns about options that only the start of the monitor or of the DRA driver reads. */
static void warn_of_late_options(const struct config *before, const struct config *config)
{
        if (strcmp(before->driver_root_ctr, config->driver_root_ctr) != 0)
                log_warn("a new container driver root takes effect at the next start",
                        LOG_STR("in_force", before->driver_root_ctr), LOG_STR("configured", config->driver_root_ctr));
        if (strcmp(before->dra.driver_name, config->dra.driver_name) != 0)
                log_warn("a new name of the DRA driver takes effect at the next start",
                        LOG_STR("in_force", before->dra.driver_name), LOG_STR("configured", config->dra.driver_name));
        if (before->discovery != config->discovery)
                log_warn("a new device discovery strategy takes effect at the next start");
}

static void agent_reload(struct agent *agent)
{
        struct settings *settings;
        struct error err;

        if (agent_config_load(agent->configs, &settings, &err) < 0) {
                complain(&agent->bad_config, "configuration refused, the one in force stays", &err);
                node_report_config(agent->report, err.text);
                return;
        }
        complaint_settle(&agent->bad_config);
        node_report_config(agent->report, NULL);
        warn_of_late_options(agent->settings->config, settings->config);
        settings_unref(agent->settings);
        agent->settings = settings;
        agent->retry_ms = 0;
        node_log_config(settings->config);
        gpu_monitor_set_policy(agent->monitor, &settings->policy);
        gpu_monitor_rescan(agent->monitor); /* its inventory makes the next generation */
}

static void on_config_changed(void *data)
{
        agent_reload(data);
}

static void on_agent_signal(uv_signal_t *handle, int number)
{
        struct agent *agent = handle->data;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number != SIGHUP) {
                agent_stop(agent, 0);
                return;
        }
        complaint_settle(&agent->bad_config); /* so that the log answers each SIGHUP, even with the same error */
        complaint_settle(&agent->bad_plan);
        agent_api_refresh(agent->api);
        agent_config_refresh(agent->configs);
        agent_reload(agent);
        gpu_monitor_rescan(agent->monitor); /* even if the configuration is refused */
}

/* ---- start ---- */

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

/* The client has its credentials. All other modules have requests in the client's queue, which are sent now. */
static void on_agent_connected(void *data)
{
        struct agent *agent = data;

        agent_labels_connected(agent->labels, agent_api_client(agent->api));
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
                .watch = agent->node,
                .events = agent->events,
                .config = config,
                .report_pods = on_report_pods,
                .data = agent,
        };

        agent->report = node_report_new(&options);
}

/*
 * The driver is about to be unloaded, or this is over. Here, since the supervisor of MPS does not know the API server,
 * and holds no policy; what it is told it carries out alone, should this agent be the first that leaves the node.
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

static void follow_clients(struct agent *agent)
{
        const struct node_clients_options options = {
                .watch = agent->node, .changed = on_clients_changed, .data = agent};

        if (agent->node)
                agent->clients = node_clients_new(&options);
}

static void watch_pod_labels(struct agent *agent, const struct config *config)
{
        struct kube_client *client = agent_api_client(agent->api);

        if (!*config->metrics_address || !config->metrics_pod_labels[0])
                return;
        if (client && *config->node_name)
                agent->pod_labels = node_pod_labels_new(
                        client, config->node_name, config->metrics_pod_labels, config->metrics_pod_label_names);
        else
                log_warn(
                        "metrics have no labels of pods: there is no API server, or no name of the node (--node-name)");
}

static int agent_start(struct agent *agent, struct error *err)
{
        const struct config *config = agent->settings->config;
        struct ledger_options ledger = {.loop = &agent->loop,
                .config = config,
                .on_change = agent_on_holdings_changed,
                .on_held = agent_on_held,
                .repeat = agent_on_repeat,
                .wants_pods = agent_on_wants_pods,
                .health = &agent->health,
                .data = agent};
        struct agent_rollout_options rollout = {.loop = &agent->loop,
                .mps_directory = config->mps_directory,
                .on_reported = agent_on_change_reported,
                .data = agent};
        const struct agent_api_options api = {
                .loop = &agent->loop, .config = config, .connected = on_agent_connected, .data = agent};
        struct kube_client *client;
        struct plugins_options plugins = {
                .loop = &agent->loop,
                .kubelet_socket = config->kubelet_socket,
                .health = &agent->health,
                .on_stranded = agent_on_stranded,
                .on_serving = agent_on_serving,
                .data = agent,
        };
        const struct gpu_monitor_options monitor = {
                .library = config->nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver_root_ctr},
                .discovery = node_platform_choice(config),
                .policy = &agent->settings->policy,
                .on_inventory = agent_on_inventory,
                .on_unavailable = agent_on_unavailable,
                .on_health = agent_on_health,
                .after_health = agent_after_health,
                .on_unheard = agent_on_unheard,
                .on_hang = agent_on_hang,
                /* Nobody reads them elsewhere. */
                .sample_ms = *config->metrics_address ? config->usage_seconds * UINT64_C(1000) : 0,
                .on_samples = agent_on_samples,
                .data = agent,
        };
        struct agent_config_cluster cluster;

        agent->usage = monitor.sample_ms ? node_usage_new() : NULL;
        /* First what reads the GPUs, since that takes longest. */
        agent->monitor = gpu_monitor_new(&agent->loop, &monitor);
        agent->api = agent_api_new(&api);
        client = agent_api_client(agent->api);
        agent->node = client ? node_watch_new(client, config->node_name) : NULL;
        agent->events = node_events_new(&agent->loop, client, config->node_name, config->events);
        ledger.events = agent->events;
        ledger.client = client;
        if (ledger_new(&agent->ledger, &ledger, err) < 0)
                return -1;
        follow_clients(agent);
        report_to_cluster(agent, config);
        rollout.ledger = agent->ledger;
        agent->rollout = agent_rollout_new(&rollout);
        plugins.broker = ledger_broker(agent->ledger);
        if (plugins_new(&agent->plugins, &plugins, err) < 0)
                return -1;
        watch_pod_labels(agent, config);
        agent_serve_metrics(agent);
        /* This may replace the settings. */
        cluster = (struct agent_config_cluster){
                client, config->node_name, agent->node, agent->events, client && config->config_annotations};
        if (agent_config_connect(agent->configs, &cluster, err) < 0)
                return -1;
        if (agent_config_is_waiting(agent->configs)) /* kubelet waits for the API server, too */
                agent_api_refresh(agent->api);
        if (plugins_is_serving(agent->plugins))
                agent_take_over(agent);
        return 0;
}

static void close_handle(uv_handle_t *handle, void *data UNUSED)
{
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

/* Ends before anything was started: only the loop, the signals and the configuration are to be closed. */
static int give_up(struct agent *agent, const char *what, const struct error *err)
{
        log_error(what, LOG_ERR(err));
        agent_config_close(agent->configs);
        uv_walk(&agent->loop, close_handle, NULL);
        uv_run(&agent->loop, UV_RUN_DEFAULT);
        uv_loop_close(&agent->loop);
        cdi_files_free(agent->cdi_files);
        return EXIT_FAILED;
}

static void init_timer(struct agent *agent, uv_timer_t *timer)
{
        uv_timer_init(&agent->loop, timer);
        timer->data = agent;
}

int agent_run(const struct option_set *options, const struct keeper_crashes *crashes)
{
        struct agent agent = {.options = options, .crashes = *crashes, .cdi_files = cdi_files_new()};
        const struct agent_config_options configs = {
                .loop = &agent.loop, .options = options, .changed = on_config_changed, .data = &agent};
        struct error err;

        loop_init(&agent.loop);
        init_timer(&agent, &agent.retry);
        init_timer(&agent, &agent.cdi_retry);
        init_timer(&agent, &agent.cdi_repair);
        init_timer(&agent, &agent.tidy);
        init_timer(&agent, &agent.metrics_retry);
        /* Signals come first: an early SIGHUP waits until the agent can handle it, instead of ending the process. */
        if (signals_listen(&agent.signals, &agent.loop, on_agent_signal, &agent, &err) < 0 ||
                agent_config_new(&agent.configs, &configs, &err) < 0)
                return give_up(&agent, "cannot start", &err);
        if (agent_config_begin(agent.configs, &agent.settings, &err) < 0)
                return give_up(&agent, "configuration refused", &err);
        log_info("warpshare agent", LOG_STR("version", WARPSHARE_VERSION));
        if (crashes->total)
                log_error("the agent was ended by a signal, and is started again", LOG_STR("event", "AgentRestarted"),
                        LOG_STR("signal", strsignal(crashes->signal)), LOG_UINT("times", crashes->total),
                        LOG_INT("lived_ms", crashes->lived_ms));
        node_log_config(agent.settings->config);
        if (agent_start(&agent, &err) < 0) {
                /* Nothing is served yet. */
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED);
        }
        uv_run(&agent.loop, UV_RUN_DEFAULT);
        unit_health_clear(&agent.health);
        generation_free(agent.previous);
        generation_free(agent.current);
        inventory_free(agent.refused);
        node_usage_free(agent.usage);
        cdi_files_free(agent.cdi_files);
        settings_unref(agent.settings);
        uv_loop_close(&agent.loop);
        log_info("stopped");
        return agent.status;
}
