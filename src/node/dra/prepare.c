// SPDX-License-Identifier: Apache-2.0
#include "node/dra/prepare.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "node/dra/claim_cdi.h"

#define MIB ((uint64_t)1024 * 1024)

enum preparing_state { PREPARING_BEGUN, PREPARING_READING, PREPARING_ALLOCATING, PREPARING_RELEASING };

/* One call that is not answered. */
struct preparing {
        struct list link;
        struct dra_prepare *prepare;
        struct arena arena;
        enum preparing_state state;
        bool is_unprepare;
        struct dra_claim claim; /* only named until it is read; then what is or will be recorded */
        struct error failure;   /* why a Prepare is undone; kind ERROR_NONE: an Unprepare, or no failure so far */
        dra_prepare_done_fn *done;
        void *data;
};

struct dra_prepare {
        const struct dra_node *node;
        struct dra_readings *readings;
        struct dra_allocator *allocator;
        struct dra_status_sender *status;
        struct list calls;
        struct dra_prepare_counts counts;
};

static void preparing_free(struct preparing *preparing)
{
        list_remove(&preparing->link);
        arena_done(&preparing->arena);
        free(preparing);
}

/*
 * Sends the answer. The call is removed from the list before, because the answer may begin the next call of the same
 * claim.
 */
static void prepare_finish(struct preparing *preparing, const struct dra_claim *claim, const struct error *err)
{
        struct dra_prepare_counts *counts = &preparing->prepare->counts;

        if (preparing->is_unprepare)
                ++*(err ? &counts->unprepare_refused : &counts->unprepared);
        else
                ++*(err ? &counts->prepare_refused : &counts->prepared);
        list_remove(&preparing->link);
        preparing->done(claim, err, preparing->data);
        preparing_free(preparing);
}

/* Answers with a failure: kubelet gets the first reason, which may be older than |err|. */
static void prepare_fail(struct preparing *preparing, const struct error *err)
{
        prepare_finish(preparing, NULL, preparing->failure.kind == ERROR_NONE ? err : &preparing->failure);
}

/* ---- undo ---- */

static void prepare_on_released(const struct error *failure, void *data)
{
        struct preparing *preparing = data;
        const struct dra_prepare *prepare = preparing->prepare;
        bool was_recorded = dra_record_find(prepare->node->record, preparing->claim.uid) != NULL;
        struct error err;

        assert(preparing->state == PREPARING_RELEASING);
        if (!failure && dra_record_remove(prepare->node->record, preparing->claim.uid, &err) < 0)
                failure = &err;
        if (!failure && preparing->failure.kind != ERROR_NONE)
                failure = &preparing->failure;
        if (failure) {
                prepare_fail(preparing, failure);
                return;
        }
        if (was_recorded)
                dra_status_send(prepare->status, &preparing->claim, false);
        prepare_finish(preparing, NULL, NULL);
}

/*
 * Removes the claim from the record only after everything else. Until then it is recorded as started, so that a claim
 * that is half removed does not count as prepared. This is written even if it is so in memory, because a write that
 * failed may have reached the disk.
 */
static void prepare_take_back(struct preparing *preparing)
{
        const struct dra_prepare *prepare = preparing->prepare;
        const struct dra_claim *recorded = dra_record_find(prepare->node->record, preparing->claim.uid);
        struct error err;

        if (recorded) {
                struct dra_claim started = *recorded;

                started.state = DRA_CLAIM_STARTED;
                if (dra_record_put(prepare->node->record, &started, &err) < 0) {
                        prepare_fail(preparing, &err);
                        return;
                }
        }
        if (dra_allocator_remove_cdi(prepare->allocator, preparing->claim.uid, &err) < 0) {
                prepare_fail(preparing, &err);
                return;
        }
        preparing->state = PREPARING_RELEASING;
        dra_release(prepare->allocator, preparing->claim.uid, &preparing->arena, prepare_on_released, preparing);
}

static void take_back_for(struct preparing *preparing, const struct error *err)
{
        preparing->failure = *err;
        prepare_take_back(preparing);
}

