/*
 * warpshare agent: it reads GPUs by NVML and offers them to kubelet. This file only connects the modules. The monitor's
 * inventory and the configuration make a generation, whose plan goes to the ledger, the plugins and the DRA driver; changes of
 * health go there, too. SIGHUP and a changed file load the configuration again; SIGTERM and others stop the agent. If a
 * generation cannot be built, the one in force stays.
 */
#include "agent/agent.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <warpshare_commit.h>

#include "agent/generation.h"
#include "agent/rollout.h"
#include "agent/hangs.h"
#include "agent/labels.h"
#include "agent/metrics.h"
#include "agent/mig.h"
#include "agent/node_read.h"
#include "agent/report.h"
#include "agent/restart.h"
#include "base/complaint.h"
#include "cli/command.h"
#include "dra/driver.h"
#include "gpu/monitor.h"
#include "io/signals.h"
#include "kube/node_events.h"
#include "kubelet/plugins.h"
#include "ledger/claims.h"
#include "ledger/ledger.h"
#include "metrics/http.h"
#include "node/api.h"
#include "node/report.h"
#include "node/watch.h"
#include "nodeconfig/nodeconfig.h"

/*
 * A call into NVML may hang for ever, and then the monitor's thread cannot be joined; everything else is closed after this
 * time.
 */
#define STOP_DEADLINE_MS UINT64_C(3000)
/* The pause until a refused plan is tried again: the disk may have room by then, or a missing device node may be there. */
#define RETRY_MS UINT64_C(1000)
#define RETRY_MAX_MS UINT64_C(60000)
/* The pause until a restart is tried again that the broken configuration file prevented. */
#define RESTART_RETRY_MS UINT64_C(60000)

struct agent {
        uv_loop_t loop;
        const struct option_set *options;
        struct settings *settings; /* the newest that was valid */
        struct agent_config *configs;
        struct gpu_monitor *monitor;
        struct unit_health health;
        struct plugins *plugins;
        struct ledger *ledger;
        struct agent_rollout *rollout;
        struct metrics_http *metrics; /* NULL: nobody asks for them */
        struct agent_usage *usage;    /* NULL: nothing is sampled */
        struct agent_api *api;        /* NULL, as the next three: the API server is not spoken to */
        struct node_watch *node;
        struct node_events *events;
        struct node_report *report;
        struct agent_labels *labels; /* NULL: labels are off, or another agent serves */
        struct dra_driver *dra;      /* the same */
        struct agent_mig *mig;       /* the same */
        struct generation *current;  /* NULL before the first inventory */
        struct generation *previous;
        bool has_heard;            /* the monitor has reported an inventory, or why there is none */
        struct inventory *refused; /* the newest inventory, if no generation could be made of it */
        struct complaint bad_config;
        struct complaint bad_plan;
        struct complaint bad_dra;
        struct complaint bad_mig;
        uv_timer_t retry;
        uint64_t retry_ms; /* the last pause; 0: nothing is refused */
        struct signals signals;
        uv_timer_t deadline;
        bool stopping;
        int status;

        struct keeper_crashes crashes; /* of the agents before this one in the container */
        bool has_reported_crash;
        struct restart restarts; /* so far */
        uv_timer_t restart;
        struct complaint bad_restart;
        struct complaint bad_events;
        uint64_t hangs_total;
        bool leaves_threads; /* threads that hang in the driver */
        bool restarting;
};

/* ---- stop ---- */

static void start_anew(struct agent *agent)
{
        struct error err;

        if (restart_now(&agent->restarts, &err) < 0)
                log_error("cannot restart", LOG_ERR(&err));
        _exit(EXIT_FAILED);
}

static void on_monitor_closed(void *data)
{
        struct agent *agent = data;

        uv_close((uv_handle_t *)&agent->deadline, NULL);
}

static void on_plugins_closed(void *data)
{
        struct agent *agent = data;

        if (agent->restarting)
                start_anew(agent); /* execve() ends the monitor's thread */
}

