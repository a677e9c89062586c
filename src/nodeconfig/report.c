#include "nodeconfig/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kube/object.h"
#include "node/reconcile.h"

#define PREFIX "warpshare.dev/config"

struct config_report {
        struct kube_client *client;
        char *node;
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

/* ---- keeping them ---- */

static struct kube_call *report_write(json_t *wanted, void *data)
{
        struct config_report *report = data;
        _free_ char *path = object_path("/api/v1/nodes", report->node);

        return kube_client_send(report->client, &(struct kube_request){.method = KUBE_APPLY,
                                                        .path = path,
                                                        .body = wanted,
                                                        .field_manager = CONFIG_REPORT_MANAGER,
                                                        .force = true,
                                                        .done = node_reconcile_answered,
                                                        .data = report->reconcile});
}

static bool is_right(const json_t *node, const json_t *written, void *data UNUSED)
{
        return config_report_is_on(node, written);
}

struct config_report *config_report_new(struct kube_client *client, struct node_watch *watch, const char *node)
{
        struct config_report *report = xcalloc(1, sizeof(*report));
        const struct node_reconcile_options options = {
                .loop = kube_client_loop(client),
                .watch = watch,
                .retry_ms = CONFIG_REPORT_RETRY_MS,
                .retry_limit_ms = CONFIG_REPORT_RETRY_MAX_MS,
                .what = "annotations",
                .failed = "the node's annotations cannot be written, will try again",
                .succeeded = "the node's annotations are written",
                .write = report_write,
                .is_right = is_right,
                .data = report,
        };

        report->client = client;
        report->node = xstrdup(node);
        report->reconcile = node_reconcile_new(&options);
        node_reconcile_serve(report->reconcile, true);
        return report;
}

void config_report_publish(struct config_report *report, const struct config_status *status)
{
        node_reconcile_put(report->reconcile, config_report_node(report->node, status));
}

struct config_report *config_report_close(struct config_report *report)
{
        if (!report)
                return NULL;
        node_reconcile_close(report->reconcile);
        free(report->node);
        free(report);
        return NULL;
}
