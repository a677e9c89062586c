/*
 * The monitor's inventory and the configuration make a generation, whose plan goes to the ledger, the plugins and the
 * DRA driver; changes of health go there, too. If a generation cannot be built, the one in force stays.
 */
#include <malloc.h>
#include <string.h>

#include "node/status/hangs.h"
#include "agent/parts.h"
#include "node/status/log.h"
#include "base/log.h"
#include "base/exit_status.h"
#include "node/ledger/claims.h"

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

/*
 * Marks the GPUs that claims hold: the plan leaves these to DRA, even if the configuration gives them to the device
 * plugin now.
 */
static void mark_claimed(const struct agent *agent, struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                inventory->gpus[i].is_claimed = has_claims(agent->ledger, &inventory->gpus[i]) ||
                                                dra_driver_has_made(agent->dra, inventory->gpus[i].uuid);
}

/*
 * A claim holds nothing any more. If it was the last one of a GPU that the configuration gives to the device plugin, a
 * new inventory makes a plan with that GPU.
 */
static void on_released(void *data)
{
        const struct agent *agent = data;
        const struct plan *plan = agent->current ? agent->current->plan : NULL;

        for (size_t i = 0; plan && i < plan->inventory->n_gpus; i++) {
                const struct gpu *gpu = &plan->inventory->gpus[i];

                if (gpu->is_claimed && !plan_is_for_dra(plan->config, plan->inventory, gpu) &&
                        !has_claims(agent->ledger, gpu)) {
                        gpu_monitor_rescan(agent->monitor);
                        return;
                }
        }
}

/* The MIG devices have changed: by a claim, or by the manager. */
static void on_mig_changed(void *data)
{
        const struct agent *agent = data;

        gpu_monitor_rescan(agent->monitor);
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

static void on_offer(const struct dra_layout *layout, void *data)
{
        struct agent *agent = data;

        node_report_reduced(agent->report, layout->one_form);
}

/* Before the ledger has the plan: what is prepared already is held. */
void agent_begin_dra(struct agent *agent)
{
        const struct dra_driver_options options = {
                .loop = &agent->loop,
                .client = agent_api_client(agent->api),
                .ledger = agent->ledger,
                .health = &agent->health,
                .cdi_files = agent->cdi_files,
                .config = agent->settings->config,
                .repair_cdi = agent_repair_cdi,
                .on_released = on_released,
                .rescan = on_mig_changed,
                .on_offer = on_offer,
                .data = agent,
        };
        struct error err;

        if (agent->dra || !plugins_is_serving(agent->plugins) || !dra_driver_is_needed(options.config))
                return;
        if (!options.client)
                error_raise(
                        &err, ERROR_UNAVAILABLE, "dra.enabled: needs the API server and the node's name (NODE_NAME)");
        else if (dra_driver_new(&agent->dra, &options, &err) == 0)
                complaint_settle(&agent->bad_dra);
        if (!agent->dra)
                complain(&agent->bad_dra, "nothing is offered by DRA, will try again with the next plan", &err);
}

static void follow_dra(struct agent *agent, const struct plan *plan)
{
        if (!agent->dra)
                return;
        dra_driver_put(agent->dra, plan);
        dra_driver_health_changed(agent->dra); /* no other call reports units that have become healthy */
}

/* ---- generations ---- */

/*
 * Whether the agent ends if it has no plan, as failOnInitError says. Not after it has restarted itself: there were GPUs
 * a moment ago, and pods hold them, so it waits.
 */
static bool must_leave(const struct agent *agent)
{
        return !agent->current && agent->settings->config->fail_on_init_error &&
               agent_config_is_settled(agent->configs);
}

void agent_on_retry(uv_timer_t *timer)
{
        struct agent *agent = timer->data;

        gpu_monitor_rescan(agent->monitor); /* it answers with an inventory and with health */
}

/*
 * Only the agent that serves has MPS daemons and allocations. It still has them while kubelet's directory is missing.
 */
static void apply_holdings(struct agent *agent, const struct plan *plan)
{
        if (plugins_is_serving(agent->plugins))
                ledger_apply(agent->ledger, plan);
}

static void agent_follow(struct agent *agent, const struct rollout *next)
{
        if (plugins_is_serving(agent->plugins))
                agent_rollout_follow(agent->rollout, next);
}

/* The ledger gets the plan first, because the plugins ask it. */
static void agent_apply(struct agent *agent, const struct plan *plan)
{
        apply_holdings(agent, plan);
        plugins_apply(agent->plugins, plan);
}

static void set_health(struct agent *agent, const char *uuid, bool healthy, const char *reason)
{
        unit_health_set(&agent->health, uuid, healthy, reason);
        plugins_refresh(agent->plugins);
        ledger_health_changed(agent->ledger, uuid);
        node_report_health_changed(agent->report);
        dra_driver_health_changed(agent->dra);
}

/*
 * Keeps the plan in force, although some of its GPUs may be gone: these become unhealthy. The health of the others
 * comes with the inventory.
 */
static void keep_current(struct agent *agent, const struct inventory *inventory)
{
        const struct plan *plan = agent->current->rollout->plan;

        agent_apply(agent, plan);
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                for (size_t j = 0; j < resource->n_units; j++)
                        if (!inventory_has(inventory, resource->units[j].uuid))
                                set_health(agent, resource->units[j].uuid, false, "it is no longer present");
        }
}

