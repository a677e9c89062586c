// SPDX-License-Identifier: Apache-2.0
/*
 * The sockets for a registration: creates and closes servers and Register calls as node/kubelet/registration.h decides.
 * Both must exist at the same time: kubelet calls GetDevicePluginOptions on our server before it answers Register.
 */
#include "node/kubelet/plugin.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "node/kubelet/convert.h"
#include "node/kubelet/requests.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "plan/mps_limits.h"

/* kubelet dials us for up to 10 s inside Register before it fails the call. */
#define REGISTER_TIMEOUT_MS UINT64_C(20000)
/* How long kubelet is given to close its side of a connection whose streams have ended. */
#define CLOSE_GRACE_MS UINT64_C(1000)

struct plugin {
        const struct plugin_place *place;
        char *name;
        struct registration registration;
        uv_timer_t timer;
        unsigned int servers_made;

        struct rpc_server *server; /* NULL: none */
        struct list streams;       /* open ListAndWatch calls */
        struct stream *watch;      /* kubelet's stream, the first on this server; NULL: none yet, or it has ended */
        struct rpc_client *client; /* the Register call in flight */

        struct device_list list;
        struct rpc_message *packed; /* |list| as a message, for streams that open later */
        struct requests requests;

        char last_failure[sizeof(((struct error *)0)->text)]; /* logged once, not at every retry */
        struct closing closing;
        void (*closed)(void *data);
        void *closed_data;
};

struct stream {
        struct list link;
        struct plugin *plugin;
        struct rpc_call *call;
};

static void plugin_step(struct plugin *plugin, enum registration_event event);

/* ---- the service ---- */

/* The context of each handler, which is that of the requests: they answer most calls. */
static struct plugin *plugin_of(void *context)
{
        return container_of(context, struct plugin, requests);
}

static void handle_options(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        requests_finish_call(call, convert_options(requests_ask_at_start(context)));
}

static void on_stream_ended(struct rpc_call *call UNUSED, void *data)
{
        struct stream *stream = data;
        struct plugin *plugin = stream->plugin;

        bool is_watch = stream == plugin->watch;

        list_remove(&stream->link);
        free(stream);
        if (!is_watch)
                return;
        plugin->watch = NULL;
        plugin_step(plugin, REGISTRATION_WATCH_LOST);
}

/*
 * Sending may close a stream or its whole connection, so each stream is taken from the front and appended again before
 * sending.
 */
static void for_each_stream(struct plugin *plugin, void (*visit)(struct plugin *plugin, struct rpc_call *call))
{
        struct list todo;

        list_init(&todo);
        while (!list_is_empty(&plugin->streams)) {
                struct list *link = plugin->streams.next;

                list_remove(link);
                list_append(&todo, link);
        }
        while (!list_is_empty(&todo)) {
                struct list *link = todo.next;

                list_remove(link);
                list_append(&plugin->streams, link);
                visit(plugin, container_of(link, struct stream, link)->call);
        }
}

static void plugin_send_list(struct plugin *plugin, struct rpc_call *call)
{
        rpc_call_send(call, plugin->packed);
        rpc_call_flush(call);
}

static void end_stream(struct plugin *plugin UNUSED, struct rpc_call *call)
{
        rpc_call_finish(call, RPC_OK, NULL);
        rpc_call_flush(call);
}

static void handle_list_and_watch(
        struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        struct plugin *plugin = plugin_of(context);
        struct stream *stream = xcalloc(1, sizeof(*stream));

        stream->plugin = plugin;
        stream->call = call;
        list_append(&plugin->streams, &stream->link);
        rpc_call_on_ended(call, on_stream_ended, stream);
        rpc_call_send(call, plugin->packed);
        if (plugin->watch)
                return; /* kubelet opens its stream first, as soon as it knows the server; this one belongs to another
                         * client */
        plugin->watch = stream;
        plugin_step(plugin, REGISTRATION_WATCH_OPENED);
}

