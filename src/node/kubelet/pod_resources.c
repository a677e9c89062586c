/*
 * One call at a time. Questions wait in |asked| until the next call, and in |sent| until its answer. A connection that
 * failed once is not used again.
 */
#include "node/kubelet/pod_resources.h"

#include <assert.h>
#include <string.h>
#include <sys/un.h>

#include "base/list.h"
#include "net/rpc/client.h"

#define TIMEOUT_MS UINT64_C(5000)

struct pod_resources {
        uv_loop_t *loop;
        char *socket;
        struct rpc_client *client; /* NULL: not connected */
        struct list asked;
        struct list sent;
        struct arena arena; /* arena of the answer */
        struct pod_list list;
        unsigned int n_messages;
        struct error failure; /* an answer that has arrived */
        bool is_delivering;
        bool is_closed;
};

struct question {
        struct list link;
        pod_list_fn *done;
        void *data;
};

static void free_questions(struct list *questions)
{
        while (!list_is_empty(questions)) {
                struct question *question = container_of(questions->next, struct question, link);

                list_remove(&question->link);
                free(question);
        }
}

static void pod_resources_free_all(struct pod_resources *pods)
{
        free_questions(&pods->asked);
        free_questions(&pods->sent);
        arena_done(&pods->arena);
        free(pods->socket);
        free(pods);
}

static enum error_kind pod_resources_kind_of(enum rpc_status status)
{
        switch (status) {
        case RPC_DEADLINE_EXCEEDED:
                return ERROR_TIMEOUT;
        case RPC_PERMISSION_DENIED:
        case RPC_UNAUTHENTICATED:
                return ERROR_DENIED;
        case RPC_UNIMPLEMENTED:
                return ERROR_UNSUPPORTED;
        default:
                return ERROR_UNAVAILABLE; /* RESOURCE_EXHAUSTED among them: kubelet's limit on calls, or our limit on
                                           * sizes */
        }
}

static void pod_resources_start(struct pod_resources *pods);

/* A callback may ask again, or close. */
static void pod_resources_deliver(struct pod_resources *pods, const struct error *err)
{
        pods->is_delivering = true;
        while (!pods->is_closed && !list_is_empty(&pods->sent)) {
                struct question *question = container_of(pods->sent.next, struct question, link);
                pod_list_fn *done = question->done;
                void *data = question->data;

                list_remove(&question->link);
                free(question);
                done(err, err ? NULL : &pods->list, data);
        }
        pods->is_delivering = false;
        if (pods->is_closed) {
                pod_resources_free_all(pods);
                return;
        }
        arena_done(&pods->arena);
        pod_resources_start(pods);
}

static void on_message(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct pod_resources *pods = data;
        struct error err;

        if (pods->n_messages++ > 0)
                error_raise(&pods->failure, ERROR_INVALID, "more than one answer");
        else if (pod_list_read(&pods->list, &pods->arena, "", message, size, &err) < 0)
                pods->failure = err;
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct pod_resources *pods = data;
        struct error *failure = &pods->failure;

        if (pods->is_closed)
                return;
        if (status != RPC_OK)
                error_raise(failure, pod_resources_kind_of(status), "%s: %s", rpc_status_name(status), text);
        else if (pods->n_messages == 0)
                error_raise(failure, ERROR_INVALID, "no answer");
        if (!failure->kind) {
                pod_resources_deliver(pods, NULL);
                return;
        }
        error_raise_prefix(failure, "List on '%s'", pods->socket);
        rpc_client_close(TAKE_PTR(pods->client));
        pod_resources_deliver(pods, failure);
}

/* kubelet closed the connection while no call was running; a running call has ended already. */
static void on_connection_closed(struct rpc_client *client, const struct error *reason UNUSED, void *data)
{
        struct pod_resources *pods = data;

        if (pods->client == client)
                rpc_client_close(TAKE_PTR(pods->client));
}

static void connect_to_kubelet(struct pod_resources *pods)
{
        const struct rpc_client_options options = {
                .limits = {.message = POD_RESOURCES_MAX}, .on_closed = on_connection_closed, .data = pods};
        struct error err;
        int rc = rpc_client_new(&pods->client, pods->loop, pods->socket, &options, &err);

        assert(rc == 0); /* fails only for an invalid path, which pod_resources_new() has checked */
}

/* Starts the next call, if there are questions and no call is running. */
static void pod_resources_start(struct pod_resources *pods)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_ended};
        struct rpc_message *request;

        if (pods->is_delivering || !list_is_empty(&pods->sent) || list_is_empty(&pods->asked))
                return;
        while (!list_is_empty(&pods->asked)) {
                struct list *link = pods->asked.next;

                list_remove(link);
                list_append(&pods->sent, link);
        }
        pods->n_messages = 0;
        pods->failure = (struct error){0};
        if (!pods->client)
                connect_to_kubelet(pods);
        request = rpc_message_new(0);
        rpc_client_call(pods->client, NULL, "/v1.PodResourcesLister/List", request, TIMEOUT_MS, &handlers, pods);
        rpc_message_unref(request);
}

int pod_resources_new(struct pod_resources **ret, uv_loop_t *loop, const char *socket, struct error *err)
{
        size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
        struct pod_resources *pods;

        if (strlen(socket) == 0 || strlen(socket) > most)
                return error_set(err, ERROR_INVALID, "socket '%s': the path has %zu bytes, from 1 to %zu are possible",
                        socket, strlen(socket), most);
        pods = xcalloc(1, sizeof(*pods));
        pods->loop = loop;
        pods->socket = xstrdup(socket);
        list_init(&pods->asked);
        list_init(&pods->sent);
        *ret = pods;
        return 0;
}

void pod_resources_close(struct pod_resources *pods)
{
        if (!pods)
                return;
        pods->is_closed = true;
        rpc_client_close(TAKE_PTR(pods->client));
        if (!pods->is_delivering)
                pod_resources_free_all(pods);
}

void pod_resources_list(struct pod_resources *pods, pod_list_fn *done, void *data)
{
        struct question *question = xcalloc(1, sizeof(*question));

        question->done = done;
        question->data = data;
        list_append(&pods->asked, &question->link);
        pod_resources_start(pods);
}
