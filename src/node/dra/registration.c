// SPDX-License-Identifier: Apache-2.0
#include "node/dra/registration.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <pluginregistration.pb-c.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/io/loop.h"
#include "base/io/dirwatch.h"
#include "base/io/unix_socket.h"
#include "base/log.h"
#include "net/kube/object.h"
#include "net/rpc/server.h"
#include "node/dra/claim.h"
#include "net/rpc/message.h"

#define FIRST_END "-reg.sock" /* "<driver>[-<instance>]-reg.sock" */
#define SECOND_BEGIN "dra"    /* "dra[-<instance>].sock" */
#define SECOND_END ".sock"
#define POLL_MS UINT64_C(10000)
#define RETRY_MS UINT64_C(10000)
#define RETRY_MAX_MS UINT64_C(120000)
#define STATUS_MEMORY ((size_t)64 * 1024)
#define STATUS_LIMIT ((size_t)32 * 1024)         /* bytes of a message to the first socket */
#define REPLACED_GRACE_MS DRA_SERVICE_TIMEOUT_MS /* calls through a socket that was removed end as if it were there */

/* ---- names of files ---- */

char *dra_sockets_directory(const char *plugins, const char *driver)
{
        return xasprintf("%s/%s", plugins, driver);
}

/* "-<instance>", for the caller to free. */
static char *tag_of(const char *instance)
{
        uint64_t sum = HASH_INIT;

        if (!instance)
                return xstrdup("");
        if (strlen(instance) <= DRA_SOCKETS_TAG_MAX)
                return xasprintf("-%s", instance);
        hash_add(&sum, instance, strlen(instance));
        return xasprintf("-%08" PRIx32, (uint32_t)(sum ^ sum >> 32));
}

void dra_sockets_init(
        struct dra_sockets *ret, const char *registry, const char *plugins, const char *driver, const char *instance)
{
        _free_ char *tag = tag_of(instance);

        ret->driver = xstrdup(driver);
        ret->registry = xstrdup(registry);
        ret->directory = dra_sockets_directory(plugins, driver);
        ret->first = xasprintf("%s/%s%s" FIRST_END, registry, driver, tag);
        ret->second = xasprintf("%s/" SECOND_BEGIN "%s" SECOND_END, ret->directory, tag);
        ret->has_instance = instance;
}

void dra_sockets_done(struct dra_sockets *sockets)
{
        free(sockets->driver);
        free(sockets->registry);
        free(sockets->directory);
        free(sockets->first);
        free(sockets->second);
}

/* "<begin>[-<instance>]<end>". */
static bool is_name_of_ours(const char *name, const char *begin, const char *end)
{
        size_t length = strlen(name);
        size_t n_begin = strlen(begin);
        size_t n_end = strlen(end);

        return length >= n_begin + n_end && strncmp(name, begin, n_begin) == 0 &&
               strcmp(name + length - n_end, end) == 0 && (length == n_begin + n_end || name[n_begin] == '-');
}

bool dra_sockets_is_first(const char *driver, const char *name)
{
        return is_name_of_ours(name, driver, FIRST_END);
}

bool dra_sockets_is_second(const char *driver UNUSED, const char *name)
{
        return is_name_of_ours(name, SECOND_BEGIN, SECOND_END);
}

/* The second file of the instance with the first file |path|, or the other way round. */
static char *counterpart_of(const struct dra_sockets *sockets, const char *path, bool is_second)
{
        const char *tag = file_base_name(path) + strlen(is_second ? SECOND_BEGIN : sockets->driver);
        int length = (int)(strlen(tag) - strlen(is_second ? SECOND_END : FIRST_END));

        return is_second ? xasprintf("%s/%s%.*s" FIRST_END, sockets->registry, sockets->driver, length, tag)
                         : xasprintf("%s/" SECOND_BEGIN "%.*s" SECOND_END, sockets->directory, length, tag);
}

/* ---- files of other instances ---- */

typedef bool other_fn(const struct dra_sockets *sockets, const char *path, const struct stat *status);

