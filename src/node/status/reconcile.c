// SPDX-License-Identifier: Apache-2.0
#include "node/status/reconcile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/kube/object.h"
#include "node/status/watch.h"

enum state { OFF, SETTLING, WRITING, RETRYING, RESTING };

struct node_reconcile {
        struct node_reconcile_options options;
        char *path; /* of the node; NULL: without a field manager */
        enum state state;
        json_t *wanted;   /* NULL: nothing was put yet */
        json_t *written;  /* last, or now; NULL: nothing since it serves */
        bool is_accepted; /* |written| */
        uv_timer_t timer; /* the next write */
        struct kube_call *call;
        struct backoff backoff;
        struct complaint trouble;

        struct node_listener listener;
        struct node_reconcile_pace pace;
        uv_timer_t restore; /* active: the node's newest state lacks the value */
        json_t *uid;        /* of the node that has the value; NULL: not seen yet */
        json_t *seen_uid;
};

/* ---- the wait before restoring ---- */

static bool is_calm(const struct node_reconcile_pace *pace, uint64_t now_ms)
{
        return pace->count > 0 && now_ms - pace->last_ms >= NODE_RECONCILE_CALM_MS;
}

uint64_t node_reconcile_wait(const struct node_reconcile_pace *pace, uint64_t now_ms, uint32_t random)
{
        struct backoff backoff = {
                .least_ms = NODE_RECONCILE_MS,
                .most_ms = NODE_RECONCILE_MAX_MS,
                .failures = is_calm(pace, now_ms) ? 0 : pace->count,
        };

        return backoff_next(&backoff, 0, random);
}

void node_reconcile_count(struct node_reconcile_pace *pace, uint64_t now_ms)
{
        pace->count = is_calm(pace, now_ms) ? 1 : pace->count + 1;
        pace->last_ms = now_ms;
}

uint64_t node_reconcile_rest(uint64_t refresh_ms, uint32_t random)
{
        return refresh_ms - refresh_ms / 5 * random / UINT32_MAX;
}

/* ---- writing ---- */

static struct kube_call *reconcile_apply(struct node_reconcile *reconcile)
{
        return kube_client_send(reconcile->options.client, &(struct kube_request){.method = KUBE_APPLY,
                                                                   .path = reconcile->path,
                                                                   .body = reconcile->written,
                                                                   .field_manager = reconcile->options.manager,
                                                                   .force = true,
                                                                   .done = node_reconcile_answered,
                                                                   .data = reconcile});
}

static void reconcile_write(struct node_reconcile *reconcile)
{
        uv_timer_stop(&reconcile->timer);
        json_decref(reconcile->written);
        reconcile->written = json_incref(reconcile->wanted);
        reconcile->is_accepted = false;
        reconcile->state = WRITING;
        reconcile->call = reconcile->path ? reconcile_apply(reconcile)
                                          : reconcile->options.write(reconcile->written, reconcile->options.data);
}

static void on_reconcile_timer(uv_timer_t *timer)
{
        reconcile_write(timer->data);
}

static void reconcile_enter(struct node_reconcile *reconcile, enum state state, uint64_t ms)
{
        reconcile->state = state;
        uv_timer_start(&reconcile->timer, on_reconcile_timer, ms, 0);
}

static void reconcile_rest(struct node_reconcile *reconcile)
{
        const uint64_t refresh_ms = reconcile->options.refresh_ms;

        reconcile->state = RESTING;
        uv_timer_stop(&reconcile->timer);
        if (refresh_ms)
                reconcile_enter(reconcile, RESTING, node_reconcile_rest(refresh_ms, (uint32_t)uv_hrtime()));
}

/* Schedules a write if the wanted value differs from the one that was accepted last. */
static void reconcile_schedule(struct node_reconcile *reconcile)
{
        const struct node_reconcile_options *options = &reconcile->options;
        const json_t *accepted = reconcile->is_accepted ? reconcile->written : NULL;
        uint64_t settle_ms;

        if (reconcile->state == OFF || reconcile->state == WRITING || !reconcile->wanted)
                return;
        if (json_equal(reconcile->wanted, accepted)) {
                reconcile_rest(reconcile);
                return;
        }
        settle_ms = options->settle_ms ? options->settle_ms(accepted, reconcile->wanted, options->data) : 0;
        if (reconcile->state != SETTLING || settle_ms == 0)
                reconcile_enter(reconcile, SETTLING, settle_ms);
}

static void reconcile_report(struct node_reconcile *reconcile, const struct error *error)
{
        if (reconcile->options.done) {
                reconcile->options.done(error, reconcile->options.data);
        } else if (error) {
                complain(&reconcile->trouble, reconcile->options.failed, error);
        } else if (reconcile->trouble.text[0]) {
                log_text(LOG_INFO, "%s", reconcile->options.succeeded);
                complaint_settle(&reconcile->trouble);
        }
}

void node_reconcile_done(struct node_reconcile *reconcile, const struct error *error, uint64_t retry_after_ms)
{
        reconcile->call = NULL;
        if (error) {
                reconcile_enter(
                        reconcile, RETRYING, backoff_next(&reconcile->backoff, retry_after_ms, (uint32_t)uv_hrtime()));
        } else {
                reconcile->is_accepted = true;
                reconcile->backoff.failures = 0;
                reconcile_rest(reconcile);
                reconcile_schedule(reconcile);
        }
        reconcile_report(reconcile, error);
}

void node_reconcile_answered(const struct kube_answer *answer, void *data)
{
        node_reconcile_done(data, answer->error, answer->retry_after_ms);
}

