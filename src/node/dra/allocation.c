// SPDX-License-Identifier: Apache-2.0
#include "node/dra/allocation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "gpu/nvml_pool.h"
#include "node/cdi/cdi.h"
#include "node/cdi/metadata.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/instances.h"
#include "node/dra/parameters.h"
#include "node/dra/slices.h"
#include "node/dra/wanted.h"
#include "node/ledger/claims.h"

/*
 * A process that is killed in the middle of a change leaves it half made. Two such waits are less than kubelet's 45 s.
 */
#define NVML_HANG_MS UINT64_C(15000)
#define WAIT_MS UINT64_C(20000) /* until the inventory shows what was made: reading it takes a second or two */

struct dra_allocator {
        const struct dra_node *node;
        struct list all;
        struct nvml_pool *nvml;     /* NULL: closed */
        unsigned int n_working;     /* how many of |all| wait for it */
        void (*closed)(void *data); /* NULL: it is not to be closed */
        void *closed_data;
        void (*on_released)(void *data);
        void *data;
};

enum allocating_state {
        ALLOCATING_LOOKING,
        ALLOCATING_MAKING,
        ALLOCATING_DESTROYING,
        ALLOCATING_WAITING, /* for a plan */
        ALLOCATING_BOOKING, /* the ledger was asked */
};

/* One call of dra_allocate() or dra_release(). */
struct allocating {
        struct list link;
        struct dra_allocator *allocator;
        struct arena *arena;
        bool destroys;
        enum allocating_state state;
        struct dra_claim *claim;
        struct ledger_claim booking; /* of dra_allocate() */
        struct part *parts;          /* in the first three states */
        size_t n_open;               /* of them, without an answer */
        struct error err;            /* kind ERROR_NONE: nothing failed */
        uv_timer_t timer;
        dra_allocator_done_fn *done;
        void *data;
};

/* The request about one GPU. */
struct part {
        struct nvml_request request;
        struct allocating *allocating;
};

static void close_nvml_if_idle(struct dra_allocator *allocator)
{
        if (!allocator->closed || allocator->n_working > 0)
                return;
        allocator->nvml = nvml_pool_close(allocator->nvml);
        allocator->closed(allocator->closed_data);
}

static struct allocating *allocating_new(struct dra_allocator *allocator, struct dra_claim *claim, struct arena *arena,
        dra_allocator_done_fn *done, void *data)
{
        struct allocating *allocating = xcalloc(1, sizeof(*allocating));

        allocating->allocator = allocator;
        allocating->claim = claim;
        allocating->arena = arena;
        allocating->done = done;
        allocating->data = data;
        uv_timer_init(allocator->node->options.loop, &allocating->timer);
        allocating->timer.data = allocating;
        list_append(&allocator->all, &allocating->link);
        return allocating;
}

static void allocating_on_closed(uv_handle_t *handle)
{
        free(handle->data);
}

