#include "mps/client/requests.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"

#define ANSWER_MS UINT64_C(30000)

struct request {
        struct list in_list;
        uint64_t id; /* 0: it waits for no answer of the supervisor */
        uint64_t due_ms;
        struct error error; /* what the deadline means */
        struct mps_asker asker;
};

static struct request *first_request(const struct mps_requests *requests)
{
        return list_is_empty(&requests->list) ? NULL : container_of(requests->list.next, struct request, in_list);
}

static void answer_request(struct request *request, const struct error *err, const struct mps_allocation *allocation)
{
        const struct mps_asker *asker = &request->asker;

        list_remove(&request->in_list);
        if (asker->granted)
                asker->granted(err, allocation, asker->data);
        else if (asker->done)
                asker->done(err, asker->data);
        free(request);
}

static void requests_answer_error(struct request *request)
{
        answer_request(request, request->error.kind != ERROR_NONE ? &request->error : NULL, NULL);
}

/* ---- deadlines ---- */

static void on_requests_due(uv_timer_t *timer);

static void arm_requests(struct mps_requests *requests)
{
        const struct request *request = first_request(requests);
        uint64_t now_ms = uv_now(requests->timer.loop);

        if (!request)
                uv_timer_stop(&requests->timer);
        else
                uv_timer_start(&requests->timer, on_requests_due, request->due_ms - MIN(request->due_ms, now_ms), 0);
}

/* A callback may send a new request: it is due later than now, or is answered in a later turn of the loop. */
static void on_requests_due(uv_timer_t *timer)
{
        struct mps_requests *requests = container_of(timer, struct mps_requests, timer);
        struct list due = LIST_INIT(due);
        struct request *request;

        while ((request = first_request(requests)) && request->due_ms <= uv_now(timer->loop)) {
                list_remove(&request->in_list);
                list_append(&due, &request->in_list);
        }
        while (!list_is_empty(&due))
                requests_answer_error(container_of(due.next, struct request, in_list));
        arm_requests(requests);
}

static void insert_request(struct mps_requests *requests, struct request *request)
{
        struct list *after = requests->list.previous;

        while (after != &requests->list && container_of(after, struct request, in_list)->due_ms > request->due_ms)
                after = after->previous;
        list_append(after->next, &request->in_list);
        arm_requests(requests);
}

static void fail_later(struct mps_requests *requests, struct request *request, const struct error *err)
{
        request->id = 0;
        request->due_ms = 0;
        request->error = *err;
        insert_request(requests, request);
}

/* ---- public ---- */

static struct request *new_request(const struct mps_asker *asker)
{
        struct request *request = xcalloc(1, sizeof(*request));

        list_init(&request->in_list);
        request->asker = *asker;
        return request;
}

void mps_requests_init(struct mps_requests *requests, uv_loop_t *loop)
{
        list_init(&requests->list);
        uv_timer_init(loop, &requests->timer);
}

void mps_requests_await(struct mps_requests *requests, const struct mps_asker *asker, uint64_t id)
{
        struct request *request = new_request(asker);

        request->id = id;
        request->due_ms = uv_now(requests->timer.loop) + ANSWER_MS;
        error_raise(&request->error, ERROR_TIMEOUT, "the MPS supervisor did not answer within %" PRIu64 " s",
                ANSWER_MS / 1000);
        insert_request(requests, request);
}

void mps_requests_answer_later(struct mps_requests *requests, const struct mps_asker *asker, const struct error *err)
{
        fail_later(requests, new_request(asker), err);
}

static struct request *requests_find_request(const struct mps_requests *requests, uint64_t id)
{
        LIST_FOR_EACH(in_list, &requests->list) {
                struct request *request = container_of(in_list, struct request, in_list);

                if (id != 0 && request->id == id)
                        return request;
        }
        return NULL;
}

void mps_requests_take(struct mps_requests *requests, const struct mps_answer *message)
{
        struct request *request = requests_find_request(requests, message->id);
        struct error err;

        if (!request)
                return;
        if (!message->ok) {
                answer_request(request, &message->error, NULL);
        } else if (request->asker.granted && !message->has_allocation) {
                error_raise(&err, ERROR_INTERNAL, "the MPS supervisor answered without an allocation");
                answer_request(request, &err, NULL);
        } else {
                answer_request(request, NULL, &message->allocation);
        }
        arm_requests(requests);
}

void mps_requests_fail(struct mps_requests *requests, const struct error *err)
{
        struct list all = LIST_INIT(all);

        while (!list_is_empty(&requests->list)) {
                struct list *head = requests->list.next;

                list_remove(head);
                list_append(&all, head);
        }
        while (!list_is_empty(&all)) {
                struct request *request = container_of(all.next, struct request, in_list);

                list_remove(&request->in_list);
                if (request->id == 0)
                        insert_request(requests, request);
                else
                        fail_later(requests, request, err);
        }
}

void mps_requests_end(struct mps_requests *requests, const struct error *err)
{
        struct request *request;

        while ((request = first_request(requests))) {
                if (request->id != 0)
                        request->error = *err;
                requests_answer_error(request);
        }
}
