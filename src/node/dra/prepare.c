#include "node/dra/prepare.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "node/dra/claim_cdi.h"

enum preparing_state { PREPARING_BEGUN, PREPARING_READING, PREPARING_ALLOCATING, PREPARING_RELEASING };

struct dra_preparing {
        struct list link;
        struct dra_prepare *prepare;
        struct arena arena;
        enum preparing_state state;
        bool is_unprepare;
        struct dra_service_claim claim;
        struct dra_prepared_claim made; /* set once the claim is checked: what is or will be recorded */
        struct error failure; /* why a Prepare is undone; kind ERROR_NONE: an Unprepare, or no failure so far */
        dra_prepare_done_fn *done;
        void *data;
};

struct dra_prepare {
        struct dra_prepare_options options; /* its texts are in the arena */
        struct arena arena;
        struct dra_wanted_rules rules;
        struct list calls;
        struct dra_prepare_counts counts;
};

static const struct dra_prepare_node *node_of(const struct dra_preparing *preparing)
{
        return &preparing->prepare->options.node;
}

static void preparing_free(struct dra_preparing *preparing)
{
        list_remove(&preparing->link);
        arena_done(&preparing->arena);
        free(preparing);
}

/*
 * Sends the answer. The call is removed from the list before, because the answer may begin the next call of the same
 * claim.
 */
static void finish(struct dra_preparing *preparing, const struct dra_service_device *devices, size_t n_devices,
        const struct error *err)
{
        struct dra_prepare_counts *counts = &preparing->prepare->counts;

        if (preparing->is_unprepare)
                ++*(err ? &counts->unprepare_refused : &counts->unprepared);
        else
                ++*(err ? &counts->prepare_refused : &counts->prepared);
        list_remove(&preparing->link);
        preparing->done(devices, n_devices, err, preparing->data);
        preparing_free(preparing);
}

/* Answers with a failure: kubelet gets the first reason, which may be older than |err|. */
static void fail(struct dra_preparing *preparing, const struct error *err)
{
        finish(preparing, NULL, 0, preparing->failure.kind == ERROR_NONE ? err : &preparing->failure);
}

static void succeed(struct dra_preparing *preparing, const struct dra_prepared_claim *claim)
{
        struct dra_service_device *devices =
                ARENA_ARRAY(&preparing->arena, struct dra_service_device, claim->n_results);

        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_prepared_result *result = &claim->results[i];
                const char **ids = ARENA_ARRAY(&preparing->arena, const char *, 2);
                size_t n_ids = 0;

                if (result->unit_cdi_id)
                        ids[n_ids++] = result->unit_cdi_id;
                ids[n_ids++] = result->cdi_id;
                devices[i] = (struct dra_service_device){
                        .request_names = &result->request,
                        .n_request_names = 1,
                        .pool_name = result->pool ? result->pool : preparing->prepare->options.old_pool,
                        .device_name = result->device,
                        .cdi_device_ids = ids,
                        .n_cdi_device_ids = n_ids,
                        .share_id = result->share_id,
                };
        }
        finish(preparing, devices, claim->n_results, NULL);
}

/* ---- undo ---- */

/*
 * Removes the claim from the record only after everything else. Until then it is recorded as started, so that a claim
 * that is half removed does not count as prepared. This is written even if it is so in memory, because a write that
 * failed may have reached the disk.
 */
static void take_back(struct dra_preparing *preparing)
{
        const struct dra_prepare_node *node = node_of(preparing);
        struct dra_record *record = preparing->prepare->options.record;
        const struct dra_prepared_claim *recorded = dra_record_find(record, preparing->claim.uid);
        struct error err;

        if (recorded) {
                struct dra_prepared_claim started = *recorded;

                started.state = DRA_PREPARED_STARTED;
                if (dra_record_put(record, &started, &err) < 0) {
                        fail(preparing, &err);
                        return;
                }
        }
        if (node->remove_cdi(preparing->claim.uid, node->data, &err) < 0) {
                fail(preparing, &err);
                return;
        }
        preparing->state = PREPARING_RELEASING;
        node->release(preparing, preparing->claim.uid, node->data);
}

static void take_back_for(struct dra_preparing *preparing, const struct error *err)
{
        preparing->failure = *err;
        take_back(preparing);
}

