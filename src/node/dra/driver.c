// SPDX-License-Identifier: Apache-2.0
#include "node/dra/driver.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/file.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "node/dra/wanted.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/node.h"
#include "node/dra/layout.h"
#include "node/dra/registration.h"
#include "node/ledger/claims.h"

#define CLOSE_GRACE_MS UINT64_C(1000) /* for calls of kubelet's that run */
/* An agent that waits begins within milliseconds; on a machine that is much too busy it may take a second. */
#define NEXT_INSTANCE_MS UINT64_C(2000)

struct dra_driver {
        struct dra_node node;
        struct arena arena; /* of the texts of |node| */
        struct dra_readings *readings;
        struct dra_allocator *allocator;
        struct dra_status_sender status;
        struct dra_prepare *prepare;
        struct dra_service *service;
        struct dra_registration *registration;
        struct arena options_arena; /* of what the publisher borrows */
        struct complaint bad_slices;
        struct deferred turn;
        bool health_is_new;
        bool offer_is_old;   /* a claim has ended, and its unit may be offered in another form now */
        bool has_asked_pods; /* for the claims that were prepared before the agent began */
        bool is_registered;
        bool has_slices;
        struct closing closing;
};

/* ---- publish devices ---- */

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

/* Adds the units and the MIG instances that claims have, but for those by admin access. */
static void add_held(const struct dra_record *record, struct arena *arena, struct dra_options *options)
{
        size_t most = dra_record_count(record) * DRA_CLAIM_RESULTS_MAX;
        struct dra_held *held = ARENA_ARRAY(arena, struct dra_held, most);
        struct dra_instance *instances = ARENA_ARRAY(arena, struct dra_instance, most);

        options->held = held;
        options->instances = instances;
        for (size_t i = 0; i < dra_record_count(record); i++) {
                const struct dra_claim *claim = dra_record_at(record, i);

                for (size_t j = 0; j < claim->n_results; j++) {
                        const struct dra_result *result = &claim->results[j];
                        struct dra_instance *instance = &instances[options->n_instances];

                        if (!result->is_admin)
                                held[options->n_held++] = (struct dra_held){
                                        arena_strdup(arena, result->unit), arena_strdup(arena, result->device)};
                        if (!dra_result_has_instance(result))
                                continue;
                        *instance = result->instance;
                        instance->gpu = arena_strdup(arena, instance->gpu);
                        instance->uuid = arena_strdup(arena, instance->uuid);
                        options->n_instances++;
                }
        }
}

void dra_driver_put(struct dra_driver *driver, const struct plan *plan)
{
        struct arena arena = ARENA_INIT;
        struct dra_options options = dra_options_from(plan->config, plan->inventory, &arena);
        const char **devices = ARENA_ARRAY(&arena, const char *, options.n_devices + 1);
        size_t count = 0;

        for (size_t i = 0; i < options.n_devices; i++)
                if (!is_of_plugin(plan, options.devices[i]))
                        devices[count++] = options.devices[i];
        options.devices = devices;
        options.n_devices = count;
        add_held(driver->node.record, &arena, &options);
        driver->node.plan = plan;
        driver->offer_is_old = false;
        dra_publisher_put(driver->node.publisher, plan->inventory, &options);
        arena_done(&driver->options_arena); /* of the previous options */
        driver->options_arena = arena;
        dra_allocator_go_on(driver->allocator);
}

static void on_slices(const struct error *error, void *data)
{
        struct dra_driver *driver = data;

        driver->has_slices = !error;
        if (error) {
                complain(&driver->bad_slices, "the ResourceSlices are not up to date, will try again", error);
                return;
        }
        complaint_settle(&driver->bad_slices);
        log_info("the ResourceSlices are up to date",
                LOG_UINT("devices", dra_publisher_layout(driver->node.publisher)->n_devices));
}

static void driver_on_registered(const char *error, void *data)
{
        struct dra_driver *driver = data;

        driver->is_registered = !error;
}

struct dra_measures dra_driver_measure(const struct dra_driver *driver)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->node.publisher);

        return (struct dra_measures){
                .is_registered = driver->is_registered,
                .has_slices = driver->has_slices,
                .knows_features = layout,
                .features = dra_publisher_features(driver->node.publisher),
                .layout = layout,
                .calls = dra_prepare_counts(driver->prepare),
        };
}

