#include "node/status/labels_remove.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "net/kube/client.h"
#include "node/labels/labels.h"
#include "node/status/labels_objects.h"

#define FILE_LIMIT ((size_t)1 << 20)

struct removing {
        const struct config *config;
        bool is_dry;
        labels_removal_fn *report;
        void *data;
        struct kube_client *client;
        bool is_over;
        char *feature_path;
        char *feature_name;
        char *node_path;
};

/* ---- the file ---- */

static bool has_our_label(const char *text)
{
        for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
                if (strncmp(text, LABELS_PREFIX, strlen(LABELS_PREFIX)) == 0)
                        return true;
        return false;
}

static void labels_remove_remove_file(const struct removing *removing)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *path = removing->config->node.labels_file;
        enum labels_removal outcome = LABELS_REMOVED;
        const char *note = "";
        struct error err;

        if (!*path || file_read(path, FILE_LIMIT, &text, &err) < 0) {
                bool is_absent = !*path || err.kind == ERROR_NOT_FOUND;

                outcome = is_absent ? LABELS_ABSENT : LABELS_UNSEEN;
                note = is_absent ? "" : err.text;
        } else if (!has_our_label(text.data)) {
                outcome = LABELS_LEFT;
                note = "no label of this program is in it";
        } else if (!removing->is_dry && unlink(path) < 0 && errno != ENOENT) {
                outcome = LABELS_LEFT;
                note = strerror(errno);
        }
        removing->report(outcome, "labels file", path, note, removing->data);
}

/* ---- the node ---- */

static void labels_remove_report_node(struct removing *removing, enum labels_removal outcome, const char *note)
{
        removing->report(outcome, "node labels", removing->config->node.name, note, removing->data);
        removing->is_over = true;
}

static void on_node_cleared(const struct kube_answer *answer, void *data)
{
        labels_remove_report_node(
                data, answer->error ? LABELS_LEFT : LABELS_REMOVED, answer->error ? answer->error->text : "");
}

static void on_labels_remove_node(const struct kube_answer *answer, void *data)
{
        struct removing *removing = data;
        json_t *nothing;

        if (answer->error || !labels_node_is_ours(answer->object)) {
                bool is_unseen = answer->error && answer->status != 404;

                labels_remove_report_node(
                        removing, is_unseen ? LABELS_UNSEEN : LABELS_ABSENT, is_unseen ? answer->error->text : "");
                return;
        }
        if (removing->is_dry) {
                labels_remove_report_node(removing, LABELS_REMOVED, "");
                return;
        }
        nothing = labels_node_object(removing->config->node.name, NULL);
        kube_client_send(removing->client, &(struct kube_request){.method = KUBE_APPLY,
                                                   .path = removing->node_path,
                                                   .body = nothing,
                                                   .field_manager = LABELS_FIELD_MANAGER,
                                                   .force = true,
                                                   .done = on_node_cleared,
                                                   .data = removing});
        json_decref(nothing);
}

/* ---- the NodeFeature ---- */

static void report_feature(struct removing *removing, enum labels_removal outcome, const char *note)
{
        removing->report(outcome, "NodeFeature", removing->feature_name, note, removing->data);
        kube_client_send(removing->client, &(struct kube_request){.method = KUBE_GET,
                                                   .path = removing->node_path,
                                                   .done = on_labels_remove_node,
                                                   .data = removing});
}

static void on_feature_gone(const struct kube_answer *answer, void *data)
{
        bool has_failed = answer->error && answer->status != 404;

        report_feature(data, has_failed ? LABELS_LEFT : LABELS_REMOVED, has_failed ? answer->error->text : "");
}

static void on_feature(const struct kube_answer *answer, void *data)
{
        struct removing *removing = data;

        if (answer->error && answer->status == 404) /* the object or its kind does not exist */
                report_feature(removing, LABELS_ABSENT, "");
        else if (answer->error)
                report_feature(removing, LABELS_UNSEEN, answer->error->text);
        else if (!labels_feature_is_ours(answer->object))
                report_feature(removing, LABELS_LEFT, "no label of this program is in it");
        else if (removing->is_dry)
                report_feature(removing, LABELS_REMOVED, "");
        else
                kube_client_send(removing->client, &(struct kube_request){.method = KUBE_DELETE,
                                                           .path = removing->feature_path,
                                                           .done = on_feature_gone,
                                                           .data = removing});
}

/* ---- all targets ---- */

static void ask_feature(struct removing *removing, const char *scope)
{
        const char *node = removing->config->node.name;

        removing->feature_path = labels_feature_path(*scope ? scope : kube_client_scope(removing->client), node);
        removing->feature_name = labels_feature_name(node);
        removing->node_path = labels_node_path(node);
        kube_client_send(removing->client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = removing->feature_path, .done = on_feature, .data = removing});
}

void labels_remove(struct api_visit *visit, const struct config *config, const char *scope, bool is_dry,
        labels_removal_fn *report, void *data)
{
        struct removing removing = {
                .config = config, .is_dry = is_dry, .report = report, .data = data, .client = visit->client};

        labels_remove_remove_file(&removing);
        if (!visit->client) {
                report(LABELS_UNSEEN, "NodeFeature", "", visit->why.text, data);
                report(LABELS_UNSEEN, "node labels", config->node.name, visit->why.text, data);
                return;
        }
        ask_feature(&removing, scope);
        api_visit_wait(visit, &removing.is_over);
        free(removing.feature_path);
        free(removing.feature_name);
        free(removing.node_path);
}