void dra_prepare_released(struct dra_preparing *preparing)
{
        const struct dra_prepare_node *node = node_of(preparing);
        struct dra_record *record = preparing->prepare->options.record;
        bool was_recorded = dra_record_find(record, preparing->claim.uid) != NULL;
        struct error err;

        assert(preparing->state == PREPARING_RELEASING);
        if (dra_record_remove(record, preparing->claim.uid, &err) < 0)
                fail(preparing, &err);
        else if (preparing->failure.kind != ERROR_NONE)
                fail(preparing, &preparing->failure);
        else {
                if (was_recorded)
                        node->unprepared(&preparing->claim, node->data);
                finish(preparing, NULL, 0, NULL);
        }
}

void dra_prepare_refuse(struct dra_preparing *preparing, const struct error *err)
{
        assert(preparing->state != PREPARING_BEGUN);
        if (preparing->state == PREPARING_ALLOCATING)
                take_back_for(preparing, err);
        else
                fail(preparing, err);
}

/* ---- prepare ---- */

int dra_prepare_instances(struct dra_preparing *preparing, const struct dra_instance *instances, struct error *err)
{
        struct dra_prepared_claim *made = &preparing->made;
        struct dra_prepared_result *results =
                ARENA_ARRAY(&preparing->arena, struct dra_prepared_result, made->n_results);

        assert(preparing->state == PREPARING_ALLOCATING);
        for (size_t i = 0; i < made->n_results; i++) {
                results[i] = made->results[i];
                if (!results[i].has_instance)
                        continue;
                results[i].instance.state = instances[i].state;
                results[i].instance.uuid = arena_strdup(&preparing->arena, instances[i].uuid);
                results[i].unit = instances[i].uuid ? results[i].instance.uuid : results[i].instance.gpu;
        }
        made->results = results;
        return dra_record_put(preparing->prepare->options.record, made, err);
}

void dra_prepare_allocated(struct dra_preparing *preparing, const struct dra_allocated *allocated)
{
        const struct dra_prepare_node *node = node_of(preparing);
        struct dra_prepared_claim *made = &preparing->made;
        struct dra_prepared_result *results =
                ARENA_ARRAY(&preparing->arena, struct dra_prepared_result, made->n_results);
        struct error err;

        assert(preparing->state == PREPARING_ALLOCATING);
        for (size_t i = 0; i < made->n_results; i++) {
                results[i] = made->results[i];
                results[i].memory_bytes = allocated[i].memory_bytes;
                results[i].thread_percentage = allocated[i].thread_percentage;
                results[i].tier = allocated[i].tier;
                results[i].daemon = allocated[i].daemon;
                results[i].allocation = allocated[i].allocation;
                results[i].unit_cdi_id = allocated[i].unit_cdi_id;
                results[i].edits = allocated[i].edits;
        }
        made->results = results;
        made->state = DRA_PREPARED_DONE;
        if (dra_record_put(preparing->prepare->options.record, made, &err) < 0 ||
                node->write_cdi(made, node->data, &err) < 0)
                take_back_for(preparing, &err);
        else {
                node->prepared(made, node->data);
                succeed(preparing, made);
        }
}

/*
 * The device's name, and what distinguishes it from other results for the same device: the share ID; or the position
 * with admin access, which may be to a device that the claim also has without it.
 */
static const char *cdi_id_of(struct dra_preparing *preparing, const struct dra_claim *claim, size_t i)
{
        const struct dra_claim_result *result = &claim->results[i];
        const char *share = result->admin_access ? arena_printf(&preparing->arena, "admin-%zu", i) : result->share_id;

        return dra_claim_cdi_id(
                &preparing->arena, preparing->prepare->options.driver, claim->uid, result->device, share);
}

/* What an earlier try may have made of the candidate; NULL: nothing. */
static const struct dra_instance *find_instance(
        const struct dra_prepared_claim *recorded, const struct dra_instance *candidate)
{
        for (size_t i = 0; recorded && i < recorded->n_results; i++) {
                const struct dra_prepared_result *result = &recorded->results[i];

                if (result->has_instance && result->instance.profile_id == candidate->profile_id &&
                        result->instance.start == candidate->start && strcmp(result->instance.gpu, candidate->gpu) == 0)
                        return &result->instance;
        }
        return NULL;
}

static void add_instance(
        struct dra_preparing *preparing, const struct dra_device *device, struct dra_prepared_result *result)
{
        const struct dra_prepared_claim *recorded =
                dra_record_find(preparing->prepare->options.record, preparing->claim.uid);
        const struct dra_instance *earlier;

