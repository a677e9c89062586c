// SPDX-License-Identifier: Apache-2.0
#include "agent/plans.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cdi.h"
#include "agent/mig.h"
#include "agent/rollout.h"
#include "agent/serve.h"
#include "base/error.h"
#include "base/log.h"
#include "node/config/nodeconfig.h"
#include "node/dra/driver.h"
#include "node/kubelet/plugins.h"
#include "node/pages/usage.h"
#include "node/status/log.h"
#include "node/status/node_labels.h"
#include "node/status/report.h"

/* After a plan came into force: by then it is written and reported everywhere. */
#define TIDY_MS UINT64_C(10000)

/* ---- what is known ---- */

const struct config *agent_plans_config(const struct agent_plans *plans)
{
        return plans->settings->config;
}

const struct health_policy *agent_plans_policy(const struct agent_plans *plans)
{
        return &plans->settings->policy;
}

const struct generation *agent_plans_current(const struct agent_plans *plans)
{
        return plans->current;
}

const struct plan *agent_plans_served(const struct agent_plans *plans)
{
        return plans->current ? plans->current->rollout->plan : NULL;
}

const struct inventory *agent_plans_inventory(const struct agent_plans *plans)
{
        if (plans->refused)
                return plans->refused;
        return plans->current ? plans->current->inventory : NULL;
}

uint64_t agent_plans_hangs_total(const struct agent_plans *plans)
{
        return plans->hangs_total;
}

char *agent_plans_find_gpu_problem(const struct agent *agent)
{
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        size_t n_hangs = gpu_monitor_hangs(agent->monitor, hangs);

        if (n_hangs > 0)
                return node_hangs_explain(hangs, n_hangs, clock_now_ms());
        if (agent->plans->no_events.text[0])
                return xstrdup(agent->plans->no_events.text);
        /* In a rolling update the old agent is ended when this one is ready. */
        return agent->plans->has_report ? NULL : xstrdup("the GPUs are not known yet: NVML has not answered");
}

char *agent_plans_find_problem(const struct agent_plans *plans)
{
        if (plans->bad_plan.text[0])
                return xasprintf("the newest plan is refused: %s", plans->bad_plan.text);
        if (plans->bad_dra.text[0])
                return xasprintf("the DRA driver is not running: %s", plans->bad_dra.text);
        if (plans->bad_config.text[0])
                return xasprintf("the newest configuration is refused: %s", plans->bad_config.text);
        return NULL;
}

/*
 * Whether the agent ends if it has no plan, as failOnInitError says. Not after it has restarted itself: there were GPUs
 * a moment ago, and pods hold them, so it waits.
 */
static bool must_end_without_plan(const struct agent *agent)
{
        return !agent->plans->current && agent_plans_config(agent->plans)->fail_on_init_error &&
               agent_config_is_settled(agent->configs);
}

/* ---- serving ---- */

static void set_health(struct agent *agent, const char *uuid, bool healthy, const char *reason)
{
        unit_health_set(&agent->health, uuid, healthy, reason);
        plugins_refresh(agent->plugins);
        ledger_health_changed(agent->ledger, uuid);
        node_report_health_changed(agent->report);
        dra_driver_health_changed(agent->dra);
}

/*
 * The ledger gets the plan first, because the plugins ask it. Only the agent that serves has MPS daemons and
 * allocations. It still has them while kubelet's directory is missing.
 */
static void apply_plan(struct agent *agent, const struct plan *plan)
{
        if (plugins_is_serving(agent->plugins))
                ledger_apply(agent->ledger, plan);
        plugins_apply(agent->plugins, plan);
}

static void serve_rollout(struct agent *agent, const struct rollout *next)
{
        if (plugins_is_serving(agent->plugins))
                agent_rollout_follow(agent->rollout, next);
        apply_plan(agent, next->plan);
        if (!agent->dra)
                return;
        dra_driver_put(agent->dra, next->plan);
        dra_driver_health_changed(agent->dra); /* no other call reports units that have become healthy */
}

