#include "agent/serve.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cdi.h"
#include "agent/dra.h"
#include "agent/labels.h"
#include "agent/mig.h"
#include "agent/plans.h"
#include "agent/rollout.h"
#include "base/error.h"
#include "base/log.h"
#include "node/config/nodeconfig.h"
#include "node/dra/driver.h"
#include "node/status/api.h"
#include "node/status/hangs.h"
#include "node/status/report.h"

/* ---- MIG ---- */

static void on_mig_wants_pods(void *data)
{
        const struct agent *agent = data;

        dra_driver_read_pods(agent->dra);
}

static void keep_nvml_closed(bool is_closed, void *data)
{
        const struct agent *agent = data;

        if (is_closed)
                gpu_monitor_pause(agent->monitor);
        else
                gpu_monitor_resume(agent->monitor);
}

static bool is_nvml_closed(void *data)
{
        const struct agent *agent = data;

        return gpu_monitor_is_paused(agent->monitor) && dra_driver_has_closed_nvml(agent->dra);
}

static void on_mig_rescan(void *data)
{
        const struct agent *agent = data;

        gpu_monitor_rescan(agent->monitor);
}

/* Before the first plan is served: what an unfinished change has withdrawn is not in it. */
static void begin_mig(struct agent_serving *serving)
{
        struct agent *agent = serving->agent;
        const struct agent_mig_options options = {
                .loop = &agent->loop,
                .config = agent_plans_config(agent->plans),
                .client = agent_api_client(agent->api),
                .watch = agent->watch,
                .events = agent->events,
                .ledger = agent->ledger,
                .on_withdrawn = agent_plans_make_again,
                .wants_pods = on_mig_wants_pods,
                .keep_closed = keep_nvml_closed,
                .is_closed = is_nvml_closed,
                .rescan = on_mig_rescan,
                .data = agent,
        };
        struct error err;

        if (!options.config->mig.manager)
                return;
        if (!options.client) {
                error_raise(
                        &err, ERROR_UNAVAILABLE, "mig.manager: needs the API server and the node's name (NODE_NAME)");
                complain(&serving->no_mig, "the MIG geometry stays as it is", &err);
                return;
        }
        agent->mig = agent_mig_new(&options);
        agent_mig_begin(agent->mig);
}

/* ---- begin and end ---- */

/* Once for the node: an event that says that the agent crashed and was started again. */
static void report_crash(struct agent_serving *serving)
{
        const struct keeper_crashes *crashes = &serving->crashes;

        if (crashes->total && !serving->has_reported_crash)
                node_events_report(serving->agent->events, NODE_EVENT_AGENT_RESTARTED,
                        "the agent was ended by signal %d (%s) and started again; %u times since its container started",
                        crashes->signal, strsignal(crashes->signal), crashes->total);
        serving->has_reported_crash = true;
}

void agent_serving_begin(struct agent_serving *serving)
{
        struct agent *agent = serving->agent;
        const struct config *config = agent_plans_config(agent->plans);

        agent_cdi_serve(agent->cdi, true);
        agent_plans_publish(agent);
        node_events_serve(agent->events, true);
        report_crash(serving);
        node_hangs_report_all(agent->monitor, agent->events);
        agent_rollout_serve(agent->rollout, true);
        agent_plans_begin_dra(agent);
        begin_mig(serving);
        agent_plans_serve(agent);
        agent_config_serve(agent->configs, true);
        node_report_serve(agent->report, true);
        agent->labels = agent_labels_new(&agent->loop, agent_api_client(agent->api), agent->watch, config);
        agent_plans_label(agent);
}

/* Another agent serves from now on. This one still keeps its plan up to date, because it may have to serve again. */
static void serve_give_way(struct agent *agent)
{
        node_events_serve(agent->events, false);
        agent_rollout_serve(agent->rollout, false);
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_close(TAKE_PTR(agent->dra), NULL, NULL);
        ledger_leave(agent->ledger);
        agent_config_serve(agent->configs, false);
        node_report_serve(agent->report, false);
        agent->labels = agent_labels_close(agent->labels);
        agent_cdi_serve(agent->cdi, false);
}

void agent_serving_changed(bool is_serving, void *data)
{
        struct agent_serving *serving = data;

        if (serving->agent->is_stopping)
                return;
        if (is_serving)
                agent_serving_begin(serving);
        else
                serve_give_way(serving->agent);
}

void agent_serving_stranded(void *data)
{
        const struct agent_serving *serving = data;

        log_error("kubelet's directory was removed on the host and cannot be seen from this container any more; "
                  "exiting, so that a new container sees the new one");
        serving->agent->stop(serving->agent, EXIT_FAILED);
}

uint64_t agent_serving_crashes(const struct agent_serving *serving)
{
        return serving->crashes.total;
}

char *agent_serving_find_problem(const struct agent_serving *serving)
{
        if (!serving->no_mig.text[0])
                return NULL;
        return xasprintf("the MIG geometry stays as it is: %s", serving->no_mig.text);
}