bool dra_driver_has_made(const struct dra_driver *driver, const char *gpu)
{
        for (size_t i = 0; driver && i < dra_record_count(driver->node.record); i++) {
                const struct dra_claim *claim = dra_record_at(driver->node.record, i);

                for (size_t j = 0; j < claim->n_results; j++)
                        if (dra_result_has_instance(&claim->results[j]) &&
                                strcmp(claim->results[j].instance.gpu, gpu) == 0)
                                return true;
        }
        return false;
}

bool dra_driver_has_closed_nvml(const struct dra_driver *driver)
{
        return !driver || dra_allocator_has_closed_nvml(driver->allocator);
}

/* ---- health ---- */

/* The entry of the unit, or of the GPU that it is on; NULL: healthy. */
static const struct unhealthy_unit *find_unhealthy(const struct dra_driver *driver, const struct dra_device *device)
{
        const struct unhealthy_unit *unhealthy =
                unit_health_find(driver->node.options.health, device->made ? device->made : device->uuid);

        return unhealthy ? unhealthy : unit_health_find(driver->node.options.health, device->gpu->uuid);
}

/* "xid-79" for "Xid 79 (…)": a value of a label. */
static const char *taint_value(struct arena *arena, const char *reason)
{
        unsigned int xid;

        return sscanf(reason, "Xid %u", &xid) == 1 ? arena_printf(arena, "xid-%u", xid) : "";
}

static void set_taints(struct dra_driver *driver, struct arena *arena)
{
        const struct unit_health *health = driver->node.options.health;
        struct dra_taint *taints = ARENA_ARRAY(arena, struct dra_taint, health->n_unhealthy);
        const char *key = arena_printf(arena, "%s/unhealthy", driver->node.driver);
        bool evicts = driver->node.plan && driver->node.plan->config->dra.unhealthy == DRA_UNHEALTHY_NO_EXECUTE;
        enum dra_effect effect = evicts ? DRA_EFFECT_NO_EXECUTE : DRA_EFFECT_NO_SCHEDULE;

        for (size_t i = 0; i < health->n_unhealthy; i++)
                taints[i] = (struct dra_taint){.uuid = health->unhealthy[i].uuid,
                        .key = key,
                        .value = taint_value(arena, health->unhealthy[i].reason),
                        .effect = effect};
        dra_publisher_set_taints(driver->node.publisher, taints, health->n_unhealthy);
}

static struct dra_health_device health_of(const struct dra_driver *driver, const struct dra_device *device)
{
        const struct unhealthy_unit *unhealthy = find_unhealthy(driver, device);

        return (struct dra_health_device){
                .pool_name = driver->node.pool,
                .device_name = device->name,
                .status = unhealthy ? DRA_HEALTH_UNHEALTHY : DRA_HEALTH_HEALTHY,
                .updated_unix_s = (int64_t)time(NULL),
                .message = unhealthy ? unhealthy->reason : NULL,
        };
}

static void send_health(struct dra_driver *driver, struct arena *arena)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->node.publisher);
        struct dra_health_device *devices;

        if (!layout)
                return;
        devices = ARENA_ARRAY(arena, struct dra_health_device, layout->n_devices);
        for (size_t i = 0; i < layout->n_devices; i++)
                devices[i] = health_of(driver, &layout->devices[i]);
        dra_health_stream_set(dra_service_health(driver->service), devices, layout->n_devices);
}

/* ---- at the end of a turn of the loop ---- */

static void driver_on_turn(void *data)
{
        struct dra_driver *driver = data;
        struct arena arena = ARENA_INIT;

        if (driver->offer_is_old && driver->node.plan)
                dra_driver_put(driver, driver->node.plan);
        if (driver->health_is_new)
                set_taints(driver, &arena);
        driver->health_is_new = false;
        send_health(driver, &arena);
        arena_done(&arena);
        dra_readings_look_again(driver->readings);
}

void dra_driver_health_changed(struct dra_driver *driver)
{
        if (!driver)
                return;
        driver->health_is_new = true;
        deferred_schedule(&driver->turn);
}