static void replace_rollout(struct agent *agent, struct rollout *next)
{
        serve_rollout(agent, next);
        generation_serve(agent->plans->current, next);
}

void agent_plans_begin_dra(struct agent *agent)
{
        agent_dra_begin(agent, &agent->plans->bad_dra);
}

void agent_plans_serve(struct agent *agent)
{
        const struct generation *current = agent->plans->current;

        if (current && agent->mig)
                agent_plans_make_again(agent);
        else if (current)
                replace_rollout(agent, agent_rollout_make(agent->rollout, current->plan));
}

void agent_plans_on_held(void *data)
{
        struct agent *agent = data;
        struct generation *current = agent->plans->current;
        struct rollout *next;

        if (agent->is_stopping || !current || !plugins_is_serving(agent->plugins))
                return;
        next = agent_rollout_make(agent->rollout, current->plan);
        agent_rollout_report(agent->rollout, next);
        if (rollout_is_same(current->rollout, next))
                rollout_free(next);
        else
                replace_rollout(agent, next);
        agent_mig_held(agent->mig);
}

void agent_plans_label(struct agent *agent)
{
        const struct agent_plans *plans = agent->plans;
        const struct generation *current = plans->current;

        if (current && !agent_mig_is_undecided(agent->mig))
                node_labels_apply(agent->labels, current->settings->config, current->inventory, current->plan);
        if (plans->refused)
                node_labels_apply(agent->labels, agent_plans_config(plans), plans->refused, NULL);
}

/* ---- a generation is refused ---- */

static void on_plan_retry(uv_timer_t *timer)
{
        const struct agent *agent = timer->data;

        gpu_monitor_rescan(agent->monitor); /* it answers with an inventory and with health */
}

/*
 * Keeps the plan in force, although some of its GPUs may be gone: these become unhealthy. The health of the others
 * comes with the inventory.
 */
static void keep_current(struct agent *agent, const struct inventory *inventory)
{
        const struct plan *plan = agent_plans_served(agent->plans);

        apply_plan(agent, plan);
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                for (size_t j = 0; j < resource->n_units; j++)
                        if (!inventory_has(inventory, resource->units[j].uuid))
                                set_health(agent, resource->units[j].uuid, false, "it is no longer present");
        }
}

/* Takes the inventory. */
static void refuse_plan(struct agent *agent, struct inventory *inventory, const struct error *err)
{
        struct agent_plans *plans = agent->plans;

        inventory_free(plans->refused);
        plans->refused = inventory;
        if (must_end_without_plan(agent)) {
                log_error("no plan can be made", LOG_ERR(err));
                agent->stop(agent, EXIT_FAILED);
                return;
        }
        node_report_problem(agent->report, NODE_PLAN_REFUSED, err->text);
        complain(&plans->bad_plan,
                plans->current ? "change refused, the plan in force stays" : "no plan can be made, will try again",
                err);
        agent_config_refuse(agent->configs, err);
        node_labels_apply(agent->labels, agent_plans_config(plans), inventory, NULL);
        if (plans->current)
                keep_current(agent, inventory);
        retry_later(&plans->retry, on_plan_retry);
}

void agent_plans_publish(struct agent *agent)
{
        struct agent_plans *plans = agent->plans;
        struct error err;

        if (!plans->current)
                return;
        if (generation_publish(plans->current, agent_cdi_files(agent->cdi), LOG_WARN, &err) == 0) {
                agent_cdi_follow(agent->cdi, plans->current, agent->dra);
                return;
        }
        /* The specifications of the previous agent stay. */
        complain(&plans->bad_plan, "the CDI specifications of the plan cannot be written, will try again", &err);
        retry_reset(&plans->retry);
        retry_later(&plans->retry, on_plan_retry);
}

/* ---- a generation is built ---- */

/* Memory that the change took for a moment goes back to the kernel; free() keeps pages that lie between others. */
static void on_tidy(uv_timer_t *timer UNUSED)
{
        malloc_trim(0);
}

