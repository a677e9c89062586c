// SPDX-License-Identifier: Apache-2.0
#include "node/dra/health_stream.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/list.h"
#include "node/dra/messages.h"
#include "net/rpc/server.h"

struct dra_health_stream {
        uv_timer_t timer;
        uint64_t resend_ms;
        struct list watchers;
        struct rpc_message *packed; /* NULL: no list is known yet */
};

struct watcher {
        struct list link;
        struct dra_health_stream *stream;
        struct rpc_call *call;
};

struct dra_health_stream *dra_health_stream_new(uv_loop_t *loop, uint64_t resend_ms)
{
        struct dra_health_stream *stream = xcalloc(1, sizeof(*stream));

        uv_timer_init(loop, &stream->timer);
        stream->resend_ms = resend_ms ? resend_ms : DRA_HEALTH_RESEND_MS;
        list_init(&stream->watchers);
        return stream;
}

static void on_watcher_ended(struct rpc_call *call UNUSED, void *data)
{
        struct watcher *watcher = data;
        struct dra_health_stream *stream = watcher->stream;

        list_remove(&watcher->link);
        free(watcher);
        if (list_is_empty(&stream->watchers))
                uv_timer_stop(&stream->timer);
}

/*
 * Writing to one call may end other calls of the same connection: so each call is taken from the front, and put back
 * before |visit| is called.
 */
static void for_each_watcher(struct dra_health_stream *stream, void (*visit)(struct watcher *watcher))
{
        struct list todo;

        list_init(&todo);
        while (!list_is_empty(&stream->watchers)) {
                struct list *link = stream->watchers.next;

                list_remove(link);
                list_append(&todo, link);
        }
        while (!list_is_empty(&todo)) {
                struct list *link = todo.next;

                list_remove(link);
                list_append(&stream->watchers, link);
                visit(container_of(link, struct watcher, link));
        }
}

static void health_stream_send_list(struct watcher *watcher)
{
        rpc_call_send(watcher->call, watcher->stream->packed);
        rpc_call_flush(watcher->call);
}

static void on_resend(uv_timer_t *timer)
{
        for_each_watcher(container_of(timer, struct dra_health_stream, timer), health_stream_send_list);
}

static void send_to_all(struct dra_health_stream *stream)
{
        if (list_is_empty(&stream->watchers))
                return;
        uv_timer_start(&stream->timer, on_resend, stream->resend_ms, stream->resend_ms);
        for_each_watcher(stream, health_stream_send_list);
}

void dra_health_stream_set(struct dra_health_stream *stream, const struct dra_health_device *devices, size_t count)
{
        struct rpc_message *packed = dra_messages_health(devices, count);

        if (stream->packed && rpc_message_is_same(stream->packed, packed)) {
                rpc_message_unref(packed);
                return;
        }
        rpc_message_unref(stream->packed);
        stream->packed = packed;
        send_to_all(stream);
}

void dra_health_stream_add(struct dra_health_stream *stream, struct rpc_call *call)
{
        struct watcher *watcher = xcalloc(1, sizeof(*watcher));

        watcher->stream = stream;
        watcher->call = call;
        list_append(&stream->watchers, &watcher->link);
        rpc_call_on_ended(call, on_watcher_ended, watcher);
        if (!stream->packed)
                return;
        rpc_call_send(call, stream->packed);
        if (!uv_is_active((uv_handle_t *)&stream->timer))
                uv_timer_start(&stream->timer, on_resend, stream->resend_ms, stream->resend_ms);
}

static void end_watcher(struct watcher *watcher)
{
        struct rpc_call *call = watcher->call;

        rpc_call_finish(call, RPC_OK, NULL);
        rpc_call_flush(call);
}

void dra_health_stream_end_all(struct dra_health_stream *stream)
{
        for_each_watcher(stream, end_watcher);
}

static void on_timer_closed(uv_handle_t *handle)
{
        struct dra_health_stream *stream = container_of((uv_timer_t *)(void *)handle, struct dra_health_stream, timer);

        rpc_message_unref(stream->packed);
        free(stream);
}

struct dra_health_stream *dra_health_stream_close(struct dra_health_stream *stream)
{
        if (!stream)
                return NULL;
        assert(list_is_empty(&stream->watchers));
        uv_close((uv_handle_t *)&stream->timer, on_timer_closed);
        return NULL;
}
