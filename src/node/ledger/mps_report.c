// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/mps_report.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

#define PODS_OF_A_USER ((size_t)4)

void mps_report_init(struct mps_report *report, struct pod_events *pod_events)
{
        *report = (struct mps_report){.pod_events = pod_events};
}

void mps_report_done(struct mps_report *report)
{
        mps_faults_done(&report->faults);
}

const struct mps_faults *mps_report_faults(const struct mps_report *report)
{
        return &report->faults;
}

static struct node_events *events_of(const struct mps_report *report)
{
        return report->pod_events->core->options.events;
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

        node_events_report(events_of(report), event, "%s", text);
        for (size_t i = 0; i < daemon->n_units; i++)
                pod_events_report(report->pod_events, daemon->units[i], event, text);
}

/* A daemon that starts for the first time is reported when it is ready, and not before. */
static void mps_report_report_state(const struct mps_report *report, const struct mps_daemon_status *daemon,
        const struct mps_fault_count *previous, const char *pods)
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
        } else if (daemon->state == MPS_READY && previous && previous->is_at_fault) {
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
        const struct mps_fault_count *previous, const char *pods)
{
        if (!daemon->notice || (previous && text_is_same(previous->notice, daemon->notice)))
                return;
        log_warn("MPS needs attention", LOG_STR("event", node_event_reason(NODE_EVENT_MPS_NOTICE)),
                LOG_STR("daemon", daemon->name), LOG_STR("resource", daemon->resource),
                LOG_STR("notice", daemon->notice), LOG_STR("pods", *pods ? pods : "-"));
        mps_report_report_all(report, daemon, NODE_EVENT_MPS_NOTICE, "needs attention", daemon->notice);
}

/* A status arrives with every client, so the holders of the unit are looked up only for a report. */
static bool is_news(const struct mps_daemon_status *daemon, const struct mps_fault_count *previous)
{
        return !previous || previous->state != daemon->state || !text_is_same(previous->notice, daemon->notice);
}

static void mps_report_daemon(const struct mps_report *report, const struct mps_daemon_status *daemon)
{
        const struct mps_fault_count *previous = mps_faults_find(&report->faults, daemon->name);
        _free_ char *concerned = is_news(daemon, previous) ? pods_of(report, daemon) : xstrdup("");

        mps_report_report_state(report, daemon, previous, concerned);
        report_notice(report, daemon, previous, concerned);
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
        node_events_report(events_of(report), NODE_EVENT_MPS_SHARED_MEMORY_FULL,
                "the shared memory of %s (/dev/shm of its containers) is almost full, and new clients fail on %s when "
                "it is: %s",
                whose, daemon ? "its GPUs" : "every GPU", text.data);
        return true;
}

static void report_unconnected(const struct mps_report *report, const char *reason)
{
        log_warn("no MPS daemon answers, the replicas under MPS are unhealthy",
                LOG_STR("event", node_event_reason(NODE_EVENT_MPS_UNAVAILABLE)), LOG_STR("reason", reason));
        node_events_report(events_of(report), NODE_EVENT_MPS_UNAVAILABLE,
                "no `warpshare mps` answers on this node, the replicas of GPUs shared by MPS are unhealthy: %s",
                reason);
}

void mps_report_status(struct mps_report *report, const struct mps_status *status, const char *reason, bool is_needed)
{
        if (!status) {
                if (is_needed && !report->is_unconnected)
                        report_unconnected(report, reason);
                report->is_unconnected = is_needed;
                return;
        }
        report->is_unconnected = false;
        report->is_shm_full = report_shm(report, status, &status->shm, NULL, report->is_shm_full);
        for (size_t i = 0; i < status->n_daemons; i++)
                mps_report_daemon(report, &status->daemons[i]);
        mps_faults_follow(&report->faults, status);
        for (size_t i = 0; i < status->n_daemons; i++) {
                bool *is_full = &report->faults.counts[i].is_shm_full;

                *is_full = report_shm(report, status, &status->daemons[i].shm, &status->daemons[i], *is_full);
        }
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
        node_events_report_pod(events_of(report), &pod, event, "%s", text);
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
        node_events_report(events_of(report), event, "%s", text);
        report_pod(report, violation, event, text);
}

static void report_appeared(const struct mps_report *report, const struct limit_violation *violation)
{
        if (violation->kind == LIMIT_VIOLATION_UNKNOWN)
                report_violation(report, LOG_INFO, "the owner of MPS clients is not known",
                        NODE_EVENT_MPS_CLIENT_UNKNOWN, violation);
        else
                report_violation(report, LOG_WARN, "limit violated", NODE_EVENT_MPS_ALLOCATION_VIOLATED, violation);
}

static void report_gone(const struct mps_report *report, const struct limit_violation *violation)
{
        if (violation->kind == LIMIT_VIOLATION_UNKNOWN)
                report_violation(report, LOG_INFO, "the owner of MPS clients is known now, or they have ended",
                        NODE_EVENT_MPS_CLIENT_SETTLED, violation);
        else
                report_violation(report, LOG_INFO, "limit holds again", NODE_EVENT_MPS_ALLOCATION_HOLDS, violation);
}

void mps_report_violations(const struct mps_report *report, const struct limit_monitor_report *limit_monitor)
{
        for (size_t i = 0; i < limit_monitor->n_appeared; i++)
                report_appeared(report, limit_monitor->appeared[i]);
        for (size_t i = 0; i < limit_monitor->n_gone; i++)
                report_gone(report, limit_monitor->gone[i]);
        for (size_t i = 0; i < limit_monitor->n_ending; i++)
                report_violation(report, LOG_WARN, "terminating an MPS client", NODE_EVENT_MPS_CLIENT_TERMINATED,
                        limit_monitor->ending[i]);
}