static void agent_refuse(struct agent *agent, struct inventory *inventory, const struct error *err)
{
        inventory_free(agent->refused);
        agent->refused = inventory;
        if (must_leave(agent)) {
                log_error("no plan can be made", LOG_ERR(err));
                agent_stop(agent, EXIT_FAILED);
                return;
        }
        node_report_refused(agent->report, err->text);
        complain(&agent->bad_plan,
                agent->current ? "change refused, the plan in force stays" : "no plan can be made, will try again",
                err);
        agent_config_refuse(agent->configs, err);
        agent_labels_apply(agent->labels, agent->settings->config, inventory, NULL);
        if (agent->current)
                keep_current(agent, inventory);
        agent->retry_ms = agent_next_pause(agent->retry_ms);
        uv_timer_start(&agent->retry, agent_on_retry, agent->retry_ms, 0);
}

/* What the change took for a moment goes back to the kernel; free() keeps pages that lie between others. */
static void on_tidy(uv_timer_t *timer UNUSED)
{
        malloc_trim(0);
}

/* GPUs that are not decided yet are not said to be gone: that would be so for a moment at each start. */
static void tell_plan(struct agent *agent, const struct generation *next)
{
        bool is_undecided = agent_mig_is_undecided(agent->mig);

        node_report_plan(agent->report, is_undecided && next->plan->n_resources == 0 ? NULL : next->plan);
        if (!is_undecided)
                agent_labels_apply(agent->labels, next->settings->config, next->inventory, next->plan);
}

static void put_in_force(struct agent *agent, struct generation *next)
{
        node_log_plan(next->plan);
        generation_serve(next, agent_rollout_judge(agent->rollout, next->plan));
        agent_begin_dra(agent);
        agent_follow(agent, next->rollout);
        agent_apply(agent, next->rollout->plan);
        follow_dra(agent, next->rollout->plan);
        agent_mig_planned(agent->mig, next->plan);
        tell_plan(agent, next);
        node_report_refused(agent->report, NULL);
        generation_free(agent->previous);
        agent->previous = agent->current;
        agent->current = next;
        agent->refused = inventory_free(agent->refused);
        complaint_settle(&agent->bad_plan);
        agent_config_in_force(agent->configs);
        agent->retry_ms = 0;
        uv_timer_stop(&agent->retry);
        uv_timer_start(&agent->tidy, on_tidy, AGENT_TIDY_MS, 0);
        agent_check_cdi(agent);
}

/* ---- kubelet's list of which container holds what ---- */

void agent_on_change_reported(const struct rollout_pending *pending, bool is_pending, void *data)
{
        struct agent *agent = data;

        if (is_pending)
                node_events_report(agent->events, NODE_EVENT_CHANGE_PENDING,
                        "%s: %s stays \"%s\" and becomes \"%s\" when its containers have ended: %s", pending->resource,
                        pending->unit, pending->from, pending->to, pending->holders);
        else
                node_events_report(agent->events, NODE_EVENT_CHANGE_COMPLETED, "%s: %s is \"%s\" now",
                        pending->resource, pending->unit, pending->to);
}

void agent_serve(struct agent *agent, struct rollout *next)
{
        agent_follow(agent, next);
        agent_apply(agent, next->plan);
        generation_serve(agent->current, next);
        follow_dra(agent, next->plan);
}

void agent_on_wants_pods(void *data)
{
        struct agent *agent = data;

        dra_driver_read_pods(agent->dra);
}

bool agent_on_repeat(const char *resource, void *data)
{
        struct agent *agent = data;

        return !agent->stopping && plugins_repeat(agent->plugins, resource);
}

void agent_on_held(void *data)
{
        struct agent *agent = data;
        struct rollout *next;

        if (agent->stopping || !agent->current || !plugins_is_serving(agent->plugins))
                return;
        next = agent_rollout_judge(agent->rollout, agent->current->plan);
        agent_rollout_report(agent->rollout, next);
        if (rollout_is_same(agent->current->rollout, next))
                rollout_free(next);
        else
                agent_serve(agent, next);
        agent_mig_held(agent->mig);
}

/* ---- reports of the monitor ---- */

