// SPDX-License-Identifier: Apache-2.0
#include "sim/kubelet/dra.h"

#include <dirent.h>
#include <string.h>

#include <dra.pb-c.h>
#include <pluginregistration.pb-c.h>

#include "base/file.h"
#include "base/io/dirwatch.h"
#include "sim/kubelet/dra_health.h"
#include "sim/kubelet/internal.h"

#define POLL_MS UINT64_C(1000)
#define INFO_TIMEOUT_MS UINT64_C(10000) /* kubelet waits one second; a loaded test machine may need more */
#define CALL_TIMEOUT_MS UINT64_C(45000)
#define SUFFIX "-reg.sock"

/* A socket in the registry. */
struct instance {
        struct list link;
        uv_loop_t *loop;
        char *path;
        struct file_mark identity;
        struct rpc_client *client; /* while the driver is being registered */
        char *driver;              /* NULL: the driver has not answered yet */
        char *endpoint;
        const char *service; /* NULL: it has no version that this stand-in speaks */
        bool is_registered;
        struct dra_health *health; /* once it is registered */
};

/* A driver that has registered once. */
struct known {
        struct list link;
        char *driver;
        uint64_t connected_ms; /* when there was a connection last */
        bool is_wiped;
};

struct kubelet_dra {
        struct kubelet_dra_options options; /* its registry is the next */
        uv_loop_t *loop;
        char *registry;
        struct list known;
        struct dirwatch *watch;
        struct list instances; /* the newest last */
        struct list calls;
};

/* ---- registration ---- */

static void instance_free(struct instance *instance)
{
        list_remove(&instance->link);
        rpc_client_close(TAKE_PTR(instance->client));
        dra_health_close(instance->health);
        free(instance->path);
        free(instance->driver);
        free(instance->endpoint);
        free(instance);
}

static void on_notified(struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data)
{
        struct instance *instance = data;

        instance->is_registered = status == RPC_OK && instance->service;
        if (instance->is_registered)
                instance->health = dra_health_new(instance->loop, instance->endpoint);
        rpc_client_close(TAKE_PTR(instance->client));
}

static void notify(struct instance *instance)
{
        static const struct rpc_handlers handlers = {.ended = on_notified};
        Pluginregistration__RegistrationStatus status = PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
        char refusal[] = "none of its versions is supported";
        struct rpc_message *message;

        status.plugin_registered = instance->service != NULL;
        if (!instance->service)
                status.error = refusal;
        message = message_pack(&status.base);
        rpc_client_call(instance->client, NULL, "/pluginregistration.Registration/NotifyRegistrationStatus", message,
                INFO_TIMEOUT_MS, &handlers, instance);
        rpc_message_unref(message);
}

static const char *service_of(const char *version)
{
        return strcmp(version, "v1.DRAPlugin") == 0        ? "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
               : strcmp(version, "v1beta1.DRAPlugin") == 0 ? "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
                                                           : NULL;
}

static void on_info(struct rpc_call *call UNUSED, const uint8_t *bytes, size_t size, void *data)
{
        struct instance *instance = data;
        Pluginregistration__PluginInfo *info = pluginregistration__plugin_info__unpack(NULL, size, bytes);

        if (!info || instance->driver)
                return;
        instance->driver = xstrdup(info->name);
        instance->endpoint = xstrdup(info->endpoint);
        for (size_t i = 0; i < info->n_supported_versions && !instance->service; i++)
                instance->service = service_of(info->supported_versions[i]);
        if (strcmp(info->type, "DRAPlugin") != 0)
                instance->service = NULL;
        pluginregistration__plugin_info__free_unpacked(info, NULL);
}

static void on_info_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data)
{
        struct instance *instance = data;

        if (status == RPC_OK && instance->driver)
                notify(instance);
        else
                rpc_client_close(TAKE_PTR(instance->client));
}

static void add_instance(struct kubelet_dra *dra, const char *path, const struct file_mark *identity)
{
        static const struct rpc_handlers handlers = {.message = on_info, .ended = on_info_ended};
        struct instance *instance = xcalloc(1, sizeof(*instance));
        struct rpc_message *empty = rpc_message_new(0);
        struct error err;

        instance->loop = dra->loop;
        instance->path = xstrdup(path);
        instance->identity = *identity;
        list_append(&dra->instances, &instance->link);
        if (rpc_client_new(&instance->client, dra->loop, path, &(struct rpc_client_options){0}, &err) == 0)
                rpc_client_call(instance->client, NULL, "/pluginregistration.Registration/GetInfo", empty,
                        INFO_TIMEOUT_MS, &handlers, instance);
        rpc_message_unref(empty);
}

/* ---- the registry ---- */

static struct instance *instance_of(const struct kubelet_dra *dra, const char *path)
{
        LIST_FOR_EACH(link, &dra->instances) {
                struct instance *instance = container_of(link, struct instance, link);

                if (strcmp(instance->path, path) == 0)
                        return instance;
        }
        return NULL;
}