static void allocating_finish(struct allocating *allocating, const struct error *err)
{
        const struct dra_allocator *allocator = allocating->allocator;

        list_remove(&allocating->link);
        allocating->done(err, allocating->data);
        if (allocating->destroys && !err)
                allocator->on_released(allocator->data);
        uv_close((uv_handle_t *)&allocating->timer, allocating_on_closed);
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
static size_t find_devices(const struct allocating *allocating, size_t i, const struct ledger_claim_device ***ret)
{
        const struct dra_claim *claim = allocating->claim;
        const struct ledger_claim *booking = &allocating->booking;
        const struct plan *plan = allocating->allocator->node->plan;
        size_t count = 0;

        *ret = ARENA_ARRAY(allocating->arena, const struct ledger_claim_device *, booking->n_devices + 1);
        for (size_t of = 0; of < booking->n_devices; of++)
                for (size_t j = 0; j < claim->n_results; j++)
                        if ((j == i || claim->results[i].together & UINT32_C(1) << j) &&
                                dra_booking_find(booking, claim->results[j].allocation) == &booking->devices[of]) {
                                (*ret)[count++] = &booking->devices[of];
                                break;
                        }
        qsort_r(*ret, count, sizeof(const void *), by_index, (void *)(uintptr_t)plan->claimable);
        return count;
}

/* The unit in the plan in force; NULL, with an error: it has gone, or does not belong to DRA. */
static const struct unit *allocating_find_unit(const struct dra_node *node, const char *uuid, struct error *err)
{
        const struct resource *claimable = node->plan ? node->plan->claimable : NULL;
        const struct unit *unit = claimable ? resource_find_unit(claimable, uuid) : NULL;

        if (!unit)
                error_raise(err, ERROR_UNAVAILABLE, "%s is not on this node now, or does not belong to DRA", uuid);
        return unit;
}

/* |claimed|: what the ledger has for the result; all NULL if it is not booked. */
static int fill_result(
        const struct allocating *allocating, size_t i, const struct ledger_claimed *claimed, struct error *err)
{
        const struct dra_node *node = allocating->allocator->node;
        struct dra_result *result = &allocating->claim->results[i];
        const struct unit *unit = allocating_find_unit(node, result->unit, err);
        const struct ledger_claim_device **devices;
        size_t n_devices;

        if (!unit || cdi_check_nodes(node->plan, unit, err) < 0)
                return -1;
        if (claimed->daemon && dra_parameters_check_tier(result->unenforced, claimed->tier, result->unit, err) < 0)
                return -1;
        n_devices = find_devices(allocating, i, &devices);
        if (!claimed->daemon)
                result->thread_percentage = 0;
        result->tier = claimed->daemon ? mps_tier_name(claimed->tier) : NULL;
        result->daemon = arena_strdup(allocating->arena, claimed->daemon);
        result->unit_cdi_id = cdi_unit_id(allocating->arena, node->plan->config, unit);
        result->edits = dra_edits_of(allocating->arena, node->plan, devices, n_devices, claimed);
        if (node->plan->config->devices.metadata)
                dra_metadata_add(allocating->arena, node->metadata, node->driver, allocating->claim, i,
                        metadata_unit_attributes(node->plan->inventory, unit));
        return 0;
}

static void on_claimed(const struct error *failure, const struct ledger_claimed *claimed, void *data)
{
        static const struct ledger_claimed nothing;
        struct allocating *allocating = data;
        const struct ledger_claim *booking = &allocating->booking;
        struct error err;

        for (size_t i = 0; !failure && i < allocating->claim->n_results; i++) {
                const struct ledger_claim_device *device =
                        dra_booking_find(booking, allocating->claim->results[i].allocation);

                if (fill_result(allocating, i, claimed && device ? &claimed[device - booking->devices] : &nothing,
                            &err) < 0)
                        failure = &err;
        }
        allocating_finish(allocating, failure);
}

static void ask_ledger(struct allocating *allocating)
{
        struct ledger *ledger = allocating->allocator->node->options.ledger;

        allocating->state = ALLOCATING_BOOKING;
        if (allocating->booking.n_devices == 0) {
                ledger_unclaim(ledger, allocating->claim->uid);
                on_claimed(NULL, NULL, allocating);
                return;
        }
        ledger_claim(ledger, &allocating->booking, on_claimed, allocating);
}

/* ---- in a process that has NVML ---- */

static void pack_instances(struct pack *pack, struct dra_instance **instances, size_t *count)
{
        PACK(pack, *count);
        PACK_ARRAY(pack, *instances, *count);
        for (size_t i = 0; i < *count; i++) {
                pack_text(pack, &(*instances)[i].gpu);
                pack_text(pack, &(*instances)[i].uuid);
        }
}

static int work_on(const struct nvml *nvml, enum allocating_state state, struct dra_instance *instance,
        struct arena *arena, struct error *err)
{
        switch (state) {
        case ALLOCATING_LOOKING:
                return dra_instance_look(nvml, instance, arena, err);
        case ALLOCATING_MAKING:
                return instance->state == DRA_INSTANCE_MAKING ? dra_instance_make(nvml, instance, arena, err) : 0;
        case ALLOCATING_DESTROYING:
                return dra_instance_destroy(nvml, instance, arena, err);
        case ALLOCATING_WAITING:
        case ALLOCATING_BOOKING:
                break;
        }
        return 0;
}

/* The answer says what became of the instances, even with an error. */
static int serve_change(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct error problem = {.kind = ERROR_NONE};
        struct dra_instance *instances = NULL;
        const struct nvml *nvml;
        enum allocating_state state;
        size_t count;
        size_t i = 0;

        PACK(question, state);
        pack_instances(question, &instances, &count);
        if (!pack_end(question))
                return error_set(err, ERROR_INTERNAL, "a question about MIG devices is not whole");
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        while (i < count && work_on(nvml, state, &instances[i], &serving->arena, &problem) == 0)
                i++;
        if (i == count)
                problem.kind = ERROR_NONE;
        else if (state == ALLOCATING_MAKING)
                for (i++; i < count; i++) /* not tried */
                        if (instances[i].state == DRA_INSTANCE_MAKING)
                                instances[i].state = DRA_INSTANCE_NONE;
        PACK(answer, problem);
        pack_instances(answer, &instances, &count);
        return 0;
}

/* ---- MIG devices ---- */

/* The next result that is a candidate, on |gpu| (NULL: on any), from |*i| on; NULL: there is none. */
static struct dra_result *next_candidate(const struct allocating *allocating, const char *gpu, size_t *i)
{
        while (*i < allocating->claim->n_results) {
                struct dra_result *result = &allocating->claim->results[(*i)++];

                if (result->has_instance && (!gpu || strcmp(result->instance.gpu, gpu) == 0))
                        return result;
        }
        return NULL;
}

static bool is_all_as_wanted(const struct allocating *allocating)
{
        const struct plan *plan = allocating->allocator->node->plan;
        const struct dra_result *result;

        for (size_t i = 0; plan && (result = next_candidate(allocating, NULL, &i));) {
                const char *uuid = result->instance.uuid;

                if (!uuid)
                        continue;
                if (allocating->destroys ? inventory_has(plan->inventory, uuid)
                                         : !plan->claimable || !resource_find_unit(plan->claimable, uuid))
                        return false;
        }
        return plan;
}

static void allocating_go_on(struct allocating *allocating)
{
        const struct dra_result *result;
        struct error err;

        if (allocating->destroys) {
                allocating_finish(allocating, NULL);
                return;
        }
        if (dra_node_check_cdi(allocating->allocator->node, &err) < 0) {
                allocating_finish(allocating, &err);
                return;
        }
        for (size_t i = 0; (result = next_candidate(allocating, NULL, &i));) {
                struct ledger_claim_device *device = dra_booking_find(&allocating->booking, result->allocation);

                device->unit = result->unit;
        }
        uv_timer_stop(&allocating->timer);
        ask_ledger(allocating);
}

static void allocating_on_timer(uv_timer_t *timer)
{
        struct allocating *allocating = timer->data;
        struct error err;

        if (allocating->destroys) {
                log_warn("a MIG device that was destroyed is still among the GPUs");
                allocating_finish(allocating, NULL);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE,
                "a MIG device was made for the claim, and is not in force on this node after %ju s: the agent's log says why",
                (uintmax_t)(WAIT_MS / 1000));
        allocating_finish(allocating, &err);
}

static void allocating_wait(struct allocating *allocating)
{
        const struct dra_node *node = allocating->allocator->node;

        allocating->state = ALLOCATING_WAITING;
        if (is_all_as_wanted(allocating)) {
                allocating_go_on(allocating);
                return;
        }
        uv_timer_start(&allocating->timer, allocating_on_timer, WAIT_MS, 0);
        node->options.rescan(node->options.data);
}

static void on_part_done(struct nvml_request *request, const struct error *err, struct pack *answer);

static void ask_about(struct allocating *allocating, const char *gpu)
{
        struct dra_instance *on_gpu = ARENA_ARRAY(allocating->arena, struct dra_instance, allocating->claim->n_results);
        struct part *part = &allocating->parts[allocating->n_open++];
        const struct dra_result *result;
        struct pack pack;
        size_t count = 0;

        for (size_t i = 0; (result = next_candidate(allocating, gpu, &i));)
                on_gpu[count++] = result->instance;
        part->allocating = allocating;
        nvml_request_init(&part->request, serve_change, gpu, on_part_done);
        pack = pack_writer(&part->request.question);
        PACK(&pack, allocating->state);
        pack_instances(&pack, &on_gpu, &count);
        nvml_pool_ask(allocating->allocator->nvml, &part->request);
}

/* Has NVML do what the state says, by one request for each GPU. */
static void allocating_work(struct allocating *allocating, enum allocating_state state)
{
        const struct dra_result *result;

        allocating->state = state;
        allocating->err.kind = ERROR_NONE;
        allocating->parts = ARENA_ARRAY(allocating->arena, struct part, allocating->claim->n_results);
        for (size_t i = 0; (result = next_candidate(allocating, NULL, &i));) {
                size_t first = 0;

                if (next_candidate(allocating, result->instance.gpu, &first) == result)
                        ask_about(allocating, result->instance.gpu);
        }
        assert(allocating->n_open > 0);
        allocating->allocator->n_working++;
}

static int record_instances(struct allocating *allocating, struct error *err)
{
        struct dra_result *result;

        for (size_t i = 0; (result = next_candidate(allocating, NULL, &i));)
                result->unit = result->instance.uuid ? result->instance.uuid : result->instance.gpu;
        return dra_record_put(allocating->allocator->node->record, allocating->claim, err);
}

/* Nothing is made before the record says so. */
static void begin_making(struct allocating *allocating)
{
        struct dra_result *result;
        bool is_there = true;
        struct error err;

        for (size_t i = 0; (result = next_candidate(allocating, NULL, &i));)
                if (result->instance.state == DRA_INSTANCE_NONE) {
                        result->instance.state = DRA_INSTANCE_MAKING;
                        is_there = false;
                }
        if (record_instances(allocating, &err) < 0)
                allocating_finish(allocating, &err);
        else if (is_there)
                allocating_wait(allocating);
        else
                allocating_work(allocating, ALLOCATING_MAKING);
}

static void report_instances(const struct allocating *allocating)
{
        const struct dra_result *result;

        for (size_t i = 0; (result = next_candidate(allocating, NULL, &i));)
                if (result->instance.uuid)
                        log_info(allocating->destroys ? "a MIG device of a DRA claim is destroyed"
                                                      : "a MIG device is made for a DRA claim",
                                LOG_STR("uuid", result->instance.uuid), LOG_STR("gpu", result->instance.gpu),
                                LOG_UINT("start", result->instance.start));
}

/* Instances that were made are recorded even if the change fails in the end: then they are taken back. */
static void allocating_worked(struct allocating *allocating)
{
        struct dra_allocator *allocator = allocating->allocator;
        struct error err = allocating->err;
        struct error unrecorded;

        allocator->n_working--;
        if (allocating->state == ALLOCATING_MAKING && record_instances(allocating, &unrecorded) < 0 &&
                err.kind == ERROR_NONE)
                err = unrecorded;
        if (err.kind == ERROR_NONE && allocator->node->is_closing)
                dra_node_raise_closing(&err);
        if (err.kind != ERROR_NONE) {
                allocating_finish(allocating, &err);
        } else if (allocating->state == ALLOCATING_LOOKING) {
                begin_making(allocating);
        } else {
                report_instances(allocating);
                allocating_wait(allocating);
        }
        if (allocator->n_working > 0)
                return;
        nvml_pool_renew(allocator->nvml); /* a process that has the library open keeps a driver from being replaced */
        close_nvml_if_idle(allocator);
}

static int allocation_take_answer(
        struct allocating *allocating, const char *gpu, struct pack *answer, struct error *err)
{
        struct dra_instance *answered = NULL;
        struct dra_result *result;
        struct error problem;
        size_t n_answered;
        size_t count = 0;

        PACK(answer, problem);
        pack_instances(answer, &answered, &n_answered);
        if (!pack_end(answer))
                return error_set(err, ERROR_INTERNAL, "an answer about MIG devices is not whole");
        for (size_t i = 0; count < n_answered && (result = next_candidate(allocating, gpu, &i)); count++) {
                result->instance.state = answered[count].state;
                result->instance.uuid = arena_strdup(allocating->arena, answered[count].uuid);
        }
        if (problem.kind == ERROR_NONE)
                return 0;
        *err = problem;
        return -1;
}

static void on_part_done(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct allocating *allocating = container_of(request, struct part, request)->allocating;
        struct error problem = {.kind = ERROR_NONE};

        if (!err)
                (void)!allocation_take_answer(allocating, request->gpu, answer, &problem);
        else if (err->kind == ERROR_TIMEOUT)
                error_raise(
                        &problem, ERROR_UNAVAILABLE, "MIG devices can neither be made nor destroyed: %s", err->text);
        else
                problem = *err;
        if (allocating->err.kind == ERROR_NONE)
                allocating->err = problem;
        if (--allocating->n_open == 0)
                allocating_worked(allocating);
}

/* The first that waits for a plan, and what it waits for is in force now; NULL: none. */
static struct allocating *find_waiting(const struct dra_allocator *allocator)
{
        LIST_FOR_EACH(link, &allocator->all) {
                struct allocating *allocating = container_of(link, struct allocating, link);

                if (allocating->state == ALLOCATING_WAITING && is_all_as_wanted(allocating))
                        return allocating;
        }
        return NULL;
}

void dra_allocator_go_on(struct dra_allocator *allocator)
{
        struct allocating *allocating;

        while ((allocating = find_waiting(allocator)))
                allocating_go_on(allocating);
}

bool dra_allocator_has_closed_nvml(const struct dra_allocator *allocator)
{
        return nvml_pool_has_ended(allocator->nvml);
}

/* ---- allocate and release ---- */

void dra_allocate(struct dra_allocator *allocator, struct dra_claim *claim, struct arena *arena,
        dra_allocator_done_fn *done, void *data)
{
        struct allocating *allocating = allocating_new(allocator, claim, arena, done, data);

        for (size_t i = 0; i < claim->n_results; i++)
                claim->results[i].allocation = dra_booking_id(arena, claim, i);
        dra_booking_make(&allocating->booking, arena, claim);
        allocating->booking.pods = claim->pods;
        allocating->booking.n_pods = claim->n_pods;
        if (dra_claim_has_candidates(claim))
                allocating_work(allocating, ALLOCATING_LOOKING);
        else
                ask_ledger(allocating);
}

/* The texts are those of the record, which has the claim as it is until it is released. */
static struct dra_claim *copy_recorded(const struct dra_claim *recorded, struct arena *arena)
{
        struct dra_claim *copy = ARENA_NEW(arena, struct dra_claim);

        *copy = *recorded;
        copy->results = ARENA_ARRAY(arena, struct dra_result, recorded->n_results);
        memcpy(copy->results, recorded->results, recorded->n_results * sizeof(*copy->results));
        return copy;
}

void dra_release(
        struct dra_allocator *allocator, const char *uid, struct arena *arena, dra_allocator_done_fn *done, void *data)
{
        const struct dra_node *node = allocator->node;
        const struct dra_claim *recorded = dra_record_find(node->record, uid);
        struct allocating *allocating = allocating_new(allocator, NULL, arena, done, data);
        struct error err;

        allocating->destroys = true;
        if (node->is_closing) {
                dra_node_raise_closing(&err);
                allocating_finish(allocating, &err);
                return;
        }
        ledger_unclaim(node->options.ledger, uid);
        if (!recorded || !dra_claim_has_instances(recorded)) {
                allocating_finish(allocating, NULL);
                return;
        }
        allocating->claim = copy_recorded(recorded, arena);
        allocating_work(allocating, ALLOCATING_DESTROYING);
}

/* ---- CDI ---- */

int dra_allocator_write_cdi(const struct dra_allocator *allocator, const struct dra_claim *claim, struct error *err)
{
        const struct dra_node *node = allocator->node;

        node->options.repair_cdi(node->options.data);
        if (dra_metadata_write(node->options.cdi_files, node->metadata, node->driver, claim, err) < 0)
                return -1;
        return dra_claim_cdi_write(node->options.cdi_files, node->cdi_root, node->driver, claim, err);
}

int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err)
{
        const struct dra_node *node = allocator->node;

        if (dra_claim_cdi_remove(node->options.cdi_files, node->cdi_root, node->driver, uid, err) < 0)
                return -1;
        return dra_metadata_remove(node->options.cdi_files, node->metadata, uid, err);
}

