// SPDX-License-Identifier: Apache-2.0
/*
 * Connections (struct peer) and resources (struct endpoint) are separate, as in kubelet: an endpoint names the peer
 * that was registered last, while older peers may still deliver lists. Admission is in admit.c, the start of a
 * container in start.c.
 */
#include "sim/kubelet/kubelet.h"

#include <string.h>

#include "sim/kubelet/internal.h"

#define DIAL_TIMEOUT_MS UINT64_C(10000)

size_t random_below(struct kubelet *kubelet, size_t bound)
{
        kubelet->random = kubelet->random * 1664525U + 1013904223U;
        return (kubelet->random >> 8) % bound;
}

/* ---- messages ---- */

struct rpc_message *message_pack(const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        return message;
}

char **message_strings(struct arena *arena, const char *const *from, size_t count)
{
        char **to = ARENA_ARRAY(arena, char *, count);

        for (size_t i = 0; i < count; i++)
                to[i] = arena_strdup(arena, from[i]);
        return to;
}

/* ---- endpoints ---- */

struct endpoint *endpoint_find(const struct kubelet *kubelet, const char *resource)
{
        LIST_FOR_EACH(link, &kubelet->endpoints) {
                struct endpoint *endpoint = container_of(link, struct endpoint, link);

                if (strcmp(endpoint->resource, resource) == 0)
                        return endpoint;
        }
        return NULL;
}

static struct endpoint *endpoint_get(struct kubelet *kubelet, const char *resource)
{
        struct endpoint *endpoint = endpoint_find(kubelet, resource);

        if (endpoint)
                return endpoint;
        endpoint = xcalloc(1, sizeof(*endpoint));
        endpoint->resource = xstrdup(resource);
        list_append(&kubelet->endpoints, &endpoint->link);
        return endpoint;
}

static void endpoint_free(struct endpoint *endpoint)
{
        list_remove(&endpoint->link);
        map_done(&endpoint->by_id);
        arena_done(&endpoint->arena);
        free(endpoint->devices);
        free(endpoint->resource);
        free(endpoint);
}

static void report(struct kubelet *kubelet, struct endpoint *endpoint)
{
        size_t capacity = endpoint->n_devices;
        size_t allocatable = endpoint->n_healthy;

        if (capacity == endpoint->reported_capacity && allocatable == endpoint->reported_allocatable)
                return;
        endpoint->reported_capacity = capacity;
        endpoint->reported_allocatable = allocatable;
        if (kubelet->options.on_change)
                kubelet->options.on_change(endpoint->resource, capacity, allocatable, kubelet->options.data);
}

/* The whole set is replaced by each message, whichever connection it came on. */
static void endpoint_set_devices(
        struct kubelet *kubelet, struct endpoint *endpoint, const V1beta1__ListAndWatchResponse *response)
{
        map_done(&endpoint->by_id);
        arena_done(&endpoint->arena);
        free(endpoint->devices);
        endpoint->devices = xcalloc(response->n_devices, sizeof(*endpoint->devices));
        endpoint->n_devices = endpoint->n_healthy = 0;
        map_reserve(&endpoint->by_id, response->n_devices);
        for (size_t i = 0; i < response->n_devices; i++) {
                struct known_device *device = &endpoint->devices[endpoint->n_devices];

                device->id = arena_strdup(&endpoint->arena, response->devices[i]->id);
                device->healthy = strcmp(response->devices[i]->health, "Healthy") == 0;
                if (!map_add(&endpoint->by_id, device->id, device))
                        continue; /* the same id twice counts once */
                endpoint->n_devices++;
                endpoint->n_healthy += device->healthy;
        }
        report(kubelet, endpoint);
}

static void endpoint_stop(struct kubelet *kubelet, struct endpoint *endpoint)
{
        for (size_t i = 0; i < endpoint->n_devices; i++)
                endpoint->devices[i].healthy = false;
        endpoint->n_healthy = 0;
        report(kubelet, endpoint);
}

/* ---- peers ---- */

/* A peer has two references: one of the list of peers, and one of the Register call until that is answered. */
static void peer_unref(struct peer *peer)
{
        if (--peer->references)
                return;
        free(peer->resource);
        free(peer);
}

/* Disconnects the peer; its calls may still end later, and are ignored. */
static void peer_drop(struct peer *peer)
{
        peer->dropped = true;
        list_remove(&peer->link);
        rpc_client_close(TAKE_PTR(peer->client));
        peer_unref(peer);
}

