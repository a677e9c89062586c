#include "node/ledger/mps_report.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

#define PODS_OF_A_USER ((size_t)4)

/* The state of one daemon as it was reported last. */
struct reported {
        char *name;
        enum mps_state state;
        char *notice;
        bool had_fault; /* and no "ready" since */
        bool is_shm_full;
};

struct mps_report {
        struct pod_events *pod_events;
        struct node_events *events;
        struct reported *reported;
        size_t n_reported;
        bool is_unconnected; /* it was reported that no supervisor is connected */
        bool is_shm_full;    /* of the node: reported, and it still is */
};

struct mps_report *mps_report_new(struct pod_events *pod_events)
{
        struct mps_report *report = xcalloc(1, sizeof(*report));

        report->pod_events = pod_events;
        report->events = pod_events->core->options.events;
        return report;
}

static void free_reported(struct mps_report *report)
{
        for (size_t i = 0; i < report->n_reported; i++) {
                free(report->reported[i].name);
                free(report->reported[i].notice);
        }
        free(report->reported);
}

struct mps_report *mps_report_free(struct mps_report *report)
{
        if (!report)
                return NULL;
        free_reported(report);
        free(report);
        return NULL;
}

static const struct reported *mps_report_find_reported(const struct mps_report *report, const char *name)
{
        for (size_t i = 0; i < report->n_reported; i++)
                if (strcmp(report->reported[i].name, name) == 0)
                        return &report->reported[i];
        return NULL;
}

static char *pods_of(const struct mps_report *report, const struct mps_daemon_status *daemon)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < daemon->n_units; i++) {
                _free_ char *some = pod_events_names(report->pod_events, daemon->units[i]);

                if (*some)
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", some);
        }
        return xstrdup(text.data);
}

/* Reports an event on the node, and one on each pod that holds a part of the daemon's units. */
static void mps_report_report_all(const struct mps_report *report, const struct mps_daemon_status *daemon,
        enum node_event event, const char *what, const char *detail)
{
        _free_ char *text = xasprintf("MPS daemon '%s' of %s %s%s%s", daemon->name, daemon->resource, what,
                detail ? ": " : "", detail ? detail : "");

        node_events_report(report->events, event, "%s", text);
        for (size_t i = 0; i < daemon->n_units; i++)
                pod_events_report(report->pod_events, daemon->units[i], event, text);
}

/* A daemon that starts for the first time is reported when it is ready, and not before. */
static void mps_report_report_state(const struct mps_report *report, const struct mps_daemon_status *daemon,
        const struct reported *previous, const char *pods)
{
        if (previous && previous->state == daemon->state)
                return;
        if (daemon->state == MPS_FAULT) {
                log_warn("MPS daemon at fault, its replicas are unhealthy",
                        LOG_STR("event", node_event_reason(NODE_EVENT_MPS_DAEMON_FAULT)),
                        LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_STR("reason", daemon->reason), LOG_STR("pods", *pods ? pods : "-"));
                mps_report_report_all(report, daemon, NODE_EVENT_MPS_DAEMON_FAULT,
                        "is at fault, its replicas are unhealthy", daemon->reason);
        } else if (daemon->state == MPS_READY && previous && previous->had_fault) {
                log_info("MPS daemon ready again", LOG_STR("event", node_event_reason(NODE_EVENT_MPS_DAEMON_RECOVERED)),
                        LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_UINT("restarts", daemon->restarts), LOG_STR("pods", *pods ? pods : "-"));
                mps_report_report_all(report, daemon, NODE_EVENT_MPS_DAEMON_RECOVERED, "is ready again", NULL);
        } else if (daemon->state == MPS_READY)
                log_info("MPS daemon ready", LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                        LOG_STR("tier", mps_daemon_promise(daemon, NULL)),
                        LOG_UINT("max_clients", daemon->max_clients));
        else if (daemon->state == MPS_DRAINING)
                log_info("MPS daemon drains: it ends with its last client", LOG_STR("daemon", daemon->name),
                        LOG_STR("resource", daemon->resource), LOG_STR("pods", *pods ? pods : "-"));
}