const struct inventory *agent_newest_inventory(const struct agent *agent)
{
        if (agent->refused)
                return agent->refused;
        return agent->current ? agent->current->inventory : NULL;
}

/* Takes the inventory. */
static void agent_plan(struct agent *agent, struct inventory *inventory, enum log_level warnings)
{
        struct generation *next = NULL;
        struct error err;

        mark_claimed(agent, inventory);
        agent_mig_mark(agent->mig, inventory);
        if (generation_new(&next, agent->settings, inventory, warnings, &err) < 0) {
                agent_refuse(agent, inventory, &err);
                return;
        }
        if (plugins_is_serving(agent->plugins) && generation_publish(next, agent->cdi_files, warnings, &err) < 0) {
                next->inventory = NULL; /* which agent_refuse() keeps */
                generation_free(next);
                agent_refuse(agent, inventory, &err);
                return;
        }
        put_in_force(agent, next);
}

void agent_on_inventory(struct inventory *inventory, void *data)
{
        struct agent *agent = data;
        const struct inventory *before = agent_newest_inventory(agent);
        enum log_level warnings = agent->retry_ms ? LOG_DEBUG : LOG_WARN; /* told at the first attempt */

        agent->has_heard = true;
        if (agent->stopping) {
                inventory_free(inventory);
                return;
        }
        /*
         * A plan that was applied in this turn of the loop is sent with its own health first. The health of the new
         * inventory comes next.
         */
        plugins_settle(agent->plugins);
        unit_health_clear(&agent->health);
        if (!before || !inventory_is_same(before, inventory))
                node_log_inventory(inventory);
        node_report_inventory(agent->report, inventory);
        if (agent_config_is_waiting(agent->configs)) { /* the GPUs are read again when it comes */
                inventory_free(agent->refused);
                agent->refused = inventory;
                return;
        }
        agent_plan(agent, inventory, warnings);
        agent_mig_read(agent->mig);
}

void agent_on_unavailable(const char *reason, void *data)
{
        struct agent *agent = data;

        agent->has_heard = true;
        if (agent->stopping)
                return;
        if (must_leave(agent)) {
                log_error("NVML cannot be used (failOnInitError: false would wait)", LOG_STR("reason", reason));
                agent_stop(agent, EXIT_FAILED);
                return;
        }
        log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
        node_report_unavailable(agent->report, reason);
}

void agent_on_health(const char *uuid, bool healthy, const char *reason, uint64_t xid UNUSED, void *data)
{
        struct agent *agent = data;

        if (!agent->stopping)
                set_health(agent, uuid, healthy, reason);
}

/* kubelet has it before the log. */
void agent_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        plugins_flush(agent->plugins);
        node_log_health(uuid, healthy, reason, xid);
}

void agent_on_unheard(const char *reason, void *data)
{
        struct agent *agent = data;
        struct error err;

        if (reason) {
                (void)!error_set(&err, ERROR_UNAVAILABLE, "%s", reason);
                complain(&agent->bad_events, "Xid events are not received; the GPUs are probed meanwhile", &err);
        } else {
                complaint_settle(&agent->bad_events);
                log_info("health events arrive again");
        }
}

void agent_on_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        agent->hangs_total += !has_returned;
        node_hangs_report(hang, has_returned, agent->events);
}

void agent_on_holdings_changed(void *data)
{
        struct agent *agent = data;

        if (!agent->stopping)
                plugins_refresh(agent->plugins);
}

/* ---- MIG ---- */

/* The GPUs are the same, and others of their units are withdrawn. */
void agent_on_withdrawn(void *data)
{
        struct agent *agent = data;
        const struct inventory *newest = agent_newest_inventory(agent);

        if (newest && !agent_config_is_waiting(agent->configs))
                agent_plan(agent, inventory_copy(newest), LOG_DEBUG);
}

/* Before the first plan is served: what an unfinished change has withdrawn is not in it. */
void agent_begin_mig(struct agent *agent)
{
        const struct agent_mig_options options = {
                .loop = &agent->loop,
                .config = agent->settings->config,
                .client = agent_api_client(agent->api),
                .watch = agent->node,
                .events = agent->events,
                .ledger = agent->ledger,
                .on_withdrawn = agent_on_withdrawn,
                .wants_pods = agent_on_wants_pods,
                .keep_closed = keep_nvml_closed,
                .is_closed = is_nvml_closed,
                .rescan = on_mig_changed,
                .data = agent,
        };
        struct error err;

        if (!options.config->mig.manager)
                return;
        if (!options.client) {
                error_raise(
                        &err, ERROR_UNAVAILABLE, "mig.manager: needs the API server and the node's name (NODE_NAME)");
                complain(&agent->bad_mig, "the MIG geometry stays as it is", &err);
                return;
        }
        agent->mig = agent_mig_new(&options);
        agent_mig_begin(agent->mig);
}