static void on_holdings_closed(void *data UNUSED)
{
}

static void on_agent_deadline(uv_timer_t *timer)
{
        struct agent *agent = timer->data;

        if (agent->restarting)
                start_anew(agent);
        log_warn("an NVML call does not return; exiting without waiting for it");
        _exit(agent->status);
}

static void agent_stop(struct agent *agent, int status)
{
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];

        if (agent->stopping)
                return;
        agent->stopping = true;
        agent->status = status;
        agent->leaves_threads = agent->leaves_threads || gpu_monitor_hangs(agent->monitor, hangs) > 0;
        signals_close(&agent->signals);
        uv_close((uv_handle_t *)&agent->retry, NULL);
        uv_close((uv_handle_t *)&agent->restart, NULL);
        agent->configs = agent_config_close(agent->configs);
        agent->metrics = metrics_http_close(agent->metrics);
        uv_timer_start(&agent->deadline, on_agent_deadline, STOP_DEADLINE_MS, 0);
        agent_rollout_close(TAKE_PTR(agent->rollout));
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_close(TAKE_PTR(agent->dra), NULL, NULL);
        plugins_close(agent->plugins, on_plugins_closed, agent);
        ledger_close(agent->ledger, on_holdings_closed, agent);
        gpu_monitor_close(agent->monitor, on_monitor_closed, agent);
        node_report_close(agent->report);
        node_events_close(agent->events, NULL, NULL);
        agent->labels = agent_labels_close(agent->labels);
        agent->node = node_watch_close(agent->node);
        agent->api = agent_api_close(agent->api); /* after everything that has a watch of its client */
}

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
 * Marks the GPUs that claims hold: the plan leaves these to DRA, even if the configuration gives them to the device plugin now.
 */
static void mark_claimed(const struct agent *agent, struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                inventory->gpus[i].is_claimed = has_claims(agent->ledger, &inventory->gpus[i]) ||
                                                dra_driver_has_made(agent->dra, inventory->gpus[i].uuid);
}

/*
 * A claim holds nothing any more. If it was the last one of a GPU that the configuration gives to the device plugin, a new
 * inventory makes a plan with that GPU.
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

static void on_thread_left(void *data)
{
        struct agent *agent = data;

        agent->leaves_threads = true;
}

/* Before the ledger has the plan: what is prepared already is held. */
static void begin_dra(struct agent *agent)
{
        const struct dra_driver_options options = {
                .loop = &agent->loop,
                .client = agent_api_client(agent->api),
                .ledger = agent->ledger,
                .health = &agent->health,
                .config = agent->settings->config,
                .on_released = on_released,
                .rescan = on_mig_changed,
                .on_thread_left = on_thread_left,
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
 * Whether the agent ends if it has no plan, as failOnInitError says. Not after it has restarted itself: there were GPUs a
 * moment ago, and pods hold them, so it waits.
 */
static bool must_leave(const struct agent *agent)
{
        return !agent->current && agent->settings->config->fail_on_init_error && agent->restarts.count == 0 &&
               agent_config_is_settled(agent->configs);
}

static void on_agent_retry(uv_timer_t *timer)
{
        struct agent *agent = timer->data;

        gpu_monitor_rescan(agent->monitor); /* it answers with an inventory and with health */
}

/* Only the agent that serves has MPS daemons and allocations. It still has them while kubelet's directory is missing. */
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
 * Keeps the plan in force, although some of its GPUs may be gone: these become unhealthy. The health of the others comes with
 * the inventory.
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
        agent->retry_ms = agent->retry_ms ? MIN(agent->retry_ms * 2, RETRY_MAX_MS) : RETRY_MS;
        uv_timer_start(&agent->retry, on_agent_retry, agent->retry_ms, 0);
}

static void put_in_force(struct agent *agent, struct generation *next)
{
        report_plan(next->plan);
        generation_serve(next, agent_rollout_judge(agent->rollout, next->plan));
        begin_dra(agent);
        agent_follow(agent, next->rollout);
        agent_apply(agent, next->rollout->plan);
        follow_dra(agent, next->rollout->plan);
        agent_mig_planned(agent->mig, next->plan);
        node_report_plan(agent->report, next->plan);
        node_report_refused(agent->report, NULL);
        agent_labels_apply(agent->labels, next->settings->config, next->inventory, next->plan);
        generation_free(agent->previous);
        agent->previous = agent->current;
        agent->current = next;
        agent->refused = inventory_free(agent->refused);
        complaint_settle(&agent->bad_plan);
        agent_config_in_force(agent->configs);
        agent->retry_ms = 0;
        uv_timer_stop(&agent->retry);
}

/* ---- kubelet's list of which container holds what ---- */

static void on_change_reported(const struct rollout_pending *pending, bool is_pending, void *data)
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

static void agent_serve(struct agent *agent, struct rollout *next)
{
        agent_follow(agent, next);
        agent_apply(agent, next->plan);
        generation_serve(agent->current, next);
        follow_dra(agent, next->plan);
}

static void on_wants_pods(void *data)
{
        struct agent *agent = data;

        dra_driver_read_pods(agent->dra);
}

static bool on_repeat(const char *resource, void *data)
{
        struct agent *agent = data;

        return !agent->stopping && plugins_repeat(agent->plugins, resource);
}

static void on_held(void *data)
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

static const struct inventory *newest_inventory(const struct agent *agent)
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
        if (plugins_is_serving(agent->plugins) && generation_publish(next, warnings, &err) < 0) {
                next->inventory = NULL; /* which agent_refuse() keeps */
                generation_free(next);
                agent_refuse(agent, inventory, &err);
                return;
        }
        put_in_force(agent, next);
}

