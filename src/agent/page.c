/* What /metrics, /node and /healthz say. */
#include <inttypes.h>

#include <warpshare_commit.h>

#include "agent/hangs.h"
#include "agent/metrics.h"
#include "agent/node_page.h"
#include "agent/parts.h"
#include "base/log.h"

void agent_on_samples(struct gpu_samples *samples, void *data)
{
        struct agent *agent = data;
        const struct generation *current = agent->current;

        if (agent_usage_add(agent->usage, samples, agent->ledger, current ? current->rollout->plan : NULL,
                    !agent->stopping && plugins_is_serving(agent->plugins)))
                agent_on_wants_pods(agent);
}

static void measure_resource(const struct agent *agent, const struct resource *resource, struct arena *scratch,
        struct agent_metrics_resource *ret)
{
        const struct device_list *list = plugins_list(agent->plugins, resource->name);

        ret->resource = resource;
        ret->n_allocations = ledger_allocations(agent->ledger, resource->name, scratch, &ret->allocations);
        ret->healthy = ARENA_ARRAY(scratch, bool, resource->n_units);
        if (!list || list->resource != resource)
                return; /* the list follows at the end of this turn of the loop, or another agent serves */
        ret->devices = device_list_count(list);
        ret->healthy = list->healthy;
}

static char *write_metrics(void *data)
{
        struct agent *agent = data;
        const struct generation *current = agent->current;
        struct agent_metrics metrics = {.version = WARPSHARE_VERSION, .commit = WARPSHARE_COMMIT};
        struct config_status config;
        struct arena scratch = ARENA_INIT;
        struct agent_metrics_resource *resources;
        struct dra_measures dra;
        struct agent_mig_measures mig;
        struct agent_usage_view usage;
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        char *text;

        metrics.config = agent_config_status(agent->configs, &config) ? &config : NULL;
        metrics.n_resources = current ? current->rollout->plan->n_resources : 0;
        metrics.pending = current ? current->rollout->pending : NULL;
        metrics.n_pending = current ? current->rollout->n_pending : 0;
        metrics.driver_version = current ? current->inventory->driver_version : NULL;
        metrics.resources = resources = ARENA_ARRAY(&scratch, struct agent_metrics_resource, metrics.n_resources);
        for (size_t i = 0; i < metrics.n_resources; i++)
                measure_resource(agent, &current->rollout->plan->resources[i], &scratch, &resources[i]);
        ledger_measure(agent->ledger, &metrics.ledger);
        if (agent->dra)
                dra = dra_driver_measure(agent->dra);
        metrics.dra = agent->dra ? &dra : NULL;
        metrics.n_claims = ledger_claims(agent->ledger, &scratch, &metrics.claims);
        if (agent->mig)
                agent_mig_measure(agent->mig, &mig);
        metrics.mig = agent->mig ? &mig : NULL;
        agent_usage_look(agent->usage, agent->ledger, current ? current->rollout->plan : NULL, &scratch, &usage);
        usage.inventory = agent_newest_inventory(agent);
        usage.labels = agent->pod_labels;
        metrics.usage = &usage;
        metrics.dcgm_host = agent->settings->config->metrics_dcgm ? agent->settings->config->node_name : NULL;
        metrics.events = node_events_counts(agent->events);
        metrics.hangs = hangs;
        metrics.n_hangs = gpu_monitor_hangs(agent->monitor, hangs);
        metrics.hangs_total = agent->hangs_total;
        metrics.n_left = worker_count_left();
        metrics.now_ms = gpu_call_now_ms();
        metrics.failed_waits = gpu_monitor_failed_waits(agent->monitor);
        metrics.crashes_total = agent->crashes.total;
        text = agent_metrics_write(&metrics);
        arena_done(&scratch);
        return text;
}

