#include "dra/driver.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/complaint.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "cdi/cdi.h"
#include "dra/claim_cdi.h"
#include "dra/edits.h"
#include "dra/options.h"
#include "dra/parameters.h"
#include "dra/prepare.h"
#include "dra/publish.h"
#include "dra/registration.h"
#include "dra/status_sender.h"
#include "kube/object.h"
#include "ledger/claims.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define CLOSE_GRACE_MS UINT64_C(1000)   /* for calls of kubelet's that run */
#define READ_TIMEOUT_MS UINT64_C(20000) /* of a claim; half of what a Prepare has */
#define MIB ((uint64_t)1024 * 1024)

struct dra_driver {
        struct dra_driver_options options; /* its config is not kept */
        struct arena arena;                /* of the next four */
        const char *name;
        const char *node;
        const char *cdi_root;
        const char *record_path;
        struct dra_record *record;
        struct dra_publisher *publisher;
        struct dra_prepare *prepare;
        struct dra_status_sender *status; /* NULL: the driver is closing */
        struct dra_service *service;
        struct dra_registration *registration;
        const struct plan *plan;    /* NULL: not known yet */
        struct arena options_arena; /* of what the publisher borrows */
        struct list reads;          /* claims that the API server is asked for */
        struct list waits;          /* claims that the ledger is asked for */
        uint64_t pods_asked_at;     /* uv_now(), as the next */
        uint64_t pods_read_at;
        uint64_t pods_wait_ms; /* from then to the next time */
        struct complaint bad_slices;
        uv_timer_t turn_timer; /* to the end of the turn */
        bool health_is_new;
        bool is_registered;
        bool has_slices;
        bool is_closing; /* the ledger may be gone: calls that still come are refused */
        bool is_registration_closed;
        bool is_timer_closed;
        void (*closed)(void *data);
        void *closed_data;
};

static void refuse_for_closing(struct dra_preparing *preparing)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping, or another one takes its place");
        dra_prepare_refuse(preparing, &err);
}

/* ---- read a claim ---- */

struct read {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing; /* NULL: its pods are asked for */
        struct kube_call *call;          /* NULL: |object| has come, and waits for the layout */
        json_t *object;
        char *namespace;
        char *name;
        char *uid;
};

static void read_free(struct read *read)
{
        list_remove(&read->link);
        json_decref(read->object);
        free(read->namespace);
        free(read->name);
        free(read->uid);
        free(read);
}

/* Until the version is known, the one that newer servers have: with an older one kubelet asks again. */
static void read_begin(struct dra_driver *driver, const struct dra_service_claim *claim,
        struct dra_preparing *preparing, kube_done_fn *done)
{
        enum dra_api api = dra_publisher_api(driver->publisher);
        _free_ char *group = xasprintf("/apis/resource.k8s.io/%s", dra_api_name(api));
        _free_ char *collection = object_collection(group, claim->namespace, "resourceclaims");
        _free_ char *path = object_path(collection, claim->name);
        struct read *read = xcalloc(1, sizeof(*read));

        *read = (struct read){.driver = driver,
                .preparing = preparing,
                .namespace = xstrdup(claim->namespace),
                .name = xstrdup(claim->name),
                .uid = xstrdup(claim->uid)};
        list_append(&driver->reads, &read->link);
        read->call = kube_client_send(driver->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .timeout_ms = READ_TIMEOUT_MS, .done = done, .data = read});
}

/* What can be prepared now. */
static void set_rules(struct dra_driver *driver)
{
        unsigned int kinds = 1U << DRA_DEVICE_WHOLE | 1U << DRA_DEVICE_MIG | 1U << DRA_DEVICE_TIMESLICE |
                             1U << DRA_DEVICE_SHARED | 1U << DRA_DEVICE_SHARE;
        const struct dra_wanted_rules rules = {
                .layout = dra_publisher_layout(driver->publisher),
                .kinds = kinds,
                .driver = driver->name,
                .unenforced = driver->plan ? driver->plan->config->dra.unenforced : DRA_UNENFORCED_REFUSE,
        };

        dra_prepare_set_rules(driver->prepare, &rules);
}