static void on_agent_inventory(struct inventory *inventory, void *data)
{
        struct agent *agent = data;
        const struct inventory *before = newest_inventory(agent);
        enum log_level warnings = agent->retry_ms ? LOG_DEBUG : LOG_WARN; /* told at the first attempt */

        agent->has_heard = true;
        if (agent->stopping) {
                inventory_free(inventory);
                return;
        }
        /*
         * A plan that was applied in this turn of the loop is sent with its own health first. The health of the new inventory
         * comes next.
         */
        plugins_settle(agent->plugins);
        unit_health_clear(&agent->health);
        if (!before || !inventory_is_same(before, inventory))
                report_inventory(inventory);
        node_report_inventory(agent->report, inventory);
        if (agent_config_is_waiting(agent->configs)) { /* the GPUs are read again when it comes */
                inventory_free(agent->refused);
                agent->refused = inventory;
                return;
        }
        agent_plan(agent, inventory, warnings);
        agent_mig_read(agent->mig);
}

static void on_agent_unavailable(const char *reason, void *data)
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

static void on_agent_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        report_health(uuid, healthy, reason, xid);
        set_health(agent, uuid, healthy, reason);
}

static void on_unheard(const char *reason, void *data)
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

static void on_agent_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        agent->hangs_total += !has_returned;
        agent_hangs_report(hang, has_returned, agent->events);
}

static void on_holdings_changed(void *data)
{
        struct agent *agent = data;

        if (!agent->stopping)
                plugins_refresh(agent->plugins);
}

/* ---- MIG ---- */

/* The GPUs are the same, and others of their units are withdrawn. */
static void on_mig_handover(void *data)
{
        struct agent *agent = data;
        const struct inventory *newest = newest_inventory(agent);

        if (newest && !agent_config_is_waiting(agent->configs))
                agent_plan(agent, inventory_copy(newest), LOG_DEBUG);
}

