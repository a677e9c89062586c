// SPDX-License-Identifier: Apache-2.0
/*
 * Requests and a broker that takes its time, over a connection: a client in the part of kubelet, and a server with
 * nothing but the two methods.
 */
#include "until.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deviceplugin.pb-c.h>

#include "base/log.h"
#include "net/rpc/message.h"
#include "node/kubelet/requests.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "plan/node.h"

#define MOST 80

/* What the broker was asked and has not answered. */
struct owed {
        broker_bound_fn *bound;
        void *context;
};

/* A call that kubelet made. */
struct outcome {
        bool ended;
        enum rpc_status status;
        char text[512]; /* of the refusal; or, of each container, the devices it sees, or the ids that are preferred */
};

struct fixture {
        uv_loop_t loop;
        char folder[64];
        char socket[96];
        struct rpc_server *server;
        struct rpc_client *client;
        struct requests *requests;
        struct closing closing; /* of |requests| */
        bool requests_are_closed;
        struct node node, other, third; /* by UUID, by index, and without the last GPU */
        struct broker broker;
        bool answers_later;
        const char *refusal;
        const char *unit; /* that the broker binds to, or NULL */
        const bool *unavailable;
        struct owed owed[MOST];
        size_t n_owed;
        char asked[2048]; /* "resource's plan: id id\n" for each question */
        int log;          /* in place of standard error, or 0 */
        off_t logged;     /* bytes in it when Allocate was handled last */
};

/* ---- the broker ---- */

static const bool *unavailable(const struct resource *resource UNUSED, void *data)
{
        return ((struct fixture *)data)->unavailable;
}

static void answer_bind(const struct fixture *f, const struct owed *owed)
{
        const struct allocate_binding binding = {.allocation = "g1", .unit = f->unit};
        struct error err;

        if (!f->refusal) {
                owed->bound(NULL, &binding, owed->context);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE, "%s", f->refusal);
        owed->bound(&err, NULL, owed->context);
}

/* The oldest question. */
static void answer_one(struct fixture *f)
{
        struct owed first = f->owed[0];

        assert_true(f->n_owed > 0);
        memmove(f->owed, f->owed + 1, --f->n_owed * sizeof(*f->owed));
        answer_bind(f, &first);
}

static const char *name_of(const struct fixture *f, const struct resource *resource)
{
        if (resource == &f->node.plan->resources[0])
                return "node";
        return resource == &f->other.plan->resources[0] ? "other" : "third";
}

static void bind_ids(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data)
{
        struct fixture *f = data;
        const struct owed owed = {bound, context};
        size_t length = strlen(f->asked);

        length += (size_t)snprintf(f->asked + length, sizeof(f->asked) - length, "%s:", name_of(f, resource));
        for (size_t i = 0; i < n_ids; i++)
                length += (size_t)snprintf(f->asked + length, sizeof(f->asked) - length, " %s", ids[i]);
        snprintf(f->asked + length, sizeof(f->asked) - length, "\n");
        if (f->answers_later)
                f->owed[f->n_owed++] = owed;
        else
                answer_bind(f, &owed);
}

/* ---- kubelet ---- */

static void handle_allocate(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct fixture *f = context;

        requests_allocate(call, message, size, f->requests);
        f->logged = f->log ? lseek(f->log, 0, SEEK_END) : 0;
}