/* True: the socket was replaced or removed, or its driver did not answer and may answer now. */
static bool is_outdated(const struct instance *instance)
{
        const struct file_mark now = file_mark_at(instance->path);

        return !file_mark_is_same(&now, &instance->identity) || (!instance->client && !instance->is_registered);
}

static void drop_outdated(struct kubelet_dra *dra)
{
        struct list *next;

        for (struct list *link = dra->instances.next; link != &dra->instances; link = next) {
                struct instance *instance = container_of(link, struct instance, link);

                next = link->next;
                if (is_outdated(instance))
                        instance_free(instance);
        }
}

/* ---- slices of drivers that are away ---- */

static struct known *known_of(struct kubelet_dra *dra, const char *driver)
{
        struct known *known;

        LIST_FOR_EACH(link, &dra->known) {
                known = container_of(link, struct known, link);
                if (strcmp(known->driver, driver) == 0)
                        return known;
        }
        known = xcalloc(1, sizeof(*known));
        known->driver = xstrdup(driver);
        list_append(&dra->known, &known->link);
        return known;
}

static void known_free(struct known *known)
{
        list_remove(&known->link);
        free(known->driver);
        free(known);
}

static void wipe_slices(struct kubelet_dra *dra)
{
        const uint64_t now = uv_now(dra->loop);

        LIST_FOR_EACH(link, &dra->instances) {
                const struct instance *instance = container_of(link, struct instance, link);

                if (instance->is_registered && dra_health_is_connected(instance->health)) {
                        struct known *known = known_of(dra, instance->driver);

                        known->connected_ms = now;
                        known->is_wiped = false;
                }
        }
        LIST_FOR_EACH(link, &dra->known) {
                struct known *known = container_of(link, struct known, link);

                if (known->is_wiped || now - known->connected_ms < dra->options.wipe_ms)
                        continue;
                known->is_wiped = true;
                dra->options.wipe(known->driver, dra->options.data);
        }
}

static void scan_registry(void *data)
{
        struct kubelet_dra *dra = data;
        DIR *folder = opendir(dra->registry);
        const struct dirent *entry;

        drop_outdated(dra);
        while (folder && (entry = readdir(folder))) {
                _free_ char *path = xasprintf("%s/%s", dra->registry, entry->d_name);
                const struct file_mark identity = file_mark_at(path);
                size_t length = strlen(entry->d_name);

                if (length > strlen(SUFFIX) && strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) == 0 &&
                        file_mark_exists(&identity) && !instance_of(dra, path))
                        add_instance(dra, path, &identity);
        }
        if (folder)
                closedir(folder);
        if (dra->options.wipe)
                wipe_slices(dra);
}

static const struct instance *find(const struct kubelet_dra *dra, const char *driver)
{
        const struct instance *found = NULL;

        LIST_FOR_EACH(link, &dra->instances) {
                const struct instance *instance = container_of(link, struct instance, link);

                if (instance->is_registered && strcmp(instance->driver, driver) == 0)
                        found = instance;
        }
        return found;
}

/* ---- calls ---- */

struct call {
        struct list link;
        struct rpc_client
                *client; /* each call has its own, so that a connection that ended does not matter to the next call */
        struct arena arena;
        const char *uid;
        const char **cdi_ids;
        size_t n_cdi_ids;
        const char *error; /* of the claim */
        bool is_answered;  /* the answer has the claim */
        kubelet_dra_answer_fn *answered;
        void *data;
};

static void call_done(struct call *call, const char *error)
{
        list_remove(&call->link);
        call->answered(call->cdi_ids, error ? 0 : call->n_cdi_ids, error, call->data);
        arena_done(&call->arena);
        free(call);
}

static void on_prepared(struct rpc_call *rpc UNUSED, const uint8_t *bytes, size_t size, void *data)
{
        struct call *call = data;
        Dra__PrepareResponse *response = dra__prepare_response__unpack(NULL, size, bytes);

        for (size_t i = 0; response && i < response->n_claims; i++) {
                const Dra__PrepareResult *result = response->claims[i]->value;

                if (!result || strcmp(response->claims[i]->key, call->uid) != 0)
                        continue;
                call->is_answered = true;
                call->error = *result->error ? arena_strdup(&call->arena, result->error) : NULL;
                for (size_t j = 0; j < result->n_devices; j++) {
                        const Dra__Device *device = result->devices[j];
                        const char **ids =
                                ARENA_ARRAY(&call->arena, const char *, call->n_cdi_ids + device->n_cdi_device_ids);

                        if (call->n_cdi_ids)
                                memcpy(ids, call->cdi_ids, call->n_cdi_ids * sizeof(*ids));
                        for (size_t k = 0; k < device->n_cdi_device_ids; k++)
                                ids[call->n_cdi_ids++] = arena_strdup(&call->arena, device->cdi_device_ids[k]);
                        call->cdi_ids = ids;
                }
        }
        dra__prepare_response__free_unpacked(response, NULL);
}