/* GPUs whose MIG geometry is not decided yet are not reported as gone: that would be so for a moment at each start. */
static void report_plan(struct agent *agent, const struct generation *next)
{
        bool is_undecided = agent_mig_is_undecided(agent->mig);

        node_report_plan(agent->report, is_undecided && next->plan->n_resources == 0 ? NULL : next->plan);
        if (!is_undecided)
                node_labels_apply(agent->labels, next->settings->config, next->inventory, next->plan);
        node_report_problem(agent->report, NODE_PLAN_REFUSED, NULL);
}

static void put_in_force(struct agent *agent, struct generation *next)
{
        struct agent_plans *plans = agent->plans;

        node_log_plan(next->plan);
        generation_serve(next, agent_rollout_make(agent->rollout, next->plan));
        agent_plans_begin_dra(agent);
        serve_rollout(agent, next->rollout);
        agent_mig_planned(agent->mig, next->plan);
        report_plan(agent, next);
        generation_free(plans->previous);
        plans->previous = plans->current;
        plans->current = next;
        plans->refused = inventory_free(plans->refused);
        complaint_settle(&plans->bad_plan);
        agent_config_in_force(agent->configs);
        retry_settle(&plans->retry);
        uv_timer_start(&plans->tidy, on_tidy, TIDY_MS, 0);
        agent_cdi_follow(agent->cdi, next, agent->dra);
}

/* Takes the inventory. */
static void make_plan(struct agent *agent, struct inventory *inventory, enum log_level warnings)
{
        struct generation *next = NULL;
        struct error err;

        agent_dra_mark(agent, inventory);
        agent_mig_mark(agent->mig, inventory);
        if (generation_new(&next, agent->plans->settings, inventory, warnings, &err) < 0) {
                refuse_plan(agent, inventory, &err);
                return;
        }
        if (plugins_is_serving(agent->plugins) &&
                generation_publish(next, agent_cdi_files(agent->cdi), warnings, &err) < 0) {
                next->inventory = NULL; /* which refuse_plan() keeps */
                generation_free(next);
                refuse_plan(agent, inventory, &err);
                return;
        }
        put_in_force(agent, next);
}

void agent_plans_make_again(void *data)
{
        struct agent *agent = data;
        const struct inventory *newest = agent_plans_inventory(agent->plans);

        if (newest && !agent_config_is_waiting(agent->configs))
                make_plan(agent, inventory_copy(newest), LOG_DEBUG);
}

/* ---- reports of the monitor ---- */

void agent_plans_on_inventory(struct inventory *inventory, void *data)
{
        struct agent *agent = data;
        struct agent_plans *plans = agent->plans;
        const struct inventory *before = agent_plans_inventory(plans);
        /* A refusal was logged with its warnings at the first attempt. */
        enum log_level warnings = retry_has_failed(&plans->retry) ? LOG_DEBUG : LOG_WARN;

        plans->has_report = true;
        if (agent->is_stopping) {
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
        if (agent_config_is_waiting(agent->configs)) { /* its plan is made when the configuration comes */
                inventory_free(plans->refused);
                plans->refused = inventory;
                return;
        }
        make_plan(agent, inventory, warnings);
        agent_mig_read(agent->mig, true);
}

void agent_plans_on_unavailable(const char *reason, void *data)
{
        struct agent *agent = data;

        agent->plans->has_report = true;
        if (agent->is_stopping)
                return;
        if (must_end_without_plan(agent)) {
                log_error("NVML cannot be used (failOnInitError: false would wait)", LOG_STR("reason", reason));
                agent->stop(agent, EXIT_FAILED);
                return;
        }
        log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
        node_report_problem(agent->report, NODE_UNAVAILABLE, reason);
}

void agent_plans_on_health(const char *uuid, bool healthy, const char *reason, uint64_t xid UNUSED, void *data)
{
        struct agent *agent = data;

        if (!agent->is_stopping)
                set_health(agent, uuid, healthy, reason);
}

/* kubelet has it before the log. */
void agent_plans_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        struct agent *agent = data;

        if (agent->is_stopping)
                return;
        plugins_flush(agent->plugins);
        node_log_health(uuid, healthy, reason, xid);
}

