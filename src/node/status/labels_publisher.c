// SPDX-License-Identifier: Apache-2.0
#include "node/status/labels_publisher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/status/reconcile.h"

#define FILE_LIMIT ((size_t)1 << 20)
#define NODE_NAME_LABEL "nfd.node.kubernetes.io/node-name"

struct labels_publisher {
        struct labels_publisher_options options;
        struct arena arena; /* of their texts */
        json_t *labels;     /* being written; borrowed */
        json_t *owners;     /* NULL: unknown */
        bool has_asked_owners;
        struct node_reconcile *reconcile;
};

/* ---- objects of the API ---- */

static char *labels_feature_name(const char *node)
{
        return xasprintf("nvidia-features-for-%s", node);
}

char *labels_feature_path(const char *scope, const char *node)
{
        _free_ char *features = object_collection("/apis/nfd.k8s-sigs.io/v1alpha1", scope, "nodefeatures");
        _free_ char *name = node ? labels_feature_name(node) : NULL;

        return name ? object_path(features, name) : TAKE_PTR(features);
}

void labels_feature_set(json_t *object, const char *node, json_t *labels, json_t *owners)
{
        _free_ char *name = labels_feature_name(node);
        json_t *metadata = object_make(object, "metadata", NULL);

        json_object_set_new(object, "apiVersion", json_string("nfd.k8s-sigs.io/v1alpha1"));
        json_object_set_new(object, "kind", json_string("NodeFeature"));
        json_object_set_new(metadata, "name", json_string(name));
        json_object_set_new(metadata, "labels", json_pack("{s:s}", NODE_NAME_LABEL, node));
        if (owners && json_array_size(owners) > 0)
                json_object_set(metadata, "ownerReferences", owners);
        else if (owners)
                json_object_del(metadata, "ownerReferences");
        json_object_set_new(object, "spec",
                json_pack("{s:{s:{}, s:{}, s:{}}, s:O}", "features", "flags", "attributes", "instances", "labels",
                        labels));
}

json_t *labels_feature_owners(const json_t *pod)
{
        const char *name = object_text(pod, "metadata", "name", NULL);
        const char *uid = object_text(pod, "metadata", "uid", NULL);
        json_t *owners = json_array();
        json_t *owner;
        size_t i;

        json_array_foreach(object_find(pod, "metadata", "ownerReferences", NULL), i, owner)
        {
                const char *kind = object_text(owner, "kind", NULL);

                if (!kind || strcmp(kind, "DaemonSet") != 0 || !json_is_true(object_find(owner, "controller", NULL)) ||
                        !name || !uid)
                        continue;
                json_array_append(owners, owner);
                json_array_append_new(owners,
                        json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Pod", "name", name, "uid", uid));
                break;
        }
        return owners;
}

bool labels_feature_is_ours(const json_t *object)
{
        json_t *labels = object_find(object, "spec", "labels", NULL);
        const char *key;
        json_t *value;

        json_object_foreach(labels, key, value)
        {
                if (text_starts_with(key, LABELS_PREFIX))
                        return true;
        }
        return false;
}

json_t *labels_node_object(const char *node, json_t *labels)
{
        json_t *object = object_node(node);

        if (labels)
                json_object_set_new(object_find(object, "metadata", NULL), "labels", labels);
        return object;
}

bool labels_node_is_ours(const json_t *node)
{
        json_t *entry;
        size_t i;

        json_array_foreach(object_find(node, "metadata", "managedFields", NULL), i, entry)
        {
                const char *manager = object_text(entry, "manager", NULL);

                if (manager && strcmp(manager, LABELS_FIELD_MANAGER) == 0 &&
                        json_object_size(object_find(entry, "fieldsV1", NULL)) > 0)
                        return true;
        }
        return false;
}

/* ---- file ---- */

static void labels_publisher_print(const struct labels_publisher *publisher, struct strbuf *text)
{
        const char *key;
        json_t *value;

        json_object_foreach(publisher->labels, key, value)
                strbuf_printf(text, "%s=%s\n", key, json_string_value(value));
}

static bool file_is_same(const char *path, const struct strbuf *text)
{
        _cleanup_(strbuf_done) struct strbuf now = STRBUF_INIT;
        struct error ignored;

        return file_read(path, FILE_LIMIT, &now, &ignored) == 0 && now.size == text->size &&
               memcmp(now.data, text->data, text->size) == 0;
}

static struct kube_call *write_file(struct labels_publisher *publisher)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *path = publisher->options.file;
        struct error err;
        int rc = 0;

        labels_publisher_print(publisher, &text);
        if (!*path) {
                fputs(text.data, stdout);
                rc = fflush(stdout) ? error_set(&err, ERROR_UNAVAILABLE, "standard output cannot be written") : 0;
        } else if (!file_is_same(path, &text)) {
                rc = file_write(path, text.data, text.size, &err);
        }
        node_reconcile_done(publisher->reconcile, rc < 0 ? &err : NULL, 0);
        return NULL;
}

