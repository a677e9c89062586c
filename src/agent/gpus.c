#include "agent/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "agent/plans.h"
#include "base/clock.h"
#include "base/log.h"
#include "node/dra/driver.h"
#include "node/kubelet/plugins.h"
#include "node/pages/usage.h"
#include "node/status/hangs.h"
#include "node/status/log.h"

uint64_t agent_gpus_hangs_total(const struct agent_gpus *gpus)
{
        return gpus->hangs_total;
}

char *agent_gpus_find_problem(const struct agent *agent)
{
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        size_t n_hangs = gpu_monitor_hangs(agent->monitor, hangs);

        if (n_hangs > 0)
                return node_hangs_explain(hangs, n_hangs, clock_now_ms());
        if (agent->gpus->no_events.text[0])
                return xstrdup(agent->gpus->no_events.text);
        /* In a rolling update the old agent is ended when this one is ready. */
        return agent_plans_has_report(agent->plans) ? NULL
                                                    : xstrdup("the GPUs are not known yet: NVML has not answered");
}

/* kubelet has it before the log. */
void agent_gpus_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data)
{
        struct agent *agent = data;

        if (agent->is_stopping)
                return;
        plugins_flush(agent->plugins);
        node_log_health(uuid, healthy, reason, xid);
}

void agent_gpus_on_unheard(const char *reason, void *data)
{
        struct agent *agent = data;
        struct error err;

        if (reason) {
                error_raise(&err, ERROR_UNAVAILABLE, "%s", reason);
                complain(&agent->gpus->no_events, "Xid events are not received; the GPUs are probed meanwhile", &err);
        } else {
                complaint_settle(&agent->gpus->no_events);
                log_info("health events arrive again");
        }
}

void agent_gpus_on_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        struct agent *agent = data;

        if (agent->is_stopping)
                return;
        agent->gpus->hangs_total += !has_returned;
        node_hangs_report(hang, has_returned, agent->events);
}

void agent_gpus_on_samples(struct gpu_samples *samples, void *data)
{
        struct agent *agent = data;
        const bool may_ask = !agent->is_stopping && plugins_is_serving(agent->plugins);

        if (node_usage_add(agent->usage, samples, agent->ledger, agent_plans_served(agent->plans), may_ask))
                dra_driver_read_pods(agent->dra);
}
