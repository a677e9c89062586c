// SPDX-License-Identifier: Apache-2.0
#include "bench/calls.h"

#include <stdio.h>

#include <deviceplugin.pb-c.h>

#include "base/alloc.h"
#include "bench/requests.h"
#include "net/rpc/client.h"

/* ---- one call ---- */

struct caller {
        struct node *node;
        struct rpc_client *client;
        bool has_message;
        size_t size; /* of that */
        bool has_ended;
        bool has_failed;
};

static void on_message(struct rpc_call *call UNUSED, const uint8_t *bytes UNUSED, size_t size, void *data)
{
        ((struct caller *)data)->has_message = true;
        ((struct caller *)data)->size = size;
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct caller *caller = data;

        caller->has_ended = true;
        caller->has_failed = status != RPC_OK || !caller->has_message;
        if (caller->has_failed)
                fprintf(stderr, "bench-agent: %s: %s\n", rpc_status_name(status), text);
}

static int open_caller(struct caller *caller, struct node *node, struct error *err)
{
        const struct rpc_client_options options = {0};
        _free_ char *path = node_plugin_socket(node);

        *caller = (struct caller){.node = node};
        if (!path)
                return error_set(err, ERROR_NOT_FOUND, "no socket of the plugin in kubelet's directory");
        return rpc_client_new(&caller->client, node->sim.loop, path, &options, err);
}

/* Returns how long it took, or a negative number. */
static int64_t call(struct caller *caller, const char *path, struct rpc_message *request)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_ended};
        int64_t started = clock_ns();

        caller->has_message = caller->has_ended = false;
        rpc_client_call(caller->client, NULL, path, request, CALLS_TIMEOUT_MS, &handlers, caller);
        while (!caller->has_ended)
                uv_run(caller->node->sim.loop, UV_RUN_ONCE);
        return caller->has_failed ? -1 : clock_ns() - started;
}

static int run_calls(struct node *node, const struct calls *calls, const char *path, struct rpc_message **requests,
        size_t n_requests, struct figure *figure, struct error *err)
{
        struct caller caller;
        int rc = 0;

        if (open_caller(&caller, node, err) < 0)
                return -1;
        for (unsigned int i = 0; i < CALLS_WARM_UP + calls->count && rc == 0; i++) {
                int64_t took = call(&caller, path, requests[i % n_requests]);

                if (took < 0)
                        rc = error_set(err, ERROR_UNAVAILABLE, "%s failed", path);
                else if (i >= CALLS_WARM_UP)
                        figure_add(figure, (double)took / 1000);
                if (calls->pause_ms)
                        node_pause(node, calls->pause_ms);
        }
        rpc_client_close(caller.client);
        return rc;
}

/* ---- the devices, as ListAndWatch says ---- */

struct ids {
        struct caller caller; /* first */
        struct arena arena;
        const char **ids;
        size_t count;
};

static void on_devices(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct ids *ids = data;
        V1beta1__ListAndWatchResponse *response = v1beta1__list_and_watch_response__unpack(NULL, size, message);

        if (response && !ids->count) {
                ids->ids = ARENA_ARRAY(&ids->arena, const char *, response->n_devices);
                for (size_t i = 0; i < response->n_devices; i++)
                        ids->ids[ids->count++] = arena_strdup(&ids->arena, response->devices[i]->id);
        }
        v1beta1__list_and_watch_response__free_unpacked(response, NULL);
}

/* Of a caller, also of that in |ids|. */
static void on_stream_ended(
        struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data)
{
        ((struct caller *)data)->has_ended = true;
}

static bool has_ids(void *data)
{
        const struct ids *ids = data;

        return ids->count > 0 || ids->caller.has_ended;
}

static void watch_devices(struct caller *caller, const struct rpc_handlers *handlers, void *data)
{
        struct rpc_message *empty = rpc_message_new(0);

        rpc_client_call(caller->client, NULL, "/v1beta1.DevicePlugin/ListAndWatch", empty, 0, handlers, data);
        rpc_message_unref(empty);
}

/* Reads every id over a connection of its own, and shuffles them: kubelet's candidates come from a Go map. */
static int read_ids(struct ids *ids, struct node *node, struct error *err)
{
        static const struct rpc_handlers handlers = {.message = on_devices, .ended = on_stream_ended};
        uint32_t random = 1;

        *ids = (struct ids){0};
        if (open_caller(&ids->caller, node, err) < 0)
                return -1;
        watch_devices(&ids->caller, &handlers, ids);
        sim_node_wait(&node->sim, has_ids, ids, CALLS_TIMEOUT_MS);
        rpc_client_close(ids->caller.client);
        if (!ids->count)
                return error_set(err, ERROR_TIMEOUT, "no device list came");
        for (size_t i = ids->count; i > 1; i--) {
                size_t at;
                const char *id = ids->ids[i - 1];

                random = random * 1664525U + 1013904223U;
                at = (random >> 8) % i;
                ids->ids[i - 1] = ids->ids[at];
                ids->ids[at] = id;
        }
        return 0;
}

/* ---- what is measured ---- */

int calls_allocate(struct node *node, const struct calls *calls, struct figure *figure, struct error *err)
{
        struct rpc_message **requests;
        struct ids ids;
        int rc;

        if (read_ids(&ids, node, err) < 0)
                return -1;
        requests = ARENA_ARRAY(&ids.arena, struct rpc_message *, ids.count);
        for (size_t i = 0; i < ids.count; i++)
                requests[i] = request_allocate(&ids.ids[i], 1);
        rc = run_calls(node, calls, "/v1beta1.DevicePlugin/Allocate", requests, ids.count, figure, err);
        for (size_t i = 0; i < ids.count; i++)
                rpc_message_unref(requests[i]);
        arena_done(&ids.arena);
        return rc;
}

int calls_prefer(struct node *node, const struct calls *calls, struct figure *figure, struct error *err)
{
        struct rpc_message *request;
        struct ids ids;
        int rc;

        if (read_ids(&ids, node, err) < 0)
                return -1;
        request = request_prefer(ids.ids, ids.count, calls->wanted);
        rc = run_calls(node, calls, "/v1beta1.DevicePlugin/GetPreferredAllocation", &request, 1, figure, err);
        rpc_message_unref(request);
        arena_done(&ids.arena);
        return rc;
}

static bool has_answer(void *data)
{
        const struct caller *caller = data;

        return caller->has_message || caller->has_ended;
}

int calls_list(struct node *node, const struct calls *calls, struct figure *figure, struct error *err)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_stream_ended};

        size_t size = 0;

        for (unsigned int i = 0; i < calls->count; i++) {
                struct caller caller;
                int64_t started;

                if (open_caller(&caller, node, err) < 0)
                        return -1;
                started = clock_ns();
                watch_devices(&caller, &handlers, &caller);
                sim_node_wait(&node->sim, has_answer, &caller, CALLS_TIMEOUT_MS);
                figure_add(figure, (double)(clock_ns() - started) / 1000);
                rpc_client_close(caller.client);
                if (!caller.has_message)
                        return error_set(err, ERROR_TIMEOUT, "no device list came");
                size = caller.size;
        }
        figure_print_one("list_size", "KiB", (double)size / 1024);
        return 0;
}