/* Before the first plan is served: what an unfinished change has withdrawn is not in it. */
static void begin_mig(struct agent *agent)
{
        const struct agent_mig_options options = {
                .loop = &agent->loop,
                .config = agent->settings->config,
                .client = agent_api_client(agent->api),
                .watch = agent->node,
                .events = agent->events,
                .ledger = agent->ledger,
                .on_handover = on_mig_handover,
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

/* ---- whose turn it is ---- */

static void publish_labels(struct agent *agent)
{
        const struct generation *current = agent->current;

        agent->labels =
                agent_labels_new(&agent->loop, agent_api_client(agent->api), agent->node, agent->settings->config);
        if (current)
                agent_labels_apply(agent->labels, current->settings->config, current->inventory, current->plan);
        if (agent->refused)
                agent_labels_apply(agent->labels, agent->settings->config, agent->refused, NULL);
}

/* Once for the node: an event that says that the agent crashed and was started again. */
static void report_crash(struct agent *agent)
{
        if (agent->crashes.total && !agent->has_reported_crash)
                node_events_report(agent->events, NODE_EVENT_AGENT_RESTARTED,
                        "the agent was ended by signal %d (%s) and started again; %u times since its container started",
                        agent->crashes.signal, strsignal(agent->crashes.signal), agent->crashes.total);
        agent->has_reported_crash = true;
}

/* Writes the CDI specifications of the plan in force. If that fails, those of the agent before stay, and it is tried again. */
static void publish_current(struct agent *agent)
{
        struct error err;

        if (!agent->current || generation_publish(agent->current, LOG_WARN, &err) == 0)
                return;
        complain(&agent->bad_plan, "the CDI specifications of the plan cannot be written, will try again", &err);
        agent->retry_ms = RETRY_MS;
        uv_timer_start(&agent->retry, on_agent_retry, agent->retry_ms, 0);
}

static void take_over(struct agent *agent)
{
        publish_current(agent);
        node_events_serve(agent->events, true);
        report_crash(agent);
        agent_hangs_report_all(agent->monitor, agent->events);
        agent_rollout_serve(agent->rollout, true);
        begin_dra(agent);
        begin_mig(agent);
        if (agent->current && agent->mig)
                on_mig_handover(agent);
        else if (agent->current)
                agent_serve(agent, agent_rollout_judge(agent->rollout, agent->current->plan));
        agent_config_serve(agent->configs, true);
        node_report_serve(agent->report, true);
        publish_labels(agent);
}

/* Another agent serves from now on. This one still keeps its plan up to date, because it may have to serve again. */
static void give_way(struct agent *agent)
{
        node_events_serve(agent->events, false);
        agent_rollout_serve(agent->rollout, false);
        agent->mig = agent_mig_close(agent->mig);
        dra_driver_close(TAKE_PTR(agent->dra), NULL, NULL);
        ledger_leave(agent->ledger);
        agent_config_serve(agent->configs, false);
        node_report_serve(agent->report, false);
        agent->labels = agent_labels_close(agent->labels);
}

static void on_serving(bool is_serving, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        if (is_serving)
                take_over(agent);
        else
                give_way(agent);
}

static void on_stranded(void *data)
{
        log_error("kubelet's directory was removed on the host and cannot be seen from this container any more; "
                  "exiting, so that a new container sees the new one");
        agent_stop(data, EXIT_FAILED);
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
        report_config(settings->config);
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

/* ---- restart ---- */

static void on_restart(uv_timer_t *timer);

/*
 * Only a new process image gets rid of the old library. The restart waits if the last one was not long ago, and while the
 * configuration file is broken, because the new process could not start with it.
 */
static void consider_restart(struct agent *agent)
{
        int64_t wait = restart_wait(&agent->restarts, restart_clock());
        struct settings *settings;
        struct error err;

        if (wait > 0) {
                log_warn("another restart is needed already; delaying it", LOG_INT("seconds", wait));
                uv_timer_start(&agent->restart, on_restart, (uint64_t)wait * 1000, 0);
                return;
        }
        if (agent_config_load(agent->configs, &settings, &err) < 0) {
                complain(&agent->bad_restart, "a restart is needed, but the configuration file cannot be used", &err);
                uv_timer_start(&agent->restart, on_restart, RESTART_RETRY_MS, 0);
                return;
        }
        settings_unref(settings);
        log_info("restarting in the same process");
        signals_hold();
        agent->restarting = true;
        agent_stop(agent, EXIT_FAILED);
}

static void on_restart(uv_timer_t *timer)
{
        consider_restart(timer->data);
}

static void on_stale_library(void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        log_info("the driver was replaced, and its old library cannot be unloaded from this process");
        consider_restart(agent);
}

/* ---- metrics ---- */

static void on_samples(struct gpu_samples *samples, void *data)
{
        struct agent *agent = data;
        const struct generation *current = agent->current;

        agent_usage_add(agent->usage, samples, agent->ledger, current ? current->rollout->plan : NULL,
                !agent->stopping && plugins_is_serving(agent->plugins));
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
        if (agent->usage) {
                agent_usage_look(
                        agent->usage, agent->ledger, current ? current->rollout->plan : NULL, &scratch, &usage);
                usage.inventory = newest_inventory(agent);
                metrics.usage = &usage;
                metrics.dcgm_host = agent->settings->config->metrics_dcgm ? agent->settings->config->node_name : NULL;
        }
        metrics.events = node_events_counts(agent->events);
        metrics.hangs = hangs;
        metrics.n_hangs = gpu_monitor_hangs(agent->monitor, hangs);
        metrics.hangs_total = agent->hangs_total;
        metrics.now_ms = call_trace_now_ms();
        metrics.failed_waits = gpu_monitor_failed_waits(agent->monitor);
        metrics.crashes_total = agent->crashes.total;
        text = agent_metrics_write(&metrics);
        arena_done(&scratch);
        return text;
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
                return agent_hangs_ailment(hangs, n_hangs, call_trace_now_ms());
        if (agent->bad_events.text[0])
                return xstrdup(agent->bad_events.text);
        /* In a rolling update the old agent is ended when this one is ready. */
        return agent->has_heard ? NULL : xstrdup("the GPUs are not known yet: NVML has not answered");
}

/* If metrics cannot be served, the agent serves GPUs without them. */
static void serve_metrics(struct agent *agent)
{
        const struct metrics_http_options options = {
                .loop = &agent->loop,
                .address = agent->settings->config->metrics_address,
                .metrics = write_metrics,
                .ailment = find_ailment,
                .data = agent,
        };
        struct error err;

        if (!*options.address)
                return;
        if (metrics_http_new(&agent->metrics, &options, &err) < 0)
                log_error("metrics cannot be served", LOG_ERR(&err));
        else
                log_info("metrics", LOG_STR("address", options.address),
                        LOG_UINT("port", metrics_http_port(agent->metrics)));
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

static int agent_start(struct agent *agent, struct error *err)
{
        const struct config *config = agent->settings->config;
        struct ledger_options ledger = {.loop = &agent->loop,
                .config = config,
                .on_change = on_holdings_changed,
                .on_held = on_held,
                .repeat = on_repeat,
                .wants_pods = on_wants_pods,
                .health = &agent->health,
                .data = agent};
        struct agent_rollout_options rollout = {.loop = &agent->loop,
                .mps_directory = config->mps_directory,
                .on_reported = on_change_reported,
                .data = agent};
        const struct agent_api_options api = {
                .loop = &agent->loop, .config = config, .connected = on_agent_connected, .data = agent};
        struct kube_client *client;
        struct plugins_options plugins = {
                .loop = &agent->loop,
                .kubelet_socket = config->kubelet_socket,
                .health = &agent->health,
                .on_stranded = on_stranded,
                .on_serving = on_serving,
                .data = agent,
        };
        const struct gpu_monitor_options monitor = {
                .library = config->nvml_library,
                .paths = {.system_root = config->system_root, .driver_root = config->driver_root_ctr},
                .discovery = node_platform_choice(config),
                .policy = &agent->settings->policy,
                .on_inventory = on_agent_inventory,
                .on_unavailable = on_agent_unavailable,
                .on_health = on_agent_health,
                .on_unheard = on_unheard,
                .on_hang = on_agent_hang,
                /* Nobody reads them elsewhere. */
                .sample_ms = *config->metrics_address ? config->usage_seconds * UINT64_C(1000) : 0,
                .on_samples = on_samples,
                .on_stale_library = on_stale_library,
                .data = agent,
        };
        struct agent_config_cluster cluster;

        agent->usage = monitor.sample_ms ? agent_usage_new() : NULL;
        /* First the thread that reads the GPUs, since that takes longest. */
        if (gpu_monitor_new(&agent->monitor, &agent->loop, &monitor, err) < 0)
                return -1;
        agent->api = agent_api_new(&api);
        client = agent_api_client(agent->api);
        agent->node = client ? node_watch_new(client, config->node_name) : NULL;
        agent->events = node_events_new(&agent->loop, client, config->node_name, config->events);
        ledger.events = agent->events;
        ledger.client = client;
        if (ledger_new(&agent->ledger, &ledger, err) < 0)
                return -1;
        report_to_cluster(agent, config);
        rollout.ledger = agent->ledger;
        agent->rollout = agent_rollout_new(&rollout);
        plugins.broker = ledger_broker(agent->ledger);
        if (plugins_new(&agent->plugins, &plugins, err) < 0)
                return -1;
        serve_metrics(agent);
        /* This may replace the settings. */
        cluster = (struct agent_config_cluster){
                client, config->node_name, agent->node, agent->events, client && config->config_annotations};
        if (agent_config_connect(agent->configs, &cluster, err) < 0)
                return -1;
        if (plugins_is_serving(agent->plugins))
                take_over(agent);
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
        return EXIT_FAILED;
}

static void init_timer(struct agent *agent, uv_timer_t *timer)
{
        uv_timer_init(&agent->loop, timer);
        timer->data = agent;
}

int agent_run(const struct option_set *options, const struct keeper_crashes *crashes)
{
        struct agent agent = {
                .options = options, .crashes = *crashes, .restarts = restart_read(getenv(RESTART_VARIABLE))};
        const struct agent_config_options configs = {
                .loop = &agent.loop, .options = options, .changed = on_config_changed, .data = &agent};
        struct error err;

        uv_loop_init(&agent.loop);
        init_timer(&agent, &agent.deadline);
        init_timer(&agent, &agent.retry);
        init_timer(&agent, &agent.restart);
        /* Signals come first: an early SIGHUP waits until the agent can handle it, instead of ending the process. */
        if (signals_listen(&agent.signals, &agent.loop, on_agent_signal, &agent, &err) < 0 ||
                agent_config_new(&agent.configs, &configs, &err) < 0)
                return give_up(&agent, "cannot start", &err);
        if (agent_config_begin(agent.configs, &agent.settings, &err) < 0)
                return give_up(&agent, "configuration refused", &err);
        log_info("warpshare agent", LOG_STR("version", WARPSHARE_VERSION), LOG_UINT("restarts", agent.restarts.count));
        if (crashes->total)
                log_error("the agent was ended by a signal, and is started again", LOG_STR("event", "AgentRestarted"),
                        LOG_STR("signal", strsignal(crashes->signal)), LOG_UINT("times", crashes->total),
                        LOG_INT("lived_ms", crashes->lived_ms));
        report_config(agent.settings->config);
        if (agent_start(&agent, &err) < 0) {
                /* Nothing is served yet, and a thread may be inside the driver: the process exits without closing anything. */
                log_error("cannot start", LOG_ERR(&err));
                _exit(EXIT_FAILED);
        }
        uv_run(&agent.loop, UV_RUN_DEFAULT);
        if (agent.leaves_threads) {
                /* Threads that hang still use memory and libraries, so nothing is freed. */
                log_info("stopped, without waiting for calls into NVML that hang");
                _exit(agent.status);
        }
        unit_health_clear(&agent.health);
        generation_free(agent.previous);
        generation_free(agent.current);
        inventory_free(agent.refused);
        agent_usage_free(agent.usage);
        settings_unref(agent.settings);
        uv_loop_close(&agent.loop);
        log_info("stopped");
        return agent.status;
}