static int check_cdi(const struct dra_driver *driver, struct error *err)
{
        if (driver->plan->has_cdi_units)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "the CDI specification of the GPUs could not be written to '%s': the agent's log says why",
                driver->cdi_root);
}

/* Once the layout is known; a moment after the agent's start it is. */
static void read_go_on(struct read *read)
{
        struct dra_driver *driver = read->driver;
        struct dra_preparing *preparing = read->preparing;
        json_t *object = json_incref(read->object);
        struct error err;

        read_free(read);
        if (check_cdi(driver, &err) < 0) {
                dra_prepare_refuse(preparing, &err);
        } else {
                set_rules(driver);
                dra_prepare_read(preparing, object);
        }
        json_decref(object);
}

static bool has_layout(const struct dra_driver *driver)
{
        return driver->plan && dra_publisher_layout(driver->publisher);
}

static struct read *find_read_that_waits(const struct dra_driver *driver)
{
        LIST_FOR_EACH(link, &driver->reads) {
                struct read *read = container_of(link, struct read, link);

                if (!read->call)
                        return read;
        }
        return NULL;
}

static void reads_go_on(struct dra_driver *driver)
{
        struct read *read;

        while (has_layout(driver) && (read = find_read_that_waits(driver)))
                read_go_on(read);
}

static void on_claim_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_preparing *preparing = read->preparing;

        read->call = NULL;
        if (!answer->error) {
                read->object = json_incref(answer->object);
                reads_go_on(read->driver);
                return;
        }
        read_free(read);
        dra_prepare_refuse(preparing, answer->error);
}

static void read_claim(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->is_closing)
                refuse_for_closing(preparing);
        else
                read_begin(driver, claim, preparing, on_claim_read);
}

/* ---- the pods of claims that are prepared ---- */

static void on_pods_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_driver *driver = read->driver;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_claim_asked asked = {.namespace = read->namespace,
                .name = read->name,
                .uid = read->uid,
                .driver = driver->name,
                .pool = driver->node};
        struct dra_claim claim;
        struct error err;

        if (answer->error)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(answer->error));
        else if (dra_claim_read(&claim, &arena, answer->object, &asked, &err) < 0)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(&err));
        else
                ledger_set_claim_pods(driver->options.ledger, read->uid, claim.pods, claim.n_pods);
        read_free(read);
}

void dra_driver_read_pods(struct dra_driver *driver)
{
        uint64_t now;

        if (!driver)
                return;
        now = uv_now(driver->options.loop);
        if (now - driver->pods_asked_at > DRA_PODS_QUIET_MS) /* the time before, it helped */
                driver->pods_wait_ms = 0;
        driver->pods_asked_at = now;
        if (now - driver->pods_read_at < driver->pods_wait_ms)
                return;
        driver->pods_read_at = now;
        driver->pods_wait_ms = MIN(MAX(2 * driver->pods_wait_ms, DRA_PODS_MS), DRA_PODS_MAX_MS);
        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *recorded = dra_record_at(driver->record, i);
                const struct dra_service_claim claim = {
                        .namespace = recorded->namespace, .uid = recorded->uid, .name = recorded->name};

                if (recorded->state == DRA_PREPARED_DONE)
                        read_begin(driver, &claim, NULL, on_pods_read);
        }
}

/* ---- allocate ---- */

struct wait {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing;
        struct arena arena;
        struct ledger_claim claim;           /* without devices by admin access */
        struct ledger_claim_device *devices; /* one a result */
        bool *is_admin;                      /* one a result */
        enum dra_unenforced *unenforced;     /* one a result */
        size_t n_results;
};

static void wait_free(struct wait *wait)
{
        list_remove(&wait->link);
        arena_done(&wait->arena);
        free(wait);
}

