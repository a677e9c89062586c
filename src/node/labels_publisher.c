#include "node/labels_publisher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "kube/backoff.h"
#include "kube/object.h"
#include "node/labels_objects.h"
#include "node/reconcile.h"

#define FILE_LIMIT ((size_t)1 << 20)

struct labels_publisher {
        struct labels_publisher_options options;
        json_t *labels; /* the newest labels; NULL: none were given yet */
        json_t *owners; /* NULL: unknown */
        bool has_asked_owners;
        bool is_newer;          /* the labels have changed since |call| was sent */
        struct kube_call *call; /* the write in progress; NULL: none */
        struct backoff backoff;
        uv_timer_t timer;
        struct node_reconcile *reconcile;
        char *uid;     /* of the node, when the NodeFeature was last checked; NULL: not seen yet */
        char *new_uid; /* of the node, as it was last seen */
};

static void node_labels_publisher_begin(struct labels_publisher *publisher);

/* ---- outcome ---- */

static void on_labels_publisher_timer(uv_timer_t *timer)
{
        node_labels_publisher_begin(timer->data);
}

static void labels_publisher_arm(struct labels_publisher *publisher, uint64_t ms)
{
        uv_timer_start(&publisher->timer, on_labels_publisher_timer, ms, 0);
}

static void labels_publisher_finish(
        struct labels_publisher *publisher, const struct error *error, uint64_t retry_after_ms)
{
        publisher->call = NULL;
        if (publisher->is_newer) {
                publisher->is_newer = false;
                labels_publisher_arm(publisher, 0);
                return;
        }
        if (error) {
                labels_publisher_arm(
                        publisher, backoff_next(&publisher->backoff, retry_after_ms, (uint32_t)uv_hrtime()));
        } else {
                publisher->backoff.failures = 0;
                if (publisher->options.refresh_ms)
                        labels_publisher_arm(publisher, publisher->options.refresh_ms);
        }
        publisher->options.done(error, publisher->options.data);
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

static void write_file(struct labels_publisher *publisher)
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
        labels_publisher_finish(publisher, rc < 0 ? &err : NULL, 0);
}

/* ---- the NodeFeature ---- */

static void on_labels_publisher_written(const struct kube_answer *answer, void *data)
{
        labels_publisher_finish(data, answer->error, answer->retry_after_ms);
}

static bool edit_feature(json_t *object, void *data)
{
        const struct labels_publisher *publisher = data;

        labels_feature_set(object, publisher->options.node, publisher->labels, publisher->owners);
        return true;
}

static void create_feature(struct labels_publisher *publisher)
{
        _free_ char *path = labels_feature_path(publisher->options.scope, NULL);
        json_t *object = json_object();

        labels_feature_set(object, publisher->options.node, publisher->labels, publisher->owners);
        publisher->call = kube_client_send(publisher->options.client, &(struct kube_request){.method = KUBE_CREATE,
                                                                              .path = path,
                                                                              .body = object,
                                                                              .done = on_labels_publisher_written,
                                                                              .data = publisher});
        json_decref(object);
}

static void on_edited(const struct kube_answer *answer, void *data)
{
        struct labels_publisher *publisher = data;

        if (answer->status == 404)
                create_feature(publisher); /* a kind that does not exist also gives a 404 */
        else
                labels_publisher_finish(publisher, answer->error, answer->retry_after_ms);
}

static void write_feature(struct labels_publisher *publisher)
{
        _free_ char *path = labels_feature_path(publisher->options.scope, publisher->options.node);

        publisher->call = kube_client_edit(publisher->options.client,
                &(struct kube_edit){
                        .path = path, .replace = true, .edit = edit_feature, .done = on_edited, .data = publisher});
}

/*
 * Labels without an owner are better than none: they only remain when the DaemonSet is deleted. If the owner cannot be
 * read now, it is asked for again the next time.
 */
static void on_pod(const struct kube_answer *answer, void *data)
{
        struct labels_publisher *publisher = data;

        publisher->has_asked_owners = !answer->error || answer->status == 403 || answer->status == 404;
        if (!answer->error)
                publisher->owners = labels_feature_owners(answer->object);
        else if (publisher->has_asked_owners)
                log_warn("the NodeFeature gets no owner: this pod cannot be read", LOG_ERR(answer->error));
        else
                log_debug("the NodeFeature gets no owner yet: this pod cannot be read", LOG_ERR(answer->error));
        write_feature(publisher);
}

static void ask_owners(struct labels_publisher *publisher)
{
        _free_ char *pods = object_collection("/api/v1", publisher->options.scope, "pods");
        _free_ char *path = object_path(pods, publisher->options.pod);

        publisher->call = kube_client_send(publisher->options.client,
                &(struct kube_request){.method = KUBE_GET, .path = path, .done = on_pod, .data = publisher});
}

/* ---- the node ---- */

