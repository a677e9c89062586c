// SPDX-License-Identifier: Apache-2.0
#include "agent/page.h"

#include <warpshare_commit.h>

#include "agent/metrics.h"
#include "agent/plans.h"
#include "agent/serve.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "net/kube/access.h"
#include "net/metrics/http.h"
#include "node/config/nodeconfig.h"
#include "node/kubelet/plugins.h"
#include "node/pages/page.h"
#include "node/status/api.h"

/* ---- what they say ---- */

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

static char *page_write_metrics(void *data)
{
        const struct agent_page *page = data;
        const struct agent *agent = page->agent;
        const struct generation *current = agent_plans_current(agent->plans);
        const struct plan *plan = agent_plans_served(agent->plans);
        const struct config *config = agent_plans_config(agent->plans);
        struct agent_metrics metrics = {.version = WARPSHARE_VERSION, .commit = WARPSHARE_COMMIT};
        struct config_status status;
        struct arena scratch = ARENA_INIT;
        struct agent_metrics_resource *resources;
        struct dra_measures dra;
        struct agent_mig_measures mig;
        struct node_usage_view usage;
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        char *text;

        metrics.config = agent_config_status(agent->configs, &status) ? &status : NULL;
        metrics.n_resources = plan ? plan->n_resources : 0;
        metrics.pending = current ? current->rollout->pending : NULL;
        metrics.n_pending = current ? current->rollout->n_pending : 0;
        metrics.driver_version = current ? current->inventory->driver_version : NULL;
        metrics.resources = resources = ARENA_ARRAY(&scratch, struct agent_metrics_resource, metrics.n_resources);
        for (size_t i = 0; i < metrics.n_resources; i++)
                measure_resource(agent, &plan->resources[i], &scratch, &resources[i]);
        ledger_measure(agent->ledger, &metrics.ledger);
        if (agent->dra)
                dra = dra_driver_measure(agent->dra);
        metrics.dra = agent->dra ? &dra : NULL;
        metrics.n_claims = ledger_claims(agent->ledger, &scratch, &metrics.claims);
        if (agent->mig)
                agent_mig_measure(agent->mig, &mig);
        metrics.mig = agent->mig ? &mig : NULL;
        node_usage_look(agent->usage, agent->ledger, plan, &scratch, &usage);
        usage.inventory = agent_plans_inventory(agent->plans);
        usage.labels = page->pod_labels;
        metrics.usage = &usage;
        metrics.dcgm_host = config->metrics.dcgm ? config->node.name : NULL;
        metrics.events = node_events_counts(agent->events);
        metrics.hangs = hangs;
        metrics.n_hangs = gpu_monitor_hangs(agent->monitor, hangs);
        metrics.hangs_total = agent_plans_hangs_total(agent->plans);
        metrics.n_left = worker_count_left();
        metrics.now_ms = clock_now_ms();
        metrics.failed_waits = gpu_monitor_failed_waits(agent->monitor);
        metrics.crashes_total = agent_serving_crashes(page->serving);
        text = agent_metrics_write(&metrics);
        arena_done(&scratch);
        return text;
}

static char *page_write_node(bool has_history, bool has_processes, void *data)
{
        const struct agent *agent = ((const struct agent_page *)data)->agent;
        const struct plan *plan = agent_plans_served(agent->plans);
        const struct config *config = agent_plans_config(agent->plans);
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct device_list **lists =
                ARENA_ARRAY(&scratch, const struct device_list *, plan ? plan->n_resources : 0);
        struct node_facts facts = {.agent = WARPSHARE_VERSION,
                .node = *config->node.name ? config->node.name : NULL,
                .inventory = agent_plans_inventory(agent->plans),
                .plan = plan,
                .lists = lists,
                .health = &agent->health,
                .is_serving = plugins_is_serving(agent->plugins),
                .now_ms = (int64_t)time(NULL) * 1000,
                .monotonic_ms = clock_now_ms(),
                .has_history = has_history,
                .has_processes = has_processes,
                .is_apart = pid_namespace_is_own(config->system_root),
                .system_root = config->system_root};
        struct node_usage_view usage;
        struct config_status status;
        struct node_page page;

        for (size_t i = 0; plan && i < plan->n_resources; i++)
                lists[i] = plugins_list(agent->plugins, plan->resources[i].name);
        node_usage_look(agent->usage, agent->ledger, plan, &scratch, &usage);
        facts.usage = &usage;
        facts.configuration = agent_config_status(agent->configs, &status) ? status.name : NULL;
        facts.n_claims = ledger_claims(agent->ledger, &scratch, &facts.claims);
        facts.n_events = node_events_recent(agent->events, &scratch, &facts.events);
        node_page_make(&page, &scratch, &facts);
        return node_page_write(&page, false);
}

static char *find_problem(void *data)
{
        const struct agent_page *page = data;
        char *problem = agent_plans_find_problem(page->agent->plans);

        if (!problem)
                problem = agent_serving_find_problem(page->serving);
        return problem ? problem : agent_plans_find_gpu_problem(page->agent);
}

/* ---- who may read them ---- */

#define WARN_MS UINT64_C(1000)

struct reader_question {
        struct agent_page *page;
        struct kube_question *asked;
        metrics_permission_fn *done;
        void *waiting;
};

/* When it begins, and at most once in WARN_MS. */
static void note_trouble(struct agent_page *page, enum page_trouble trouble, const struct error *error)
{
        static const char *const texts[] = {
                [NOT_ANSWERED] = "metrics are refused: the API server cannot authorize readers",
                [TOO_MANY] = "some readers of metrics are refused: too many others are being authorized"};
        const uint64_t now = uv_now(&page->agent->loop);

        if (trouble != NO_TROUBLE && trouble != page->trouble && now >= page->warn_at[trouble]) {
                log_warn(texts[trouble], LOG_ERR(error));
                page->warn_at[trouble] = now + WARN_MS;
        }
        page->trouble = trouble;
}