/* ---- the NodeFeature ---- */

static bool edit_feature(json_t *object, void *data)
{
        const struct labels_publisher *publisher = data;

        labels_feature_set(object, publisher->options.node, publisher->labels, publisher->owners);
        return true;
}

static struct kube_call *create_feature(struct labels_publisher *publisher)
{
        _free_ char *path = labels_feature_path(publisher->options.scope, NULL);
        json_t *object = json_object();
        struct kube_call *call;

        labels_feature_set(object, publisher->options.node, publisher->labels, publisher->owners);
        call = kube_client_send(publisher->options.client, &(struct kube_request){.method = KUBE_CREATE,
                                                                   .path = path,
                                                                   .body = object,
                                                                   .done = node_reconcile_answered,
                                                                   .data = publisher->reconcile});
        json_decref(object);
        return call;
}

static void labels_publisher_on_edited(const struct kube_answer *answer, void *data)
{
        struct labels_publisher *publisher = data;

        if (answer->status == 404) /* a kind that does not exist also gives a 404 */
                node_reconcile_go_on(publisher->reconcile, create_feature(publisher));
        else
                node_reconcile_answered(answer, publisher->reconcile);
}

static struct kube_call *write_feature(struct labels_publisher *publisher)
{
        _free_ char *path = labels_feature_path(publisher->options.scope, publisher->options.node);

        return kube_client_edit(publisher->options.client, &(struct kube_edit){.path = path,
                                                                   .replace = true,
                                                                   .edit = edit_feature,
                                                                   .done = labels_publisher_on_edited,
                                                                   .data = publisher});
}

/*
 * Labels without an owner are better than none: they only remain when the DaemonSet is deleted. If the owner cannot be
 * read now, it is asked for again the next time.
 */
static void labels_publisher_on_pod(const struct kube_answer *answer, void *data)
{
        struct labels_publisher *publisher = data;

        publisher->has_asked_owners = !answer->error || answer->status == 403 || answer->status == 404;
        if (!answer->error)
                publisher->owners = labels_feature_owners(answer->object);
        else if (publisher->has_asked_owners)
                log_warn("the NodeFeature gets no owner: this pod cannot be read", LOG_ERR(answer->error));
        else
                log_debug("the NodeFeature gets no owner yet: this pod cannot be read", LOG_ERR(answer->error));
        node_reconcile_go_on(publisher->reconcile, write_feature(publisher));
}

static struct kube_call *ask_owners(struct labels_publisher *publisher)
{
        _free_ char *pods = object_collection("/api/v1", publisher->options.scope, "pods");
        _free_ char *path = object_path(pods, publisher->options.pod);

        return kube_client_send(publisher->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .done = labels_publisher_on_pod, .data = publisher});
}

/* ---- publishing ---- */

static void on_labels_publisher_done(const struct error *error, void *data)
{
        const struct labels_publisher *publisher = data;

        publisher->options.done(error, publisher->options.data);
}

static struct kube_call *labels_publisher_write(json_t *wanted, void *data)
{
        struct labels_publisher *publisher = data;

        publisher->labels = wanted;
        if (publisher->options.output == LABELS_FILE)
                return write_file(publisher);
        return *publisher->options.pod && !publisher->has_asked_owners ? ask_owners(publisher)
                                                                       : write_feature(publisher);
}

struct labels_publisher *labels_publisher_new(const struct labels_publisher_options *options)
{
        struct labels_publisher *publisher = xcalloc(1, sizeof(*publisher));
        const struct node_reconcile_options reconcile = {
                .loop = options->loop,
                .watch = options->output == LABELS_FILE ? NULL : options->watch,
                .retry_ms = LABELS_RETRY_MS,
                .retry_limit_ms = LABELS_RETRY_LIMIT_MS,
                .refresh_ms = options->refresh_ms,
                .what = "labels",
                .failed = "labels cannot be published, will try again",
                .succeeded = "labels are published",
                .write = labels_publisher_write,
                .manager = options->output == LABELS_NODE ? LABELS_FIELD_MANAGER : NULL,
                .client = options->client,
                .node = options->node,
                .done = options->done ? on_labels_publisher_done : NULL,
                .data = publisher,
        };

        publisher->options = *options;
        publisher->options.file = arena_strdup(&publisher->arena, options->file);
        publisher->options.node = arena_strdup(&publisher->arena, options->node);
        publisher->options.scope = options->scope ? arena_strdup(&publisher->arena, options->scope) : NULL;
        publisher->options.pod = arena_strdup(&publisher->arena, options->pod);
        publisher->reconcile = node_reconcile_new(&reconcile);
        node_reconcile_serve(publisher->reconcile, options->scope != NULL);
        return publisher;
}

