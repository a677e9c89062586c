#include "node/dra/allocation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "node/cdi/cdi.h"
#include "node/dra/wanted.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/parameters.h"
#include "node/ledger/claims.h"

struct dra_allocator {
        const struct dra_node *node;
        struct dra_changes *changes;
        struct list waiting; /* allocations that the ledger was asked for */
        void (*on_released)(void *data);
        void *data;
};

/* One call of dra_allocate() or dra_release(). */
struct allocating {
        struct list link;
        struct dra_allocator *allocator;
        dra_allocator_done_fn *done;
        void *data;

        /* Only of dra_allocate(). */
        struct dra_prepared_claim *made;
        struct arena *arena;
        struct ledger_claim claim; /* its devices are those of |booking| */
        struct dra_booking booking;
        /* For each result: */
        enum dra_unenforced *unenforced;
        uint32_t *together;
};

static struct allocating *allocating_new(struct dra_allocator *allocator, dra_allocator_done_fn *done, void *data)
{
        struct allocating *allocating = xcalloc(1, sizeof(*allocating));

        allocating->allocator = allocator;
        allocating->done = done;
        allocating->data = data;
        list_init(&allocating->link);
        return allocating;
}

static void allocating_finish(struct allocating *allocating, const struct error *err)
{
        dra_allocator_done_fn *done = allocating->done;
        void *data = allocating->data;

        list_remove(&allocating->link);
        free(allocating);
        done(err, data);
}

/* ---- what a container gets ---- */

static int by_index(const void *a, const void *b, void *data)
{
        const struct resource *claimable = data;
        const struct unit *left = resource_find_unit(claimable, (*(const struct ledger_claim_device *const *)a)->unit);
        const struct unit *right = resource_find_unit(claimable, (*(const struct ledger_claim_device *const *)b)->unit);

        return left && right ? (left->gpu->index > right->gpu->index) - (left->gpu->index < right->gpu->index) : 0;
}

/* The devices that a container has with result |i|, by the index of their GPUs. */
static size_t find_devices(
        const struct allocating *allocating, size_t i, struct arena *arena, const struct ledger_claim_device ***ret)
{
        const struct dra_booking *booking = &allocating->booking;
        const struct ledger_claim_device **devices =
                ARENA_ARRAY(arena, const struct ledger_claim_device *, allocating->made->n_results + 1);
        bool *is_taken = ARENA_ARRAY(arena, bool, booking->n_devices + 1);
        const struct plan *plan = allocating->allocator->node->plan;
        size_t count = 0;

        for (size_t j = 0; j < allocating->made->n_results; j++) {
                size_t of = booking->of[j];

                if (of == DRA_NOT_BOOKED || is_taken[of] || !(j == i || allocating->together[i] & UINT32_C(1) << j))
                        continue;
                is_taken[of] = true;
                devices[count++] = &booking->devices[of];
        }
        qsort_r(devices, count, sizeof(const void *), by_index, (void *)(uintptr_t)plan->claimable);
        *ret = devices;
        return count;
}

/* |claimed|: what the ledger has for the result; all NULL if it is not booked. */
static int fill_result(
        const struct allocating *allocating, size_t i, const struct ledger_claimed *claimed, struct error *err)
{
        const struct dra_node *node = allocating->allocator->node;
        struct dra_prepared_result *result = &allocating->made->results[i];
        const struct unit *unit = dra_node_find_unit(node, result->unit, err);
        const struct ledger_claim_device **devices;
        size_t n_devices;

        if (!unit || cdi_check_nodes(node->plan, unit, err) < 0)
                return -1;
        if (claimed->daemon &&
                dra_parameters_check_tier(allocating->unenforced[i], claimed->tier, result->unit, err) < 0)
                return -1;
        n_devices = find_devices(allocating, i, allocating->arena, &devices);
        if (!claimed->daemon)
                result->thread_percentage = 0;
        result->tier = claimed->daemon ? mps_tier_name(claimed->tier) : NULL;
        result->daemon = arena_strdup(allocating->arena, claimed->daemon);
        result->allocation = n_devices ? allocating->booking.devices[allocating->booking.of[i]].id : NULL;
        result->unit_cdi_id = cdi_unit_id(allocating->arena, node->plan->config, unit);
        result->edits = dra_edits_of(allocating->arena, node->plan->config, devices, n_devices, claimed);
        return 0;
}

static void on_claimed(const struct error *failure, const struct ledger_claimed *claimed, void *data)
{
        static const struct ledger_claimed nothing;
        struct allocating *allocating = data;
        struct error err;

        for (size_t i = 0; !failure && i < allocating->made->n_results; i++) {
                const size_t of = allocating->booking.of[i];
                const bool is_booked = claimed && of != DRA_NOT_BOOKED;

                if (fill_result(allocating, i, is_booked ? &claimed[of] : &nothing, &err) < 0)
                        failure = &err;
        }
        allocating_finish(allocating, failure);
}

static void ask_ledger(struct allocating *allocating)
{
        struct dra_allocator *allocator = allocating->allocator;

        list_append(&allocator->waiting, &allocating->link);
        if (allocating->claim.n_devices == 0) {
                ledger_unclaim(allocator->node->ledger, allocating->claim.uid);
                on_claimed(NULL, NULL, allocating);
                return;
        }
        ledger_claim(allocator->node->ledger, &allocating->claim, on_claimed, allocating);
}