/* "c15ebfed7…_0": of the claim and the result's position in it, of the characters of an allocation's id. */
static const char *allocation_id(struct arena *arena, const char *uid, size_t position)
{
        char *id = arena_printf(arena, "c%s_%zu", uid, position);
        char *to = id;

        for (const char *at = id; *at; at++)
                if (*at != '-')
                        *to++ = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        *to = '\0';
        return id;
}

static struct ledger_claim_device device_of(
        struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted, size_t position)
{
        enum dra_device_kind kind = wanted->device->kind;

        return (struct ledger_claim_device){
                .id = allocation_id(arena, claim->uid, position),
                .unit = arena_strdup(arena, wanted->device->uuid),
                .is_shared = kind == DRA_DEVICE_SHARED || kind == DRA_DEVICE_SHARE,
                .is_alone = kind == DRA_DEVICE_WHOLE || kind == DRA_DEVICE_MIG,
                .limit_mib = wanted->memory_bytes / MIB,
                .threads_permille = wanted->thread_percentage ? wanted->thread_percentage * 10 : 1000,
        };
}

/* The unit in the plan now; it may have gone since. */
static const struct unit *find_unit(const struct dra_driver *driver, const char *uuid, struct error *err)
{
        const struct resource *claimable = driver->plan ? driver->plan->claimable : NULL;
        const struct unit *unit = claimable ? resource_find_unit(claimable, uuid) : NULL;

        if (!unit)
                (void)!error_set(err, ERROR_UNAVAILABLE, "%s is not on this node now, or does not belong to DRA", uuid);
        return unit;
}

static int make_allocated(const struct wait *wait, size_t i, const struct ledger_claimed *claimed, struct arena *arena,
        struct dra_allocated *ret, struct error *err)
{
        const struct plan *plan = wait->driver->plan;
        const struct ledger_claim_device *device = &wait->devices[i];
        const struct unit *unit = find_unit(wait->driver, device->unit, err);

        if (!unit)
                return -1;
        if (device->is_shared && dra_parameters_check_tier(wait->unenforced[i], claimed->tier, device->unit, err) < 0)
                return -1;
        *ret = (struct dra_allocated){
                .memory_bytes = device->limit_mib * MIB,
                .thread_percentage = device->is_shared ? device->threads_permille / 10 : 0,
                .tier = claimed->daemon ? mps_tier_name(claimed->tier) : NULL,
                .daemon = claimed->daemon,
                .unit_cdi_id = cdi_unit_id(arena, plan->config, unit),
                .edits = dra_edits_of(arena, plan->config, device, claimed),
        };
        return 0;
}

static void on_claimed(const struct error *failure, const struct ledger_claimed *claimed, void *data)
{
        struct wait *wait = data;
        struct dra_preparing *preparing = wait->preparing;
        struct arena arena = ARENA_INIT;
        struct dra_allocated *allocated = ARENA_ARRAY(&arena, struct dra_allocated, wait->n_results);
        const struct ledger_claimed no_daemon = {.daemon = NULL};
        size_t n_seen = 0; /* of |claimed|, which has none for admin access */
        struct error err = failure ? *failure : (struct error){.kind = ERROR_NONE};

        for (size_t i = 0; i < wait->n_results && err.kind == ERROR_NONE; i++) {
                bool is_booked = !wait->is_admin[i] && n_seen < wait->claim.n_devices;

                (void)!make_allocated(
                        wait, i, is_booked ? &claimed[n_seen++] : &no_daemon, &arena, &allocated[i], &err);
        }
        wait_free(wait);
        if (err.kind == ERROR_NONE)
                dra_prepare_allocated(preparing, allocated);
        else
                dra_prepare_refuse(preparing, &err);
        arena_done(&arena);
}

static void allocate_claim(
        struct dra_preparing *preparing, const struct dra_claim *claim, const struct dra_wanted *wanted, void *data)
{
        struct dra_driver *driver = data;
        struct wait *wait = xcalloc(1, sizeof(*wait));
        struct ledger_claim_device *booked = ARENA_ARRAY(&wait->arena, struct ledger_claim_device, claim->n_results);
        size_t n_booked = 0;