static void on_devices(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct peer *peer = data;
        V1beta1__ListAndWatchResponse *response = v1beta1__list_and_watch_response__unpack(NULL, size, message);

        if (!response)
                return;
        endpoint_set_devices(peer->kubelet, endpoint_get(peer->kubelet, peer->resource), response);
        v1beta1__list_and_watch_response__free_unpacked(response, NULL);
}

/*
 * What kubelet does when the stream of ListAndWatch has ended: it looks the plugin up by resource name, and disconnects
 * the one that it finds, even if that is a newer one than the plugin whose stream ended.
 */
static void on_watch_ended(
        struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data)
{
        struct peer *peer = data;
        struct kubelet *kubelet = peer->kubelet;
        struct endpoint *endpoint = endpoint_find(kubelet, peer->resource);
        struct peer *named;

        if (peer->dropped)
                return;
        if (endpoint && (named = endpoint->peer)) {
                endpoint->peer = NULL;
                endpoint_stop(kubelet, endpoint);
                if (named != peer)
                        peer_drop(named);
        }
        peer_drop(peer);
}

static void start_watching(struct peer *peer)
{
        static const struct rpc_handlers handlers = {.message = on_devices, .ended = on_watch_ended};
        struct rpc_message *empty = rpc_message_new(0);

        rpc_client_call(peer->client, NULL, "/v1beta1.DevicePlugin/ListAndWatch", empty, 0, &handlers, peer);
        rpc_message_unref(empty);
}

static void on_options(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct peer *peer = data;
        V1beta1__DevicePluginOptions *options = v1beta1__device_plugin_options__unpack(NULL, size, message);

        if (!options)
                return;
        peer->wants_start = options->pre_start_required;
        peer->has_preference = options->get_preferred_allocation_available;
        v1beta1__device_plugin_options__free_unpacked(options, NULL);
}

static void endpoint_set_peer(struct endpoint *endpoint, struct peer *peer)
{
        endpoint->peer = peer;
        endpoint->wants_start = peer->wants_start;
        endpoint->has_preference = peer->has_preference;
}

/* The second half of Register: GetDevicePluginOptions has ended, so Register is answered, too. */
static void on_options_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct peer *peer = data;
        struct kubelet *kubelet = peer->kubelet;
        struct rpc_call *waiting = peer->register_call;
        struct rpc_message *empty;

        if (peer->dropped)
                return;
        if (status != RPC_OK) {
                _free_ char *reason = xasprintf("failed to get device plugin options: %s", text);

                if (waiting) {
                        rpc_call_finish(waiting, RPC_UNKNOWN, reason);
                        rpc_call_flush(waiting);
                }
                peer_drop(peer);
                return;
        }
        endpoint_set_peer(endpoint_get(kubelet, peer->resource), peer);
        kubelet->registrations++;
        if (waiting) {
                empty = rpc_message_new(0);
                rpc_call_send(waiting, empty);
                rpc_message_unref(empty);
                rpc_call_finish(waiting, RPC_OK, NULL);
                rpc_call_flush(waiting);
        }
        start_watching(peer);
}

static void on_register_ended(struct rpc_call *call UNUSED, void *data)
{
        struct peer *peer = data;

        peer->register_call = NULL;
        peer_unref(peer);
}

static void handle_register(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        static const struct rpc_handlers handlers = {.message = on_options, .ended = on_options_ended};
        struct kubelet *kubelet = context;
        V1beta1__RegisterRequest *request = v1beta1__register_request__unpack(NULL, size, message);
        _free_ char *path = NULL;
        struct rpc_message *empty;
        struct peer *peer;
        struct error err;

        if (!request) {
                rpc_call_finish(call, RPC_INTERNAL, "request cannot be decoded");
                return;
        }
        if (strcmp(request->version, "v1beta1") != 0 || !strchr(request->resource_name, '/')) {
                rpc_call_finish(call, RPC_UNKNOWN, "version or resource name is invalid");
                v1beta1__register_request__free_unpacked(request, NULL);
                return;
        }
        if (kubelet->options.on_register)
                kubelet->options.on_register(request->resource_name, kubelet->options.data);
        peer = xcalloc(1, sizeof(*peer));
        peer->references = 1;
        peer->kubelet = kubelet;
        peer->resource = xstrdup(request->resource_name);
        path = xasprintf("%s/%s", kubelet->directory, request->endpoint);
        v1beta1__register_request__free_unpacked(request, NULL);
        list_append(&kubelet->peers, &peer->link);
        if (rpc_client_new(&peer->client, kubelet->options.loop, path,
                    &(const struct rpc_client_options){.limits = {.message = (size_t)4 << 20}}, &err) < 0) {
                rpc_call_finish(call, RPC_UNKNOWN, err.text);
                peer_drop(peer);
                return;
        }
        peer->references++;
        peer->register_call = call;
        rpc_call_on_ended(call, on_register_ended, peer);
        empty = rpc_message_new(0);
        rpc_client_call(peer->client, NULL, "/v1beta1.DevicePlugin/GetDevicePluginOptions", empty, DIAL_TIMEOUT_MS,
                &handlers, peer);
        rpc_message_unref(empty);
}