/* ---- prepare ---- */

static void on_allocated(const struct error *failure, void *data)
{
        struct preparing *preparing = data;
        const struct dra_prepare *prepare = preparing->prepare;
        struct error err;

        assert(preparing->state == PREPARING_ALLOCATING);
        preparing->claim.state = DRA_CLAIM_PREPARED;
        if (!failure && (dra_record_put(prepare->node->record, &preparing->claim, &err) < 0 ||
                                dra_allocator_write_cdi(prepare->allocator, &preparing->claim, &err) < 0))
                failure = &err;
        if (failure) {
                take_back_for(preparing, failure);
                return;
        }
        dra_status_send(prepare->status, &preparing->claim, true);
        prepare_finish(preparing, &preparing->claim, NULL);
}

/*
 * The device's name, and what distinguishes it from other results for the same device: the share ID; or the position
 * with admin access, which may be to a device that the claim also has without it.
 */
static const char *cdi_id_of(struct preparing *preparing, size_t i)
{
        const struct dra_result *result = &preparing->claim.results[i];
        const char *share = result->is_admin ? arena_printf(&preparing->arena, "admin-%zu", i) : result->share_id;

        return dra_claim_cdi_id(
                &preparing->arena, preparing->prepare->node->driver, preparing->claim.uid, result->device, share);
}

/* The instance that an earlier try may have made of the candidate; NULL: none. */
static const struct dra_instance *find_instance(const struct dra_claim *recorded, const struct dra_instance *candidate)
{
        for (size_t i = 0; recorded && i < recorded->n_results; i++) {
                const struct dra_result *result = &recorded->results[i];

                if (result->has_instance && result->instance.profile_id == candidate->profile_id &&
                        result->instance.start == candidate->start && strcmp(result->instance.gpu, candidate->gpu) == 0)
                        return &result->instance;
        }
        return NULL;
}

static void add_instance(struct preparing *preparing, struct dra_result *result)
{
        const struct dra_claim *recorded = dra_record_find(preparing->prepare->node->record, preparing->claim.uid);
        const struct dra_instance *earlier;

        result->has_instance = true;
        result->instance = (struct dra_instance){
                .gpu = result->unit, .profile_id = result->offered->profile->id, .start = result->offered->start};
        earlier = find_instance(recorded, &result->instance);
        if (!earlier)
                return;
        result->instance.state = earlier->state;
        result->instance.uuid = arena_strdup(&preparing->arena, earlier->uuid);
}

/* Whether something was made for the claim that does not belong to what it has now. */
static bool has_others(const struct preparing *preparing, const struct dra_claim *recorded)
{
        for (size_t i = 0; recorded && i < recorded->n_results; i++)
                if (dra_result_has_instance(&recorded->results[i]) &&
                        !find_instance(&preparing->claim, &recorded->results[i].instance))
                        return true;
        return false;
}

/* Adds to what the results want how it is recorded. */
static void set_recorded(struct preparing *preparing)
{
        for (size_t i = 0; i < preparing->claim.n_results; i++) {
                struct dra_result *result = &preparing->claim.results[i];

                result->unit = arena_strdup(&preparing->arena, result->unit);
                result->memory_bytes -= result->memory_bytes % MIB;
                result->cdi_id = cdi_id_of(preparing, i);
                if (result->offered->kind == DRA_DEVICE_MIG_CANDIDATE)
                        add_instance(preparing, result);
        }
}

static void prepare_on_read(const struct error *failure, void *data)
{
        struct preparing *preparing = data;
        const struct dra_prepare *prepare = preparing->prepare;
        struct error err;

        assert(preparing->state == PREPARING_READING);
        if (failure) {
                prepare_fail(preparing, failure);
                return;
        }
        set_recorded(preparing);
        if (has_others(preparing, dra_record_find(prepare->node->record, preparing->claim.uid))) {
                error_raise(&err, ERROR_UNAVAILABLE,
                        "the claim was allocated anew: the MIG devices that were made for it before are destroyed first");
                take_back_for(preparing, &err);
                return;
        }
        if (dra_allocator_remove_cdi(prepare->allocator, preparing->claim.uid, &err) < 0 ||
                dra_record_put(prepare->node->record, &preparing->claim, &err) < 0) {
                prepare_fail(preparing, &err);
                return;
        }
        preparing->state = PREPARING_ALLOCATING;
        dra_allocate(prepare->allocator, &preparing->claim, &preparing->arena, on_allocated, preparing);
}