static void on_layout(void *data)
{
        struct dra_driver *driver = data;

        driver->node.options.on_offer(dra_publisher_layout(driver->node.publisher), driver->node.options.data);
        if (!driver->has_asked_pods)
                dra_readings_ask_pods(driver->readings);
        driver->has_asked_pods = true;
        deferred_schedule(&driver->turn);
}

/* If each unit is offered in one form only, a released unit may get another form now. */
static void driver_on_released(void *data)
{
        struct dra_driver *driver = data;
        const struct dra_layout *layout;

        driver->node.options.on_released(driver->node.options.data);
        if (driver->node.is_closing)
                return;
        layout = dra_publisher_layout(driver->node.publisher);
        if (layout && layout->one_form) {
                driver->offer_is_old = true;
                deferred_schedule(&driver->turn);
        }
        dra_readings_look_again(driver->readings);
}

void dra_driver_read_pods(struct dra_driver *driver)
{
        if (driver)
                dra_readings_refresh_pods(driver->readings);
}

/* ---- claims that are prepared already ---- */

static bool is_recorded(const char *uid, void *data)
{
        return dra_record_find(data, uid);
}

static void keep_claims(const struct dra_node *node)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim *claims = ARENA_ARRAY(&arena, struct ledger_claim, dra_record_count(node->record));
        size_t count = 0;

        for (size_t i = 0; i < dra_record_count(node->record); i++) {
                const struct dra_claim *recorded = dra_record_at(node->record, i);
                struct error err;

                if (recorded->state != DRA_CLAIM_PREPARED)
                        continue;
                dra_booking_make(&claims[count], &arena, recorded);
                if (dra_metadata_write(node->options.cdi_files, node->metadata, node->driver, recorded, &err) < 0 ||
                        dra_claim_cdi_write(node->options.cdi_files, node->cdi_root, node->driver, recorded, &err) < 0)
                        log_warn("the CDI file of a DRA claim cannot be written: its containers cannot be restarted",
                                LOG_STR("claim", claims[count].name), LOG_ERR(&err));
                if (claims[count].n_devices)
                        count++;
        }
        ledger_keep_claims(node->options.ledger, claims, count);
        if (count)
                log_info("DRA claims that are prepared already", LOG_UINT("claims", count));
}

/* Reads the record, gives its claims to the ledger, and makes the CDI files match it. */
static int open_record(struct dra_node *node, const char *folder, struct error *err)
{
        _free_ char *path = xasprintf("%s/" DRA_RECORD_NAME, folder);
        _free_ char *boot_id = NULL;
        int result;

        if (file_make_folder(folder, err) < 0 || boot_id_read(&boot_id, BOOT_ID_PATH, err) < 0)
                return -1;
        node->record = dra_record_new(path, boot_id);
        result = dra_record_refresh(node->record, err);
        if (result < 0)
                return -1;
        if (result == DRA_RECORD_BROKEN)
                log_error("what is prepared for DRA claims is unknown: restart the pods that use them", LOG_ERR(err));
        else if (access(path, F_OK) == 0) { /* if the record was lost, its claims may still be in use */
                dra_claim_cdi_sweep(node->options.cdi_files, node->cdi_root, node->driver, is_recorded, node->record);
                dra_metadata_sweep(node->options.cdi_files, node->metadata, is_recorded, node->record);
        }
        keep_claims(node);
        return 0;
}

bool dra_driver_is_needed(const struct config *config)
{
        _free_ char *folder = dra_sockets_directory(config->dra.plugins, config->dra.driver_name);
        _free_ char *path = xasprintf("%s/" DRA_RECORD_NAME, folder);
        _free_ char *boot_id = NULL;
        _cleanup_(dra_record_freep) struct dra_record *record = NULL;
        struct error ignored;

        if (config->dra.enabled)
                return true;
        if (access(path, F_OK) < 0 || boot_id_read(&boot_id, BOOT_ID_PATH, &ignored) < 0)
                return false;
        record = dra_record_new(path, boot_id);
        return dra_record_refresh(record, &ignored) == 0 && dra_record_count(record) > 0;
}

/* ---- start and end ---- */

static void driver_free(struct dra_driver *driver)
{
        dra_service_close(driver->service);
        dra_prepare_free(driver->prepare);
        dra_allocator_free(driver->allocator);
        dra_readings_close(driver->readings);
        dra_record_free(driver->node.record);
        arena_done(&driver->options_arena);
        arena_done(&driver->arena);
        free(driver);
}