/* The path of the first one that |is_wanted|, which may remove it; for the caller to free. NULL: there is none. */
static char *find_other(const struct dra_sockets *sockets, bool is_second, other_fn *is_wanted)
{
        const char *folder = is_second ? sockets->directory : sockets->registry;
        const char *own = is_second ? sockets->second : sockets->first;
        DIR *opened = opendir(folder);
        const struct dirent *entry;
        char *found = NULL;

        while (opened && !found && (entry = readdir(opened))) {
                _free_ char *path = xasprintf("%s/%s", folder, entry->d_name);
                bool is_ours = is_second ? dra_sockets_is_second(sockets->driver, entry->d_name)
                                         : dra_sockets_is_first(sockets->driver, entry->d_name);
                struct stat status;

                if (is_ours && strcmp(path, own) != 0 && lstat(path, &status) == 0 && is_wanted(sockets, path, &status))
                        found = TAKE_PTR(path);
        }
        if (opened)
                closedir(opened);
        return found;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

static bool is_successor(const struct dra_sockets *sockets, const char *path, const struct stat *status)
{
        struct stat own;

        return lstat(sockets->second, &own) == 0 && S_ISSOCK(status->st_mode) &&
               is_newer(&status->st_mtim, &own.st_mtim) && reach_socket(path) == 0;
}

bool dra_sockets_hand_over(const struct dra_sockets *sockets)
{
        _free_ char *successor = sockets->has_instance ? find_other(sockets, true, is_successor) : NULL;
        _free_ char *link = NULL;

        if (!successor)
                return false;
        link = xasprintf("%s.link", sockets->second);
        unlink(link);
        if (symlink(file_base_name(successor), link) < 0 || rename(link, sockets->second) < 0) {
                log_warn("cannot hand kubelet over to the next instance", LOG_STR("link", sockets->second),
                        LOG_STR("error", strerror(errno)));
                return false;
        }
        return true;
}

static bool is_older(const struct stat *status, int seconds)
{
        return status->st_mtim.tv_sec + seconds <= clock_unix_us() / 1000000;
}

static void remove_left(const char *path)
{
        if (unlink(path) == 0)
                log_info("removed the socket of an instance that is gone", LOG_STR("socket", path));
}

static void remove_if_stale(const char *path, const struct stat *status)
{
        if (S_ISSOCK(status->st_mode) && is_older(status, DRA_SOCKETS_STALE_S) && reach_socket(path) == ECONNREFUSED)
                remove_left(path);
}

/* The first file of an instance that has handed over stays. */
static bool tidy_first(const struct dra_sockets *sockets, const char *path, const struct stat *status)
{
        _free_ char *second = counterpart_of(sockets, path, false);
        struct stat of_second;

        if (lstat(second, &of_second) < 0 || !S_ISLNK(of_second.st_mode))
                remove_if_stale(path, status);
        return false;
}

static bool tidy_second(const struct dra_sockets *sockets, const char *path, const struct stat *status)
{
        _free_ char *first = counterpart_of(sockets, path, true);

        if (S_ISLNK(status->st_mode) && is_older(status, DRA_SOCKETS_HANDED_OVER_S)) {
                remove_left(first); /* before the link: kubelet ends with the instance that it has by this */
                remove_left(path);
        } else {
                remove_if_stale(path, status);
        }
        return false;
}

void dra_sockets_tidy(const struct dra_sockets *sockets)
{
        free(find_other(sockets, false, tidy_first));
        free(find_other(sockets, true, tidy_second));
}

/* ---- the Registration service ---- */

struct dra_registration {
        struct dra_registration_options options;
        struct dra_sockets sockets;
        struct rpc_server *first; /* NULL: it does not listen yet */
        struct rpc_server *second;
        struct dirwatch *watches[2];
        uv_timer_t timer;      /* until the next try, or while it hands over until it gives up */
        struct backoff pauses; /* after refusals */
        char last_failure[sizeof(((struct error *)0)->text)];
        bool is_registered;
        bool is_closing;        /* and hands over as long as |watches| are there */
        struct closing closing; /* of servers, also replaced ones, and the timer */
        void (*closed)(void *data);
        void *closed_data;
};

static void registration_look(struct dra_registration *registration);

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
         * knows of DRAPlugin. Of health 1.36 knows v1alpha1; 1.37 to 1.39 prefer v1 in any order, and open no stream
         * that is not named here; 1.40 is to know v1 only (kubernetes#139477).
         */
        char v1[] = "v1.DRAPlugin", v1beta1[] = "v1beta1.DRAPlugin";
        char health[] = "v1.DRAResourceHealth", alpha_health[] = "v1alpha1.DRAResourceHealth";
        char type[] = "DRAPlugin";
        char *versions[] = {v1, v1beta1, health, alpha_health};
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

/* At which level a failure is logged: a warning each time the reason changes. */
static enum log_level registration_note_failure(struct dra_registration *registration, const char *reason)
{
        enum log_level level = strcmp(registration->last_failure, reason) == 0 ? LOG_DEBUG : LOG_WARN;

        snprintf(registration->last_failure, sizeof(registration->last_failure), "%s", reason);
        return level;
}

static void refused(struct dra_registration *registration, const char *reason)
{
        LOG_AT(registration_note_failure(registration, reason), "kubelet refused the DRA driver, will try again",
                LOG_STR("driver", registration->sockets.driver), LOG_STR("error", registration->last_failure));
        registration->is_registered = false;
        uv_timer_start(&registration->timer, on_retry, backoff_next(&registration->pauses, 0, backoff_random()), 0);
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
                registration->pauses.failures = 0;
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
                LOG_AT(registration_note_failure(registration, err.text),
                        "DRA driver is not to be found by kubelet, will try again",
                        LOG_STR("driver", registration->sockets.driver), LOG_ERR(&err));
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

        if (check_driver(options->driver, err) < 0)
                return -1;
        if (options->instance && !dra_name_is_uid(options->instance))
                return error_set(err, ERROR_INVALID, "instance '%.80s': must be 1 to %zu letters, digits and '-'",
                        options->instance, DRA_NAME_MAX);
        registration = xcalloc(1, sizeof(*registration));
        registration->options = *options;
        registration->pauses = (struct backoff){options->retry_ms ? options->retry_ms : RETRY_MS, RETRY_MAX_MS, 0};
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
