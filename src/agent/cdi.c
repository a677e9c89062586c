/*
 * Looks after the CDI specifications while this agent serves: each container that starts, also one that starts anew,
 * needs them, and other programs write to their folder. The folder is watched; every Prepare of a claim looks as well.
 * What was removed or changed is written again, and so is what lacked a device node that is there now.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/parts.h"
#include "base/file.h"
#include "base/log.h"
#include "base/exit_status.h"

/* For what inotify does not report, and for device nodes, which are elsewhere. */
#define CDI_POLL_MS UINT64_C(10000)
/* After something was repaired: so two programs that do not agree on a file do not keep a processor busy. */
#define CDI_PAUSE_MS UINT64_C(1000)

/* ---- what is not there yet ---- */

/* Writes the specifications that the plan in force lacks; returns whether they are there now. */
static bool write_lacking(struct agent *agent)
{
        struct error ignored; /* reported when the plan came in force */

        if (!plugins_is_serving(agent->plugins) ||
                generation_publish_again(agent->current, agent->cdi_files, &ignored) < 0)
                return false;
        gpu_monitor_rescan(agent->monitor); /* a plan that counts on them */
        return true;
}

static void on_cdi_retry(uv_timer_t *timer)
{
        struct agent *agent = timer->data;

        if (!write_lacking(agent))
                agent_check_cdi(agent);
}

static bool uses_cdi(const struct plan *plan)
{
        return (plan_device_lists(plan) & DEVICE_LIST_CDI) || plan->claimable || plan->lacks_cdi;
}

/* The specifications get the device nodes that they lacked and that are there now. */
static int add_nodes(struct agent *agent, struct error *err)
{
        const struct plan *plan = agent->current->plan;
        const unsigned int nodes = agent->current->nodes;

        if (!uses_cdi(plan) || plan->lacks_cdi || !generation_lacks_nodes(agent->current))
                return 0;
        if (generation_publish_again(agent->current, agent->cdi_files, err) < 0)
                return -1;
        if (agent->current->nodes & ~nodes)
                gpu_monitor_rescan(agent->monitor); /* containers without CDI get them, too */
        return 0;
}

/* ---- what was there ---- */

static void on_cdi_pause(uv_timer_t *timer);

/* |again|: it follows another try. */
static void repair_cdi(struct agent *agent, bool again)
{
        struct error err;
        int result;

        if (agent->stopping || !agent->current || !plugins_is_serving(agent->plugins))
                return;
        result = cdi_files_repair(agent->cdi_files, &err);
        if (result >= 0 && add_nodes(agent, &err) < 0)
                result = -1;
        if (result < 0 && again && agent->cdi_watched && file_is_removed_folder(agent->cdi_watched)) {
                log_error(
                        "the folder of CDI specifications was removed on the host and cannot be seen from this container "
                        "any more; exiting, so that a new container sees the new one",
                        LOG_STR("folder", agent->cdi_watched));
                agent_stop(agent, EXIT_FAILED);
                return;
        }
        if (result < 0)
                complain(&agent->bad_cdi, "CDI specifications are not as they should be, will try again", &err);
        else
                complaint_settle(&agent->bad_cdi);
        if (result)
                uv_timer_start(&agent->cdi_repair, on_cdi_pause, CDI_PAUSE_MS, 0);
}

static void on_cdi_pause(uv_timer_t *timer)
{
        repair_cdi(timer->data, true);
}

static void on_cdi_changed(void *data)
{
        struct agent *agent = data;

        if (!uv_is_active((const uv_handle_t *)&agent->cdi_repair)) /* else it looks when the pause is over */
                repair_cdi(agent, false);
}

void agent_repair_cdi(void *data)
{
        struct agent *agent = data;

        repair_cdi(agent, false);
        if (!agent->stopping && agent->current && agent->current->plan->lacks_cdi && write_lacking(agent))
                agent_check_cdi(agent); /* no further try is needed */
}

static void watch_cdi(struct agent *agent, const char *root)
{
        struct error err;

        if (agent->cdi_watch && strcmp(agent->cdi_watched, root) == 0)
                return;
        agent->cdi_watch = dirwatch_close(agent->cdi_watch);
        free(agent->cdi_watched);
        agent->cdi_watched = xstrdup(root);
        if (dirwatch_new(&agent->cdi_watch, &agent->loop, root, CDI_POLL_MS, on_cdi_changed, agent, &err) < 0)
                complain(&agent->bad_cdi, "CDI specifications that vanish are not written again", &err);
}

/* ---- begin and end ---- */

void agent_check_cdi(struct agent *agent)
{
        const struct plan *plan = agent->current->plan;

        if (plugins_is_serving(agent->plugins) && (uses_cdi(plan) || agent->dra)) /* it may have claims of before */
                watch_cdi(agent, plan->config->cdi_root);
        if (!plan->lacks_cdi) {
                agent->cdi_retry_ms = 0;
                uv_timer_stop(&agent->cdi_retry);
                return;
        }
        agent->cdi_retry_ms = agent_next_pause(agent->cdi_retry_ms);
        uv_timer_start(&agent->cdi_retry, on_cdi_retry, agent->cdi_retry_ms, 0);
}

void agent_leave_cdi(struct agent *agent)
{
        agent->cdi_watch = dirwatch_close(agent->cdi_watch);
        free(agent->cdi_watched);
        agent->cdi_watched = NULL;
        cdi_files_forget(agent->cdi_files);
        if (!agent->stopping)
                uv_timer_stop(&agent->cdi_repair);
}