void agent_plans_on_unheard(const char *reason, void *data)
{
        struct agent *agent = data;
        struct error err;

        if (reason) {
                error_raise(&err, ERROR_UNAVAILABLE, "%s", reason);
                complain(&agent->plans->no_events, "Xid events are not received; the GPUs are probed meanwhile", &err);
        } else {
                complaint_settle(&agent->plans->no_events);
                log_info("health events arrive again");
        }
}

void agent_plans_on_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        struct agent *agent = data;

        if (agent->is_stopping)
                return;
        agent->plans->hangs_total += !has_returned;
        node_hangs_report(hang, has_returned, agent->events);
}

void agent_plans_on_samples(struct gpu_samples *samples, void *data)
{
        struct agent *agent = data;
        const bool may_ask = !agent->is_stopping && plugins_is_serving(agent->plugins);

        if (node_usage_add(agent->usage, samples, agent->ledger, agent_plans_served(agent->plans), may_ask))
                dra_driver_read_pods(agent->dra);
}

/* ---- the configuration ---- */

/* Warns about options that only the start of the monitor or of the DRA driver reads. */
static void warn_of_late_options(const struct config *before, const struct config *config)
{
        if (strcmp(before->driver.mounted_root, config->driver.mounted_root) != 0)
                log_warn("a new container driver root takes effect at the next start",
                        LOG_STR("in_force", before->driver.mounted_root),
                        LOG_STR("configured", config->driver.mounted_root));
        if (strcmp(before->dra.driver_name, config->dra.driver_name) != 0)
                log_warn("a new name of the DRA driver takes effect at the next start",
                        LOG_STR("in_force", before->dra.driver_name), LOG_STR("configured", config->dra.driver_name));
        if (before->discovery != config->discovery)
                log_warn("a new device discovery strategy takes effect at the next start");
}

int agent_plans_load(struct agent *agent)
{
        struct agent_plans *plans = agent->plans;
        struct settings *settings;
        struct error err;

        if (agent_config_load(agent->configs, &settings, &err) < 0) {
                complain(&plans->bad_config, "configuration refused, the one in force stays", &err);
                node_report_problem(agent->report, NODE_CONFIG_REFUSED, err.text);
                return -1;
        }
        complaint_settle(&plans->bad_config);
        node_report_problem(agent->report, NODE_CONFIG_REFUSED, NULL);
        warn_of_late_options(plans->settings->config, settings->config);
        settings_unref(plans->settings);
        plans->settings = settings;
        retry_reset(&plans->retry);
        node_log_config(settings->config);
        gpu_monitor_set_policy(agent->monitor, &settings->policy);
        return 0;
}

void agent_plans_reload(void *data)
{
        struct agent *agent = data;
        const struct inventory *newest;

        if (agent_plans_load(agent) < 0 || agent_config_is_waiting(agent->configs))
                return;
        newest = agent_plans_inventory(agent->plans);
        if (!newest) {
                gpu_monitor_rescan(agent->monitor); /* the new configuration may end the agent where there is none */
                return;
        }
        make_plan(agent, inventory_copy(newest), LOG_WARN);
        agent_mig_read(agent->mig, false);
}

void agent_plans_log_again(struct agent_plans *plans)
{
        complaint_settle(&plans->bad_config);
        complaint_settle(&plans->bad_plan);
}

/* ---- begin and end ---- */

void agent_plans_init(struct agent_plans *plans, struct agent *agent, struct settings *settings)
{
        *plans = (struct agent_plans){.settings = settings};
        retry_init(&plans->retry, &agent->loop, agent);
        uv_timer_init(&agent->loop, &plans->tidy);
}

void agent_plans_close(struct agent_plans *plans)
{
        retry_close(&plans->retry);
        uv_close((uv_handle_t *)&plans->tidy, NULL);
}

void agent_plans_done(struct agent_plans *plans)
{
        generation_free(plans->previous);
        generation_free(plans->current);
        inventory_free(plans->refused);
        settings_unref(plans->settings);
}