static const struct rpc_method methods[] = {
        {"/v1beta1.DevicePlugin/Allocate", requests_allocate},
        {"/v1beta1.DevicePlugin/GetPreferredAllocation", requests_prefer},
        {"/v1beta1.DevicePlugin/ListAndWatch", handle_list_and_watch},
        {"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_options},
        {"/v1beta1.DevicePlugin/PreStartContainer", requests_start},
};

/* ---- registration ---- */

/* Logs once when the reason changes, not once per retry. */
static void plugin_report_failure(struct plugin *plugin, const char *text)
{
        enum log_level level = strcmp(plugin->last_failure, text) == 0 ? LOG_DEBUG : LOG_WARN;

        snprintf(plugin->last_failure, sizeof(plugin->last_failure), "%s", text);
        LOG_AT(level, "registration with kubelet failed, will try again", LOG_STR("resource", plugin->name),
                LOG_STR("error", text));
}

static void plugin_on_registered(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct plugin *plugin = data;
        _free_ char *outcome = NULL;

        if (!plugin->client)
                return; /* withdrawn by plugin_close_server() */
        rpc_client_close(TAKE_PTR(plugin->client));
        if (status == RPC_OK) {
                struct device_list_counts counts = device_list_count(&plugin->list);

                plugin->last_failure[0] = '\0';
                outcome = xasprintf("Registered device plugin for '%s' with Kubelet", plugin->name);
                log_info(outcome, LOG_UINT("healthy", counts.healthy), LOG_UINT("unhealthy", counts.unhealthy),
                        LOG_STR("socket", rpc_server_path(plugin->server)));
                plugin_step(plugin, REGISTRATION_REGISTER_OK);
                return;
        }
        outcome = xasprintf("Register on '%s': %s: %s", plugin->place->kubelet_socket, rpc_status_name(status), text);
        plugin_report_failure(plugin, outcome);
        plugin_step(plugin, REGISTRATION_REGISTER_FAILED);
}

static int listen_on_new_socket(struct plugin *plugin, struct error *err)
{
        /* The part after the slash, as in NVIDIA's plugin: "nvidia.com/gpu.shared" is "gpu.shared". */
        const char *slash = strrchr(plugin->name, '/');
        _free_ char *path = xasprintf("%s/" PLUGIN_SOCKET_PREFIX "%s-%" PRIx64 "-%u.sock", plugin->place->directory,
                slash ? slash + 1 : plugin->name, plugin->place->incarnation, ++plugin->servers_made);
        struct rpc_server_options options = {
                .service = {.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = &plugin->requests},
        };

        if (rpc_server_new(&plugin->server, plugin->place->loop, path, &options, err) < 0)
                return -1;
        /* Each attempt has a new socket, but only the first one in a row is logged. */
        log_text(plugin->last_failure[0] ? LOG_DEBUG : LOG_INFO, "Starting to serve '%s' on %s", plugin->name, path);
        return 0;
}

static int call_register(struct plugin *plugin, struct error *err)
{
        const char *path = rpc_server_path(plugin->server);
        const struct rpc_client_options options = {0};
        const struct rpc_handlers handlers = {.ended = plugin_on_registered};
        struct rpc_message *request;

        if (rpc_client_new(&plugin->client, plugin->place->loop, plugin->place->kubelet_socket, &options, err) < 0)
                return -1;
        request = convert_register_request(
                strrchr(path, '/') + 1, plugin->name, requests_ask_at_start(&plugin->requests));
        rpc_client_call(plugin->client, NULL, "/v1beta1.Registration/Register", request, REGISTER_TIMEOUT_MS, &handlers,
                plugin);
        rpc_message_unref(request);
        return 0;
}

static void plugin_serve(struct plugin *plugin)
{
        struct error err;

        if (listen_on_new_socket(plugin, &err) < 0) {
                plugin_report_failure(plugin, err.text);
                plugin_step(plugin, REGISTRATION_REGISTER_FAILED);
                return;
        }
        if (!plugin->place->kubelet_socket)
                return; /* no registration: serve any client that connects */
        if (call_register(plugin, &err) < 0) {
                plugin_report_failure(plugin, err.text);
                plugin_step(plugin, REGISTRATION_REGISTER_FAILED);
        }
}

static void on_server_closed(void *data)
{
        plugin_step(data, REGISTRATION_SERVER_CLOSED);
}

/* Run from the loop, so that no step runs inside another one. */
static void on_nothing_to_close(uv_timer_t *timer)
{
        plugin_step(container_of(timer, struct plugin, timer), REGISTRATION_SERVER_CLOSED);
}

static void plugin_close_server(struct plugin *plugin)
{
        struct rpc_server *server = TAKE_PTR(plugin->server);

        rpc_client_close(TAKE_PTR(plugin->client));
        if (!server) {
                uv_timer_start(&plugin->timer, on_nothing_to_close, 0, 0);
                return;
        }
        for_each_stream(plugin, end_stream);
        rpc_server_close(server, CLOSE_GRACE_MS, on_server_closed, plugin);
}

static void plugin_free(void *context)
{
        struct plugin *plugin = context;
        void (*closed)(void *) = plugin->closed;
        void *data = plugin->closed_data;

        rpc_message_unref(plugin->packed);
        device_list_done(&plugin->list);
        free(plugin->name);
        free(plugin);
        closed(data);
}

static void plugin_on_timeout(uv_timer_t *timer)
{
        plugin_step(container_of(timer, struct plugin, timer), REGISTRATION_TIMEOUT);
}

static void plugin_step(struct plugin *plugin, enum registration_event event)
{
        enum registration_state previous = plugin->registration.state;
        struct registration_action action =
                registration_step(&plugin->registration, event, (int64_t)uv_now(plugin->place->loop), backoff_random());
        enum registration_state after = plugin->registration.state;

        if (previous != after)
                log_debug("registration", LOG_STR("resource", plugin->name),
                        LOG_STR("from", registration_state_name(previous)),
                        LOG_STR("to", registration_state_name(after)));
        /*
         * The list stream may end before Register is answered; then the answer shows that kubelet does not read the
         * list.
         */
        if (action.command == REGISTRATION_CLOSE &&
                (event == REGISTRATION_WATCH_LOST || event == REGISTRATION_REGISTER_OK))
                log_warn("kubelet closed the device list, registering again", LOG_STR("resource", plugin->name),
                        LOG_UINT("times", plugin->registration.backoff.failures + 1));
        if (action.command == REGISTRATION_CLOSE && event == REGISTRATION_TIMEOUT)
                log_warn("kubelet answered Register and did not open ListAndWatch, registering again",
                        LOG_STR("resource", plugin->name),
                        LOG_UINT("times", plugin->registration.backoff.failures + 1));
        if (previous != after)
                uv_timer_stop(&plugin->timer);
        if (action.timeout_ms)
                uv_timer_start(&plugin->timer, plugin_on_timeout, action.timeout_ms, 0);
        switch (action.command) {
        case REGISTRATION_NOTHING:
                break;
        case REGISTRATION_SERVE:
                plugin_serve(plugin);
                break;
        case REGISTRATION_CLOSE:
                plugin_close_server(plugin);
                break;
        case REGISTRATION_DONE:
                closing_close(&plugin->closing, &plugin->timer);
                closing_end(&plugin->closing, plugin_free, plugin);
                break;
        }
}

/* ---- public ---- */

struct plugin *plugin_new(const struct plugin_place *place, const char *resource_name)
{
        struct plugin *plugin = xcalloc(1, sizeof(*plugin));
        struct requests_options requests = {
                .loop = place->loop, .broker = place->broker, .bind_timeout_ms = place->bind_timeout_ms};
        int rc = uv_timer_init(place->loop, &plugin->timer);

        assert(rc == 0); /* uv_timer_init cannot fail in libuv 1.x */
        plugin->place = place;
        plugin->name = xstrdup(resource_name);
        requests.resource_name = plugin->name;
        requests_init(&plugin->requests, &requests);
        list_init(&plugin->streams);
        registration_init(&plugin->registration);
        return plugin;
}

static void publish(struct plugin *plugin)
{
        struct device_list_counts counts = device_list_count(&plugin->list);
        struct rpc_message *packed = device_list_pack(&plugin->list);

        /* Sends only a list that has changed, since kubelet writes a file for each list. */
        if (plugin->packed && rpc_message_is_same(plugin->packed, packed)) {
                rpc_message_unref(packed);
                return;
        }
        rpc_message_unref(plugin->packed);
        plugin->packed = packed;
        for_each_stream(plugin, plugin_send_list);
        if (counts.reserved)
                log_info("devices", LOG_STR("resource", plugin->name), LOG_UINT("healthy", counts.healthy),
                        LOG_UINT("unhealthy", counts.unhealthy), LOG_UINT("reserved", counts.reserved));
        else
                log_info("devices", LOG_STR("resource", plugin->name), LOG_UINT("healthy", counts.healthy),
                        LOG_UINT("unhealthy", counts.unhealthy));
}

bool plugin_repeat(struct plugin *plugin)
{
        if (!plugin->packed || !plugin->watch)
                return false;
        for_each_stream(plugin, plugin_send_list);
        return true;
}

/* One line per unit, even if it has thousands of replicas, when kubelet has the list. */
static void log_unhealthy(const struct plugin *plugin)
{
        const struct resource *resource = plugin->list.resource;

        for (size_t i = 0; resource && i < resource->n_units; i++)
                if (plugin->list.fell[i])
                        log_text(LOG_WARN, "'%s' device marked unhealthy: %s", plugin->name, resource->units[i].uuid);
}

void plugin_set_resource(struct plugin *plugin, const struct plan *plan, const struct resource *resource)
{
        requests_set_resource(&plugin->requests, plan, resource);
        if (device_list_update(
                    &plugin->list, resource, plugin->place->health, requests_unavailable(&plugin->requests, resource)))
                publish(plugin);
        log_unhealthy(plugin);
}

bool plugin_has_same_options(const struct plugin *plugin, const struct plan *plan, const struct resource *resource)
{
        return requests_ask_at_start(&plugin->requests) == mps_limits_at_start(plan, resource);
}

void plugin_forget_previous(struct plugin *plugin)
{
        requests_forget_previous(&plugin->requests);
}

void plugin_refresh(struct plugin *plugin)
{
        if (device_list_refresh(&plugin->list, plugin->place->health,
                    requests_unavailable(&plugin->requests, plugin->list.resource)))
                publish(plugin);
        log_unhealthy(plugin);
}

const struct device_list *plugin_list(const struct plugin *plugin)
{
        return &plugin->list;
}

void plugin_note_kubelet(struct plugin *plugin, bool is_there)
{
        plugin_step(plugin, is_there ? REGISTRATION_KUBELET_CAME : REGISTRATION_KUBELET_WENT);
}

void plugin_close(struct plugin *plugin, void (*closed)(void *data), void *data)
{
        plugin->closed = closed;
        plugin->closed_data = data;
        /* The plan may be freed before the last connection is closed. */
        requests_close(&plugin->requests, &plugin->closing);
        plugin->list.resource = NULL;
        plugin_step(plugin, REGISTRATION_STOP);
}