void labels_publisher_begin(struct labels_publisher *publisher, const char *scope)
{
        if (publisher->options.scope)
                return;
        publisher->options.scope = arena_strdup(&publisher->arena, scope);
        node_reconcile_serve(publisher->reconcile, true);
}

bool labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels)
{
        json_t *wanted = json_object();

        for (size_t i = 0; i < labels->count; i++)
                json_object_set_new(wanted, labels->items[i].key, json_string(labels->items[i].value));
        if (publisher->options.output == LABELS_NODE)
                wanted = labels_node_object(publisher->options.node, wanted);
        return node_reconcile_put(publisher->reconcile, wanted);
}

struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher)
{
        if (!publisher)
                return NULL;
        node_reconcile_close(publisher->reconcile);
        json_decref(publisher->owners);
        arena_done(&publisher->arena);
        free(publisher);
        return NULL;
}

/* ---- removing ---- */

static bool labels_has_ours(const char *text)
{
        for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
                if (text_starts_with(text, LABELS_PREFIX))
                        return true;
        return false;
}

static void labels_remove_file(const char *path, bool is_dry, labels_removal_fn *report, void *data)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        enum labels_removal outcome = LABELS_REMOVED;
        const char *note = "";
        struct error err;

        if (!*path || file_read(path, FILE_LIMIT, &text, &err) < 0) {
                bool is_absent = !*path || err.kind == ERROR_NOT_FOUND;

                outcome = is_absent ? LABELS_ABSENT : LABELS_UNSEEN;
                note = is_absent ? "" : err.text;
        } else if (!labels_has_ours(text.data)) {
                outcome = LABELS_LEFT;
                note = "no label of this program is in it";
        } else if (!is_dry && unlink(path) < 0 && errno != ENOENT) {
                outcome = LABELS_LEFT;
                note = strerror(errno);
        }
        report(outcome, "labels file", path, note, data);
}

/* Where the labels are in the API, and how they are removed from there. */
struct labels_place {
        const char *what;
        const char *name; /* of the object */
        const char *path;
        bool (*is_ours)(const json_t *object);
        const char *not_ours; /* why the object of another program is left; NULL: it has no labels of ours */
        struct kube_request removal;
};

static void labels_remove_from(
        struct api_visit *visit, const struct labels_place *place, bool is_dry, labels_removal_fn *report, void *data)
{
        _cleanup_(api_answer_done) struct api_answer found = {0};
        _cleanup_(api_answer_done) struct api_answer removed = {0};
        enum labels_removal outcome = LABELS_REMOVED;
        const char *note = "";

        api_ask(visit, (struct kube_request){.method = KUBE_GET, .path = place->path}, &found);
        if (found.status == 404) { /* the object or its kind does not exist */
                outcome = LABELS_ABSENT;
        } else if (found.error.kind != ERROR_NONE) {
                outcome = LABELS_UNSEEN;
                note = found.error.text;
        } else if (!place->is_ours(found.object)) {
                outcome = place->not_ours ? LABELS_LEFT : LABELS_ABSENT;
                note = place->not_ours ? place->not_ours : "";
        } else if (!is_dry) {
                api_ask(visit, place->removal, &removed);
                if (removed.error.kind != ERROR_NONE && (removed.status != 404 || !place->not_ours)) {
                        outcome = LABELS_LEFT;
                        note = removed.error.text;
                }
        }
        report(outcome, place->what, place->name, note, data);
}

void labels_remove(struct api_visit *visit, const struct config *config, const char *scope, bool is_dry,
        labels_removal_fn *report, void *data)
{
        _free_ char *name = labels_feature_name(config->node.name);
        _free_ char *node_path = object_path("/api/v1/nodes", config->node.name);
        _free_ char *feature_path = NULL;
        json_t *nothing;

        labels_remove_file(config->node.labels_file, is_dry, report, data);
        if (!visit->client) {
                report(LABELS_UNSEEN, "NodeFeature", "", visit->why.text, data);
                report(LABELS_UNSEEN, "node labels", config->node.name, visit->why.text, data);
                return;
        }
        feature_path = labels_feature_path(*scope ? scope : kube_client_scope(visit->client), config->node.name);
        labels_remove_from(visit,
                &(struct labels_place){.what = "NodeFeature",
                        .name = name,
                        .path = feature_path,
                        .is_ours = labels_feature_is_ours,
                        .not_ours = "no label of this program is in it",
                        .removal = {.method = KUBE_DELETE, .path = feature_path}},
                is_dry, report, data);
        nothing = labels_node_object(config->node.name, NULL);
        labels_remove_from(visit,
                &(struct labels_place){.what = "node labels",
                        .name = config->node.name,
                        .path = node_path,
                        .is_ours = labels_node_is_ours,
                        .removal = {.method = KUBE_APPLY,
                                .path = node_path,
                                .body = nothing,
                                .field_manager = LABELS_FIELD_MANAGER,
                                .force = true}},
                is_dry, report, data);
        json_decref(nothing);
}
