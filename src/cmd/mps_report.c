#include "cmd/mps_report.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

/* What was told of one daemon. */
struct told {
        char *name;
        enum mps_state state;
        char *notice;
        bool had_fault; /* and no "ready" since */
};

struct mps_report {
        struct told *told;
        size_t n_told;
        bool nobody;
};

struct mps_report *mps_report_new(void)
{
        return xcalloc(1, sizeof(struct mps_report));
}

static void free_told(struct mps_report *report)
{
        for (size_t i = 0; i < report->n_told; i++) {
                free(report->told[i].name);
                free(report->told[i].notice);
        }
        free(report->told);
}

struct mps_report *mps_report_free(struct mps_report *report)
{
        if (!report)
                return NULL;
        free_told(report);
        free(report);
        return NULL;
}

static const struct told *find_told(const struct mps_report *report, const char *name)
{
        for (size_t i = 0; i < report->n_told; i++)
                if (strcmp(report->told[i].name, name) == 0)
                        return &report->told[i];
        return NULL;
}

static char *pods_of(const struct mps_daemon_status *daemon, mps_pods_fn *pods, void *data)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < daemon->n_units; i++) {
                _free_ char *some = pods(daemon->units[i], data);

                if (*some)
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", some);
        }
        return xstrdup(text.data);
}

/* A daemon that starts for the first time tells that it is ready, and nothing of the way there. */
static void tell_state(const struct mps_daemon_status *daemon, const struct told *before, const char *pods)
{
        if (before && before->state == daemon->state)
                return;
        if (daemon->state == MPS_FAULT)
                log_warn("MPS daemon at fault, its replicas wait", LOG_STR("event", "MPSDaemonFault"),
                        LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_STR("reason", daemon->reason), LOG_STR("pods", *pods ? pods : "-"));
        else if (daemon->state == MPS_READY && before && before->had_fault)
                log_info("MPS daemon ready again", LOG_STR("event", "MPSDaemonRecovered"),
                        LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_UINT("restarts", daemon->restarts), LOG_STR("pods", *pods ? pods : "-"));
        else if (daemon->state == MPS_READY)
                log_info("MPS daemon ready", LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_STR("tier", mps_tier_name(daemon->tier)), LOG_UINT("max_clients", daemon->max_clients));
        else if (daemon->state == MPS_DRAINING)
                log_info("MPS daemon drains: it ends with its last client", LOG_STR("daemon", daemon->name),
                        LOG_STR("resource", daemon->resource), LOG_STR("pods", *pods ? pods : "-"));
}

static void tell_notice(const struct mps_daemon_status *daemon, const struct told *before, const char *pods)
{
        if (!daemon->notice || (before && text_is_same(before->notice, daemon->notice)))
                return;
        log_warn("MPS needs a look", LOG_STR("event", "MPSNotice"), LOG_STR("daemon", daemon->name),
                LOG_STR("resource", daemon->resource), LOG_STR("notice", daemon->notice),
                LOG_STR("pods", *pods ? pods : "-"));
}

/* A status comes with every client; who holds the unit is looked up only where there is something to tell. */
static bool is_news(const struct mps_daemon_status *daemon, const struct told *before)
{
        return !before || before->state != daemon->state || !text_is_same(before->notice, daemon->notice);
}

static struct told tell(
        const struct mps_report *report, const struct mps_daemon_status *daemon, mps_pods_fn *pods, void *data)
{
        const struct told *before = find_told(report, daemon->name);
        _free_ char *concerned = is_news(daemon, before) ? pods_of(daemon, pods, data) : xstrdup("");
        bool had_fault = before && before->had_fault;

        tell_state(daemon, before, concerned);
        tell_notice(daemon, before, concerned);
        return (struct told){
                .name = xstrdup(daemon->name),
                .state = daemon->state,
                .notice = daemon->notice ? xstrdup(daemon->notice) : NULL,
                .had_fault = daemon->state == MPS_FAULT || (had_fault && daemon->state != MPS_READY),
        };
}

void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed,
        mps_pods_fn *pods, void *data)
{
        struct told *told;

        if (!status) {
                if (is_needed && !report->nobody)
                        log_warn("no MPS daemon answers, its replicas wait", LOG_STR("event", "MPSUnavailable"),
                                LOG_STR("reason", reason));
                report->nobody = is_needed;
                return;
        }
        report->nobody = false;
        told = xcalloc(status->n_daemons, sizeof(*told));
        for (size_t i = 0; i < status->n_daemons; i++)
                told[i] = tell(report, &status->daemons[i], pods, data);
        free_told(report);
        report->told = told;
        report->n_told = status->n_daemons;
}

static void tell_finding(
        enum log_level level, const char *message, const char *event, const struct guard_finding *finding)
{
        LOG_AT(level, message, LOG_STR("event", event), LOG_STR("finding", guard_kind_name(finding->kind)),
                LOG_STR("unit", finding->unit), LOG_STR("pod", finding->pod ? finding->pod : finding->pod_uid),
                LOG_STR("container", finding->container_id), LOG_INT("client", finding->client),
                LOG_STR("text", finding->text));
}

void mps_report_guard(const struct guard_report *report)
{
        for (size_t i = 0; i < report->n_appeared; i++)
                tell_finding(LOG_WARN, "a grant does not hold", "MPSGrantViolated", report->appeared[i]);
        for (size_t i = 0; i < report->n_gone; i++)
                tell_finding(LOG_INFO, "the grant holds again", "MPSGrantHolds", report->gone[i]);
        for (size_t i = 0; i < report->n_ending; i++)
                tell_finding(LOG_WARN, "ending an MPS client", "MPSClientTerminated", report->ending[i]);
}
