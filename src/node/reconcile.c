#include "node/reconcile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "node/watch.h"

struct node_reconcile {
        struct node_reconcile_options options;
        struct node_listener listener;
        struct node_reconcile_pace pace;
        uv_timer_t timer; /* runs until it is reconciled; active: the node's newest state lacks it */
};

/* ---- the wait ---- */

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

/* ---- on the loop ---- */

static void on_reconcile_timer(uv_timer_t *timer);

static void wait_for_turn(struct node_reconcile *reconcile)
{
        uint64_t wait = node_reconcile_wait(&reconcile->pace, uv_now(reconcile->options.loop), (uint32_t)uv_hrtime());

        uv_timer_start(&reconcile->timer, on_reconcile_timer, wait, 0);
}

static void on_reconcile_timer(uv_timer_t *timer)
{
        struct node_reconcile *reconcile = timer->data;

        if (!reconcile->options.reconcile(reconcile->options.data)) {
                wait_for_turn(reconcile);
                return;
        }
        node_reconcile_count(&reconcile->pace, uv_now(reconcile->options.loop));
        log_info("what the agent keeps on its Node object was removed or changed, and is restored",
                LOG_STR("what", reconcile->options.what));
}

/* The wait runs from the moment when it was first missing, however often the node changes meanwhile. */
static void on_reconcile_node(const json_t *node, void *data)
{
        struct node_reconcile *reconcile = data;

        if (!node || reconcile->options.is_right(node, reconcile->options.data))
                uv_timer_stop(&reconcile->timer);
        else if (!uv_is_active((uv_handle_t *)&reconcile->timer))
                wait_for_turn(reconcile);
}

struct node_reconcile *node_reconcile_new(const struct node_reconcile_options *options)
{
        struct node_reconcile *reconcile;

        if (!options->watch)
                return NULL;
        reconcile = xcalloc(1, sizeof(*reconcile));
        reconcile->options = *options;
        uv_timer_init(options->loop, &reconcile->timer);
        reconcile->timer.data = reconcile;
        reconcile->listener = (struct node_listener){.on_node = on_reconcile_node, .data = reconcile};
        node_watch_listen(options->watch, &reconcile->listener);
        return reconcile;
}

static void free_reconcile(uv_handle_t *handle)
{
        free(handle->data);
}

struct node_reconcile *node_reconcile_close(struct node_reconcile *reconcile)
{
        if (!reconcile)
                return NULL;
        node_watch_leave(&reconcile->listener);
        uv_close((uv_handle_t *)&reconcile->timer, free_reconcile);
        return NULL;
}
