#include "nodeconfig/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/complaint.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/backoff.h"
#include "kube/object.h"
#include "node/reconcile.h"

#define PREFIX "warpshare.dev/config"

struct config_report {
        struct kube_client *client;
        char *node;
        json_t *newest;
        bool is_newer; /* changed since it was sent */
        struct kube_call *call;
        uv_timer_t retry;
        struct backoff backoff;
        struct complaint trouble;
        struct node_reconcile *reconcile;
};

/* ---- the annotations ---- */

static void report_put(json_t *annotations, const char *key, char *value)
{
        text_make_utf8(value);
        json_object_set_new(annotations, key, json_string(value));
        free(value);
}

json_t *config_report_node(const char *node, const struct config_status *status)
{
        json_t *object = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", node);
        json_t *annotations = object_make(object, "metadata", "annotations", NULL);

        if (status->name) {
                report_put(annotations, PREFIX, xstrdup(status->name));
                report_put(annotations, PREFIX "-source", xasprintf("%s, by %s", status->source, status->by));
                report_put(annotations, PREFIX "-generation", xasprintf("%" PRIu64, status->generation));
                report_put(annotations, PREFIX "-hash", xstrdup(status->hash));
        }
        report_put(annotations, PREFIX "-status",
                status->verdict == CONFIG_ACCEPTED
                        ? xstrdup(config_verdict_name(status->verdict))
                        : xasprintf("%s: %s", config_verdict_name(status->verdict), status->why));
        return object;
}

bool config_report_is_on(const json_t *node, const json_t *report)
{
        return object_covers(object_find(node, "metadata", "annotations", NULL),
                object_find(report, "metadata", "annotations", NULL));
}

/* ---- sending ---- */

static void send_newest(struct config_report *report);

static void on_report_retry(uv_timer_t *timer)
{
        send_newest(timer->data);
}

static void on_report_done(const struct kube_answer *answer, void *data)
{
        struct config_report *report = data;

        report->call = NULL;
        if (!answer->error) {
                complaint_settle(&report->trouble);
                report->backoff.failures = 0;
                if (report->is_newer)
                        send_newest(report);
                return;
        }
        complain(&report->trouble, "the node's annotations cannot be written, will try again", answer->error);
        uv_timer_start(&report->retry, on_report_retry,
                backoff_next(&report->backoff, answer->retry_after_ms, (uint32_t)uv_hrtime()), 0);
}

static void send_newest(struct config_report *report)
{
        _free_ char *path = object_path("/api/v1/nodes", report->node);
        const struct kube_request request = {
                .method = KUBE_APPLY,
                .path = path,
                .body = report->newest,
                .field_manager = CONFIG_REPORT_MANAGER,
                .force = true,
                .done = on_report_done,
                .data = report,
        };

        report->is_newer = false;
        report->call = kube_client_send(report->client, &request);
}

static bool is_right(const json_t *node, void *data)
{
        const struct config_report *report = data;

        return !report->newest || config_report_is_on(node, report->newest);
}

static bool report_reconcile(void *data)
{
        struct config_report *report = data;

        if (report->call)
                return false;
        uv_timer_stop(&report->retry);
        send_newest(report);
        return true;
}

struct config_report *config_report_new(struct kube_client *client, struct node_watch *watch, const char *node)
{
        struct config_report *report = xcalloc(1, sizeof(*report));
        const struct node_reconcile_options options = {
                .loop = kube_client_loop(client),
                .watch = watch,
                .what = "annotations",
                .is_right = is_right,
                .reconcile = report_reconcile,
                .data = report,
        };

        report->client = client;
        report->node = xstrdup(node);
        report->backoff = (struct backoff){CONFIG_REPORT_RETRY_MS, CONFIG_REPORT_RETRY_MAX_MS, 0};
        uv_timer_init(kube_client_loop(client), &report->retry);
        report->retry.data = report;
        report->reconcile = node_reconcile_new(&options);
        return report;
}

void config_report_publish(struct config_report *report, const struct config_status *status)
{
        json_t *node = config_report_node(report->node, status);

        if (report->newest && json_equal(report->newest, node)) {
                json_decref(node);
                return;
        }
        json_decref(report->newest);
        report->newest = node;
        report->is_newer = true;
        if (!report->call && !uv_is_active((uv_handle_t *)&report->retry))
                send_newest(report);
}

static void free_report(uv_handle_t *handle)
{
        struct config_report *report = handle->data;

        json_decref(report->newest);
        free(report->node);
        free(report);
}

struct config_report *config_report_close(struct config_report *report)
{
        if (!report)
                return NULL;
        report->reconcile = node_reconcile_close(report->reconcile);
        report->call = kube_call_cancel(report->call);
        uv_close((uv_handle_t *)&report->retry, free_report);
        return NULL;
}
