#include "node/dra/driver_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "node/dra/options.h"
#include "node/dra/sockets.h"

#define CLOSE_GRACE_MS UINT64_C(1000) /* for calls of kubelet's that run */
/* Whoever is ended in the middle of a change leaves it half made. Two that hang are less than the 45 s of kubelet's. */
#define NVML_HANG_MS UINT64_C(15000)
/* An agent that waits goes on within milliseconds; on a machine that is much too busy it may take a second. */
#define NEXT_INSTANCE_MS UINT64_C(2000)

/* ---- publish devices ---- */

/* A prepared claim, or one that is being prepared, was allocated from |pool|. */
static bool has_claims_from(const struct dra_driver *driver, const char *pool)
{
        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *claim = dra_record_at(driver->record, i);

                for (size_t j = 0; j < claim->n_results; j++)
                        if (text_is_same(claim->results[j].pool ? claim->results[j].pool : driver->node, pool))
                                return true;
        }
        return false;
}

/*
 * For the scheduler a pool with another name has other devices, which nobody has. So a pool that an agent before has
 * called as the node keeps this name until no claim has anything of it.
 */
void dra_driver_name_pool(struct dra_driver *driver)
{
        if (driver->has_own_pool)
                return;
        driver->has_own_pool = has_claims_from(driver, driver->pool) || !has_claims_from(driver, driver->node);
        dra_publisher_set_pool(driver->publisher, driver->has_own_pool ? driver->pool : driver->node);
}

static bool is_on_gpu(const struct resource *resource, const struct gpu *gpu)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (strcmp(resource->units[i].gpu->uuid, gpu->uuid) == 0)
                        return true;
        for (size_t i = 0; i < resource->n_draining; i++)
                if (is_on_gpu(&resource->draining[i], gpu))
                        return true;
        return false;
}

static bool is_of_plugin(const struct plan *plan, const char *uuid)
{
        const struct gpu *gpu = inventory_find(plan->inventory, uuid);

        for (size_t i = 0; gpu && i < plan->n_resources; i++)
                if (is_on_gpu(&plan->resources[i], gpu))
                        return true;
        return false;
}

/* The units that claims have, by admin access excepted. */
static size_t held_units(const struct dra_driver *driver, struct arena *arena, const struct dra_held **ret)
{
        struct dra_held *held =
                ARENA_ARRAY(arena, struct dra_held, dra_record_count(driver->record) * DRA_CLAIM_RESULTS_MAX);
        size_t count = 0;

        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *claim = dra_record_at(driver->record, i);

                for (size_t j = 0; j < claim->n_results; j++)
                        if (!claim->results[j].is_admin)
                                held[count++] = (struct dra_held){arena_strdup(arena, claim->results[j].unit),
                                        arena_strdup(arena, claim->results[j].device)};
        }
        *ret = held;
        return count;
}

void dra_driver_put(struct dra_driver *driver, const struct plan *plan)
{
        struct arena arena = ARENA_INIT;
        const struct dra_instance *instances;
        size_t n_instances = dra_driver_instances(driver, &arena, &instances);
        struct dra_options options = dra_options_from(plan->config, plan->inventory, instances, n_instances, &arena);
        const char **devices = ARENA_ARRAY(&arena, const char *, options.n_devices + 1);
        size_t count = 0;

        for (size_t i = 0; i < options.n_devices; i++)
                if (!is_of_plugin(plan, options.devices[i]))
                        devices[count++] = options.devices[i];
        options.devices = devices;
        options.n_devices = count;
        options.n_held = held_units(driver, &arena, &options.held);
        driver->plan = plan;
        driver->offer_is_old = false;
        dra_driver_name_pool(driver);
        dra_publisher_put(driver->publisher, plan->inventory, &options);
        arena_done(&driver->options_arena); /* of the previous options */
        driver->options_arena = arena;
        dra_driver_instances_go_on(driver);
}

static void on_slices(const struct error *error, void *data)
{
        struct dra_driver *driver = data;

        driver->has_slices = !error;
        if (error) {
                complain(&driver->bad_slices, "the ResourceSlices are not as they should be, will try again", error);
                return;
        }
        complaint_settle(&driver->bad_slices);
        log_info("the ResourceSlices are as they should be",
                LOG_UINT("devices", dra_publisher_layout(driver->publisher)->n_devices));
}

static void on_registered(const char *error, void *data)
{
        struct dra_driver *driver = data;

        driver->is_registered = !error;
}

struct dra_measures dra_driver_measure(const struct dra_driver *driver)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->publisher);

        return (struct dra_measures){
                .is_registered = driver->is_registered,
                .has_slices = driver->has_slices,
                .knows_features = layout,
                .features = dra_publisher_features(driver->publisher),
                .layout = layout,
                .calls = dra_prepare_counts(driver->prepare),
        };
}

/* ---- health ---- */

