/*
 * A claim that is being prepared, once it is checked: between the ledger and node/dra/prepare.h. It waits for the
 * ledger's answer as a struct wait in a list of the driver.
 */
#include "node/dra/driver_parts.h"

#include <stdlib.h>
#include <string.h>

#include "node/cdi/cdi.h"
#include "node/dra/booking.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/edits.h"
#include "node/dra/parameters.h"
#include "node/ledger/claims.h"

#define MIB ((uint64_t)1024 * 1024)

void dra_driver_refuse_for_closing(struct error *ret)
{
        error_raise(ret, ERROR_UNAVAILABLE, "the agent is stopping, or another one takes its place");
}

void dra_driver_refuse_preparing(struct dra_preparing *preparing)
{
        struct error err;

        dra_driver_refuse_for_closing(&err);
        dra_prepare_refuse(preparing, &err);
}

/* Where there are no units yet, as on a GPU whose MIG devices are to be made, nothing was written, either. */
int dra_driver_check_cdi(const struct dra_driver *driver, struct error *err)
{
        const struct plan *plan = driver->plan;

        driver->options.repair_cdi(driver->options.data);
        if (!plan->claimable || plan->claimable->n_units == 0)
                return 0;
        if (cdi_check_nodes(plan, NULL, err) < 0)
                return -1;
        if (plan->has_cdi_units)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "the CDI specification of the GPUs could not be written to '%s': the agent's log says why",
                driver->cdi_root);
}

/* ---- allocate ---- */

struct wait_result {
        const char *unit;
        uint64_t memory_bytes;
        unsigned int thread_percentage;
        uint32_t together;
        enum dra_unenforced unenforced;
};

struct wait {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing;
        struct arena arena;
        struct ledger_claim claim; /* its devices are those of |booking| */
        struct dra_booking booking;
        struct wait_result *results;
        size_t n_results;
};

