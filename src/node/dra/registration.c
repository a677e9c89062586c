#include "node/dra/registration.h"

#include <assert.h>
#include <string.h>
#include <sys/un.h>

#include <pluginregistration.pb-c.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "node/dra/claim.h"
#include "node/dra/sockets.h"
#include "base/io/dirwatch.h"
#include "base/io/unix_socket.h"
#include "net/kube/object.h"
#include "node/kubelet/protobuf.h"
#include "net/rpc/server.h"

#define POLL_MS UINT64_C(10000)
#define RETRY_MS UINT64_C(10000)
#define RETRY_MAX_MS UINT64_C(120000)
#define STATUS_MEMORY ((size_t)64 * 1024)
#define STATUS_LIMIT ((size_t)32 * 1024)         /* bytes of a message to the first socket */
#define REPLACED_GRACE_MS DRA_SERVICE_TIMEOUT_MS /* calls through a socket that was removed end as if it were there */

struct dra_registration {
        struct dra_registration_options options;
        struct dra_sockets sockets;
        struct rpc_server *first; /* NULL: it does not listen yet */
        struct rpc_server *second;
        struct dirwatch *watches[2];
        uv_timer_t timer; /* until the next try, or while it hands over until it gives up */
        uint64_t pause_ms;
        char last_failure[sizeof(((struct error *)0)->text)];
        bool is_registered;
        bool is_closing;        /* and hands over as long as |watches| are there */
        struct closing closing; /* of servers, also replaced ones, and the timer */
        void (*closed)(void *data);
        void *closed_data;
};

static void registration_look(struct dra_registration *registration);

/* ---- the Registration service ---- */

static void finish_with(struct rpc_call *call, const ProtobufCMessage *answer)
{
        struct rpc_message *message = protobuf_pack(answer);

        rpc_call_send(call, message);
        rpc_message_unref(message);
        rpc_call_finish(call, RPC_OK, NULL);
}

static void handle_get_info(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        struct dra_registration *registration = context;
        /*
         * Kubelet's short names of the services, without the package. From 1.34 on kubelet uses the first one that it
         * knows.
         */
        char v1[] = "v1.DRAPlugin", v1beta1[] = "v1beta1.DRAPlugin", health[] = "v1alpha1.DRAResourceHealth";
        char type[] = "DRAPlugin";
        char *versions[] = {v1, v1beta1, health};
        Pluginregistration__PluginInfo info;

        pluginregistration__plugin_info__init(&info);
        info.type = type;
        info.name = registration->sockets.driver;
        info.endpoint = registration->sockets.second;
        info.supported_versions = versions;
        info.n_supported_versions = ARRAY_SIZE(versions);
        finish_with(call, &info.base);
}

static void on_retry(uv_timer_t *timer);

static void refused(struct dra_registration *registration, const char *reason)
{
        enum log_level level = strcmp(registration->last_failure, reason) == 0 ? LOG_DEBUG : LOG_WARN;

        snprintf(registration->last_failure, sizeof(registration->last_failure), "%s", reason);
        registration->is_registered = false;
        LOG_AT(level, "kubelet refused the DRA driver, will try again", LOG_STR("driver", registration->sockets.driver),
                LOG_STR("error", registration->last_failure));
        uv_timer_start(&registration->timer, on_retry, registration->pause_ms, 0);
        registration->pause_ms = MIN(2 * registration->pause_ms, RETRY_MAX_MS);
}

static void handle_notify(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct dra_registration *registration = context;
        Pluginregistration__RegistrationStatusResponse answer = PLUGINREGISTRATION__REGISTRATION_STATUS_RESPONSE__INIT;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const Pluginregistration__RegistrationStatus *status;
        struct error err;

        status = (const Pluginregistration__RegistrationStatus *)(const void *)protobuf_unpack(
                &pluginregistration__registration_status__descriptor, &arena, STATUS_MEMORY, message, size, &err);
        if (!status) {
                rpc_call_finish(call, RPC_INVALID_ARGUMENT, err.text);
                return;
        }
        finish_with(call, &answer.base);
        if (registration->is_closing)
                return;
        if (status->plugin_registered) {
                LOG_AT(registration->is_registered ? LOG_DEBUG : LOG_INFO, "registered DRA driver with kubelet",
                        LOG_STR("driver", registration->sockets.driver),
                        LOG_STR("socket", registration->sockets.second));
                registration->is_registered = true;
                registration->last_failure[0] = '\0';
                registration->pause_ms = registration->options.retry_ms;
                uv_timer_stop(&registration->timer);
        } else {
                refused(registration, status->error[0] ? status->error : "no reason given");
        }
        if (registration->options.on_status)
                registration->options.on_status(
                        status->plugin_registered ? NULL : registration->last_failure, registration->options.data);
}