/* ---- allocate ---- */

static int record_instances(const struct dra_instance *instances, void *data, struct error *err)
{
        struct allocating *allocating = data;

        return dra_record_put_instances(
                allocating->allocator->node->record, allocating->made, allocating->arena, instances, err);
}

/* The units of candidates are MIG devices now. */
static void on_instances_made(const struct error *failure, void *data)
{
        struct allocating *allocating = data;
        const struct dra_prepared_claim *made = allocating->made;
        struct error err;

        if (!failure && dra_node_check_cdi(allocating->allocator->node, &err) < 0)
                failure = &err;
        if (failure) {
                allocating_finish(allocating, failure);
                return;
        }
        for (size_t i = 0; i < made->n_results; i++)
                if (made->results[i].has_instance)
                        allocating->booking.devices[allocating->booking.of[i]].unit = made->results[i].unit;
        ask_ledger(allocating);
}

static const struct ledger_claim_pod *copy_pods(struct arena *arena, const struct dra_claim *claim)
{
        struct ledger_claim_pod *pods = ARENA_ARRAY(arena, struct ledger_claim_pod, claim->n_pods);

        for (size_t i = 0; i < claim->n_pods; i++)
                pods[i] = (struct ledger_claim_pod){
                        arena_strdup(arena, claim->pods[i].uid), arena_strdup(arena, claim->pods[i].name)};
        return pods;
}

void dra_allocate(struct dra_allocator *allocator, const struct dra_claim *claim, const struct dra_wanted *wanted,
        struct dra_prepared_claim *made, struct arena *arena, dra_allocator_done_fn *done, void *data)
{
        struct allocating *allocating = allocating_new(allocator, done, data);

        allocating->made = made;
        allocating->arena = arena;
        allocating->unenforced = ARENA_ARRAY(arena, enum dra_unenforced, claim->n_results);
        allocating->together = ARENA_ARRAY(arena, uint32_t, claim->n_results);
        for (size_t i = 0; i < claim->n_results; i++) {
                allocating->unenforced[i] = wanted[i].unenforced;
                allocating->together[i] = wanted[i].together;
        }
        dra_booking_make(&allocating->booking, arena, claim, wanted);
        allocating->claim = (struct ledger_claim){
                .uid = made->uid,
                .name = arena_printf(arena, "%s/%s", made->namespace, made->name),
                .devices = allocating->booking.devices,
                .n_devices = allocating->booking.n_devices,
                .pods = copy_pods(arena, claim),
                .n_pods = claim->n_pods,
        };
        if (dra_prepared_has_candidates(made))
                dra_changes_make(allocator->changes, made, record_instances, on_instances_made, allocating);
        else
                ask_ledger(allocating);
}

/* ---- release ---- */

static void on_instances_destroyed(const struct error *err, void *data)
{
        struct allocating *allocating = data;
        const struct dra_allocator *allocator = allocating->allocator;

        allocating_finish(allocating, err);
        if (!err)
                allocator->on_released(allocator->data);
}

void dra_release(struct dra_allocator *allocator, const char *uid, dra_allocator_done_fn *done, void *data)
{
        const struct dra_node *node = allocator->node;
        const struct dra_prepared_claim *recorded = dra_record_find(node->record, uid);
        struct allocating *allocating = allocating_new(allocator, done, data);
        struct error err;

        if (node->is_closing) {
                dra_node_raise_closing(&err);
                allocating_finish(allocating, &err);
                return;
        }
        ledger_unclaim(node->ledger, uid);
        if (recorded && dra_prepared_has_instances(recorded))
                dra_changes_destroy(allocator->changes, recorded, on_instances_destroyed, allocating);
        else
                on_instances_destroyed(NULL, allocating);
}

/* ---- CDI ---- */

int dra_allocator_write_cdi(
        const struct dra_allocator *allocator, const struct dra_prepared_claim *claim, struct error *err)
{
        const struct dra_node *node = allocator->node;

        node->repair_cdi(node->data);
        return dra_claim_cdi_write(node->cdi_files, node->cdi_root, node->driver, claim, err);
}

int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err)
{
        const struct dra_node *node = allocator->node;

        return dra_claim_cdi_remove(node->cdi_files, node->cdi_root, node->driver, uid, err);
}

/* ---- start and end ---- */

void dra_allocator_refuse(struct dra_allocator *allocator)
{
        struct error err;

        dra_node_raise_closing(&err);
        while (!list_is_empty(&allocator->waiting)) {
                struct allocating *allocating = container_of(allocator->waiting.next, struct allocating, link);

                ledger_unclaim(allocator->node->ledger, allocating->claim.uid);
                allocating_finish(allocating, &err);
        }
}

struct dra_allocator *dra_allocator_new(
        const struct dra_node *node, struct dra_changes *changes, void (*on_released)(void *data), void *data)
{
        struct dra_allocator *allocator = xcalloc(1, sizeof(*allocator));

        allocator->node = node;
        allocator->changes = changes;
        allocator->on_released = on_released;
        allocator->data = data;
        list_init(&allocator->waiting);
        return allocator;
}

struct dra_allocator *dra_allocator_free(struct dra_allocator *allocator)
{
        if (!allocator)
                return NULL;
        assert(list_is_empty(&allocator->waiting));
        free(allocator);
        return NULL;
}