static void wait_free(struct wait *wait)
{
        list_remove(&wait->link);
        arena_done(&wait->arena);
        free(wait);
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

static int by_index(const void *a, const void *b, void *data)
{
        const struct resource *claimable = data;
        const struct unit *left = resource_find_unit(claimable, (*(const struct ledger_claim_device *const *)a)->unit);
        const struct unit *right = resource_find_unit(claimable, (*(const struct ledger_claim_device *const *)b)->unit);

        return left && right ? (left->gpu->index > right->gpu->index) - (left->gpu->index < right->gpu->index) : 0;
}

/* The devices that a container has with result |i|, by the index of their GPUs. */
static size_t find_devices(
        const struct wait *wait, size_t i, struct arena *arena, const struct ledger_claim_device ***ret)
{
        const struct ledger_claim_device **devices =
                ARENA_ARRAY(arena, const struct ledger_claim_device *, wait->n_results + 1);
        bool *is_taken = ARENA_ARRAY(arena, bool, wait->booking.n_devices + 1);
        size_t count = 0;

        for (size_t j = 0; j < wait->n_results; j++) {
                size_t of = wait->booking.of[j];

                if (of == DRA_NOT_BOOKED || is_taken[of] || !(j == i || wait->results[i].together & UINT32_C(1) << j))
                        continue;
                is_taken[of] = true;
                devices[count++] = &wait->booking.devices[of];
        }
        qsort_r(devices, count, sizeof(const void *), by_index, (void *)(uintptr_t)wait->driver->plan->claimable);
        *ret = devices;
        return count;
}

static int make_allocated(const struct wait *wait, size_t i, const struct ledger_claimed *claimed, struct arena *arena,
        struct dra_allocated *ret, struct error *err)
{
        const struct plan *plan = wait->driver->plan;
        const struct wait_result *result = &wait->results[i];
        const struct unit *unit = find_unit(wait->driver, result->unit, err);
        const struct ledger_claim_device **devices;
        size_t n_devices;

        if (!unit || cdi_check_nodes(plan, unit, err) < 0)
                return -1;
        if (claimed->daemon && dra_parameters_check_tier(result->unenforced, claimed->tier, result->unit, err) < 0)
                return -1;
        n_devices = find_devices(wait, i, arena, &devices);
        *ret = (struct dra_allocated){
                .memory_bytes = result->memory_bytes / MIB * MIB,
                .thread_percentage = claimed->daemon ? result->thread_percentage : 0,
                .tier = claimed->daemon ? mps_tier_name(claimed->tier) : NULL,
                .daemon = claimed->daemon,
                .allocation = n_devices ? arena_strdup(arena, wait->booking.devices[wait->booking.of[i]].id) : NULL,
                .unit_cdi_id = cdi_unit_id(arena, plan->config, unit),
                .edits = dra_edits_of(arena, plan->config, devices, n_devices, claimed),
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
        struct error err = failure ? *failure : (struct error){.kind = ERROR_NONE};

        for (size_t i = 0; i < wait->n_results && err.kind == ERROR_NONE; i++) {
                size_t of = wait->booking.of[i];

                (void)!make_allocated(wait, i, !claimed || of == DRA_NOT_BOOKED ? &no_daemon : &claimed[of], &arena,
                        &allocated[i], &err);
        }
        wait_free(wait);
        if (err.kind == ERROR_NONE)
                dra_prepare_allocated(preparing, allocated);
        else
                dra_prepare_refuse(preparing, &err);
        arena_done(&arena);
}

static void wait_for_ledger(struct wait *wait)
{
        struct dra_driver *driver = wait->driver;

        list_append(&driver->waits, &wait->link);
        if (wait->claim.n_devices == 0) {
                ledger_unclaim(driver->options.ledger, wait->claim.uid);
                on_claimed(NULL, NULL, wait);
                return;
        }
        ledger_claim(driver->options.ledger, &wait->claim, on_claimed, wait);
}

/* The units of candidates are MIG devices now. */
static void on_instances_made(const struct error *err, const struct dra_instance *instances, void *data)
{
        struct wait *wait = data;
        struct dra_preparing *preparing = wait->preparing;
        struct error failure = err ? *err : (struct error){.kind = ERROR_NONE};

        if (err || dra_driver_check_cdi(wait->driver, &failure) < 0) {
                wait_free(wait);
                dra_prepare_refuse(preparing, &failure);
                return;
        }
        for (size_t i = 0; i < wait->n_results; i++)
                if (instances[i].uuid) {
                        wait->results[i].unit = arena_strdup(&wait->arena, instances[i].uuid);
                        wait->booking.devices[wait->booking.of[i]].unit = wait->results[i].unit;
                }
        wait_for_ledger(wait);
}

static void allocate_claim(
        struct dra_preparing *preparing, const struct dra_claim *claim, const struct dra_wanted *wanted, void *data)
{
        struct dra_driver *driver = data;
        struct wait *wait = xcalloc(1, sizeof(*wait));
        const struct dra_prepared_claim *recorded = dra_record_find(driver->record, claim->uid);

        driver->n_allocated++;
        wait->driver = driver;
        wait->preparing = preparing;
        wait->n_results = claim->n_results;
        wait->results = ARENA_ARRAY(&wait->arena, struct wait_result, claim->n_results);
        for (size_t i = 0; i < claim->n_results; i++)
                wait->results[i] = (struct wait_result){
                        .unit = arena_strdup(&wait->arena, wanted[i].device->uuid),
                        .memory_bytes = wanted[i].memory_bytes,
                        .thread_percentage = wanted[i].thread_percentage,
                        .together = wanted[i].together,
                        .unenforced = wanted[i].unenforced,
                };
        dra_booking_make(&wait->booking, &wait->arena, claim, wanted);
        wait->claim = (struct ledger_claim){
                .uid = arena_strdup(&wait->arena, claim->uid),
                .name = arena_printf(&wait->arena, "%s/%s", claim->namespace, claim->name),
                .devices = wait->booking.devices,
                .n_devices = wait->booking.n_devices,
                .pods = claim->pods,
                .n_pods = claim->n_pods,
        };
        list_init(&wait->link);
        if (dra_driver_has_candidates(recorded))
                dra_driver_change_instances(driver, preparing, recorded, false, on_instances_made, wait);
        else
                wait_for_ledger(wait);
}

/* ---- Unprepare ---- */

/* Claims that wait for what it had go on. */
static void finish_release(struct dra_driver *driver, struct dra_preparing *preparing)
{
        driver->options.on_released(driver->options.data);
        dra_prepare_released(preparing);
        if (driver->is_closing)
                return;
        dra_driver_name_pool(driver);
        dra_driver_offer_anew(driver);
        dra_driver_reads_go_on(driver);
}

struct release {
        struct dra_driver *driver;
        struct dra_preparing *preparing;
};

static void on_instances_destroyed(const struct error *err, const struct dra_instance *instances UNUSED, void *data)
{
        struct release *release = data;
        struct dra_driver *driver = release->driver;
        struct dra_preparing *preparing = release->preparing;

        free(release);
        if (err) {
                dra_prepare_refuse(preparing, err);
                return;
        }
        finish_release(driver, preparing);
}

static void release_claim(struct dra_preparing *preparing, const char *uid, void *data)
{
        struct dra_driver *driver = data;
        const struct dra_prepared_claim *recorded = dra_record_find(driver->record, uid);

        if (driver->is_closing) {
                dra_driver_refuse_preparing(preparing);
                return;
        }
        ledger_unclaim(driver->options.ledger, uid);
        if (recorded && dra_driver_has_instances(recorded)) {
                struct release *release = xcalloc(1, sizeof(*release));

                *release = (struct release){driver, preparing};
                dra_driver_change_instances(driver, preparing, recorded, true, on_instances_destroyed, release);
                return;
        }
        finish_release(driver, preparing);
}

static int write_cdi(const struct dra_prepared_claim *claim, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        driver->options.repair_cdi(driver->options.data);
        return dra_claim_cdi_write(driver->options.cdi_files, driver->cdi_root, driver->name, claim, err);
}

static int remove_cdi(const char *uid, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        return dra_claim_cdi_remove(driver->options.cdi_files, driver->cdi_root, driver->name, uid, err);
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

/* ---- for the rest of the driver ---- */

struct dra_prepare_node dra_driver_node(struct dra_driver *driver)
{
        return (struct dra_prepare_node){dra_driver_read_claim, dra_driver_abandon_read, allocate_claim, release_claim,
                write_cdi, remove_cdi, show_prepared, show_unprepared, driver};
}

/* What is being prepared is taken back by node/dra/prepare.h. */
void dra_driver_refuse_all(struct dra_driver *driver)
{
        dra_driver_refuse_instances(driver);
        dra_driver_refuse_reads(driver);
        while (!list_is_empty(&driver->waits)) {
                struct wait *wait = container_of(driver->waits.next, struct wait, link);
                struct dra_preparing *preparing = wait->preparing;

                ledger_unclaim(driver->options.ledger, wait->claim.uid);
                wait_free(wait);
                dra_driver_refuse_preparing(preparing);
        }
}