static void report_notice(const struct mps_report *report, const struct mps_daemon_status *daemon,
        const struct reported *previous, const char *pods)
{
        if (!daemon->notice || (previous && text_is_same(previous->notice, daemon->notice)))
                return;
        log_warn("MPS needs attention", LOG_STR("event", node_event_reason(NODE_EVENT_MPS_NOTICE)),
                LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                LOG_STR("notice", daemon->notice), LOG_STR("pods", *pods ? pods : "-"));
        mps_report_report_all(report, daemon, NODE_EVENT_MPS_NOTICE, "needs attention", daemon->notice);
}

/* A status arrives with every client, so the holders of the unit are looked up only for a report. */
static bool is_news(const struct mps_daemon_status *daemon, const struct reported *previous)
{
        return !previous || previous->state != daemon->state || !text_is_same(previous->notice, daemon->notice);
}

static struct reported mps_report_describe(const struct mps_report *report, const struct mps_daemon_status *daemon)
{
        const struct reported *previous = mps_report_find_reported(report, daemon->name);
        _free_ char *concerned = is_news(daemon, previous) ? pods_of(report, daemon) : xstrdup("");
        bool had_fault = previous && previous->had_fault;

        mps_report_report_state(report, daemon, previous, concerned);
        report_notice(report, daemon, previous, concerned);
        return (struct reported){
                .name = xstrdup(daemon->name),
                .state = daemon->state,
                .notice = daemon->notice ? xstrdup(daemon->notice) : NULL,
                .had_fault = daemon->state == MPS_FAULT || (had_fault && daemon->state != MPS_READY),
        };
}

/*
 * "; MPS clients of user 1000: pod 1e2f…, …": the pods whose processes run under the owners' users, which may be
 * several.
 */
static void add_pods_of_user(struct strbuf *text, const struct mps_status *status, uid_t uid)
{
        const char *reported_pods[PODS_OF_A_USER];
        size_t count = 0;

        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_clients && count < PODS_OF_A_USER; j++) {
                        const struct mps_client *client = &status->daemons[i].clients[j];
                        size_t known = 0;

                        if (client->uid != uid || !client->pod_uid)
                                continue;
                        while (known < count && strcmp(reported_pods[known], client->pod_uid) != 0)
                                known++;
                        if (known < count)
                                continue;
                        if (count)
                                strbuf_printf(text, ", %s", client->pod_uid);
                        else
                                strbuf_printf(text, "; MPS clients of user %u are in the pods with UID %s",
                                        (unsigned int)uid, client->pod_uid);
                        reported_pods[count++] = client->pod_uid;
                }
}

/*
 * Reports once each time that the shared memory fills. |daemon| is its only user; NULL: it is that of all daemons
 * without their own. Nothing is reported before the supervisor has read its size.
 */
static bool report_shm(const struct mps_report *report, const struct mps_status *status, const struct mps_shm *shm,
        const struct mps_daemon_status *daemon, bool was_full)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *what = mps_shm_text(shm);
        _free_ char *whose = daemon ? xasprintf("MPS daemon '%s'", daemon->name) : xstrdup("MPS");

        if (!shm->size || shm->is_full == was_full)
                return was_full;
        strbuf_puts(&text, what);
        for (size_t i = 0; i < shm->n_owners; i++)
                add_pods_of_user(&text, status, shm->owners[i].uid);
        if (!shm->is_full) {
                log_info("the shared memory of MPS has room again", LOG_STR("daemon", daemon ? daemon->name : "-"),
                        LOG_STR("what", text.data));
                return false;
        }
        log_warn("the shared memory of MPS is almost full",
                LOG_STR("event", node_event_reason(NODE_EVENT_MPS_SHARED_MEMORY_FULL)),
                LOG_STR("daemon", daemon ? daemon->name : "-"), LOG_STR("what", text.data));
        node_events_report(report->events, NODE_EVENT_MPS_SHARED_MEMORY_FULL,
                "the shared memory of %s (/dev/shm of its containers) is almost full, and new clients fail on %s when "
                "it is: %s",
                whose, daemon ? "its GPUs" : "every GPU", text.data);
        return true;
}

