// SPDX-License-Identifier: Apache-2.0
#include "agent/cdi.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "gpu/monitor.h"

/* For changes that inotify does not report, and for device nodes, which are in another folder. */
#define CDI_POLL_MS UINT64_C(10000)
/* After a repair: so two programs that do not agree on a file do not keep a processor busy. */
#define CDI_PAUSE_MS UINT64_C(1000)

/* ---- what is not there yet ---- */

/* Writes the specifications that the plan in force lacks; returns whether they are there now. */
static bool write_lacking(struct agent_cdi *cdi)
{
        struct error ignored; /* logged when the plan took effect */

        if (!cdi->is_serving || generation_publish_again(cdi->generation, cdi->files, &ignored) < 0)
                return false;
        gpu_monitor_rescan(cdi->agent->monitor);
        return true;
}

static void follow_lacking(struct agent_cdi *cdi);

static void on_cdi_retry(uv_timer_t *timer)
{
        struct agent_cdi *cdi = timer->data;

        if (!write_lacking(cdi))
                follow_lacking(cdi);
}

static void follow_lacking(struct agent_cdi *cdi)
{
        if (cdi->generation->plan->lacks_cdi)
                retry_later(&cdi->retry, on_cdi_retry);
        else
                retry_settle(&cdi->retry);
}

static bool uses_cdi(const struct plan *plan)
{
        return (plan_device_lists(plan) & DEVICE_LIST_CDI) || plan->claimable || plan->lacks_cdi;
}

/* The specifications get the device nodes that they lacked and that are there now. */
static int add_nodes(struct agent_cdi *cdi, struct error *err)
{
        struct generation *generation = cdi->generation;
        const unsigned int nodes = generation->nodes;

        if (!uses_cdi(generation->plan) || generation->plan->lacks_cdi || !generation_lacks_nodes(generation))
                return 0;
        if (generation_publish_again(generation, cdi->files, err) < 0)
                return -1;
        if (generation->nodes & ~nodes)
                gpu_monitor_rescan(cdi->agent->monitor); /* containers without CDI get them, too */
        return 0;
}

/* ---- what was there ---- */

static void on_cdi_pause(uv_timer_t *timer);

/* |again|: it follows another try. */
static void repair_files(struct agent_cdi *cdi, bool again)
{
        struct error err;
        int result;

        if (!cdi->generation || !cdi->is_serving)
                return;
        result = cdi_files_repair(cdi->files, &err);
        if (result >= 0 && add_nodes(cdi, &err) < 0)
                result = -1;
        if (result < 0 && again && cdi->watched && file_is_removed_folder(cdi->watched)) {
                log_error(
                        "the folder of CDI specifications was removed on the host and cannot be seen from this container "
                        "any more; exiting, so that a new container sees the new one",
                        LOG_STR("folder", cdi->watched));
                cdi->agent->stop(cdi->agent, EXIT_FAILED);
                return;
        }
        if (result < 0)
                complain(&cdi->complaint, "CDI specifications are not as they should be, will try again", &err);
        else
                complaint_settle(&cdi->complaint);
        if (result)
                uv_timer_start(&cdi->pause, on_cdi_pause, CDI_PAUSE_MS, 0);
}

static void on_cdi_pause(uv_timer_t *timer)
{
        repair_files(timer->data, true);
}

static void on_cdi_changed(void *data)
{
        struct agent_cdi *cdi = data;

        if (!uv_is_active((const uv_handle_t *)&cdi->pause)) /* else the end of the pause checks */
                repair_files(cdi, false);
}

void agent_cdi_repair(struct agent_cdi *cdi)
{
        repair_files(cdi, false);
        if (cdi->is_serving && cdi->generation && cdi->generation->plan->lacks_cdi && write_lacking(cdi))
                follow_lacking(cdi); /* no further try is needed */
}

static void watch_folder(struct agent_cdi *cdi, const char *root)
{
        struct error err;

        if (cdi->watch && strcmp(cdi->watched, root) == 0)
                return;
        cdi->watch = dirwatch_close(cdi->watch);
        free(cdi->watched);
        cdi->watched = xstrdup(root);
        if (dirwatch_new(&cdi->watch, &cdi->agent->loop, root, CDI_POLL_MS, on_cdi_changed, cdi, &err) < 0)
                complain(&cdi->complaint, "CDI specifications that vanish are not written again", &err);
}

/* ---- begin and end ---- */

struct cdi_files *agent_cdi_files(const struct agent_cdi *cdi)
{
        return cdi->files;
}

void agent_cdi_follow(struct agent_cdi *cdi, struct generation *generation, bool has_claims)
{
        cdi->generation = generation;
        if (cdi->is_serving && (uses_cdi(generation->plan) || has_claims))
                watch_folder(cdi, generation->plan->config->cdi.root);
        follow_lacking(cdi);
}

void agent_cdi_serve(struct agent_cdi *cdi, bool is_serving)
{
        cdi->is_serving = is_serving;
        if (is_serving)
                return;
        cdi->watch = dirwatch_close(cdi->watch);
        free(TAKE_PTR(cdi->watched));
        cdi_files_forget(cdi->files);
        uv_timer_stop(&cdi->pause);
}

void agent_cdi_init(struct agent_cdi *cdi, struct agent *agent)
{
        *cdi = (struct agent_cdi){.agent = agent, .files = cdi_files_new()};
        retry_init(&cdi->retry, &agent->loop, cdi);
        uv_timer_init(&agent->loop, &cdi->pause);
        cdi->pause.data = cdi;
}

void agent_cdi_close(struct agent_cdi *cdi)
{
        agent_cdi_serve(cdi, false);
        retry_close(&cdi->retry);
        uv_close((uv_handle_t *)&cdi->pause, NULL);
}

void agent_cdi_done(struct agent_cdi *cdi)
{
        cdi_files_free(cdi->files);
}