/* The entry of the unit, or of the GPU that it is on; NULL: healthy. */
static const struct unhealthy_unit *find_unhealthy(const struct dra_driver *driver, const struct dra_device *device)
{
        const struct unhealthy_unit *unhealthy =
                unit_health_find(driver->options.health, device->made ? device->made : device->uuid);

        return unhealthy ? unhealthy : unit_health_find(driver->options.health, device->gpu->uuid);
}

/* "xid-79" for "Xid 79 (…)": a value of a label. */
static const char *taint_value(struct arena *arena, const char *reason)
{
        unsigned int xid;

        return sscanf(reason, "Xid %u", &xid) == 1 ? arena_printf(arena, "xid-%u", xid) : "";
}

static void set_taints(struct dra_driver *driver, struct arena *arena)
{
        const struct unit_health *health = driver->options.health;
        struct dra_taint *taints = ARENA_ARRAY(arena, struct dra_taint, health->n_unhealthy);
        const char *key = arena_printf(arena, "%s/unhealthy", driver->name);
        bool evicts = driver->plan && driver->plan->config->dra.unhealthy == DRA_UNHEALTHY_NO_EXECUTE;
        enum dra_effect effect = evicts ? DRA_EFFECT_NO_EXECUTE : DRA_EFFECT_NO_SCHEDULE;

        for (size_t i = 0; i < health->n_unhealthy; i++)
                taints[i] = (struct dra_taint){.uuid = health->unhealthy[i].uuid,
                        .key = key,
                        .value = taint_value(arena, health->unhealthy[i].reason),
                        .effect = effect};
        dra_publisher_set_taints(driver->publisher, taints, health->n_unhealthy);
}

static struct dra_health_device health_of(
        const struct dra_driver *driver, const char *pool, const struct dra_device *device)
{
        const struct unhealthy_unit *unhealthy = find_unhealthy(driver, device);

        return (struct dra_health_device){
                .pool_name = pool,
                .device_name = device->name,
                .status = unhealthy ? DRA_HEALTH_UNHEALTHY : DRA_HEALTH_HEALTHY,
                .updated_unix_s = (int64_t)time(NULL),
                .message = unhealthy ? unhealthy->reason : NULL,
        };
}

/* Kubelet looks for a claim's device in the pool that it was allocated from. */
static void tell_kubelet(struct dra_driver *driver, struct arena *arena)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->publisher);
        const char *const pools[] = {driver->pool, driver->node};
        size_t n_pools = has_claims_from(driver, driver->node) ? 2 : 1;
        struct dra_health_device *devices;
        size_t count = 0;

        if (!layout)
                return;
        devices = ARENA_ARRAY(arena, struct dra_health_device, n_pools * layout->n_devices);
        for (size_t i = 0; i < n_pools; i++)
                for (size_t j = 0; j < layout->n_devices; j++)
                        devices[count++] = health_of(driver, pools[i], &layout->devices[j]);
        dra_health_stream_set(dra_service_health(driver->service), devices, count);
}

static void on_turn_timer(uv_timer_t *timer)
{
        struct dra_driver *driver = timer->data;
        struct arena arena = ARENA_INIT;

        if (driver->offer_is_old && driver->plan)
                dra_driver_put(driver, driver->plan);
        if (driver->health_is_new)
                set_taints(driver, &arena);
        driver->health_is_new = false;
        tell_kubelet(driver, &arena);
        arena_done(&arena);
        dra_driver_reads_go_on(driver);
}

void dra_driver_offer_anew(struct dra_driver *driver)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->publisher);

        if (!layout || !layout->one_form)
                return;
        driver->offer_is_old = true;
        uv_timer_start(&driver->turn_timer, on_turn_timer, 0, 0);
}

void dra_driver_health_changed(struct dra_driver *driver)
{
        if (!driver)
                return;
        driver->health_is_new = true;
        uv_timer_start(&driver->turn_timer, on_turn_timer, 0, 0);
}

static void on_layout(void *data)
{
        struct dra_driver *driver = data;

        driver->options.on_offer(dra_publisher_layout(driver->publisher), driver->options.data);
        if (!driver->has_asked_pods)
                dra_driver_ask_pods(driver);
        driver->has_asked_pods = true;
        uv_timer_start(&driver->turn_timer, on_turn_timer, 0, 0);
}

/* ---- start and end ---- */

static void driver_free(struct dra_driver *driver)
{
        dra_status_sender_free(driver->status);
        dra_prepare_free(driver->prepare);
        dra_record_free(driver->record);
        arena_done(&driver->options_arena);
        arena_done(&driver->arena);
        free(driver);
}

static struct dra_driver *driver_alloc(const struct dra_driver_options *options, const char *folder)
{
        struct dra_driver *driver = xcalloc(1, sizeof(*driver));
        const struct config *config = options->config;
        _free_ char *pool = dra_pool_name(config->dra.driver_name, config->node_name);

