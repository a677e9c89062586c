#include "agent/dra.h"

#include "agent/cdi.h"
#include "agent/plans.h"
#include "gpu/monitor.h"
#include "node/dra/driver.h"
#include "node/kubelet/plugins.h"
#include "node/ledger/claims.h"
#include "node/status/api.h"
#include "node/status/report.h"

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

static void on_devices_made(void *data)
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

void agent_dra_begin(struct agent *agent, const struct config *config, struct complaint *complaint)
{
        const struct dra_driver_options options = {
                .loop = &agent->loop,
                .client = agent_api_client(agent->api),
                .ledger = agent->ledger,
                .health = &agent->health,
                .cdi_files = agent_cdi_files(agent->cdi),
                .config = config,
                .repair_cdi = on_specifications_wanted,
                .on_released = dra_on_released,
                .rescan = on_devices_made,
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