/* ---- start and end ---- */

/* The first that waits for a plan or for the ledger; NULL: none. */
static struct allocating *find_refusable(const struct dra_allocator *allocator)
{
        LIST_FOR_EACH(link, &allocator->all) {
                struct allocating *allocating = container_of(link, struct allocating, link);

                if (allocating->state >= ALLOCATING_WAITING)
                        return allocating;
        }
        return NULL;
}

void dra_allocator_refuse(struct dra_allocator *allocator)
{
        struct allocating *allocating;
        struct error err;

        dra_node_raise_closing(&err);
        while ((allocating = find_refusable(allocator))) {
                if (allocating->state == ALLOCATING_BOOKING)
                        ledger_unclaim(allocator->node->options.ledger, allocating->claim->uid);
                allocating_finish(allocating, &err);
        }
}

struct dra_allocator *dra_allocator_new(
        const struct dra_node *node, const struct config *config, void (*on_released)(void *data), void *data)
{
        struct dra_allocator *allocator = xcalloc(1, sizeof(*allocator));

        allocator->node = node;
        allocator->on_released = on_released;
        allocator->data = data;
        list_init(&allocator->all);
        allocator->nvml = nvml_pool_new(&(struct nvml_pool_options){
                .loop = node->options.loop,
                .name = "dra-nvml",
                .library = config->driver.nvml_library,
                .driver_root = config->driver.mounted_root,
                .hang_ms = NVML_HANG_MS,
        });
        return allocator;
}

void dra_allocator_close(struct dra_allocator *allocator, void (*closed)(void *data), void *data)
{
        allocator->closed = closed;
        allocator->closed_data = data;
        close_nvml_if_idle(allocator);
}

struct dra_allocator *dra_allocator_free(struct dra_allocator *allocator)
{
        if (!allocator)
                return NULL;
        assert(list_is_empty(&allocator->all) && !allocator->nvml);
        free(allocator);
        return NULL;
}
