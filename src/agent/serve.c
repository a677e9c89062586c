// SPDX-License-Identifier: Apache-2.0
#include "agent/serve.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cdi.h"
#include "agent/mig.h"
#include "agent/plans.h"
#include "agent/rollout.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/monitor.h"
#include "node/config/nodeconfig.h"
#include "node/dra/driver.h"
#include "node/kubelet/plugins.h"
#include "node/ledger/claims.h"
#include "node/status/api.h"
#include "node/status/log.h"
#include "node/status/node_labels.h"
#include "node/status/report.h"

/* ---- DRA ---- */

static bool has_claims(const struct ledger *ledger, const struct gpu *gpu)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(ledger, &arena, &states);

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < states[i].claim->n_devices; j++)
                        if (gpu_has_unit(gpu, states[i].claim->devices[j].unit))
                                return true;
        return false;
}

void agent_dra_mark(const struct agent *agent, struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                inventory->gpus[i].is_claimed = has_claims(agent->ledger, &inventory->gpus[i]) ||
                                                dra_driver_has_made(agent->dra, inventory->gpus[i].uuid);
}

/*
 * A claim has ended. If it was the last one of a GPU that the configuration gives to the device plugin, a new inventory
 * makes a plan with that GPU.
 */
static void dra_on_released(void *data)
{
        const struct agent *agent = data;
        const struct generation *current = agent_plans_current(agent->plans);
        const struct plan *plan = current ? current->plan : NULL;

        for (size_t i = 0; plan && i < plan->inventory->n_gpus; i++) {
                const struct gpu *gpu = &plan->inventory->gpus[i];

                if (gpu->is_claimed && !plan_is_for_dra(plan->config, plan->inventory, gpu) &&
                        !has_claims(agent->ledger, gpu)) {
                        gpu_monitor_rescan(agent->monitor);
                        return;
                }
        }
}

/* MIG devices were made or changed. */
static void on_rescan(void *data)
{
        const struct agent *agent = data;

        gpu_monitor_rescan(agent->monitor);
}

static void on_offer(const struct dra_layout *layout, void *data)
{
        const struct agent *agent = data;

        node_report_problem(agent->report, NODE_OFFER_REDUCED, layout->one_form);
}

static void on_specifications_wanted(void *data)
{
        const struct agent *agent = data;

        agent_cdi_repair(agent->cdi);
}

void agent_dra_begin(struct agent *agent, struct complaint *complaint)
{
        const struct config *config = agent_plans_config(agent->plans);
        const struct dra_driver_options options = {
                .loop = &agent->loop,
                .client = agent_api_client(agent->api),
                .ledger = agent->ledger,
                .health = &agent->health,
                .cdi_files = agent_cdi_files(agent->cdi),
                .config = config,
                .repair_cdi = on_specifications_wanted,
                .on_released = dra_on_released,
                .rescan = on_rescan,
                .on_offer = on_offer,
                .data = agent,
        };
        struct error err;

        if (agent->dra || !plugins_is_serving(agent->plugins) || !dra_driver_is_needed(config))
                return;
        if (!options.client)
                error_raise(
                        &err, ERROR_UNAVAILABLE, "dra.enabled: needs the API server and the node's name (NODE_NAME)");
        else if (dra_driver_new(&agent->dra, &options, &err) == 0)
                complaint_settle(complaint);
        if (!agent->dra)
                complain(complaint, "the DRA driver is not running, will try again with the next plan", &err);
}

/* ---- MIG ---- */

/* Before the first plan is served: what an unfinished change has withdrawn is not in it. */
static void begin_mig(struct agent_serving *serving)
{
        struct agent *agent = serving->agent;
        struct error err;

        if (!agent_plans_config(agent->plans)->mig.manager)
                return;
        if (agent_api_client(agent->api)) {
                agent->mig = agent_mig_new(agent);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE, "mig.manager: needs the API server and the node's name (NODE_NAME)");
        complain(&serving->no_mig, "the MIG geometry stays as it is", &err);
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
        agent->labels = node_labels_new(&agent->loop, agent_api_client(agent->api), agent->watch, config);
        agent_plans_label(agent);
}

/* Another agent serves from now on. This one still keeps its plan up to date, because it may have to serve again. */
static void serve_give_way(struct agent *agent)
{
        node_events_serve(agent->events, false);
        agent_rollout_serve(agent->rollout, false);
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_close(TAKE_PTR(agent->dra));
        ledger_leave(agent->ledger);
        agent_config_serve(agent->configs, false);
        node_report_serve(agent->report, false);
        agent->labels = node_labels_close(agent->labels);
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