/* ---- public ---- */

static int serve(struct kubelet *kubelet, struct error *err)
{
        static const struct rpc_method registration[] = {{"/v1beta1.Registration/Register", handle_register}};
        static const struct rpc_method pods[] = {{"/v1.PodResourcesLister/List", pods_handle_list}};
        const struct kubelet_options *options = &kubelet->options;
        _free_ char *path = xasprintf("%s/kubelet.sock", kubelet->directory);
        struct rpc_server_options server = {.service = {.n_methods = 1, .context = kubelet}};

        server.service.methods = registration;
        if (rpc_server_new(&kubelet->server, options->loop, path, &server, err) < 0)
                return -1;
        server.service.methods = pods;
        if (!options->pod_resources ||
                rpc_server_new(&kubelet->pods_server, options->loop, options->pod_resources, &server, err) == 0)
                return 0;
        rpc_server_close(kubelet->server, 0, NULL, NULL);
        return -1;
}

int kubelet_new(struct kubelet **ret, const struct kubelet_options *options, struct error *err)
{
        struct kubelet *kubelet = xcalloc(1, sizeof(*kubelet));

        kubelet->options = *options;
        kubelet->directory = xstrdup(options->directory);
        kubelet->random = 1;
        list_init(&kubelet->endpoints);
        list_init(&kubelet->peers);
        list_init(&kubelet->pods);
        if (serve(kubelet, err) < 0) {
                free(kubelet->directory);
                free(kubelet);
                return -1;
        }
        *ret = kubelet;
        return 0;
}

static void on_server_closed(void *data)
{
        struct kubelet *kubelet = data;
        void (*closed)(void *) = kubelet->closed;
        void *closed_data = kubelet->closed_data;

        if (--kubelet->open)
                return;
        while (!list_is_empty(&kubelet->endpoints))
                endpoint_free(container_of(kubelet->endpoints.next, struct endpoint, link));
        while (!list_is_empty(&kubelet->pods))
                pod_free(container_of(kubelet->pods.next, struct pod, link));
        free(kubelet->directory);
        free(kubelet);
        closed(closed_data);
}

void kubelet_close(struct kubelet *kubelet, void (*closed)(void *data), void *data)
{
        kubelet->closing = true;
        kubelet->closed = closed;
        kubelet->closed_data = data;
        while (!list_is_empty(&kubelet->peers))
                peer_drop(container_of(kubelet->peers.next, struct peer, link));
        kubelet->open = 1 + !!kubelet->pods_server;
        rpc_server_close(kubelet->server, 0, on_server_closed, kubelet);
        if (kubelet->pods_server)
                rpc_server_close(kubelet->pods_server, 0, on_server_closed, kubelet);
}

size_t kubelet_capacity(const struct kubelet *kubelet, const char *resource)
{
        const struct endpoint *endpoint = endpoint_find(kubelet, resource);

        return endpoint ? endpoint->n_devices : 0;
}

size_t kubelet_allocatable(const struct kubelet *kubelet, const char *resource)
{
        const struct endpoint *endpoint = endpoint_find(kubelet, resource);

        return endpoint ? endpoint->n_healthy : 0;
}

unsigned int kubelet_registrations(const struct kubelet *kubelet)
{
        return kubelet->registrations;
}

void kubelet_each_device(const struct kubelet *kubelet, const char *resource, kubelet_device_fn *visit, void *data)
{
        const struct endpoint *endpoint = endpoint_find(kubelet, resource);

        for (size_t i = 0; endpoint && i < endpoint->n_devices; i++) {
                const struct known_device *device = &endpoint->devices[i];
                const struct pod *pod = pod_of_device(kubelet, device->id);

                visit(device->id, device->healthy, pod ? pod->name : NULL, data);
        }
}
