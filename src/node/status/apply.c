#include "node/status/apply.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "net/kube/object.h"
#include "node/status/reconcile.h"

struct node_apply {
        struct node_apply_options options;
        char *path;
        char *failed;    /* log message */
        char *succeeded; /* log message */
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

static struct kube_call *apply_write(json_t *wanted, void *data)
{
        const struct node_apply *apply = data;

        return kube_client_send(apply->options.client, &(struct kube_request){.method = KUBE_APPLY,
                                                               .path = apply->path,
                                                               .body = wanted,
                                                               .field_manager = apply->options.manager,
                                                               .force = true,
                                                               .done = node_reconcile_answered,
                                                               .data = apply->reconcile});
}

static bool apply_is_right(const json_t *node, const json_t *written, void *data UNUSED)
{
        return node_apply_is_on(node, written);
}

struct node_apply *node_apply_new(const struct node_apply_options *options)
{
        struct node_apply *apply = xcalloc(1, sizeof(*apply));
        struct node_reconcile_options reconcile = {
                .loop = kube_client_loop(options->client),
                .watch = options->watch,
                .retry_ms = NODE_APPLY_RETRY_MS,
                .retry_limit_ms = NODE_APPLY_RETRY_MAX_MS,
                .what = options->what,
                .write = apply_write,
                .is_right = apply_is_right,
                .data = apply,
        };

        apply->options = *options;
        apply->path = object_path("/api/v1/nodes", options->node);
        reconcile.failed = apply->failed = xasprintf("the node's %s cannot be written, will try again", options->what);
        reconcile.succeeded = apply->succeeded = xasprintf("the node's %s are written", options->what);
        apply->reconcile = node_reconcile_new(&reconcile);
        node_reconcile_serve(apply->reconcile, true);
        return apply;
}

void node_apply_put(struct node_apply *apply, json_t *object)
{
        node_reconcile_put(apply->reconcile, object);
}

struct node_apply *node_apply_close(struct node_apply *apply)
{
        if (!apply)
                return NULL;
        node_reconcile_close(apply->reconcile);
        free(apply->path);
        free(apply->failed);
        free(apply->succeeded);
        free(apply);
        return NULL;
}
