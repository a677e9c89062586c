#include "cmd/uninstall/uninstall.h"

#include <string.h>

#include "base/text.h"
#include "net/kube/client.h"
#include "net/kube/object.h"
#include "node/status/state.h"
#include "node/status/taint.h"

#define ANNOTATION_PREFIX "warpshare.dev/"

/* The removal in progress. */
struct node_removal {
        struct removals *removals;
        struct kube_client *client;
        const char *node;
        char *path;
        char *status_path;
        char *taint;       /* our taint, or NULL */
        char *annotations; /* "a, b": our keys except the taint's; or NULL */
        bool has_taint;    /* the taint was really removed */
        bool is_over;
};

/* ---- taint and annotations ---- */

static char *list_annotations(const json_t *annotations)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)annotations, key,
                value) if (text_starts_with(key, ANNOTATION_PREFIX) && strcmp(key, NODE_TAINT_ANNOTATION) != 0)
                strbuf_printf(&text, "%s%s", text.size ? ", " : "", key);
        return text.size ? strbuf_take(&text) : NULL;
}

static void drop_annotations(json_t *annotations)
{
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(annotations, next, key, value) if (text_starts_with(key, ANNOTATION_PREFIX))
                json_object_del(annotations, key);
}

static size_t count_taints(const json_t *node)
{
        return json_array_size(object_find(node, "spec", "taints", NULL));
}

static bool edit_node(json_t *node, void *data)
{
        struct node_removal *removal = data;
        json_t *annotations = object_find(node, "metadata", "annotations", NULL);
        const char *taint = node_taint_of(node);
        size_t n_before = count_taints(node);

        free(removal->annotations);
        free(removal->taint);
        removal->annotations = list_annotations(annotations);
        removal->taint = taint ? xstrdup(taint) : NULL;
        node_taint_merge(node, NULL);
        removal->has_taint = count_taints(node) < n_before;
        drop_annotations(annotations);
        return !removal->removals->is_dry && (removal->annotations || removal->taint);
}

static void report_node(struct node_removal *removal)
{
        struct removals *removals = removal->removals;

        if (!removal->taint)
                removals_add(removals, REMOVAL_ABSENT, "taint", removal->node, "%s", "");
        else
                removals_add(removals, removal->has_taint ? REMOVAL_DONE : REMOVAL_ABSENT, "taint", removal->node,
                        "%s%s", removal->taint,
                        removal->has_taint ? "" : ": it was changed or removed by another client");
        if (removal->annotations)
                removals_add(removals, REMOVAL_DONE, "annotations", removal->node, "%s", removal->annotations);
        else
                removals_add(removals, REMOVAL_ABSENT, "annotations", removal->node, "%s", "");
}

/* ---- condition ---- */

static void on_condition_removed(const struct kube_answer *answer, void *data)
{
        struct node_removal *removal = data;

        if (answer->error)
                removals_add(removal->removals, REMOVAL_LEFT, "condition", removal->node, "%s", answer->error->text);
        else
                removals_add(removal->removals, REMOVAL_DONE, "condition", removal->node, "%s", "");
        removal->is_over = true;
}

static void remove_condition(struct node_removal *removal)
{
        json_t *body = node_state_status(removal->node, NULL);
        const struct kube_request request = {
                .method = KUBE_APPLY,
                .path = removal->status_path,
                .body = body,
                .field_manager = NODE_STATE_MANAGER,
                .force = true,
                .done = on_condition_removed,
                .data = removal,
        };

        kube_client_send(removal->client, &request);
        json_decref(body);
}

static void on_edited(const struct kube_answer *answer, void *data)
{
        struct node_removal *removal = data;
        struct removals *removals = removal->removals;

        if (answer->error) {
                removals_add(removals, answer->status == 404 ? REMOVAL_ABSENT : REMOVAL_LEFT, "taint and condition",
                        removal->node, "%s", answer->error->text);
                removal->is_over = true;
                return;
        }
        report_node(removal);
        if (!node_state_has_condition(answer->object)) {
                removals_add(removals, REMOVAL_ABSENT, "condition", removal->node, "%s", "");
                removal->is_over = true;
        } else if (removals->is_dry) {
                removals_add(removals, REMOVAL_DONE, "condition", removal->node, "%s", "");
                removal->is_over = true;
        } else {
                remove_condition(removal);
        }
}

/* ---- all of it ---- */

static void node_ask(struct node_removal *removal)
{
        struct kube_edit edit = {.edit = edit_node, .field_manager = "warpshare", .done = on_edited, .data = removal};

        removal->path = object_path("/api/v1/nodes", removal->node);
        removal->status_path = xasprintf("%s/status", removal->path);
        edit.path = removal->path;
        kube_client_edit(removal->client, &edit);
}

void uninstall_node(struct removals *removals, struct api_visit *visit, const char *node)
{
        struct node_removal removal = {.removals = removals, .client = visit->client, .node = node};

        if (!visit->client) {
                removals_add(removals, visit->is_outside ? REMOVAL_UNSEEN : REMOVAL_LEFT, "taint and condition", node,
                        "%s", visit->why.text);
                return;
        }
        node_ask(&removal);
        api_visit_wait(visit, &removal.is_over);
        free(removal.path);
        free(removal.status_path);
        free(removal.taint);
        free(removal.annotations);
}