static void driver_on_closed(void *data)
{
        driver_free(data);
}

static void fill_node(struct dra_driver *driver, const struct dra_driver_options *options, const char *folder)
{
        const struct config *config = options->config;
        _free_ char *pool = dra_pool_name(config->dra.driver_name, config->node.name);

        driver->node.options = *options;
        driver->node.options.config = NULL;
        driver->node.name = arena_strdup(&driver->arena, config->node.name);
        driver->node.driver = arena_strdup(&driver->arena, config->dra.driver_name);
        driver->node.pool = arena_strdup(&driver->arena, pool);
        driver->node.cdi_root = arena_strdup(&driver->arena, config->cdi.root);
        driver->node.metadata = arena_printf(&driver->arena, "%s/" DRA_METADATA_NAME, folder);
}

static void begin_preparing(struct dra_driver *driver, const struct config *config, const char *folder)
{
        const struct dra_node *node = &driver->node;

        driver->readings = dra_readings_new(node);
        driver->allocator = dra_allocator_new(node, config, driver_on_released, driver);
        dra_status_sender_init(&driver->status, node);
        driver->prepare = dra_prepare_new(node, driver->readings, driver->allocator, &driver->status);
        driver->service = dra_service_new(&(struct dra_service_options){
                .loop = node->options.loop,
                .prepare = driver->prepare,
                .lock_directory = folder,
        });
}

int dra_driver_new(struct dra_driver **ret, const struct dra_driver_options *options, struct error *err)
{
        const struct config_dra *dra = &options->config->dra;
        _free_ char *folder = dra_sockets_directory(dra->plugins, dra->driver_name);
        struct dra_driver *driver = xcalloc(1, sizeof(*driver));
        struct dra_registration_options registration = {
                .loop = options->loop,
                .registry = dra->registry,
                .plugins = dra->plugins,
                .driver = dra->driver_name,
                .instance = dra->instance,
                .on_status = driver_on_registered,
                .data = driver,
        };

        fill_node(driver, options, folder);
        if (open_record(&driver->node, folder, err) < 0) {
                driver_free(driver);
                return error_prefix(err, "DRA");
        }
        begin_preparing(driver, options->config, folder);
        registration.service = driver->service;
        if (dra_registration_new(&driver->registration, &registration, err) < 0) {
                dra_allocator_close(driver->allocator, closing_release, closing_hold(&driver->closing));
                driver_free(driver);
                return error_prefix(err, "DRA");
        }
        driver->node.publisher = dra_publisher_new(&(struct dra_publisher_options){
                .loop = options->loop,
                .client = options->client,
                .node = driver->node.name,
                .driver = driver->node.driver,
                .pool = driver->node.pool,
                .done = on_slices,
                .on_layout = on_layout,
                .data = driver,
        });
        deferred_init(&driver->turn, options->loop, driver_on_turn, driver);
        *ret = driver;
        return 0;
}

/* Closes everything except the sockets. Claims that are being prepared are refused, and thereby taken back. */
static void close_parts(struct dra_driver *driver)
{
        dra_readings_refuse(driver->readings);
        dra_allocator_refuse(driver->allocator);
        driver->node.is_closing = true;
        dra_status_sender_cancel(&driver->status);
        driver->node.publisher = dra_publisher_close(driver->node.publisher);
        dra_allocator_close(driver->allocator, closing_release, closing_hold(&driver->closing));
        deferred_close(&driver->turn, &driver->closing);
}

void dra_driver_close(struct dra_driver *driver)
{
        if (!driver)
                return;
        close_parts(driver);
        dra_registration_close(driver->registration, CLOSE_GRACE_MS, closing_release, closing_hold(&driver->closing));
        closing_end(&driver->closing, driver_on_closed, driver);
}

void dra_driver_hand_over(struct dra_driver *driver)
{
        if (!driver)
                return;
        dra_service_hold(driver->service);
        close_parts(driver);
        dra_registration_hand_over(
                driver->registration, NEXT_INSTANCE_MS, closing_release, closing_hold(&driver->closing));
        closing_end(&driver->closing, driver_on_closed, driver);
}