static const struct rpc_method methods[] = {
        {"/pluginregistration.Registration/GetInfo", handle_get_info},
        {"/pluginregistration.Registration/NotifyRegistrationStatus", handle_notify},
};

/* ---- sockets ---- */

/* Logs one line each time the reason changes. */
static void registration_report_failure(struct dra_registration *registration, const struct error *err)
{
        enum log_level level = strcmp(registration->last_failure, err->text) == 0 ? LOG_DEBUG : LOG_WARN;

        snprintf(registration->last_failure, sizeof(registration->last_failure), "%s", err->text);
        LOG_AT(level, "DRA driver is not to be found by kubelet, will try again",
                LOG_STR("driver", registration->sockets.driver), LOG_ERR(err));
}

static bool is_there(const struct rpc_server *server)
{
        return server && rpc_server_is_reachable(server);
}

/* Starts a server. If |*server| is one whose socket is gone, it is closed. */
static int serve_again(struct dra_registration *registration, struct rpc_server **server, const char *path,
        const struct rpc_server_options *options, struct error *err)
{
        struct rpc_server *before = TAKE_PTR(*server);

        if (before)
                rpc_server_close(before, REPLACED_GRACE_MS, closing_release, closing_hold(&registration->closing));
        /*
         * If another instance listens, its socket stays: else two instances would replace each other's sockets for
         * ever.
         */
        if (reach_socket(path) == 0)
                return error_set(
                        err, ERROR_UNAVAILABLE, "socket '%s': another instance of this driver listens on it", path);
        if (rpc_server_new(server, registration->options.loop, path, options, err) < 0)
                return -1;
        log_debug("serving", LOG_STR("socket", path));
        return 0;
}

static int make_sockets(struct dra_registration *registration, struct error *err)
{
        if (!is_there(registration->second)) {
                const struct rpc_server_options options = {.service = dra_service_rpc(registration->options.service)};

                if (file_make_folder(registration->sockets.directory, err) < 0 ||
                        serve_again(registration, &registration->second, registration->sockets.second, &options, err) <
                                0)
                        return -1;
        }
        if (!is_there(registration->first)) {
                const struct rpc_server_options options = {.service = {.methods = methods,
                                                                   .n_methods = ARRAY_SIZE(methods),
                                                                   .context = registration,
                                                                   .limits = {.message = STATUS_LIMIT}},
                        .connections = 8};

                registration->is_registered = false;
                if (serve_again(registration, &registration->first, registration->sockets.first, &options, err) < 0)
                        return -1;
        }
        return 0;
}

static void registration_look(struct dra_registration *registration)
{
        struct error err;

        if (make_sockets(registration, &err) < 0)
                registration_report_failure(registration, &err);
        dra_sockets_tidy(&registration->sockets);
}

static void try_to_hand_over(struct dra_registration *registration);

static void on_changed(void *data)
{
        struct dra_registration *registration = data;

        if (registration->is_closing)
                try_to_hand_over(registration);
        else
                registration_look(registration);
}

/* Creates the first socket again, because a new file is a new plugin for kubelet's watcher. */
static void on_retry(uv_timer_t *timer)
{
        struct dra_registration *registration = container_of(timer, struct dra_registration, timer);

        if (registration->is_registered)
                return;
        if (is_there(registration->first))
                unlink(registration->sockets.first);
        registration_look(registration);
}

/* ---- start and end ---- */

static int check_driver(const char *driver, struct error *err)
{
        size_t length = strlen(driver);

        if (length == 0 || length > DRA_NAME_MAX)
                return error_set(err, ERROR_INVALID, "driver name '%.80s': %zu characters, must be 1 to %zu", driver,
                        length, DRA_NAME_MAX);
        if (object_is_name(driver))
                return 0;
        if (length > 1 && driver[length - 1] == '.' && driver[length - 2] != '.')
                return error_set(err, ERROR_INVALID, "driver name '%s': ends with a dot", driver);
        return error_set(err, ERROR_INVALID,
                "driver name '%s': must be a DNS subdomain in lower case, such as gpu.example.com", driver);
}

static int check_instance(const char *instance, struct error *err)
{
        if (!dra_name_is_uid(instance))
                return error_set(err, ERROR_INVALID, "instance '%.80s': must be 1 to %zu letters, digits and '-'",
                        instance, DRA_NAME_MAX);
        return 0;
}