static void on_unprepared(struct rpc_call *rpc UNUSED, const uint8_t *bytes, size_t size, void *data)
{
        struct call *call = data;
        Dra__UnprepareResponse *response = dra__unprepare_response__unpack(NULL, size, bytes);

        for (size_t i = 0; response && i < response->n_claims; i++) {
                const Dra__UnprepareResult *result = response->claims[i]->value;

                if (!result || strcmp(response->claims[i]->key, call->uid) != 0)
                        continue;
                call->is_answered = true;
                call->error = *result->error ? arena_strdup(&call->arena, result->error) : NULL;
        }
        dra__unprepare_response__free_unpacked(response, NULL);
}

static void on_call_ended(struct rpc_call *rpc UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct call *call = data;
        struct rpc_client *client = TAKE_PTR(call->client);

        if (status != RPC_OK)
                call_done(call, text);
        else
                call_done(call, call->is_answered ? call->error : "the driver left out the claim");
        rpc_client_close(client); /* NULL: it is being closed already */
}

static void start_call(struct kubelet_dra *dra, const char *driver, const char *method,
        const struct rpc_handlers *handlers, const struct kubelet_dra_claim *claim, kubelet_dra_answer_fn *answered,
        void *data)
{
        const struct instance *instance = find(dra, driver);
        struct call *call = xcalloc(1, sizeof(*call));
        Dra__ClaimsRequest request = DRA__CLAIMS_REQUEST__INIT;
        Dra__Claim asked = DRA__CLAIM__INIT;
        Dra__Claim *claims[] = {&asked};
        struct rpc_message *message;
        struct error err;

        call->uid = arena_strdup(&call->arena, claim->uid);
        call->answered = answered;
        call->data = data;
        list_append(&dra->calls, &call->link);
        asked.namespace_ = arena_strdup(&call->arena, claim->namespace);
        asked.uid = arena_strdup(&call->arena, claim->uid);
        asked.name = arena_strdup(&call->arena, claim->name);
        request.claims = claims;
        request.n_claims = 1;
        if (!instance)
                error_raise(&err, ERROR_UNAVAILABLE, "DRA driver %s is not registered", driver);
        if (!instance || rpc_client_new(&call->client, dra->loop, instance->endpoint, &(struct rpc_client_options){0},
                                 &err) < 0) {
                call_done(call, err.text);
                return;
        }
        message = message_pack(&request.base);
        rpc_client_call(call->client, NULL, arena_printf(&call->arena, "%s%s", instance->service, method), message,
                CALL_TIMEOUT_MS, handlers, call);
        rpc_message_unref(message);
}

/* ---- public ---- */

int kubelet_dra_new(struct kubelet_dra **ret, const struct kubelet_dra_options *options, struct error *err)
{
        struct kubelet_dra *dra = xcalloc(1, sizeof(*dra));

        dra->options = *options;
        dra->options.wipe_ms = options->wipe_ms ? options->wipe_ms : KUBELET_DRA_WIPE_MS;
        dra->loop = options->loop;
        dra->registry = xstrdup(options->registry);
        list_init(&dra->known);
        list_init(&dra->instances);
        list_init(&dra->calls);
        if (dirwatch_new(&dra->watch, dra->loop, dra->registry, POLL_MS, scan_registry, dra, err) < 0) {
                kubelet_dra_close(dra);
                return -1;
        }
        if (options->wipe)
                options->wipe(NULL, options->data);
        scan_registry(dra);
        *ret = dra;
        return 0;
}

struct kubelet_dra *kubelet_dra_close(struct kubelet_dra *dra)
{
        if (!dra)
                return NULL;
        dirwatch_close(dra->watch);
        while (!list_is_empty(&dra->calls))
                rpc_client_close(TAKE_PTR(container_of(dra->calls.next, struct call, link)->client));
        while (!list_is_empty(&dra->instances))
                instance_free(container_of(dra->instances.next, struct instance, link));
        while (!list_is_empty(&dra->known))
                known_free(container_of(dra->known.next, struct known, link));
        free(dra->registry);
        free(dra);
        return NULL;
}

bool kubelet_dra_has(const struct kubelet_dra *dra, const char *driver)
{
        return find(dra, driver) != NULL;
}

enum kubelet_dra_health kubelet_dra_health(const struct kubelet_dra *dra, const char *driver, const char *device)
{
        const struct instance *instance = find(dra, driver);

        return dra_health_of(instance ? instance->health : NULL, device);
}

void kubelet_dra_prepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data)
{
        static const struct rpc_handlers handlers = {.message = on_prepared, .ended = on_call_ended};

        start_call(dra, driver, "NodePrepareResources", &handlers, claim, answered, data);
}

void kubelet_dra_unprepare(struct kubelet_dra *dra, const char *driver, const struct kubelet_dra_claim *claim,
        kubelet_dra_answer_fn *answered, void *data)
{
        static const struct rpc_handlers handlers = {.message = on_unprepared, .ended = on_call_ended};

        start_call(dra, driver, "NodeUnprepareResources", &handlers, claim, answered, data);
}
