#include "node/apply.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/complaint.h"
#include "base/log.h"
#include "kube/backoff.h"
#include "kube/object.h"
#include "node/reconcile.h"

struct node_apply {
        struct node_apply_options options;
        char *path;
        char *cannot; /* for the log */
        json_t *newest;
        bool is_newer; /* changed since it was sent */
        struct kube_call *call;
        uv_timer_t retry;
        struct backoff backoff;
        struct complaint trouble;
        struct node_reconcile *reconcile;
};

bool node_apply_is_on(const json_t *node, const json_t *object)
{
        static const char *const kinds[] = {"labels", "annotations"};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (!object_covers(object_find(node, "metadata", kinds[i], NULL),
                            object_find(object, "metadata", kinds[i], NULL)))
                        return false;
        return true;
}

/* ---- sending ---- */

static void apply_send(struct node_apply *apply);

static void on_apply_retry(uv_timer_t *timer)
{
        apply_send(timer->data);
}

static void on_applied(const struct kube_answer *answer, void *data)
{
        struct node_apply *apply = data;

        apply->call = NULL;
        if (!answer->error) {
                complaint_settle(&apply->trouble);
                apply->backoff.failures = 0;
                if (apply->is_newer)
                        apply_send(apply);
                return;
        }
        complain(&apply->trouble, apply->cannot, answer->error);
        uv_timer_start(&apply->retry, on_apply_retry,
                backoff_next(&apply->backoff, answer->retry_after_ms, (uint32_t)uv_hrtime()), 0);
}

static void apply_send(struct node_apply *apply)
{
        const struct kube_request request = {
                .method = KUBE_APPLY,
                .path = apply->path,
                .body = apply->newest,
                .field_manager = apply->options.manager,
                .force = true,
                .done = on_applied,
                .data = apply,
        };

        apply->is_newer = false;
        apply->call = kube_client_send(apply->options.client, &request);
}

static bool apply_is_right(const json_t *node, void *data)
{
        const struct node_apply *apply = data;

        return !apply->newest || node_apply_is_on(node, apply->newest);
}

static bool apply_reconcile(void *data)
{
        struct node_apply *apply = data;

        if (apply->call)
                return false;
        uv_timer_stop(&apply->retry);
        apply_send(apply);
        return true;
}

struct node_apply *node_apply_new(const struct node_apply_options *options)
{
        struct node_apply *apply = xcalloc(1, sizeof(*apply));
        const struct node_reconcile_options reconcile = {
                .loop = kube_client_loop(options->client),
                .watch = options->watch,
                .what = options->what,
                .is_right = apply_is_right,
                .reconcile = apply_reconcile,
                .data = apply,
        };

        apply->options = *options;
        apply->path = object_path("/api/v1/nodes", options->node);
        apply->cannot = xasprintf("the node's %s cannot be written, will try again", options->what);
        apply->backoff = (struct backoff){NODE_APPLY_RETRY_MS, NODE_APPLY_RETRY_MAX_MS, 0};
        uv_timer_init(kube_client_loop(options->client), &apply->retry);
        apply->retry.data = apply;
        apply->reconcile = node_reconcile_new(&reconcile);
        return apply;
}

void node_apply_put(struct node_apply *apply, json_t *object)
{
        if (apply->newest && json_equal(apply->newest, object)) {
                json_decref(object);
                return;
        }
        json_decref(apply->newest);
        apply->newest = object;
        apply->is_newer = true;
        if (!apply->call && !uv_is_active((uv_handle_t *)&apply->retry))
                apply_send(apply);
}

static void free_apply(uv_handle_t *handle)
{
        struct node_apply *apply = handle->data;

        json_decref(apply->newest);
        free(apply->path);
        free(apply->cannot);
        free(apply);
}

struct node_apply *node_apply_close(struct node_apply *apply)
{
        if (!apply)
                return NULL;
        apply->reconcile = node_reconcile_close(apply->reconcile);
        apply->call = kube_call_cancel(apply->call);
        uv_close((uv_handle_t *)&apply->retry, free_apply);
        return NULL;
}