static int check_path(const char *path, struct error *err)
{
        size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

        if (path[0] != '/')
                return error_set(err, ERROR_INVALID, "socket '%s': must be an absolute path", path);
        if (strlen(path) > most)
                return error_set(err, ERROR_INVALID, "socket '%s': the path has %zu bytes, at most %zu are possible",
                        path, strlen(path), most);
        return 0;
}

static void registration_on_closed(void *data)
{
        struct dra_registration *registration = data;
        void (*closed)(void *data) = registration->closed;
        void *closed_data = registration->closed_data;

        dra_sockets_done(&registration->sockets);
        free(registration);
        if (closed)
                closed(closed_data);
}

int dra_registration_new(
        struct dra_registration **ret, const struct dra_registration_options *options, struct error *err)
{
        struct dra_registration *registration;
        bool is_watching;

        if (check_driver(options->driver, err) < 0 || (options->instance && check_instance(options->instance, err) < 0))
                return -1;
        registration = xcalloc(1, sizeof(*registration));
        registration->options = *options;
        if (!registration->options.retry_ms)
                registration->options.retry_ms = RETRY_MS;
        registration->pause_ms = registration->options.retry_ms;
        dra_sockets_init(
                &registration->sockets, options->registry, options->plugins, options->driver, options->instance);
        uv_timer_init(options->loop, &registration->timer);
        is_watching =
                check_path(registration->sockets.first, err) == 0 && check_path(registration->sockets.second, err) == 0;
        for (unsigned int i = 0; i < ARRAY_SIZE(registration->watches) && is_watching; i++)
                is_watching =
                        dirwatch_new(&registration->watches[i], options->loop,
                                i == 0 ? registration->sockets.registry : registration->sockets.directory,
                                options->poll_ms ? options->poll_ms : POLL_MS, on_changed, registration, err) == 0;
        if (!is_watching) {
                for (unsigned int i = 0; i < ARRAY_SIZE(registration->watches); i++)
                        dirwatch_close(registration->watches[i]);
                closing_close(&registration->closing, &registration->timer);
                closing_end(&registration->closing, registration_on_closed, registration);
                return -1;
        }
        registration_look(registration);
        *ret = registration;
        return 0;
}

static void registration_begin_to_close(struct dra_registration *registration, void (*closed)(void *data), void *data)
{
        assert(!registration->is_closing);
        registration->is_closing = true;
        registration->closed = closed;
        registration->closed_data = data;
}

static void registration_close_server(
        struct dra_registration *registration, struct rpc_server *server, bool has_handed_over, uint64_t grace_ms)
{
        if (server && has_handed_over)
                rpc_server_leave(server, closing_release, closing_hold(&registration->closing));
        else if (server)
                rpc_server_close(server, grace_ms, closing_release, closing_hold(&registration->closing));
}

static void close_sockets(struct dra_registration *registration, bool has_handed_over, uint64_t grace_ms)
{
        for (unsigned int i = 0; i < ARRAY_SIZE(registration->watches); i++)
                registration->watches[i] = dirwatch_close(registration->watches[i]);
        closing_close(&registration->closing, &registration->timer);
        registration_close_server(registration, TAKE_PTR(registration->first), has_handed_over, grace_ms);
        dra_health_stream_end_all(dra_service_health(registration->options.service));
        registration_close_server(registration, TAKE_PTR(registration->second), has_handed_over, grace_ms);
        closing_end(&registration->closing, registration_on_closed, registration);
}

void dra_registration_close(
        struct dra_registration *registration, uint64_t grace_ms, void (*closed)(void *data), void *data)
{
        registration_begin_to_close(registration, closed, data);
        close_sockets(registration, false, grace_ms);
}

static void try_to_hand_over(struct dra_registration *registration)
{
        if (!dra_sockets_hand_over(&registration->sockets))
                return;
        log_info("handed the DRA driver over to the next instance", LOG_STR("socket", registration->sockets.second));
        close_sockets(registration, true, 0);
}

static void on_nobody_came(uv_timer_t *timer)
{
        close_sockets(container_of(timer, struct dra_registration, timer), false, 0);
}

void dra_registration_hand_over(
        struct dra_registration *registration, uint64_t patience_ms, void (*closed)(void *data), void *data)
{
        registration_begin_to_close(registration, closed, data);
        if (!registration->sockets.has_instance || !registration->is_registered) {
                close_sockets(registration, false, 0);
                return;
        }
        uv_timer_start(&registration->timer, on_nobody_came, patience_ms, 0);
}
