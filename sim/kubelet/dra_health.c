// SPDX-License-Identifier: Apache-2.0
#include "sim/kubelet/dra_health.h"

#include <string.h>

#include <dra.pb-c.h>

#include "sim/kubelet/internal.h"

#define RETRY_MS UINT64_C(5000)
#define PRESET_TIMEOUT_MS UINT64_C(30000) /* where the driver says none */

struct device {
        char *name;
        enum kubelet_dra_health health;
        uint64_t until_ms;
};

struct dra_health {
        uv_loop_t *loop;
        uv_timer_t retry;
        char *endpoint;
        struct rpc_client *client;
        struct device *devices;
        size_t n_devices;
        bool is_closing;
};

static void forget(struct dra_health *health)
{
        for (size_t i = 0; i < health->n_devices; i++)
                free(health->devices[i].name);
        free(TAKE_PTR(health->devices));
        health->n_devices = 0;
}

static struct device *find(const struct dra_health *health, const char *name)
{
        for (size_t i = 0; i < health->n_devices; i++)
                if (strcmp(health->devices[i].name, name) == 0)
                        return &health->devices[i];
        return NULL;
}

static void hear(struct dra_health *health, const Dra__DeviceHealth *said)
{
        uint64_t seconds = said->health_check_timeout_seconds > 0 ? (uint64_t)said->health_check_timeout_seconds : 0;
        struct device *device = find(health, said->device->device_name);

        if (!device) {
                health->devices = xrealloc(health->devices, (health->n_devices + 1) * sizeof(*health->devices));
                device = &health->devices[health->n_devices++];
                device->name = xstrdup(said->device->device_name);
        }
        device->health = said->health == DRA__HEALTH_STATUS__HEALTHY     ? KUBELET_DRA_HEALTHY
                         : said->health == DRA__HEALTH_STATUS__UNHEALTHY ? KUBELET_DRA_UNHEALTHY
                                                                         : KUBELET_DRA_UNKNOWN;
        device->until_ms = uv_now(health->loop) + (seconds ? seconds * 1000 : PRESET_TIMEOUT_MS);
}

static void on_message(struct rpc_call *call UNUSED, const uint8_t *bytes, size_t size, void *data)
{
        Dra__WatchResponse *response = dra__watch_response__unpack(NULL, size, bytes);

        for (size_t i = 0; response && i < response->n_devices; i++)
                if (response->devices[i]->device)
                        hear(data, response->devices[i]);
        dra__watch_response__free_unpacked(response, NULL);
}

static void begin(struct dra_health *health);

static void on_retry(uv_timer_t *timer)
{
        begin(timer->data);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data)
{
        struct dra_health *health = data;

        forget(health);
        if (health->is_closing)
                return;
        rpc_client_close(TAKE_PTR(health->client));
        uv_timer_start(&health->retry, on_retry, RETRY_MS, 0);
}

static void begin(struct dra_health *health)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_ended};
        struct rpc_message *empty;
        struct error ignored;

        if (rpc_client_new(&health->client, health->loop, health->endpoint, &(struct rpc_client_options){0}, &ignored) <
                0) {
                uv_timer_start(&health->retry, on_retry, RETRY_MS, 0);
                return;
        }
        empty = rpc_message_new(0);
        rpc_client_call(
                health->client, NULL, "/v1alpha1.DRAResourceHealth/NodeWatchResources", empty, 0, &handlers, health);
        rpc_message_unref(empty);
}

struct dra_health *dra_health_new(uv_loop_t *loop, const char *endpoint)
{
        struct dra_health *health = xcalloc(1, sizeof(*health));

        health->loop = loop;
        health->endpoint = xstrdup(endpoint);
        uv_timer_init(loop, &health->retry);
        health->retry.data = health;
        begin(health);
        return health;
}

static void on_closed(uv_handle_t *handle)
{
        struct dra_health *health = handle->data;

        forget(health);
        free(health->endpoint);
        free(health);
}

struct dra_health *dra_health_close(struct dra_health *health)
{
        if (!health)
                return NULL;
        health->is_closing = true;
        rpc_client_close(TAKE_PTR(health->client));
        uv_close((uv_handle_t *)&health->retry, on_closed);
        return NULL;
}

bool dra_health_is_connected(const struct dra_health *health)
{
        return health && health->client;
}

enum kubelet_dra_health dra_health_of(const struct dra_health *health, const char *device)
{
        const struct device *found = health ? find(health, device) : NULL;

        return found && uv_now(health->loop) < found->until_ms ? found->health : KUBELET_DRA_UNKNOWN;
}