void node_reconcile_go_on(struct node_reconcile *reconcile, struct kube_call *call)
{
        reconcile->call = call;
}

bool node_reconcile_put(struct node_reconcile *reconcile, json_t *wanted)
{
        bool is_same = json_equal(reconcile->wanted, wanted);

        json_decref(reconcile->wanted);
        reconcile->wanted = wanted;
        if (!is_same)
                reconcile_schedule(reconcile);
        return !is_same;
}

/* ---- restoring ---- */

static void on_restore_timer(uv_timer_t *timer);

static void wait_for_turn(struct node_reconcile *reconcile)
{
        uint64_t wait = node_reconcile_wait(&reconcile->pace, uv_now(reconcile->options.loop), (uint32_t)uv_hrtime());

        uv_timer_start(&reconcile->restore, on_restore_timer, wait, 0);
}

static void set_uid(json_t **place, json_t *uid)
{
        json_decref(*place);
        *place = json_incref(uid);
}

/* An object that is being written, or soon will be, is compared once more afterwards. */
static void on_restore_timer(uv_timer_t *timer)
{
        struct node_reconcile *reconcile = timer->data;

        if (reconcile->state == WRITING || reconcile->state == SETTLING) {
                wait_for_turn(reconcile);
                return;
        }
        set_uid(&reconcile->uid, reconcile->seen_uid);
        node_reconcile_count(&reconcile->pace, uv_now(reconcile->options.loop));
        log_info("what the agent keeps on its Node object was removed or changed, and is restored",
                LOG_STR("what", reconcile->options.what));
        reconcile_write(reconcile);
}

static bool is_same_node(struct node_reconcile *reconcile, const json_t *node)
{
        set_uid(&reconcile->seen_uid, object_find(node, "metadata", "uid", NULL));
        if (!reconcile->uid)
                set_uid(&reconcile->uid, reconcile->seen_uid);
        return reconcile->uid == reconcile->seen_uid || json_equal(reconcile->uid, reconcile->seen_uid);
}

bool node_reconcile_has(const json_t *node, const json_t *object)
{
        static const char *const kinds[] = {"labels", "annotations"};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (!object_covers(object_find(node, "metadata", kinds[i], NULL),
                            object_find(object, "metadata", kinds[i], NULL)))
                        return false;
        return true;
}

static bool status_reconcile_is_right(struct node_reconcile *reconcile, const json_t *node)
{
        const struct node_reconcile_options *options = &reconcile->options;

        if (!reconcile->path && !options->is_right)
                return is_same_node(reconcile, node) || !reconcile->written;
        if (!reconcile->written)
                return true;
        return reconcile->path ? node_reconcile_has(node, reconcile->written)
                               : options->is_right(node, reconcile->written, options->data);
}

/* The wait runs from the moment when it was first missing, however often the node changes meanwhile. */
static void on_reconcile_node(const json_t *node, void *data)
{
        struct node_reconcile *reconcile = data;

        if (!node || status_reconcile_is_right(reconcile, node))
                uv_timer_stop(&reconcile->restore);
        else if (!uv_is_active((uv_handle_t *)&reconcile->restore))
                wait_for_turn(reconcile);
}

/* ---- start and end ---- */

static void reconcile_begin(struct node_reconcile *reconcile)
{
        reconcile->state = RESTING;
        reconcile->backoff.failures = 0;
        if (reconcile->options.watch)
                node_watch_listen(reconcile->options.watch, &reconcile->listener);
        reconcile_schedule(reconcile);
}

static void reconcile_end(struct node_reconcile *reconcile)
{
        if (reconcile->options.watch)
                node_watch_leave(&reconcile->listener);
        uv_timer_stop(&reconcile->restore);
        uv_timer_stop(&reconcile->timer);
        reconcile->call = kube_call_cancel(reconcile->call);
        json_decref(reconcile->written);
        reconcile->written = NULL;
        reconcile->state = OFF;
}

struct node_reconcile *node_reconcile_new(const struct node_reconcile_options *options)
{
        struct node_reconcile *reconcile = xcalloc(1, sizeof(*reconcile));

        reconcile->options = *options;
        reconcile->path = options->manager ? object_path("/api/v1/nodes", options->node) : NULL;
        reconcile->backoff = (struct backoff){options->retry_ms, options->retry_limit_ms, 0};
        uv_timer_init(options->loop, &reconcile->timer);
        uv_timer_init(options->loop, &reconcile->restore);
        reconcile->timer.data = reconcile->restore.data = reconcile;
        reconcile->listener = (struct node_listener){.on_node = on_reconcile_node, .data = reconcile};
        return reconcile;
}

void node_reconcile_serve(struct node_reconcile *reconcile, bool is_serving)
{
        if (reconcile->state != OFF)
                reconcile_end(reconcile);
        if (is_serving)
                reconcile_begin(reconcile);
}

static void free_reconcile(uv_handle_t *handle)
{
        struct node_reconcile *reconcile = handle->data;

        json_decref(reconcile->wanted);
        json_decref(reconcile->uid);
        json_decref(reconcile->seen_uid);
        free(reconcile->path);
        free(reconcile);
}

static void on_reconcile_timer_closed(uv_handle_t *handle)
{
        struct node_reconcile *reconcile = handle->data;

        uv_close((uv_handle_t *)&reconcile->restore, free_reconcile);
}

struct node_reconcile *node_reconcile_close(struct node_reconcile *reconcile)
{
        if (!reconcile)
                return NULL;
        node_reconcile_serve(reconcile, false);
        uv_close((uv_handle_t *)&reconcile->timer, on_reconcile_timer_closed);
        return NULL;
}