/* ---- calls ---- */

/*
 * Begins a call. While it runs, this process has the lock, so no other process changes the record (node/dra/service.h).
 * Returns NULL if the record cannot be read: the call is answered then.
 */
static struct preparing *dra_prepare_begin(struct dra_prepare *prepare, const struct dra_claim *claim,
        bool is_unprepare, dra_prepare_done_fn *done, void *data)
{
        struct preparing *preparing = xcalloc(1, sizeof(*preparing));
        bool is_alone = list_is_empty(&prepare->calls);
        struct error err;
        int result;

        LIST_FOR_EACH(link, &prepare->calls) {
                assert(strcmp(container_of(link, struct preparing, link)->claim.uid, claim->uid) != 0);
        }
        preparing->prepare = prepare;
        preparing->is_unprepare = is_unprepare;
        preparing->claim = *claim;
        preparing->done = done;
        preparing->data = data;
        list_append(&prepare->calls, &preparing->link);
        result = is_alone ? dra_record_refresh(prepare->node->record, &err) : 0;
        if (result == DRA_RECORD_BROKEN)
                log_error("what is prepared for DRA claims is unknown; kubelet asks again for what it needs",
                        LOG_ERR(&err));
        if (result < 0) {
                prepare_fail(preparing, &err);
                return NULL;
        }
        return preparing;
}

void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        struct preparing *preparing = dra_prepare_begin(prepare, claim, false, done, data);
        const struct dra_claim *recorded;
        struct error err;

        if (!preparing)
                return;
        recorded = dra_record_find(prepare->node->record, preparing->claim.uid);
        if (!recorded || recorded->state != DRA_CLAIM_PREPARED) {
                preparing->state = PREPARING_READING;
                dra_reading_begin(prepare->readings, &preparing->claim, &preparing->arena, prepare_on_read, preparing);
        } else if (dra_allocator_write_cdi(prepare->allocator, recorded, &err) < 0)
                prepare_fail(preparing, &err);
        else
                prepare_finish(preparing, recorded, NULL);
}

void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        struct preparing *preparing = dra_prepare_begin(prepare, claim, true, done, data);

        if (preparing)
                prepare_take_back(preparing);
}

struct dra_prepare *dra_prepare_new(const struct dra_node *node, struct dra_readings *readings,
        struct dra_allocator *allocator, struct dra_status_sender *status)
{
        struct dra_prepare *prepare = xcalloc(1, sizeof(*prepare));

        prepare->node = node;
        prepare->readings = readings;
        prepare->allocator = allocator;
        prepare->status = status;
        list_init(&prepare->calls);
        return prepare;
}

struct dra_prepare *dra_prepare_free(struct dra_prepare *prepare)
{
        if (!prepare)
                return NULL;
        while (!list_is_empty(&prepare->calls))
                preparing_free(container_of(prepare->calls.next, struct preparing, link));
        free(prepare);
        return NULL;
}

struct dra_prepare_counts dra_prepare_counts(const struct dra_prepare *prepare)
{
        return prepare->counts;
}

void dra_prepare_abandon(struct dra_prepare *prepare, const struct dra_claim *claim)
{
        LIST_FOR_EACH(link, &prepare->calls) {
                struct preparing *preparing = container_of(link, struct preparing, link);

                if (preparing->state == PREPARING_READING && strcmp(preparing->claim.uid, claim->uid) == 0) {
                        dra_reading_abandon(prepare->readings, preparing);
                        return;
                }
        }
}

void dra_prepare_settle(struct dra_prepare *prepare)
{
        dra_record_settle(prepare->node->record);
}