static void write_node(struct labels_publisher *publisher)
{
        _free_ char *path = labels_node_path(publisher->options.node);
        json_t *object = labels_node_object(publisher->options.node, publisher->labels);

        publisher->call = kube_client_send(publisher->options.client, &(struct kube_request){.method = KUBE_APPLY,
                                                                              .path = path,
                                                                              .body = object,
                                                                              .field_manager = LABELS_FIELD_MANAGER,
                                                                              .force = true,
                                                                              .done = on_labels_publisher_written,
                                                                              .data = publisher});
        json_decref(object);
}

static void node_labels_publisher_begin(struct labels_publisher *publisher)
{
        switch (publisher->options.output) {
        case LABELS_NONE:
                break;
        case LABELS_FILE:
                write_file(publisher);
                break;
        case LABELS_NODE_FEATURE:
                if (*publisher->options.pod && !publisher->has_asked_owners)
                        ask_owners(publisher);
                else
                        write_feature(publisher);
                break;
        case LABELS_NODE:
                write_node(publisher);
                break;
        }
}

/* ---- watching the node ---- */

static bool has_labels(const json_t *node, void *data)
{
        const struct labels_publisher *publisher = data;

        return object_covers(object_find(node, "metadata", "labels", NULL), publisher->labels);
}

static void set_text(char **place, const char *text)
{
        free(*place);
        *place = xstrdup(text);
}

static bool is_same_node(const json_t *node, void *data)
{
        struct labels_publisher *publisher = data;
        const char *uid = object_text(node, "metadata", "uid", NULL);

        set_text(&publisher->new_uid, uid ? uid : "");
        if (!publisher->uid)
                set_text(&publisher->uid, publisher->new_uid);
        return !publisher->labels || strcmp(publisher->uid, publisher->new_uid) == 0;
}

static bool labels_publisher_reconcile(void *data)
{
        struct labels_publisher *publisher = data;

        if (publisher->call || !publisher->options.scope)
                return false;
        if (publisher->new_uid)
                set_text(&publisher->uid, publisher->new_uid);
        labels_publisher_arm(publisher, 0);
        return true;
}

/* ---- public ---- */

struct labels_publisher *labels_publisher_new(const struct labels_publisher_options *options)
{
        struct labels_publisher *publisher = xcalloc(1, sizeof(*publisher));
        const struct node_reconcile_options mending = {
                .loop = options->loop,
                .watch = options->watch,
                .what = "labels",
                .is_right = options->output == LABELS_NODE ? has_labels : is_same_node,
                .reconcile = labels_publisher_reconcile,
                .data = publisher,
        };

        publisher->options = *options;
        publisher->options.file = xstrdup(options->file ? options->file : "");
        publisher->options.node = xstrdup(options->node ? options->node : "");
        publisher->options.scope = options->scope ? xstrdup(options->scope) : NULL;
        publisher->options.pod = xstrdup(options->pod ? options->pod : "");
        publisher->backoff = (struct backoff){LABELS_RETRY_MS, LABELS_RETRY_LIMIT_MS, 0};
        uv_timer_init(options->loop, &publisher->timer);
        publisher->timer.data = publisher;
        if (options->output == LABELS_NODE || options->output == LABELS_NODE_FEATURE)
                publisher->reconcile = node_reconcile_new(&mending);
        return publisher;
}

void labels_publisher_begin(struct labels_publisher *publisher, const char *scope)
{
        if (publisher->options.scope)
                return;
        publisher->options.scope = xstrdup(scope);
        if (publisher->labels)
                labels_publisher_arm(publisher, 0);
}

void labels_publisher_put(struct labels_publisher *publisher, const struct labels *labels)
{
        json_decref(publisher->labels);
        publisher->labels = json_object();
        for (size_t i = 0; i < labels->count; i++)
                json_object_set_new(publisher->labels, labels->items[i].key, json_string(labels->items[i].value));
        publisher->backoff.failures = 0;
        if (publisher->call)
                publisher->is_newer = true;
        else if (publisher->options.scope)
                labels_publisher_arm(publisher, 0);
}

static void on_labels_publisher_closed(uv_handle_t *handle)
{
        struct labels_publisher *publisher = handle->data;

        json_decref(publisher->labels);
        json_decref(publisher->owners);
        free((char *)(uintptr_t)publisher->options.file);
        free((char *)(uintptr_t)publisher->options.node);
        free((char *)(uintptr_t)publisher->options.scope);
        free((char *)(uintptr_t)publisher->options.pod);
        free(publisher->uid);
        free(publisher->new_uid);
        free(publisher);
}

struct labels_publisher *labels_publisher_close(struct labels_publisher *publisher)
{
        if (!publisher)
                return NULL;
        publisher->reconcile = node_reconcile_close(publisher->reconcile);
        publisher->call = kube_call_cancel(publisher->call);
        uv_close((uv_handle_t *)&publisher->timer, on_labels_publisher_closed);
        return NULL;
}
