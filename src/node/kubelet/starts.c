#include "node/kubelet/starts.h"

#include "base/alloc.h"
#include "base/log.h"
#include "node/kubelet/convert.h"
#include "node/kubelet/requests.h"
#include "net/rpc/server.h"

/* A start that the broker prepares. The call refers to it until the call ends, and the broker until it has answered. */
struct start {
        struct rpc_call *call; /* NULL: ended */
        char *resource;
        bool is_asked;   /* the broker has not answered yet */
        bool is_handled; /* the handler has returned: an answer must be flushed from then on */
};

static void starts_free_unless_known(struct start *start)
{
        if (start->call || start->is_asked)
                return;
        free(start->resource);
        free(start);
}

static void on_starts_call_ended(struct rpc_call *call UNUSED, void *data)
{
        struct start *start = data;

        start->call = NULL;
        if (start->is_asked)
                log_info("request given up by kubelet", LOG_STR("resource", start->resource),
                        LOG_STR("method", "PreStartContainer"));
        starts_free_unless_known(start);
}

static void answer_start(struct rpc_call *call, const char *resource, const struct error *err)
{
        if (err) {
                log_warn("request refused", LOG_STR("resource", resource), LOG_STR("method", "PreStartContainer"),
                        LOG_ERR(err));
                rpc_call_finish(call, rpc_status_of_error(err), err->text);
                return;
        }
        requests_finish_call(call, convert_empty());
}

static void on_started(const struct error *err, void *context)
{
        struct start *start = context;
        struct rpc_call *call = start->call;

        start->is_asked = false;
        if (!call) {
                starts_free_unless_known(start);
                return;
        }
        answer_start(call, start->resource, err);
        if (start->is_handled)
                rpc_call_flush(call); /* this ends the call and frees |start| */
}

void starts_answer(
        const struct broker *broker, const char *resource, struct rpc_call *call, const uint8_t *message, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct container_ids container;
        struct start *start;
        struct error err;

        if (convert_start_request(&container, &arena, message, size, &err) < 0) {
                answer_start(call, resource, &err);
                return;
        }
        if (!broker || !broker->start) {
                answer_start(call, resource, NULL);
                return;
        }
        start = xcalloc(1, sizeof(*start));
        *start = (struct start){.call = call, .resource = xstrdup(resource), .is_asked = true};
        rpc_call_on_ended(call, on_starts_call_ended, start);
        broker->start(resource, container.ids, container.n_ids, on_started, start, broker->data);
        start->is_handled = true;
}
