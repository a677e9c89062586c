// SPDX-License-Identifier: Apache-2.0
#include "wild_kubelet.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include <deviceplugin.pb-c.h>

#include "base/alloc.h"
#include "base/macro.h"

struct wild_kubelet kubelet;

void wild_cut(struct wild_endpoint *endpoint)
{
        endpoint->watch = NULL;
        rpc_client_close(TAKE_PTR(endpoint->client));
}

struct wild_endpoint *wild_find(const char *resource)
{
        for (size_t i = 0; i < kubelet.n_endpoints; i++)
                if (kubelet.endpoints[i].is_current && strcmp(kubelet.endpoints[i].resource, resource) == 0)
                        return &kubelet.endpoints[i];
        return NULL;
}

static void on_watch_ended(
        struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data)
{
        struct wild_endpoint *endpoint = data;
        struct wild_endpoint *current = kubelet.is_old ? wild_find(endpoint->resource) : NULL;

        if (!endpoint->watch)
                return; /* it was cut by kubelet itself */
        wild_cut(endpoint);
        if (current)
                wild_cut(current);
}

static void on_list(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct wild_endpoint *endpoint = data;
        V1beta1__ListAndWatchResponse *list = v1beta1__list_and_watch_response__unpack(NULL, size, message);

        assert_true(list && list->n_devices <= WILD_IDS);
        endpoint->has_list = true;
        endpoint->n_ids = list->n_devices;
        for (size_t i = 0; i < list->n_devices; i++) {
                snprintf(endpoint->ids[i].id, sizeof(endpoint->ids[i].id), "%s", list->devices[i]->id);
                endpoint->ids[i].is_healthy = strcmp(list->devices[i]->health, "Healthy") == 0;
        }
        v1beta1__list_and_watch_response__free_unpacked(list, NULL);
}

static void ask_for_list(struct wild_endpoint *endpoint)
{
        static const struct rpc_handlers handlers = {.message = on_list, .ended = on_watch_ended};
        struct rpc_message *empty = rpc_message_new(0);

        rpc_client_call(endpoint->client, &endpoint->watch, "/v1beta1.DevicePlugin/ListAndWatch", empty, 0, &handlers,
                endpoint);
        rpc_message_unref(empty);
}

static void answer_register(struct rpc_call *call)
{
        struct rpc_message *empty = rpc_message_new(0);

        rpc_call_send(call, empty);
        rpc_message_unref(empty);
        rpc_call_finish(call, RPC_OK, NULL);
        rpc_call_flush(call);
}

static void on_options(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct wild_endpoint *endpoint = data;
        struct rpc_call *registering = endpoint->registering;

        if (!registering || !endpoint->client)
                return;
        if (status != RPC_OK) {
                rpc_call_finish(registering, RPC_UNKNOWN, text);
                rpc_call_flush(registering);
                return;
        }
        if (kubelet.manner == WILD_CUTS)
                wild_cut(endpoint);
        else if (kubelet.manner != WILD_FORGETS)
                ask_for_list(endpoint);
        answer_register(registering);
}

static void on_register_ended(struct rpc_call *call UNUSED, void *data)
{
        ((struct wild_endpoint *)data)->registering = NULL;
}

/* The one before of that name is forgotten, and stays connected. */
static struct wild_endpoint *add_endpoint(const V1beta1__RegisterRequest *request)
{
        struct wild_endpoint *endpoint = &kubelet.endpoints[kubelet.n_endpoints++];
        struct wild_endpoint *before = wild_find(request->resource_name);

        assert_true(kubelet.n_endpoints < WILD_ENDPOINTS);
        if (before)
                before->is_current = false;
        *endpoint = (struct wild_endpoint){
                .is_current = true, .calls_at_start = request->options && request->options->pre_start_required};
        snprintf(endpoint->resource, sizeof(endpoint->resource), "%s", request->resource_name);
        return endpoint;
}

