// SPDX-License-Identifier: Apache-2.0
/*
 * One request through the whole of the agent's own code, without a socket: HTTP/2, gRPC, decoding, the policy,
 * encoding. Only what the server does is inside serve(), which does not get inlined: callgrind collects there, and the
 * instructions of one request can be compared between machines.
 * usage: bench-session allocate|prefer REQUESTS [REPLICAS]     (of 8 GPUs by MPS, 48 each, or of 10 by time-slicing)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/figure.h"
#include "bench/requests.h"
#include "bench/stock.h"
#include "node/kubelet/convert.h"
#include "net/rpc/session.h"

struct bench {
        struct stock stock;
        struct rpc_session *server;
        struct rpc_session *client;
        struct strbuf answer; /* on its way from server to client */
        size_t answered;
};

static void fail(const char *text)
{
        fprintf(stderr, "bench-session: %s\n", text);
        exit(1);
}

/* ---- the server: what node/kubelet/plugin.c does with a request, without its log ---- */

static void finish_with(struct rpc_call *call, struct rpc_message *answer)
{
        rpc_call_send(call, answer);
        rpc_message_unref(answer);
        rpc_call_finish(call, RPC_OK, NULL);
}

static void handle_allocate(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        const struct bench *bench = context;
        struct arena scratch = ARENA_INIT;
        struct container_ids *containers;
        struct allocate_answer answer;
        struct error err;
        size_t count;
        struct allocate_request request = {.tag = ""};

        if (convert_allocate_request(&containers, &count, &scratch, message, size, &err) < 0)
                fail(err.text);
        request.ids = containers[0].ids;
        request.n_ids = containers[0].n_ids;
        if (allocate(&answer, &scratch, bench->stock.plan, bench->stock.resource, &request, &err) < 0)
                fail(err.text);
        finish_with(call, convert_allocate_response(&answer, 1, &scratch));
        arena_done(&scratch);
}

static void handle_prefer(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        const struct bench *bench = context;
        struct arena scratch = ARENA_INIT;
        struct prefer_request *requests;
        const char *ids[8];
        struct container_ids answer = {.ids = ids};
        struct error err;
        size_t count;

        if (convert_prefer_request(&requests, &count, &scratch, message, size, &err) < 0 ||
                prefer(bench->stock.resource, &requests[0], &scratch, ids, &answer.n_ids, &err) < 0)
                fail(err.text);
        finish_with(call, convert_prefer_response(&answer, 1, &scratch));
        arena_done(&scratch);
}

/* What the agent does between reading from its socket and writing to it. */
__attribute__((noinline, used)) static void serve(struct bench *bench, const uint8_t *bytes, size_t size)
{
        const uint8_t *answer;
        struct error err;

        if (rpc_session_receive(bench->server, bytes, size, 0, &err) < 0)
                fail(err.text);
        while ((size = rpc_session_pending(bench->server, &answer)) > 0)
                strbuf_append(&bench->answer, answer, size);
}

/* ---- the client ---- */

static void on_message(struct rpc_call *call UNUSED, const uint8_t *bytes UNUSED, size_t size UNUSED, void *data)
{
        ((struct bench *)data)->answered++;
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data UNUSED)
{
        if (status != RPC_OK)
                fail(text);
}

/* Until neither side has anything to say. */
static void exchange(struct bench *bench)
{
        const uint8_t *bytes;
        struct error err;
        size_t size;

        do {
                while ((size = rpc_session_pending(bench->client, &bytes)) > 0)
                        serve(bench, bytes, size);
                size = bench->answer.size;
                if (size && rpc_session_receive(bench->client, (const uint8_t *)bench->answer.data, size, 0, &err) < 0)
                        fail(err.text);
                strbuf_clear(&bench->answer);
        } while (size);
}

static void measure(struct bench *bench, const char *path, struct rpc_message *request, size_t requests)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_ended};
        struct figure figure = {.name = "session", .unit = "us"};

        for (size_t i = 0; i < requests; i++) {
                int64_t started = clock_ns();
                struct rpc_call *call =
                        rpc_session_call(bench->client, path, request, 0, RPC_NO_DEADLINE, &handlers, bench);

                (void)call;
                exchange(bench);
                figure_add(&figure, (double)(clock_ns() - started) / 1000);
        }
        if (bench->answered != requests)
                fail("a request was not answered");
        figure_print(&figure);
}

int main(int argc, char **argv)
{
        static const struct rpc_method methods[] = {{"/v1beta1.DevicePlugin/Allocate", handle_allocate},
                {"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_prefer}};
        struct bench bench = {.answer = STRBUF_INIT};
        const struct rpc_service service = {.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = &bench};
        const struct rpc_session_client_options options = {0};
        bool prefers = argc >= 3 && strcmp(argv[1], "prefer") == 0;
        struct rpc_message *request;

        if (argc < 3 || argc > 4 || (!prefers && strcmp(argv[1], "allocate") != 0)) {
                fprintf(stderr, "usage: bench-session allocate|prefer REQUESTS [REPLICAS]\n");
                return 2;
        }
        if (argc == 4)
                stock_init(&bench.stock, 10, SHARING_TIME_SLICING, (unsigned int)strtoul(argv[3], NULL, 10));
        else
                stock_init(&bench.stock, 8, SHARING_MPS, 48);
        bench.server = rpc_session_new_server(&service);
        bench.client = rpc_session_new_client(&options);
        request = prefers ? request_prefer(bench.stock.ids, bench.stock.resource->n_devices, 1)
                          : request_allocate(bench.stock.ids, 1);
        exchange(&bench);
        measure(&bench, methods[prefers ? 1 : 0].path, request, strtoul(argv[2], NULL, 10));
        rpc_message_unref(request);
        rpc_session_free(bench.client);
        rpc_session_free(bench.server);
        strbuf_done(&bench.answer);
        stock_done(&bench.stock);
        return 0;
}
