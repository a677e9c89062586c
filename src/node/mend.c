#include "node/mend.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "node/watch.h"

struct node_mend {
        struct node_mend_options options;
        struct node_listener listener;
        struct node_mend_pace pace;
        uv_timer_t timer; /* until it is mended; active: the newest node does not have it */
};

/* ---- how long ---- */

static bool is_calm(const struct node_mend_pace *pace, uint64_t now_ms)
{
        return pace->count > 0 && now_ms - pace->last_ms >= NODE_MEND_CALM_MS;
}

uint64_t node_mend_wait(const struct node_mend_pace *pace, uint64_t now_ms, uint32_t random)
{
        struct backoff backoff = {
                .least_ms = NODE_MEND_MS,
                .most_ms = NODE_MEND_MAX_MS,
                .failures = is_calm(pace, now_ms) ? 0 : pace->count,
        };

        return backoff_next(&backoff, 0, random);
}

void node_mend_count(struct node_mend_pace *pace, uint64_t now_ms)
{
        pace->count = is_calm(pace, now_ms) ? 1 : pace->count + 1;
        pace->last_ms = now_ms;
}

/* ---- on the loop ---- */

static void on_timer(uv_timer_t *timer);

static void wait_for_turn(struct node_mend *mend)
{
        uint64_t wait = node_mend_wait(&mend->pace, uv_now(mend->options.loop), (uint32_t)uv_hrtime());

        uv_timer_start(&mend->timer, on_timer, wait, 0);
}

static void on_timer(uv_timer_t *timer)
{
        struct node_mend *mend = timer->data;

        if (!mend->options.mend(mend->options.data)) {
                wait_for_turn(mend);
                return;
        }
        node_mend_count(&mend->pace, uv_now(mend->options.loop));
        log_info("what the agent keeps on its Node object was removed or changed, and is restored",
                LOG_STR("what", mend->options.what));
}

/* The wait is that of the first time that it was missing, however often the node changes meanwhile. */
static void on_node(const json_t *node, void *data)
{
        struct node_mend *mend = data;

        if (!node || mend->options.is_right(node, mend->options.data))
                uv_timer_stop(&mend->timer);
        else if (!uv_is_active((uv_handle_t *)&mend->timer))
                wait_for_turn(mend);
}

struct node_mend *node_mend_new(const struct node_mend_options *options)
{
        struct node_mend *mend;

        if (!options->watch)
                return NULL;
        mend = xcalloc(1, sizeof(*mend));
        mend->options = *options;
        uv_timer_init(options->loop, &mend->timer);
        mend->timer.data = mend;
        mend->listener = (struct node_listener){.on_node = on_node, .data = mend};
        node_watch_listen(options->watch, &mend->listener);
        return mend;
}

static void free_mend(uv_handle_t *handle)
{
        free(handle->data);
}

struct node_mend *node_mend_close(struct node_mend *mend)
{
        if (!mend)
                return NULL;
        node_watch_leave(&mend->listener);
        uv_close((uv_handle_t *)&mend->timer, free_mend);
        return NULL;
}
