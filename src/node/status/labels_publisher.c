#include "node/status/labels_publisher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "net/kube/object.h"
#include "node/status/labels_objects.h"
#include "node/status/reconcile.h"

#define FILE_LIMIT ((size_t)1 << 20)

struct labels_publisher {
        struct labels_publisher_options options;
        json_t *labels; /* being written; borrowed */
        json_t *owners; /* NULL: unknown */
        bool has_asked_owners;
        struct node_reconcile *reconcile;
};

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

/* ---- the node ---- */

static struct kube_call *labels_publisher_write_node(struct labels_publisher *publisher)
{
        _free_ char *path = labels_node_path(publisher->options.node);
        json_t *object = labels_node_object(publisher->options.node, publisher->labels);
        struct kube_call *call =
                kube_client_send(publisher->options.client, &(struct kube_request){.method = KUBE_APPLY,
                                                                    .path = path,
                                                                    .body = object,
                                                                    .field_manager = LABELS_FIELD_MANAGER,
                                                                    .force = true,
                                                                    .done = node_reconcile_answered,
                                                                    .data = publisher->reconcile});

        json_decref(object);
        return call;
}

static bool has_labels(const json_t *node, const json_t *written, void *data UNUSED)
{
        return object_covers(object_find(node, "metadata", "labels", NULL), written);
}

/* ---- public ---- */

static void on_labels_publisher_done(const struct error *error, void *data)
{
        const struct labels_publisher *publisher = data;

        publisher->options.done(error, publisher->options.data);
}

static struct kube_call *labels_publisher_write(json_t *wanted, void *data)
{
        struct labels_publisher *publisher = data;

        publisher->labels = wanted;
        switch (publisher->options.output) {
        case LABELS_NONE:
                break;
        case LABELS_FILE:
                return write_file(publisher);
        case LABELS_NODE_FEATURE:
                return *publisher->options.pod && !publisher->has_asked_owners ? ask_owners(publisher)
                                                                               : write_feature(publisher);
        case LABELS_NODE:
                return labels_publisher_write_node(publisher);
        }
        return NULL;
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
                .is_right = options->output == LABELS_NODE ? has_labels : NULL,
                .done = options->done ? on_labels_publisher_done : NULL,
                .data = publisher,
        };

        publisher->options = *options;
        publisher->options.file = xstrdup(options->file ? options->file : "");
        publisher->options.node = xstrdup(options->node ? options->node : "");
        publisher->options.scope = options->scope ? xstrdup(options->scope) : NULL;
        publisher->options.pod = xstrdup(options->pod ? options->pod : "");
        publisher->reconcile = node_reconcile_new(&reconcile);
        node_reconcile_serve(publisher->reconcile, options->scope != NULL);
        return publisher;
}

void labels_publisher_begin(struct labels_publisher *publisher, const char *scope)
{
        if (publisher->options.scope)
                return;
        publisher->options.scope = xstrdup(scope);
        node_reconcile_serve(publisher->reconcile, true);
}

void labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels)
{
        json_t *wanted = json_object();

        for (size_t i = 0; i < labels->count; i++)
                json_object_set_new(wanted, labels->items[i].key, json_string(labels->items[i].value));
        node_reconcile_put(publisher->reconcile, wanted);
}

struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher)
{
        if (!publisher)
                return NULL;
        node_reconcile_close(publisher->reconcile);
        json_decref(publisher->owners);
        free((char *)(uintptr_t)publisher->options.file);
        free((char *)(uintptr_t)publisher->options.node);
        free((char *)(uintptr_t)publisher->options.scope);
        free((char *)(uintptr_t)publisher->options.pod);
        free(publisher);
        return NULL;
}