        wait->driver = driver;
        wait->preparing = preparing;
        wait->n_results = claim->n_results;
        wait->is_admin = ARENA_ARRAY(&wait->arena, bool, claim->n_results);
        wait->unenforced = ARENA_ARRAY(&wait->arena, enum dra_unenforced, claim->n_results);
        wait->devices = ARENA_ARRAY(&wait->arena, struct ledger_claim_device, claim->n_results);
        for (size_t i = 0; i < claim->n_results; i++) {
                wait->devices[i] = device_of(&wait->arena, claim, &wanted[i], i);
                wait->is_admin[i] = claim->results[i].admin_access;
                wait->unenforced[i] = wanted[i].unenforced;
                if (!wait->is_admin[i])
                        booked[n_booked++] = wait->devices[i];
        }
        wait->claim = (struct ledger_claim){
                .uid = arena_strdup(&wait->arena, claim->uid),
                .name = arena_printf(&wait->arena, "%s/%s", claim->namespace, claim->name),
                .devices = booked,
                .n_devices = n_booked,
                .pods = claim->pods,
                .n_pods = claim->n_pods,
        };
        list_append(&driver->waits, &wait->link);
        if (n_booked == 0) {
                ledger_unclaim(driver->options.ledger, claim->uid);
                on_claimed(NULL, NULL, wait);
                return;
        }
        ledger_claim(driver->options.ledger, &wait->claim, on_claimed, wait);
}

/* ---- the other way ---- */

static void release_claim(struct dra_preparing *preparing, const char *uid, void *data)
{
        struct dra_driver *driver = data;

        if (driver->is_closing) {
                refuse_for_closing(preparing);
                return;
        }
        ledger_unclaim(driver->options.ledger, uid);
        driver->options.on_released(driver->options.data);
        dra_prepare_released(preparing);
}

static int write_cdi(const struct dra_prepared_claim *claim, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        return dra_claim_cdi_write(driver->cdi_root, driver->name, claim, err);
}

static int remove_cdi(const char *uid, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        return dra_claim_cdi_remove(driver->cdi_root, driver->name, uid, err);
}

/* ---- what users see ---- */

static void show_prepared(const struct dra_prepared_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->status)
                dra_status_send_prepared(driver->status, dra_publisher_api(driver->publisher), claim);
}

static void show_unprepared(const struct dra_service_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->status)
                dra_status_send_removed(driver->status, dra_publisher_api(driver->publisher), claim);
}

/* ---- what is prepared already ---- */

static enum mps_tier tier_of(const char *name)
{
        enum mps_tier tier = MPS_TIER_NAMESPACE;

        while (tier > MPS_TIER_DEFAULT && (!name || strcmp(mps_tier_name(tier), name) != 0))
                tier--;
        return tier;
}

static void keep_claim(struct arena *arena, const struct dra_prepared_claim *recorded, struct ledger_claim *ret)
{
        struct ledger_claim_device *devices = ARENA_ARRAY(arena, struct ledger_claim_device, recorded->n_results);
        size_t count = 0;

        for (size_t i = 0; i < recorded->n_results; i++) {
                const struct dra_prepared_result *result = &recorded->results[i];

                if (result->is_admin)
                        continue;
                devices[count++] = (struct ledger_claim_device){
                        .id = allocation_id(arena, recorded->uid, i),
                        .unit = result->unit,
                        .is_shared = result->daemon != NULL,
                        .is_alone = !result->daemon && !result->share_id,
                        .limit_mib = result->memory_bytes / MIB,
                        .threads_permille = result->thread_percentage ? result->thread_percentage * 10 : 1000,
                        .tier = tier_of(result->tier),
                };
        }
        *ret = (struct ledger_claim){
                .uid = recorded->uid,
                .name = arena_printf(arena, "%s/%s", recorded->namespace, recorded->name),
                .devices = devices,
                .n_devices = count,
        };
}

static bool is_recorded(const char *uid, void *data)
{
        return dra_record_find(data, uid);
}