static enum page_trouble access_trouble_of(const struct error *error)
{
        if (!error || error->kind == ERROR_DENIED)
                return NO_TROUBLE;
        return error->kind == ERROR_EXHAUSTED ? TOO_MANY : NOT_ANSWERED;
}

static void on_access_answer(const struct kube_verdict *review, void *data)
{
        struct reader_question *question = data;
        const enum page_trouble trouble = access_trouble_of(review->error);

        note_trouble(question->page, trouble, review->error);
        if (trouble == TOO_MANY)
                question->done(METRICS_UNDECIDED, review->error->text, question->waiting);
        else if (review->error && trouble == NO_TROUBLE)
                question->done(METRICS_NOBODY, "invalid token", question->waiting);
        else if (review->error)
                question->done(METRICS_UNDECIDED, "the API server does not say who may read this", question->waiting);
        else if (!review->allowed[0])
                question->done(METRICS_DENIED,
                        "you may not read this: it needs the right to get this path, a nonResourceURL",
                        question->waiting);
        else
                question->done(METRICS_ALLOWED, NULL, question->waiting);
        free(question);
}

static void *ask_access(const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting, void *data)
{
        struct agent_page *page = data;
        const struct kube_wish wish = {.verb = "get", .path = asker->path};
        const char *token = kube_access_bearer(asker->authorization);
        struct reader_question *question;

        if (!token || !page->access) {
                if (token)
                        done(METRICS_UNDECIDED, "the API server, which authorizes readers, is not used", waiting);
                else
                        done(METRICS_NOBODY, "a token is needed: Authorization: Bearer ...", waiting);
                return NULL;
        }
        question = xcalloc(1, sizeof(*question));
        *question = (struct reader_question){.page = page, .done = done, .waiting = waiting};
        question->asked =
                kube_access_ask(page->access, &(struct kube_asker){.token = token, .is_suspect = asker->is_suspect},
                        &wish, 1, on_access_answer, question);
        return question;
}

static void cancel_access(void *data, void *page UNUSED)
{
        struct reader_question *question = data;

        kube_access_cancel(question->asked);
        free(question);
}

/* ---- the port ---- */

static void page_on_tls_trouble(const struct error *error, void *data UNUSED)
{
        log_warn("the new certificate for metrics cannot be used, the one before is", LOG_ERR(error));
}

static void open_port(struct agent_page *page);

static void on_page_retry(uv_timer_t *timer)
{
        open_port(timer->data);
}

/* While the port cannot be opened the agent serves GPUs without it: a certificate may come, or the port become free. */
static void open_port(struct agent_page *page)
{
        const struct config *config = agent_plans_config(page->agent->plans);
        struct kube_client *client = agent_api_client(page->agent->api);
        const struct http_server_tls tls = {
                .certificate = *config->metrics.tls_certificate ? config->metrics.tls_certificate : NULL,
                .key = *config->metrics.tls_key ? config->metrics.tls_key : NULL};
        const struct metrics_http_options options = {
                .loop = &page->agent->loop,
                .address = config->metrics.address,
                .metrics = page_write_metrics,
                .node = page_write_node,
                .unhealthy_reason = find_problem,
                .ask = config->metrics.authorization ? ask_access : NULL,
                .cancel = cancel_access,
                .tls = config->metrics.tls ? &tls : NULL,
                .on_tls_trouble = page_on_tls_trouble,
                .asks_local = config->metrics.authorization == METRICS_ASK_ALL,
                .node_is_open = config->metrics.node_page == NODE_PAGE_OPEN,
                .data = page,
        };
        struct error err;

        if (!*options.address)
                return;
        if (config->metrics.authorization && client && !page->access)
                page->access = kube_access_new(client);
        if (metrics_http_new(&page->http, &options, &err) < 0) {
                LOG_AT(retry_has_failed(&page->retry) ? LOG_DEBUG : LOG_ERROR,
                        "metrics cannot be served, will try again", LOG_ERR(&err));
                retry_later(&page->retry, on_page_retry);
                return;
        }
        log_info("metrics", LOG_STR("address", options.address), LOG_UINT("port", metrics_http_port(page->http)));
}

/* ---- begin and end ---- */

static void watch_pod_labels(struct agent_page *page, const struct config *config)
{
        struct kube_client *client = agent_api_client(page->agent->api);

        if (!*config->metrics.address || !config->metrics.pod_labels[0])
                return;
        if (client && *config->node.name)
                page->pod_labels = node_pod_labels_new(
                        client, config->node.name, config->metrics.pod_labels, config->metrics.pod_label_names);
        else
                log_warn(
                        "metrics have no labels of pods: there is no API server, or no name of the node (--node-name)");
}

void agent_page_init(struct agent_page *page, struct agent *agent, const struct agent_serving *serving)
{
        *page = (struct agent_page){.agent = agent, .serving = serving};
        retry_init(&page->retry, &agent->loop, page);
}

void agent_page_begin(struct agent_page *page)
{
        watch_pod_labels(page, agent_plans_config(page->agent->plans));
        open_port(page);
}

void agent_page_close(struct agent_page *page)
{
        retry_close(&page->retry);
        page->http = metrics_http_close(page->http);
        if (page->access)
                kube_access_close(TAKE_PTR(page->access));
        page->pod_labels = node_pod_labels_close(page->pod_labels);
}