        result->has_instance = true;
        result->instance =
                (struct dra_instance){.gpu = result->unit, .profile_id = device->profile->id, .start = device->start};
        earlier = find_instance(recorded, &result->instance);
        if (!earlier)
                return;
        result->instance.state = earlier->state;
        result->instance.uuid = arena_strdup(&preparing->arena, earlier->uuid);
}

/* What was made for the claim is not of what it has now. */
static bool has_others(const struct dra_preparing *preparing, const struct dra_prepared_claim *recorded)
{
        for (size_t i = 0; recorded && i < recorded->n_results; i++)
                if (recorded->results[i].has_instance && recorded->results[i].instance.state != DRA_INSTANCE_NONE &&
                        !find_instance(&preparing->made, &recorded->results[i].instance))
                        return true;
        return false;
}

static void set_made(struct dra_preparing *preparing, const struct dra_claim *claim, const struct dra_wanted *wanted)
{
        struct dra_prepared_result *results =
                ARENA_ARRAY(&preparing->arena, struct dra_prepared_result, claim->n_results);

        for (size_t i = 0; i < claim->n_results; i++) {
                results[i] = (struct dra_prepared_result){
                        .pool = claim->results[i].pool,
                        .request = claim->results[i].request,
                        .device = claim->results[i].device,
                        .unit = arena_strdup(&preparing->arena, wanted[i].device->uuid),
                        .share_id = claim->results[i].share_id,
                        .is_admin = claim->results[i].admin_access,
                        .cdi_id = cdi_id_of(preparing, claim, i),
                };
                if (wanted[i].device->kind == DRA_DEVICE_MIG_CANDIDATE)
                        add_instance(preparing, wanted[i].device, &results[i]);
        }
        preparing->made = (struct dra_prepared_claim){
                .uid = claim->uid,
                .namespace = claim->namespace,
                .name = claim->name,
                .state = DRA_PREPARED_STARTED,
                .results = results,
                .n_results = claim->n_results,
        };
}

static int check(struct dra_preparing *preparing, const json_t *object, struct dra_claim *ret_claim,
        const struct dra_wanted **ret_wanted, struct error *err)
{
        const struct dra_prepare *prepare = preparing->prepare;
        const struct dra_claim_asked asked = {
                .namespace = preparing->claim.namespace,
                .name = preparing->claim.name,
                .uid = preparing->claim.uid,
                .driver = prepare->options.driver,
                .pool = prepare->options.pool,
                .old_pool = prepare->options.old_pool,
        };

        if (dra_claim_read(ret_claim, &preparing->arena, object, &asked, err) < 0)
                return -1;
        if (dra_wanted_read(ret_wanted, &preparing->arena, ret_claim, &prepare->rules, err) < 0)
                return error_prefix(err, "ResourceClaim %s/%s", asked.namespace, asked.name);
        return 0;
}

void dra_prepare_read(struct dra_preparing *preparing, const json_t *object)
{
        const struct dra_prepare_node *node = node_of(preparing);
        const struct dra_wanted *wanted;
        struct dra_claim claim;
        struct error err;

        assert(preparing->state == PREPARING_READING);
        if (check(preparing, object, &claim, &wanted, &err) < 0) {
                fail(preparing, &err);
                return;
        }
        set_made(preparing, &claim, wanted);
        if (has_others(preparing, dra_record_find(preparing->prepare->options.record, claim.uid))) {
                error_raise(&err, ERROR_UNAVAILABLE,
                        "the claim was allocated anew: the MIG devices that were made for it before are destroyed first");
                take_back_for(preparing, &err);
                return;
        }
        if (node->remove_cdi(claim.uid, node->data, &err) < 0 ||
                dra_record_put(preparing->prepare->options.record, &preparing->made, &err) < 0) {
                fail(preparing, &err);
                return;
        }
        preparing->state = PREPARING_ALLOCATING;
        node->allocate(preparing, &claim, wanted, node->data);
}

/* ---- calls ---- */

/*
 * Begins a call. While it runs, this process has the lock, so no other process changes the record (node/dra/service.h).
 * Returns NULL if the record cannot be read: the call is answered then.
 */