static int keep_prepared(struct dra_driver *driver, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim *claims;
        size_t count = 0;
        int result = dra_record_refresh(driver->record, err);

        if (result < 0)
                return -1;
        if (result == DRA_RECORD_BROKEN)
                log_error("what is prepared for DRA claims is unknown: restart the pods that use them", LOG_ERR(err));
        else if (access(driver->record_path, F_OK) == 0) /* one that was lost may have had claims that are in use */
                dra_claim_cdi_sweep(driver->cdi_root, driver->name, is_recorded, driver->record);
        claims = ARENA_ARRAY(&arena, struct ledger_claim, dra_record_count(driver->record));
        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *recorded = dra_record_at(driver->record, i);
                struct error ignored;

                if (recorded->state != DRA_PREPARED_DONE)
                        continue;
                keep_claim(&arena, recorded, &claims[count]);
                if (write_cdi(recorded, driver, &ignored) < 0)
                        log_warn("the CDI file of a DRA claim is not as it was: its containers cannot be restarted",
                                LOG_STR("claim", claims[count].name), LOG_ERR(&ignored));
                if (claims[count].n_devices)
                        count++;
        }
        ledger_keep_claims(driver->options.ledger, claims, count);
        if (count)
                log_info("DRA claims that are prepared already", LOG_UINT("claims", count));
        return 0;
}

/* ---- what is offered ---- */

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
        driver->plan = plan;
        dra_publisher_put(driver->publisher, plan->inventory, &options);
        arena_done(&driver->options_arena); /* of the options before */
        driver->options_arena = arena;
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

/* Of the unit, or of the GPU that it is on; NULL: healthy. */
static const struct unhealthy_unit *find_unhealthy(const struct dra_driver *driver, const struct dra_device *device)
{
        const struct unhealthy_unit *unhealthy = unit_health_find(driver->options.health, device->uuid);

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

static void tell_kubelet(struct dra_driver *driver, struct arena *arena)
{
        const struct dra_layout *layout = dra_publisher_layout(driver->publisher);
        struct dra_health_device *devices;

        if (!layout)
                return;
        devices = ARENA_ARRAY(arena, struct dra_health_device, layout->n_devices);
        for (size_t i = 0; i < layout->n_devices; i++) {
                const struct unhealthy_unit *unhealthy = find_unhealthy(driver, &layout->devices[i]);

                devices[i] = (struct dra_health_device){
                        .pool_name = driver->node,
                        .device_name = layout->devices[i].name,
                        .status = unhealthy ? DRA_HEALTH_UNHEALTHY : DRA_HEALTH_HEALTHY,
                        .updated_unix_s = (int64_t)time(NULL),
                        .message = unhealthy ? unhealthy->reason : NULL,
                };
        }
        dra_health_stream_set(dra_service_health(driver->service), devices, layout->n_devices);
}

static void on_turn_timer(uv_timer_t *timer)
{
        struct dra_driver *driver = timer->data;
        struct arena arena = ARENA_INIT;

        if (driver->health_is_new)
                set_taints(driver, &arena);
        driver->health_is_new = false;
        tell_kubelet(driver, &arena);
        arena_done(&arena);
        reads_go_on(driver);
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

        uv_timer_start(&driver->turn_timer, on_turn_timer, 0, 0);
}

/* ---- begin and end ---- */

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

        driver->options = *options;
        driver->options.config = NULL;
        driver->name = arena_strdup(&driver->arena, config->dra.driver_name);
        driver->node = arena_strdup(&driver->arena, config->node_name);
        driver->cdi_root = arena_strdup(&driver->arena, config->cdi_root);
        driver->record_path = arena_printf(&driver->arena, "%s/" DRA_RECORD_NAME, folder);
        list_init(&driver->reads);
        list_init(&driver->waits);
        return driver;
}

static int open_record(struct dra_driver *driver, const char *folder, struct error *err)
{
        _free_ char *boot_id = NULL;

        if (file_make_folder(folder, err) < 0 || dra_record_boot_id(&boot_id, BOOT_ID, err) < 0)
                return -1;
        driver->record = dra_record_new(driver->record_path, boot_id);
        return keep_prepared(driver, err);
}