static void report_unconnected(const struct mps_report *report, const char *reason)
{
        log_warn("no MPS daemon answers, the replicas under MPS are unhealthy",
                LOG_STR("event", node_event_reason(NODE_EVENT_MPS_UNAVAILABLE)), LOG_STR("reason", reason));
        node_events_report(report->events, NODE_EVENT_MPS_UNAVAILABLE,
                "no `warpshare mps` answers on this node, the replicas of GPUs shared by MPS are unhealthy: %s",
                reason);
}

void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed)
{
        struct reported *reported;

        if (!status) {
                if (is_needed && !report->is_unconnected)
                        report_unconnected(report, reason);
                report->is_unconnected = is_needed;
                return;
        }
        report->is_unconnected = false;
        report->is_shm_full = report_shm(report, status, &status->shm, NULL, report->is_shm_full);
        reported = xcalloc(status->n_daemons, sizeof(*reported));
        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];
                const struct reported *previous = mps_report_find_reported(report, daemon->name);

                reported[i] = mps_report_describe(report, daemon);
                reported[i].is_shm_full =
                        report_shm(report, status, &daemon->shm, daemon, previous && previous->is_shm_full);
        }
        free_reported(report);
        report->reported = reported;
        report->n_reported = status->n_daemons;
}

/*
 * Reports nothing if only the UID of the pod is known, as for a process without an allocation: the event on the node
 * must suffice.
 */
static void report_pod(const struct mps_report *report, const struct limit_violation *violation, enum node_event event,
        const char *text)
{
        const char *slash = violation->pod ? strchr(violation->pod, '/') : NULL;
        _free_ char *namespace = NULL;
        struct node_event_pod pod;

        if (!slash)
                return;
        namespace = xasprintf("%.*s", (int)(slash - violation->pod), violation->pod);
        pod = (struct node_event_pod){namespace, slash + 1, violation->pod_uid};
        node_events_report_pod(report->events, &pod, event, "%s", text);
}

static void report_violation(const struct mps_report *report, enum log_level level, const char *message,
        enum node_event event, const struct limit_violation *violation)
{
        _free_ char *text = xasprintf("%s: %s", message, violation->text);

        LOG_AT(level, message, LOG_STR("event", node_event_reason(event)),
                LOG_STR("violation", limit_violation_kind_name(violation->kind)), LOG_STR("unit", violation->unit),
                LOG_STR("pod", violation->pod ? violation->pod : violation->pod_uid),
                LOG_STR("container", violation->container_id), LOG_INT("client", violation->client),
                LOG_STR("text", violation->text));
        node_events_report(report->events, event, "%s", text);
        report_pod(report, violation, event, text);
}

void mps_report_violations(const struct mps_report *report, const struct limit_monitor_report *limit_monitor)
{
        for (size_t i = 0; i < limit_monitor->n_appeared; i++)
                report_violation(report, LOG_WARN, "limit violated", NODE_EVENT_MPS_ALLOCATION_VIOLATED,
                        limit_monitor->appeared[i]);
        for (size_t i = 0; i < limit_monitor->n_gone; i++)
                report_violation(
                        report, LOG_INFO, "limit holds again", NODE_EVENT_MPS_ALLOCATION_HOLDS, limit_monitor->gone[i]);
        for (size_t i = 0; i < limit_monitor->n_ending; i++)
                report_violation(report, LOG_WARN, "terminating an MPS client", NODE_EVENT_MPS_CLIENT_TERMINATED,
                        limit_monitor->ending[i]);
}