        driver->options = *options;
        driver->options.config = NULL;
        driver->name = arena_strdup(&driver->arena, config->dra.driver_name);
        driver->node = arena_strdup(&driver->arena, config->node_name);
        driver->pool = arena_strdup(&driver->arena, pool);
        driver->cdi_root = arena_strdup(&driver->arena, config->cdi_root);
        driver->record_path = arena_printf(&driver->arena, "%s/" DRA_RECORD_NAME, folder);
        list_init(&driver->reads);
        list_init(&driver->waits);
        list_init(&driver->changes);
        return driver;
}

static void begin_preparing(struct dra_driver *driver, const char *folder)
{
        const struct dra_prepare_options prepare = {
                .record = driver->record,
                .driver = driver->name,
                .pool = driver->pool,
                .old_pool = driver->node,
                .node = dra_driver_node(driver),
        };
        const struct dra_service_options service = {
                .loop = driver->options.loop,
                .lock_directory = folder,
        };
        struct dra_service_options options = service;

        driver->status = dra_status_sender_new(driver->options.client, driver->name, driver->pool);
        driver->prepare = dra_prepare_new(&prepare);
        options.backend = dra_prepare_backend(driver->prepare);
        driver->service = dra_service_new(&options);
}

int dra_driver_new(struct dra_driver **ret, const struct dra_driver_options *options, struct error *err)
{
        const struct config_dra *dra = &options->config->dra;
        _free_ char *folder = dra_sockets_directory(dra->plugins, dra->driver_name);
        struct dra_driver *driver = driver_alloc(options, folder);
        const struct dra_publisher_options publisher = {
                .loop = options->loop,
                .client = options->client,
                .node = driver->node,
                .driver = driver->name,
                .pool = driver->pool,
                .done = on_slices,
                .on_layout = on_layout,
                .data = driver,
        };
        struct dra_registration_options registration = {
                .loop = options->loop,
                .registry = dra->registry,
                .plugins = dra->plugins,
                .driver = driver->name,
                .instance = dra->instance,
                .on_status = on_registered,
                .data = driver,
        };
        const struct nvml_pool_options nvml = {
                .loop = options->loop,
                .name = "dra-nvml",
                .library = options->config->nvml_library,
                .driver_root = options->config->driver_root_ctr,
                .hang_ms = NVML_HANG_MS,
        };

        if (dra_driver_open_record(driver, folder, err) < 0) {
                driver_free(driver);
                return error_prefix(err, "DRA");
        }
        begin_preparing(driver, folder);
        registration.service = driver->service;
        if (dra_registration_new(&driver->registration, &registration, err) < 0) {
                dra_service_close(driver->service);
                driver_free(driver);
                return error_prefix(err, "DRA");
        }
        driver->publisher = dra_publisher_new(&publisher);
        driver->nvml = nvml_pool_new(&nvml);
        uv_timer_init(options->loop, &driver->turn_timer);
        uv_timer_init(options->loop, &driver->room_timer);
        driver->turn_timer.data = driver->room_timer.data = driver;
        driver->n_timers = 2;
        *ret = driver;
        return 0;
}

static void finish_closing(struct dra_driver *driver)
{
        void (*closed)(void *data) = driver->closed;
        void *data = driver->closed_data;

        nvml_pool_close(driver->nvml);
        dra_service_close(driver->service);
        driver_free(driver);
        if (closed)
                closed(data);
}

void dra_driver_free_if_closed(struct dra_driver *driver)
{
        if (driver->is_registration_closed && driver->n_timers == 0 && driver->n_working == 0)
                finish_closing(driver);
}

static void on_registration_closed(void *data)
{
        struct dra_driver *driver = data;

        driver->is_registration_closed = true;
        dra_driver_free_if_closed(driver);
}

static void on_timer_closed(uv_handle_t *handle)
{
        struct dra_driver *driver = handle->data;

        driver->n_timers--;
        dra_driver_free_if_closed(driver);
}

/* All but the sockets. */
static void close_parts(struct dra_driver *driver)
{
        dra_driver_refuse_all(driver);
        driver->is_closing = true;
        driver->status = dra_status_sender_free(driver->status);
        driver->publisher = dra_publisher_close(driver->publisher);
        uv_close((uv_handle_t *)&driver->turn_timer, on_timer_closed);
        uv_close((uv_handle_t *)&driver->room_timer, on_timer_closed);
}

void dra_driver_close(struct dra_driver *driver, void (*closed)(void *data), void *data)
{
        if (!driver) {
                if (closed)
                        closed(data);
                return;
        }
        driver->closed = closed;
        driver->closed_data = data;
        close_parts(driver);
        dra_registration_close(driver->registration, CLOSE_GRACE_MS, on_registration_closed, driver);
}

void dra_driver_hand_over(struct dra_driver *driver)
{
        if (!driver)
                return;
        dra_service_hold(driver->service);
        close_parts(driver);
        dra_registration_hand_over(driver->registration, NEXT_INSTANCE_MS, on_registration_closed, driver);
}