bool dra_driver_is_needed(const struct config *config)
{
        _free_ char *folder = dra_registration_directory(config->dra.plugins, config->dra.driver_name);
        _free_ char *path = xasprintf("%s/" DRA_RECORD_NAME, folder);
        _free_ char *boot_id = NULL;
        _cleanup_(dra_record_freep) struct dra_record *record = NULL;
        struct error ignored;

        if (config->dra.enabled)
                return true;
        if (access(path, F_OK) < 0 || dra_record_boot_id(&boot_id, BOOT_ID, &ignored) < 0)
                return false;
        record = dra_record_new(path, boot_id);
        return dra_record_refresh(record, &ignored) == 0 && dra_record_count(record) > 0;
}

static void begin_preparing(struct dra_driver *driver, const char *folder)
{
        const struct dra_prepare_options prepare = {
                .record = driver->record,
                .driver = driver->name,
                .pool = driver->node,
                .node = {read_claim, allocate_claim, release_claim, write_cdi, remove_cdi, show_prepared,
                        show_unprepared, driver},
        };
        const struct dra_service_options service = {
                .loop = driver->options.loop,
                .lock_directory = folder,
        };
        struct dra_service_options options = service;

        driver->status = dra_status_sender_new(driver->options.client, driver->name, driver->node);
        driver->prepare = dra_prepare_new(&prepare);
        options.backend = dra_prepare_backend(driver->prepare);
        driver->service = dra_service_new(&options);
}

int dra_driver_new(struct dra_driver **ret, const struct dra_driver_options *options, struct error *err)
{
        const struct config_dra *dra = &options->config->dra;
        _free_ char *folder = dra_registration_directory(dra->plugins, dra->driver_name);
        struct dra_driver *driver = driver_alloc(options, folder);
        const struct dra_publisher_options publisher = {
                .loop = options->loop,
                .client = options->client,
                .node = driver->node,
                .driver = driver->name,
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

        if (open_record(driver, folder, err) < 0) {
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
        uv_timer_init(options->loop, &driver->turn_timer);
        driver->turn_timer.data = driver;
        *ret = driver;
        return 0;
}

/* What is being prepared is taken back by dra/prepare.h. */
static void refuse_all(struct dra_driver *driver)
{
        while (!list_is_empty(&driver->reads)) {
                struct read *read = container_of(driver->reads.next, struct read, link);
                struct dra_preparing *preparing = read->preparing;

                kube_call_cancel(read->call);
                read_free(read);
                if (preparing)
                        refuse_for_closing(preparing);
        }
        while (!list_is_empty(&driver->waits)) {
                struct wait *wait = container_of(driver->waits.next, struct wait, link);
                struct dra_preparing *preparing = wait->preparing;

                ledger_unclaim(driver->options.ledger, wait->claim.uid);
                wait_free(wait);
                refuse_for_closing(preparing);
        }
}

static void free_if_closed(struct dra_driver *driver)
{
        void (*closed)(void *data) = driver->closed;
        void *data = driver->closed_data;

        if (!driver->is_registration_closed || !driver->is_timer_closed)
                return;
        dra_service_close(driver->service);
        driver_free(driver);
        if (closed)
                closed(data);
}

static void on_registration_closed(void *data)
{
        struct dra_driver *driver = data;

        driver->is_registration_closed = true;
        free_if_closed(driver);
}

static void on_timer_closed(uv_handle_t *handle)
{
        struct dra_driver *driver = handle->data;

        driver->is_timer_closed = true;
        free_if_closed(driver);
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
        refuse_all(driver);
        driver->is_closing = true;
        driver->status = dra_status_sender_free(driver->status);
        driver->publisher = dra_publisher_close(driver->publisher);
        uv_close((uv_handle_t *)&driver->turn_timer, on_timer_closed);
        dra_registration_close(driver->registration, CLOSE_GRACE_MS, on_registration_closed, driver);
}
