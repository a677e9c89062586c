/*
 * Which of two agents on the node serves: the one that holds kubelet's folder (node/kubelet/plugins.h). The other reads
 * and plans as this one does, so that it can go on at once.
 */
#include <string.h>

#include "node/status/hangs.h"
#include "agent/parts.h"
#include "base/log.h"
#include "base/exit_status.h"

static void publish_labels(struct agent *agent)
{
        const struct generation *current = agent->current;

        agent->labels =
                agent_labels_new(&agent->loop, agent_api_client(agent->api), agent->node, agent->settings->config);
        if (current && !agent_mig_is_undecided(agent->mig))
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

/*
 * Writes the CDI specifications of the plan in force. If that fails, those of the agent before stay, and it is tried
 * again.
 */
static void publish_current(struct agent *agent)
{
        struct error err;

        if (!agent->current)
                return;
        if (generation_publish(agent->current, agent->cdi_files, LOG_WARN, &err) == 0) {
                agent_check_cdi(agent);
                return;
        }
        complain(&agent->bad_plan, "the CDI specifications of the plan cannot be written, will try again", &err);
        agent->retry_ms = AGENT_RETRY_MS;
        uv_timer_start(&agent->retry, agent_on_retry, agent->retry_ms, 0);
}

void agent_take_over(struct agent *agent)
{
        publish_current(agent);
        node_events_serve(agent->events, true);
        report_crash(agent);
        node_hangs_report_all(agent->monitor, agent->events);
        agent_rollout_serve(agent->rollout, true);
        agent_begin_dra(agent);
        agent_begin_mig(agent);
        if (agent->current && agent->mig)
                agent_on_withdrawn(agent);
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
        agent_leave_cdi(agent);
}

void agent_on_serving(bool is_serving, void *data)
{
        struct agent *agent = data;

        if (agent->stopping)
                return;
        if (is_serving)
                agent_take_over(agent);
        else
                give_way(agent);
}

void agent_on_stranded(void *data)
{
        log_error("kubelet's directory was removed on the host and cannot be seen from this container any more; "
                  "exiting, so that a new container sees the new one");
        agent_stop(data, EXIT_FAILED);
}