static void handle_register(struct rpc_call *call, const uint8_t *message, size_t size, void *context UNUSED)
{
        static const struct rpc_handlers handlers = {.ended = on_options};
        V1beta1__RegisterRequest *request = v1beta1__register_request__unpack(NULL, size, message);
        struct rpc_message *empty = rpc_message_new(0);
        struct wild_endpoint *endpoint;
        _free_ char *path = NULL;
        struct error err;

        assert_non_null(request);
        kubelet.n_registers++;
        if (kubelet.manner == WILD_REFUSES) {
                rpc_call_finish(call, RPC_UNKNOWN, "no");
        } else if (kubelet.manner != WILD_IS_SILENT) {
                endpoint = add_endpoint(request);
                path = xasprintf("%s/%s", kubelet.folder, request->endpoint);
                endpoint->registering = call;
                rpc_call_on_ended(call, on_register_ended, endpoint);
                assert_ok(rpc_client_new(
                                  &endpoint->client, kubelet.loop, path, &(const struct rpc_client_options){0}, &err),
                        &err);
                rpc_client_call(endpoint->client, NULL, "/v1beta1.DevicePlugin/GetDevicePluginOptions", empty, 10000,
                        &handlers, endpoint);
        }
        rpc_message_unref(empty);
        v1beta1__register_request__free_unpacked(request, NULL);
}

void wild_begin(uv_loop_t *loop, const char *folder)
{
        memset(&kubelet, 0, sizeof(kubelet));
        kubelet.loop = loop;
        kubelet.folder = folder;
}

void wild_start(void)
{
        static const struct rpc_method methods[] = {{"/v1beta1.Registration/Register", handle_register}};
        const struct rpc_server_options options = {.service = {.methods = methods, .n_methods = ARRAY_SIZE(methods)}};
        _free_ char *path = xasprintf("%s/kubelet.sock", kubelet.folder);
        struct error err;

        assert_ok(rpc_server_new(&kubelet.server, kubelet.loop, path, &options, &err), &err);
}

static void on_server_closed(void *data UNUSED)
{
}

void wild_stop(void)
{
        if (!kubelet.server)
                return;
        for (size_t i = 0; i < kubelet.n_endpoints; i++) {
                wild_cut(&kubelet.endpoints[i]);
                kubelet.endpoints[i].is_current = false;
        }
        rpc_server_close(TAKE_PTR(kubelet.server), 0, on_server_closed, NULL);
}

size_t wild_each_file(const char *prefix, bool removes)
{
        DIR *folder = opendir(kubelet.folder);
        const struct dirent *entry;
        size_t count = 0;

        while (folder && (entry = readdir(folder)))
                if (entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
                        count++;
                        if (removes)
                                unlinkat(dirfd(folder), entry->d_name, 0);
                }
        if (folder)
                closedir(folder);
        return count;
}

size_t wild_count_watches(void)
{
        size_t count = 0;

        for (size_t i = 0; i < kubelet.n_endpoints; i++)
                count += kubelet.endpoints[i].watch != NULL;
        return count;
}

void wild_unwatch(struct wild_endpoint *endpoint)
{
        struct rpc_call *watch = TAKE_PTR(endpoint->watch);

        if (watch)
                rpc_call_cancel(watch);
}

/* ---- requests ---- */

static void on_answer(
        struct rpc_call *call UNUSED, const uint8_t *message UNUSED, size_t size UNUSED, void *data UNUSED)
{
        kubelet.n_answers++;
}

static void on_request_ended(
        struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data UNUSED)
{
        kubelet.n_open_requests--;
}

static void call_plugin(struct wild_endpoint *endpoint, const char *method, struct rpc_message *request)
{
        static const struct rpc_handlers handlers = {.message = on_answer, .ended = on_request_ended};
        _free_ char *path = xasprintf("/v1beta1.DevicePlugin/%s", method);

        kubelet.n_requests++;
        kubelet.n_open_requests++;
        rpc_client_call(endpoint->client, NULL, path, request, 0, &handlers, NULL);
        rpc_message_unref(request);
}

void wild_allocate(struct wild_endpoint *endpoint, char **ids, size_t n_ids)
{
        V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest *containers[] = {&container};
        V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
        struct rpc_message *message;

        container.devices_ids = ids;
        container.n_devices_ids = n_ids;
        request.container_requests = containers;
        request.n_container_requests = 1;
        message = rpc_message_new(v1beta1__allocate_request__get_packed_size(&request));
        v1beta1__allocate_request__pack(&request, rpc_message_payload(message));
        call_plugin(endpoint, "Allocate", message);
}

void wild_start_container(struct wild_endpoint *endpoint, char **ids, size_t n_ids)
{
        V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
        struct rpc_message *message;

        request.devices_ids = ids;
        request.n_devices_ids = n_ids;
        message = rpc_message_new(v1beta1__pre_start_container_request__get_packed_size(&request));
        v1beta1__pre_start_container_request__pack(&request, rpc_message_payload(message));
        call_plugin(endpoint, "PreStartContainer", message);
}