static char *write_node(bool has_history, bool has_processes, void *data)
{
        const struct agent *agent = data;
        const struct plan *plan = agent->current ? agent->current->rollout->plan : NULL;
        const struct config *config = agent->settings->config;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct device_list **lists =
                ARENA_ARRAY(&scratch, const struct device_list *, plan ? plan->n_resources : 0);
        struct agent_node_facts facts = {.agent = WARPSHARE_VERSION,
                .node = *config->node_name ? config->node_name : NULL,
                .inventory = agent_newest_inventory(agent),
                .plan = plan,
                .lists = lists,
                .health = &agent->health,
                .now_ms = (int64_t)time(NULL) * 1000,
                .monotonic_ms = gpu_call_now_ms(),
                .has_history = has_history,
                .has_processes = has_processes,
                .system_root = config->system_root};
        struct agent_usage_view usage;
        struct config_status status;
        struct node_page page;

        for (size_t i = 0; plan && i < plan->n_resources; i++)
                lists[i] = plugins_list(agent->plugins, plan->resources[i].name);
        agent_usage_look(agent->usage, agent->ledger, plan, &scratch, &usage);
        facts.usage = &usage;
        facts.configuration = agent_config_status(agent->configs, &status) ? status.name : NULL;
        facts.n_claims = ledger_claims(agent->ledger, &scratch, &facts.claims);
        facts.n_events = node_events_recent(agent->events, &scratch, &facts.events);
        agent_node_page_make(&page, &scratch, &facts);
        return node_page_write(&page, false);
}

static char *find_ailment(void *data)
{
        const struct agent *agent = data;
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        size_t n_hangs = gpu_monitor_hangs(agent->monitor, hangs);

        if (agent->bad_plan.text[0])
                return xasprintf("the newest plan is refused: %s", agent->bad_plan.text);
        if (agent->bad_mig.text[0])
                return xasprintf("the MIG geometry stays as it is: %s", agent->bad_mig.text);
        if (agent->bad_dra.text[0])
                return xasprintf("nothing is offered by DRA: %s", agent->bad_dra.text);
        if (agent->bad_config.text[0])
                return xasprintf("the newest configuration is refused: %s", agent->bad_config.text);
        if (n_hangs > 0)
                return agent_hangs_ailment(hangs, n_hangs, gpu_call_now_ms());
        if (agent->bad_events.text[0])
                return xstrdup(agent->bad_events.text);
        /* In a rolling update the old agent is ended when this one is ready. */
        return agent->has_heard ? NULL : xstrdup("the GPUs are not known yet: NVML has not answered");
}

static void *ask_access(const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting, void *data)
{
        struct agent *agent = data;

        return agent_access_ask(agent->access, asker, done, waiting);
}

static void cancel_access(void *question, void *data UNUSED)
{
        agent_access_cancel(question);
}

static void on_tls_trouble(const struct error *error, void *data UNUSED)
{
        log_warn("the new certificate for metrics cannot be used, the one before is", LOG_ERR(error));
}

static void on_metrics_retry(uv_timer_t *timer)
{
        agent_serve_metrics(timer->data);
}

/* Meanwhile the agent serves GPUs without them: its certificate may come later, or the port become free. */
static void serve_metrics_later(struct agent *agent, const struct error *err)
{
        LOG_AT(agent->metrics_retry_ms ? LOG_DEBUG : LOG_ERROR, "metrics cannot be served, will try again",
                LOG_ERR(err));
        agent->metrics_retry_ms = agent_next_pause(agent->metrics_retry_ms);
        uv_timer_start(&agent->metrics_retry, on_metrics_retry, agent->metrics_retry_ms, 0);
}

void agent_serve_metrics(struct agent *agent)
{
        const struct config *config = agent->settings->config;
        const struct http_server_tls tls = {
                .certificate = *config->metrics_tls_certificate ? config->metrics_tls_certificate : NULL,
                .key = *config->metrics_tls_key ? config->metrics_tls_key : NULL};
        const struct metrics_http_options options = {
                .loop = &agent->loop,
                .address = config->metrics_address,
                .metrics = write_metrics,
                .node = write_node,
                .unhealthy_reason = find_ailment,
                .ask = config->metrics_authorization ? ask_access : NULL,
                .cancel = cancel_access,
                .tls = config->metrics_tls ? &tls : NULL,
                .on_tls_trouble = on_tls_trouble,
                .asks_local = config->metrics_authorization == METRICS_ASK_ALL,
                .node_is_open = config->metrics_node_page == NODE_PAGE_OPEN,
                .data = agent,
        };
        struct error err;

        if (!*options.address)
                return;
        if (config->metrics_authorization && !agent->access)
                agent->access = agent_access_new(agent_api_client(agent->api));
        if (metrics_http_new(&agent->metrics, &options, &err) < 0)
                serve_metrics_later(agent, &err);
        else
                log_info("metrics", LOG_STR("address", options.address),
                        LOG_UINT("port", metrics_http_port(agent->metrics)));
}