static struct dra_preparing *begin(struct dra_prepare *prepare, const struct dra_service_claim *claim,
        bool is_unprepare, dra_prepare_done_fn *done, void *data)
{
        struct dra_preparing *preparing = xcalloc(1, sizeof(*preparing));
        bool is_alone = list_is_empty(&prepare->calls);
        struct error err;
        int result;

        LIST_FOR_EACH(link, &prepare->calls) {
                assert(strcmp(container_of(link, struct dra_preparing, link)->claim.uid, claim->uid) != 0);
        }
        preparing->prepare = prepare;
        preparing->is_unprepare = is_unprepare;
        preparing->claim.namespace = arena_strdup(&preparing->arena, claim->namespace);
        preparing->claim.uid = arena_strdup(&preparing->arena, claim->uid);
        preparing->claim.name = arena_strdup(&preparing->arena, claim->name);
        preparing->done = done;
        preparing->data = data;
        list_append(&prepare->calls, &preparing->link);
        result = is_alone ? dra_record_refresh(prepare->options.record, &err) : 0;
        if (result == DRA_RECORD_BROKEN)
                log_error("what is prepared for DRA claims is unknown; kubelet asks again for what it needs",
                        LOG_ERR(&err));
        if (result < 0) {
                fail(preparing, &err);
                return NULL;
        }
        return preparing;
}

void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_service_claim *claim, dra_prepare_done_fn *done, void *data)
{
        const struct dra_prepare_node *node = &prepare->options.node;
        struct dra_preparing *preparing = begin(prepare, claim, false, done, data);
        const struct dra_prepared_claim *recorded;
        struct error err;

        if (!preparing)
                return;
        recorded = dra_record_find(prepare->options.record, preparing->claim.uid);
        if (!recorded || recorded->state != DRA_PREPARED_DONE) {
                preparing->state = PREPARING_READING;
                node->read_claim(preparing, &preparing->claim, node->data);
        } else if (node->write_cdi(recorded, node->data, &err) < 0)
                fail(preparing, &err);
        else
                succeed(preparing, recorded);
}

void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_service_claim *claim, dra_prepare_done_fn *done, void *data)
{
        struct dra_preparing *preparing = begin(prepare, claim, true, done, data);

        if (preparing)
                take_back(preparing);
}

struct dra_prepare *dra_prepare_new(const struct dra_prepare_options *options)
{
        struct dra_prepare *prepare = xcalloc(1, sizeof(*prepare));

        prepare->options = *options;
        prepare->options.driver = arena_strdup(&prepare->arena, options->driver);
        prepare->options.pool = arena_strdup(&prepare->arena, options->pool);
        prepare->options.old_pool = arena_strdup(&prepare->arena, options->old_pool);
        list_init(&prepare->calls);
        return prepare;
}

struct dra_prepare *dra_prepare_free(struct dra_prepare *prepare)
{
        if (!prepare)
                return NULL;
        while (!list_is_empty(&prepare->calls))
                preparing_free(container_of(prepare->calls.next, struct dra_preparing, link));
        arena_done(&prepare->arena);
        free(prepare);
        return NULL;
}

void dra_prepare_set_rules(struct dra_prepare *prepare, const struct dra_wanted_rules *rules)
{
        prepare->rules = *rules;
}

struct dra_prepare_counts dra_prepare_counts(const struct dra_prepare *prepare)
{
        return prepare->counts;
}

size_t dra_prepare_calls(const struct dra_prepare *prepare)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &prepare->calls) {
                count++;
        }
        return count;
}

/* ---- backend of node/dra/service.h ---- */

static void answer_work(const struct dra_service_device *devices, size_t n_devices, const struct error *err, void *data)
{
        if (err)
                dra_work_fail(data, err);
        else
                dra_work_succeed(data, devices, n_devices);
}

static void prepare_work(struct dra_work *work, const struct dra_service_claim *claim, void *data)
{
        dra_prepare_claim(data, claim, answer_work, work);
}

static void unprepare_work(struct dra_work *work, const struct dra_service_claim *claim, void *data)
{
        dra_unprepare_claim(data, claim, answer_work, work);
}

static void abandon_work(const struct dra_service_claim *claim, void *data)
{
        const struct dra_prepare *prepare = data;
        const struct dra_prepare_node *node = &prepare->options.node;

        LIST_FOR_EACH(link, &prepare->calls) {
                struct dra_preparing *preparing = container_of(link, struct dra_preparing, link);

                if (preparing->state == PREPARING_READING && strcmp(preparing->claim.uid, claim->uid) == 0) {
                        node->abandon(preparing, node->data);
                        return;
                }
        }
}

static void settle_record(void *data)
{
        struct dra_prepare *prepare = data;

        dra_record_settle(prepare->options.record);
}

struct dra_service_backend dra_prepare_backend(struct dra_prepare *prepare)
{
        return (struct dra_service_backend){.prepare = prepare_work,
                .unprepare = unprepare_work,
                .abandon = abandon_work,
                .idle = settle_record,
                .data = prepare};
}