static void handle_prefer(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        requests_prefer(call, message, size, ((struct fixture *)context)->requests);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct outcome *outcome = data;

        assert_false(outcome->ended);
        outcome->ended = true;
        outcome->status = status;
        if (status != RPC_OK)
                snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

static void add_text(struct outcome *outcome, const char *text)
{
        size_t length = strlen(outcome->text);

        snprintf(outcome->text + length, sizeof(outcome->text) - length, "%s%s", length ? " " : "", text);
}

static void on_allocated(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        V1beta1__AllocateResponse *response = v1beta1__allocate_response__unpack(NULL, size, message);

        assert_non_null(response);
        for (size_t i = 0; i < response->n_container_responses; i++) {
                const V1beta1__ContainerAllocateResponse *container = response->container_responses[i];

                for (size_t j = 0; j < container->n_envs; j++)
                        if (strcmp(container->envs[j]->key, "NVIDIA_VISIBLE_DEVICES") == 0)
                                add_text(data, container->envs[j]->value);
        }
        v1beta1__allocate_response__free_unpacked(response, NULL);
}

static void on_preferred(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        V1beta1__PreferredAllocationResponse *response =
                v1beta1__preferred_allocation_response__unpack(NULL, size, message);

        assert_non_null(response);
        for (size_t i = 0; i < response->container_responses[0]->n_deviceids; i++)
                add_text(data, response->container_responses[0]->deviceids[i]);
        v1beta1__preferred_allocation_response__free_unpacked(response, NULL);
}

/* "id id" → strings in |arena|. */
static char **split(struct arena *arena, const char *ids, size_t *ret_count)
{
        char *text = arena_strdup(arena, ids);
        char **list = ARENA_ARRAY(arena, char *, strlen(ids) + 1);
        char *rest = NULL;

        *ret_count = 0;
        for (char *id = strtok_r(text, " ", &rest); id; id = strtok_r(NULL, " ", &rest))
                list[(*ret_count)++] = id;
        return list;
}

/* One container for each of |containers|, up to NULL. */
static struct rpc_call *call_allocate(struct fixture *f, struct outcome *outcome, const char *const *containers)
{
        static const struct rpc_handlers handlers = {.message = on_allocated, .ended = on_ended};
        V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest *parts[MOST];
        struct arena arena = ARENA_INIT;
        struct rpc_message *message;
        struct rpc_call *call;

        request.container_requests = parts;
        for (; containers[request.n_container_requests]; request.n_container_requests++) {
                V1beta1__ContainerAllocateRequest *part = ARENA_NEW(&arena, V1beta1__ContainerAllocateRequest);

                v1beta1__container_allocate_request__init(part);
                part->devices_ids = split(&arena, containers[request.n_container_requests], &part->n_devices_ids);
                parts[request.n_container_requests] = part;
        }
        message = protobuf_pack(&request.base);
        memset(outcome, 0, sizeof(*outcome));
        rpc_client_call(f->client, &call, "/v1beta1.DevicePlugin/Allocate", message, 0, &handlers, outcome);
        rpc_message_unref(message);
        arena_done(&arena);
        return call;
}

static struct rpc_call *call_allocate_one(struct fixture *f, struct outcome *outcome, const char *ids)
{
        const char *const containers[] = {ids, NULL};

        return call_allocate(f, outcome, containers);
}

static void call_prefer(
        struct fixture *f, struct outcome *outcome, const char *available, const char *required, int32_t size)
{
        static const struct rpc_handlers handlers = {.message = on_preferred, .ended = on_ended};
        V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest container = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
        struct arena arena = ARENA_INIT;
        struct rpc_message *message;

        request.n_container_requests = 1;
        request.container_requests = containers;
        container.available_deviceids = split(&arena, available, &container.n_available_deviceids);
        container.must_include_deviceids = split(&arena, required, &container.n_must_include_deviceids);
        container.allocation_size = size;
        message = protobuf_pack(&request.base);
        memset(outcome, 0, sizeof(*outcome));
        rpc_client_call(
                f->client, NULL, "/v1beta1.DevicePlugin/GetPreferredAllocation", message, 0, &handlers, outcome);
        rpc_message_unref(message);
        arena_done(&arena);
        UNTIL(&f->loop, outcome->ended);
        assert_int_equal(outcome->status, RPC_OK);
}

/* ---- waiting; the program's own time limit is the deadline ---- */

static void wait_owed(struct fixture *f, size_t count)
{
        UNTIL(&f->loop, f->n_owed >= count);
}

static void wait_end(struct fixture *f, const struct outcome *outcome, enum rpc_status status, const char *text)
{
        UNTIL(&f->loop, outcome->ended);
        assert_string_equal(outcome->text, text);
        assert_int_equal(outcome->status, status);
}

static void wait_no_waiting(struct fixture *f)
{
        UNTIL(&f->loop, list_is_empty(&f->requests->waiting));
}

/* ---- the fixture ---- */

static void make_plan(struct node *node, enum id_strategy strategy)
{
        node_share(node, SHARING_TIME_SLICING, 4);
        node->config.devices.id_strategy = strategy;
        assert_ok(node_plan(node), &node->err);
}

static void remake_plan(struct node *node)
{
        plan_done(node->plan);
        assert_ok(node_plan(node), &node->err);
}

static void set_plan(struct fixture *f, const struct node *node)
{
        requests_set_resource(f->requests, node->plan, &node->plan->resources[0]);
}

static void make_requests(struct fixture *f, uint64_t bind_timeout_ms)
{
        const struct requests_options options = {.loop = &f->loop,
                .resource_name = "nvidia.com/gpu",
                .broker = &f->broker,
                .bind_timeout_ms = bind_timeout_ms};

        f->requests = calloc(1, sizeof(*f->requests));
        f->requests_are_closed = false;
        requests_init(f->requests, &options);
        set_plan(f, &f->node);
}

static void connect_kubelet(struct fixture *f)
{
        const struct rpc_client_options options = {0};
        struct error err;

        assert_ok(rpc_client_new(&f->client, &f->loop, f->socket, &options, &err), &err);
}

static int set_up(void **state)
{
        static const struct rpc_method methods[] = {
                {"/v1beta1.DevicePlugin/Allocate", handle_allocate},
                {"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_prefer},
        };
        struct fixture *f = calloc(1, sizeof(*f));
        const struct rpc_server_options options = {
                .service = {.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = f}};
        struct error err;

        log_setup(LOG_ERROR, LOG_TEXT);
        strcpy(f->folder, "/tmp/warpshare-requests-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        snprintf(f->socket, sizeof(f->socket), "%s/plugin.sock", f->folder);
        uv_loop_init(&f->loop);
        f->node = node_new(2);
        f->other = node_new(2);
        f->third = node_new(1);
        make_plan(&f->node, ID_STRATEGY_UUID);
        make_plan(&f->other, ID_STRATEGY_INDEX);
        make_plan(&f->third, ID_STRATEGY_INDEX);
        f->broker = (struct broker){.unavailable = unavailable, .bind = bind_ids, .data = f};
        assert_ok(rpc_server_new(&f->server, &f->loop, f->socket, &options, &err), &err);
        connect_kubelet(f);
        make_requests(f, 0);
        *state = f;
        return 0;
}

static void on_server_closed(void *data)
{
        ((struct fixture *)data)->server = NULL;
}

static void on_requests_closed(void *data)
{
        ((struct fixture *)data)->requests_are_closed = true;
}

static void wait_requests_closed(struct fixture *f)
{
        UNTIL(&f->loop, f->requests_are_closed);
        free(TAKE_PTR(f->requests));
}

static void close_requests(struct fixture *f)
{
        requests_close(f->requests, &f->closing);
        closing_end(&f->closing, on_requests_closed, f);
        wait_requests_closed(f);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        if (f->requests)
                close_requests(f);
        while (f->n_owed) /* what is owed is paid, if long after */
                answer_one(f);
        rpc_client_close(f->client);
        rpc_server_close(f->server, 0, on_server_closed, f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_null(f->server);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(rmdir(f->folder), 0);
        node_done(&f->node);
        node_done(&f->other);
        node_done(&f->third);
        free(f);
        return 0;
}

/* ---- Allocate ---- */

static void test_a_broker_that_answers_at_once_costs_no_waiting(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;

        call_allocate_one(f, &outcome, "GPU-0::2 GPU-1::0");
        wait_end(f, &outcome, RPC_OK, "GPU-0,GPU-1");
        assert_string_equal(f->asked, "node: GPU-0::2 GPU-1::0\n");
        assert_true(list_is_empty(&f->requests->waiting));
        assert_false(uv_is_active((uv_handle_t *)&f->requests->timer));
}

/* The line costs a third of what kubelet waits. */
static void test_the_answer_leaves_before_its_line_in_the_log(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;
        int before = dup(STDERR_FILENO);
        char text[512] = "";

        f->log = memfd_create("log", MFD_CLOEXEC);
        assert_true(f->log > 0);
        dup2(f->log, STDERR_FILENO);
        log_setup(LOG_INFO, LOG_TEXT);
        call_allocate_one(f, &outcome, "GPU-0::2");
        wait_end(f, &outcome, RPC_OK, "GPU-0");
        UNTIL(&f->loop, list_is_empty(&f->requests->reported));
        dup2(before, STDERR_FILENO);
        close(before);
        log_setup(LOG_ERROR, LOG_TEXT);
        assert_int_equal(f->logged, 0);
        assert_true(pread(f->log, text, sizeof(text) - 1, 0) > 0);
        assert_non_null(strstr(text, " allocated resource=nvidia.com/gpu unit=GPU-0 replicas=1 of=4 "));
        close(f->log);
        f->log = 0;
}

static void test_a_late_answer_is_waited_for(void **state)
{
        struct fixture *f = *state;
        struct outcome first, second;

        f->answers_later = true;
        call_allocate_one(f, &first, "GPU-0::0");
        call_allocate_one(f, &second, "GPU-1::0");
        wait_owed(f, 2);
        assert_false(first.ended);
        answer_one(f);
        wait_end(f, &first, RPC_OK, "GPU-0");
        assert_false(second.ended);
        answer_one(f);
        wait_end(f, &second, RPC_OK, "GPU-1");
        assert_false(uv_is_active((uv_handle_t *)&f->requests->timer)); /* idle costs no wake-up */
}

static void test_containers_are_bound_one_after_the_other(void **state)
{
        static const char *const containers[] = {"GPU-0::0", "GPU-1::0 GPU-1::1", "GPU-0::1", NULL};
        struct fixture *f = *state;
        struct outcome outcome;

        f->answers_later = true;
        call_allocate(f, &outcome, containers);
        wait_owed(f, 1);
        assert_string_equal(f->asked, "node: GPU-0::0\n");
        answer_one(f);
        assert_string_equal(f->asked, "node: GPU-0::0\nnode: GPU-1::0 GPU-1::1\n");
        f->answers_later = false; /* the third from within the second's answer */
        answer_one(f);
        wait_end(f, &outcome, RPC_OK, "GPU-0 GPU-1 GPU-0");
        assert_string_equal(f->asked, "node: GPU-0::0\nnode: GPU-1::0 GPU-1::1\nnode: GPU-0::1\n");
}

static void test_as_many_containers_as_a_request_may_have_are_bound(void **state)
{
        const char *containers[65];
        struct fixture *f = *state;
        struct outcome outcome;

        for (size_t i = 0; i < 64; i++)
                containers[i] = "GPU-0::0";
        containers[64] = NULL;
        call_allocate(f, &outcome, containers);
        UNTIL(&f->loop, outcome.ended);
        assert_int_equal(outcome.status, RPC_OK);
        assert_int_equal(strlen(outcome.text), 64 * 6 - 1);
        assert_int_equal(strlen(f->asked), 64 * strlen("node: GPU-0::0\n"));
}

static void test_a_refusal_is_kubelets_answer_and_the_rest_is_not_asked_for(void **state)
{
        static const char *const containers[] = {"GPU-0::0", "GPU-0::1", NULL};
        struct fixture *f = *state;
        struct outcome outcome;

        f->refusal = "no unit has room";
        call_allocate(f, &outcome, containers);
        wait_end(f, &outcome, RPC_UNAVAILABLE, "no unit has room");
        f->answers_later = true;
        call_allocate(f, &outcome, containers);
        wait_owed(f, 1);
        answer_one(f);
        wait_end(f, &outcome, RPC_UNAVAILABLE, "no unit has room");
        assert_string_equal(f->asked, "node: GPU-0::0\nnode: GPU-0::0\n");
}

static void test_what_the_ids_alone_forbid_is_not_asked_for(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;

        call_allocate_one(f, &outcome, "GPU-7::0");
        wait_end(
                f, &outcome, RPC_NOT_FOUND, "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-7::0'");
        assert_string_equal(f->asked, "");
        requests_forget_previous(f->requests);
        f->third.section.fail_requests_greater_than_one = true;
        remake_plan(&f->third);
        set_plan(f, &f->third);
        call_allocate_one(f, &outcome, "GPU-0::0 GPU-0::1");
        wait_end(f, &outcome, RPC_INVALID_ARGUMENT,
                "invalid request for resource 'nvidia.com/gpu': maximum request size for shared resources is 1; found 2; "
                "to allow more, set sharing.timeSlicing.failRequestsGreaterThanOne to false");
        assert_string_equal(f->asked, "");
}

/* kubelet chose before it had our newest list; without the broker's word the request would be refused. */
static void test_ids_of_two_units_may_be_bound_to_one(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;

        node_share(&f->other, SHARING_MPS, 4);
        f->other.section.daemon_scope = DAEMON_SCOPE_GPU;
        remake_plan(&f->other);
        set_plan(f, &f->other);
        f->unit = "GPU-1";
        call_allocate_one(f, &outcome, "GPU-0::0 GPU-1::3");
        wait_end(f, &outcome, RPC_OK, "1");
        f->unit = NULL;
        call_allocate_one(f, &outcome, "GPU-0::0 GPU-1::3");
        UNTIL(&f->loop, outcome.ended);
        assert_int_equal(outcome.status, RPC_INVALID_ARGUMENT);
        assert_string_equal(f->asked, "other: GPU-0::0 GPU-1::3\nother: GPU-0::0 GPU-1::3\n");
}

static void test_a_request_that_kubelet_cancels_is_forgotten(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;
        struct rpc_call *call;

        f->answers_later = true;
        call = call_allocate_one(f, &outcome, "GPU-0::0");
        wait_owed(f, 1);
        rpc_call_cancel(call);
        wait_no_waiting(f);
        answer_one(f);
        f->answers_later = false;
        call_allocate_one(f, &outcome, "GPU-0::1");
        wait_end(f, &outcome, RPC_OK, "GPU-0");
}

static void test_a_kubelet_that_goes_away_takes_its_requests_with_it(void **state)
{
        struct fixture *f = *state;
        struct outcome first, second;

        f->answers_later = true;
        call_allocate_one(f, &first, "GPU-0::0");
        call_allocate_one(f, &second, "GPU-0::1");
        wait_owed(f, 2);
        rpc_client_close(TAKE_PTR(f->client));
        assert_int_equal(first.status, RPC_CANCELLED);
        wait_no_waiting(f);
        answer_one(f);
        answer_one(f);
        f->answers_later = false;
        connect_kubelet(f);
        call_allocate_one(f, &first, "GPU-0::1");
        wait_end(f, &first, RPC_OK, "GPU-0");
}

static void test_a_broker_that_never_answers_costs_the_deadline_and_no_more(void **state)
{
        struct fixture *f = *state;
        struct outcome first, second;

        close_requests(f);
        make_requests(f, 50);
        f->answers_later = true;
        call_allocate_one(f, &first, "GPU-0::0");
        wait_owed(f, 1);
        call_allocate_one(f, &second, "GPU-1::0");
        wait_end(f, &first, RPC_DEADLINE_EXCEEDED,
                "resource 'nvidia.com/gpu': the container's allocation was not ready within 0.05 s; the log of "
                "warpshare on this node says more");
        wait_end(f, &second, RPC_DEADLINE_EXCEEDED, first.text);
        assert_false(uv_is_active((uv_handle_t *)&f->requests->timer));
        answer_one(f); /* too late: nobody hears it */
        f->answers_later = false;
        call_allocate_one(f, &first, "GPU-0::0");
        wait_end(f, &first, RPC_OK, "GPU-0");
}

/* The deadline is that of the request: each container that is bound does not start it anew. */
static void test_several_containers_have_one_deadline(void **state)
{
        static const char *const containers[] = {"GPU-0::0", "GPU-0::1", NULL};
        struct fixture *f = *state;
        struct outcome outcome;
        uint64_t deadline;

        f->answers_later = true;
        call_allocate(f, &outcome, containers);
        wait_owed(f, 1);
        deadline = uv_timer_get_due_in(&f->requests->timer) + uv_now(&f->loop);
        while (uv_now(&f->loop) + 10000 <= deadline)
                uv_update_time(&f->loop);
        answer_one(f);
        assert_int_equal(f->n_owed, 1);
        assert_int_equal(uv_timer_get_due_in(&f->requests->timer) + uv_now(&f->loop), deadline);
        answer_one(f);
        wait_end(f, &outcome, RPC_OK, "GPU-0 GPU-0");
}

static void test_what_waits_when_the_resource_goes_is_refused(void **state)
{
        struct fixture *f = *state;
        struct outcome first, second, late;

        f->answers_later = true;
        call_allocate_one(f, &first, "GPU-0::0");
        call_allocate_one(f, &second, "GPU-0::1");
        wait_owed(f, 2);
        requests_close(f->requests, &f->closing);
        closing_end(&f->closing, on_requests_closed, f);
        call_allocate_one(f, &late, "GPU-0::2");
        wait_end(f, &first, RPC_UNAVAILABLE, "resource 'nvidia.com/gpu' is being withdrawn");
        wait_end(f, &second, RPC_UNAVAILABLE, "resource 'nvidia.com/gpu' is being withdrawn");
        wait_end(f, &late, RPC_UNAVAILABLE, "resource 'nvidia.com/gpu' is being withdrawn");
        assert_int_equal(f->n_owed, 2);
        wait_requests_closed(f);
        /* The broker outlives them, and its word goes nowhere. */
        answer_one(f);
        answer_one(f);
}

/* ---- plans ---- */

static void test_an_answer_is_of_the_plan_that_was_asked_with(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;

        f->answers_later = true;
        call_allocate_one(f, &outcome, "GPU-1::0");
        wait_owed(f, 1);
        set_plan(f, &f->other);
        answer_one(f);
        wait_end(f, &outcome, RPC_OK, "GPU-1"); /* by UUID, as the plan before has it */
        call_allocate_one(f, &outcome, "GPU-1::0");
        wait_owed(f, 1);
        answer_one(f);
        wait_end(f, &outcome, RPC_OK, "1");
        assert_string_equal(f->asked, "node: GPU-1::0\nother: GPU-1::0\n");
}

static void test_an_answer_whose_plan_is_gone_is_of_the_one_in_force(void **state)
{
        struct fixture *f = *state;
        struct outcome stays, goes;

        f->answers_later = true;
        call_allocate_one(f, &stays, "GPU-0::0");
        call_allocate_one(f, &goes, "GPU-1::0");
        wait_owed(f, 2);
        set_plan(f, &f->other);
        requests_forget_previous(f->requests);
        set_plan(f, &f->third);
        answer_one(f);
        wait_end(f, &stays, RPC_OK, "0");
        answer_one(f);
        wait_end(f, &goes, RPC_NOT_FOUND, "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-1::0'");
}

static void test_the_broker_is_asked_with_the_plan_that_has_the_ids(void **state)
{
        struct fixture *f = *state;
        struct outcome outcome;

        set_plan(f, &f->third);
        call_allocate_one(f, &outcome, "GPU-1::0");
        wait_end(f, &outcome, RPC_OK, "GPU-1");
        call_allocate_one(f, &outcome, "GPU-0::0");
        wait_end(f, &outcome, RPC_OK, "0");
        assert_string_equal(f->asked, "node: GPU-1::0\nthird: GPU-0::0\n");
        requests_forget_previous(f->requests);
        call_allocate_one(f, &outcome, "GPU-1::0");
        wait_end(
                f, &outcome, RPC_NOT_FOUND, "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-1::0'");
}

/* ---- GetPreferredAllocation ---- */

static const char everything[] = "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3";

/* kubelet's list may be older than what is kept back: its ids are offered all the same. */
static void test_an_id_that_is_reserved_is_not_preferred(void **state)
{
        static const bool most_of_the_first[8] = {true, true, true, true, true, false, false, false};
        struct fixture *f = *state;
        struct outcome outcome;

        f->unavailable = most_of_the_first;
        call_prefer(f, &outcome, everything, "", 3);
        assert_string_equal(outcome.text, "GPU-1::1 GPU-1::2 GPU-1::3");
        call_prefer(f, &outcome, "GPU-1::3 GPU-0::0 GPU-1::0", "", 1);
        assert_string_equal(outcome.text, "GPU-1::3");
        f->unavailable = NULL;
        call_prefer(f, &outcome, "GPU-0::0", "", 1);
        assert_string_equal(outcome.text, "GPU-0::0");
}

/* A shorter answer is filled up by kubelet; an error would fail a pod that was promised. */
static void test_where_too_few_are_not_reserved_the_answer_is_shorter(void **state)
{
        static const bool all_but_one[8] = {true, true, true, true, true, true, false, true};
        struct fixture *f = *state;
        struct outcome outcome;

        f->unavailable = all_but_one;
        call_prefer(f, &outcome, everything, "", 3);
        assert_string_equal(outcome.text, "GPU-1::2");
        call_prefer(f, &outcome, "GPU-0::0", "", 1);
        assert_string_equal(outcome.text, "");
}

/* It is held already, by an init container of the same pod. */
static void test_an_id_that_must_be_in_the_answer_is_though_it_is_reserved(void **state)
{
        static const bool all_of_the_first[8] = {true, true, true, true};
        struct fixture *f = *state;
        struct outcome outcome;

        f->unavailable = all_of_the_first;
        call_prefer(f, &outcome, everything, "GPU-0::1", 2);
        assert_true(strncmp(outcome.text, "GPU-0::1 GPU-1::", 16) == 0);
}

/*
 * Given back a moment ago, by the terms of before: the sooner the rest of them follows, the sooner the unit goes over.
 */
static void test_ids_of_before_are_preferred_only_when_no_others_are_left(void **state)
{
        static const bool unavailable[8] = {[7] = true};
        struct fixture *f = *state;
        struct resource resource = f->node.plan->resources[0];
        struct unit units[2] = {resource.units[0], resource.units[1]};
        struct outcome outcome;

        units[0].is_kept = true;
        resource.units = units;
        resource.unavailable = unavailable;
        requests_set_resource(f->requests, f->node.plan, &resource);
        call_prefer(f, &outcome, everything, "", 3);
        assert_string_equal(outcome.text, "GPU-1::0 GPU-1::1 GPU-1::2");
        call_prefer(f, &outcome, "GPU-0::2 GPU-1::0", "", 2);
        assert_string_equal(outcome.text, "GPU-0::2 GPU-1::0"); /* both of them, in no order */
        call_prefer(f, &outcome, "GPU-1::3 GPU-0::3", "", 1);
        assert_string_equal(outcome.text, "GPU-0::3");
        set_plan(f, &f->node);
}

/* |third| has GPU-0 alone; here GPU-1 keeps the terms that it has in |node|. */
static void test_an_id_of_terms_that_leave_is_not_preferred_and_has_its_place(void **state)
{
        struct fixture *f = *state;
        const struct resource *draining = &f->node.plan->resources[0];
        struct resource resource = f->third.plan->resources[0];
        bool *unavailable = xcalloc(resource.n_devices, sizeof(*unavailable));
        struct outcome outcome;

        set_plan(f, &f->third);
        requests_forget_previous(f->requests);
        resource.unavailable = unavailable;
        resource.draining = draining;
        resource.n_draining = 1;
        requests_set_resource(f->requests, f->third.plan, &resource);
        requests_forget_previous(f->requests);
        call_prefer(f, &outcome, "GPU-1::0 GPU-0::0", "", 1);
        assert_string_equal(outcome.text, "GPU-0::0");
        call_prefer(f, &outcome, "GPU-1::0", "", 1);
        assert_string_equal(outcome.text, ""); /* kubelet takes it all the same: an error would fail its pod */
        call_allocate_one(f, &outcome, "GPU-1::0");
        wait_end(f, &outcome, RPC_OK, "1");
        call_allocate_one(f, &outcome, "GPU-1::9");
        wait_end(
                f, &outcome, RPC_NOT_FOUND, "invalid request for resource 'nvidia.com/gpu': unknown device 'GPU-1::9'");
        set_plan(f, &f->node);
        free(unavailable);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_broker_that_answers_at_once_costs_no_waiting, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_answer_leaves_before_its_line_in_the_log, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_late_answer_is_waited_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_containers_are_bound_one_after_the_other, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_as_many_containers_as_a_request_may_have_are_bound, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_refusal_is_kubelets_answer_and_the_rest_is_not_asked_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_the_ids_alone_forbid_is_not_asked_for, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_ids_of_two_units_may_be_bound_to_one, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_request_that_kubelet_cancels_is_forgotten, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_kubelet_that_goes_away_takes_its_requests_with_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_broker_that_never_answers_costs_the_deadline_and_no_more, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_several_containers_have_one_deadline, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_waits_when_the_resource_goes_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_answer_is_of_the_plan_that_was_asked_with, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_an_answer_whose_plan_is_gone_is_of_the_one_in_force, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_broker_is_asked_with_the_plan_that_has_the_ids, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_id_that_is_reserved_is_not_preferred, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_ids_of_before_are_preferred_only_when_no_others_are_left, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_an_id_of_terms_that_leave_is_not_preferred_and_has_its_place, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_where_too_few_are_not_reserved_the_answer_is_shorter, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_an_id_that_must_be_in_the_answer_is_though_it_is_reserved, set_up, tear_down),
        };

        signal(SIGPIPE, SIG_IGN); /* as the agent does */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
