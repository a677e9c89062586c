/*
 * The GPU instances of the MIG candidates of a claim: made for a Prepare, destroyed for an Unprepare, each by requests
 * to processes that have NVML (gpu/nvml_pool.h): one for each GPU, all at once, so that changes of one GPU are made in
 * the order in which they were asked for. What was made or destroyed is waited for in the inventory: only then do plan,
 * CDI and ResourceSlices agree with the GPU.
 *
 *   LOOKING ──► recorded ──► MAKING ──► recorded ──┐
 *      └──── all is there ─────────────────────────┴──► WAITING ──► done        DESTROYING ──► WAITING ──► done
 *
 * A process that hangs is killed, and its claim's call fails. What it may have made stays recorded as being made.
 */
#include "node/dra/driver_parts.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "node/dra/instances.h"

#define WAIT_MS UINT64_C(20000) /* until the inventory shows what was made: reading it takes a second or two */

enum change_state { CHANGE_LOOKING, CHANGE_MAKING, CHANGE_DESTROYING, CHANGE_WAITING };

struct change {
        struct list link; /* driver->changes */
        struct dra_driver *driver;
        struct dra_preparing *preparing;
        struct arena arena;
        struct dra_instance *instances; /* one a result; gpu NULL: it is no candidate */
        size_t n_instances;
        bool destroys;
        enum change_state state;
        struct part *parts; /* in all states but WAITING */
        size_t n_open;      /* of them, without an answer */
        struct error err;   /* kind ERROR_NONE: nothing failed */
        uv_timer_t timer;
        dra_driver_changed_fn *done;
        void *data;
};

/* What is asked about one GPU. */
struct part {
        struct nvml_request request;
        struct change *change;
};

static void on_change_closed(uv_handle_t *handle)
{
        struct change *change = handle->data;

        arena_done(&change->arena);
        free(change);
}

static void change_finish(struct change *change, const struct error *err)
{
        list_remove(&change->link);
        change->done(err, change->instances, change->data);
        uv_close((uv_handle_t *)&change->timer, on_change_closed);
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

static int work_on(const struct nvml *nvml, enum change_state state, struct dra_instance *instance, struct arena *arena,
        struct error *err)
{
        switch (state) {
        case CHANGE_LOOKING:
                return dra_instance_look(nvml, instance, arena, err);
        case CHANGE_MAKING:
                return instance->state == DRA_INSTANCE_MAKING ? dra_instance_make(nvml, instance, arena, err) : 0;
        case CHANGE_DESTROYING:
                return dra_instance_destroy(nvml, instance, arena, err);
        case CHANGE_WAITING:
                break;
        }
        return 0;
}

/* What became of the instances is the answer with an error, too. */
static int serve_change(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct error problem = {.kind = ERROR_NONE};
        struct dra_instance *instances = NULL;
        const struct nvml *nvml;
        enum change_state state;
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
        else if (state == CHANGE_MAKING)
                for (i++; i < count; i++) /* not tried */
                        if (instances[i].state == DRA_INSTANCE_MAKING)
                                instances[i].state = DRA_INSTANCE_NONE;
        PACK(answer, problem);
        pack_instances(answer, &instances, &count);
        return 0;
}

/* ---- on the loop ---- */

static bool is_all_as_wanted(const struct change *change)
{
        const struct plan *plan = change->driver->plan;

        for (size_t i = 0; plan && i < change->n_instances; i++) {
                const char *uuid = change->instances[i].uuid;

                if (!uuid)
                        continue;
                if (change->destroys ? inventory_has(plan->inventory, uuid)
                                     : !plan->claimable || !resource_find_unit(plan->claimable, uuid))
                        return false;
        }
        return plan;
}

static void on_change_timer(uv_timer_t *timer)
{
        struct change *change = timer->data;
        struct error err;

        if (change->destroys) {
                log_warn("a MIG device that was destroyed is still among the GPUs");
                change_finish(change, NULL);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE,
                "a MIG device was made for the claim, and is not in force on this node after %ju s: the agent's log says why",
                (uintmax_t)(WAIT_MS / 1000));
        change_finish(change, &err);
}

static void change_wait(struct change *change)
{
        change->state = CHANGE_WAITING;
        if (is_all_as_wanted(change)) {
                change_finish(change, NULL);
                return;
        }
        uv_timer_start(&change->timer, on_change_timer, WAIT_MS, 0);
        change->driver->options.rescan(change->driver->options.data);
}

/* The next instance on |gpu| from |*i| on; NULL: there is no more. */
static struct dra_instance *next_on(const struct change *change, const char *gpu, size_t *i)
{
        while (*i < change->n_instances) {
                struct dra_instance *instance = &change->instances[(*i)++];

                if (instance->gpu && strcmp(instance->gpu, gpu) == 0)
                        return instance;
        }
        return NULL;
}

static void on_part_done(struct nvml_request *request, const struct error *err, struct pack *answer);

static void ask_about(struct change *change, const char *gpu)
{
        struct dra_instance *on_gpu = ARENA_ARRAY(&change->arena, struct dra_instance, change->n_instances);
        struct part *part = &change->parts[change->n_open++];
        const struct dra_instance *instance;
        struct pack pack;
        size_t count = 0;

        for (size_t i = 0; (instance = next_on(change, gpu, &i));)
                on_gpu[count++] = *instance;
        part->change = change;
        nvml_request_init(&part->request, serve_change, gpu, on_part_done);
        pack = pack_writer(&part->request.question);
        PACK(&pack, change->state);
        pack_instances(&pack, &on_gpu, &count);
        nvml_pool_ask(change->driver->nvml, &part->request);
}

static void change_work(struct change *change, enum change_state state)
{
        change->state = state;
        change->err.kind = ERROR_NONE;
        for (size_t i = 0; i < change->n_instances; i++) {
                const struct dra_instance *instance = &change->instances[i];
                size_t first = 0;

                if (instance->gpu && next_on(change, instance->gpu, &first) == instance)
                        ask_about(change, instance->gpu);
        }
        assert(change->n_open > 0);
        change->driver->n_working++;
}

/* Nothing is made before the record says so. */
static int begin_making(struct change *change, struct error *err)
{
        bool is_there = true;

        for (size_t i = 0; i < change->n_instances; i++)
                if (change->instances[i].gpu && change->instances[i].state == DRA_INSTANCE_NONE) {
                        change->instances[i].state = DRA_INSTANCE_MAKING;
                        is_there = false;
                }
        if (dra_prepare_instances(change->preparing, change->instances, err) < 0)
                return -1;
        if (is_there)
                change_wait(change);
        else
                change_work(change, CHANGE_MAKING);
        return 0;
}

static void report(const struct change *change)
{
        for (size_t i = 0; i < change->n_instances; i++)
                if (change->instances[i].uuid)
                        log_info(change->destroys ? "a MIG device of a DRA claim is destroyed"
                                                  : "a MIG device is made for a DRA claim",
                                LOG_STR("uuid", change->instances[i].uuid), LOG_STR("gpu", change->instances[i].gpu),
                                LOG_UINT("start", change->instances[i].start));
}

/* What was made is recorded even if it was refused in the end: then it is taken back. */
static void change_worked(struct change *change)
{
        struct dra_driver *driver = change->driver;
        struct error err = change->err;
        struct error unrecorded;

        driver->n_working--;
        if (change->state == CHANGE_MAKING &&
                dra_prepare_instances(change->preparing, change->instances, &unrecorded) < 0 && err.kind == ERROR_NONE)
                err = unrecorded;
        if (err.kind == ERROR_NONE && driver->is_closing)
                dra_driver_refuse_for_closing(&err);
        if (err.kind == ERROR_NONE && change->state == CHANGE_LOOKING) {
                if (begin_making(change, &err) < 0)
                        change_finish(change, &err);
        } else if (err.kind == ERROR_NONE) {
                report(change);
                change_wait(change);
        } else {
                change_finish(change, &err);
        }
        if (driver->n_working == 0)
                nvml_pool_renew(driver->nvml); /* who holds the library keeps a driver from being replaced */
        dra_driver_free_if_closed(driver);
}

static int take_answer(struct change *change, const char *gpu, struct pack *answer, struct error *err)
{
        struct dra_instance *answered = NULL;
        struct dra_instance *instance;
        struct error problem;
        size_t n_answered;
        size_t count = 0;

        PACK(answer, problem);
        pack_instances(answer, &answered, &n_answered);
        if (!pack_end(answer))
                return error_set(err, ERROR_INTERNAL, "an answer about MIG devices is not whole");
        for (size_t i = 0; count < n_answered && (instance = next_on(change, gpu, &i)); count++) {
                instance->state = answered[count].state;
                instance->uuid = arena_strdup(&change->arena, answered[count].uuid);
        }
        if (problem.kind == ERROR_NONE)
                return 0;
        *err = problem;
        return -1;
}

static void on_part_done(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct part *part = container_of(request, struct part, request);
        struct change *change = part->change;
        struct error problem = {.kind = ERROR_NONE};

        if (!err)
                (void)!take_answer(change, request->gpu, answer, &problem);
        else if (err->kind == ERROR_TIMEOUT)
                error_raise(
                        &problem, ERROR_UNAVAILABLE, "MIG devices can neither be made nor destroyed: %s", err->text);
        else
                problem = *err;
        if (change->err.kind == ERROR_NONE)
                change->err = problem;
        if (--change->n_open == 0)
                change_worked(change);
}

void dra_driver_change_instances(struct dra_driver *driver, struct dra_preparing *preparing,
        const struct dra_prepared_claim *recorded, bool destroys, dra_driver_changed_fn *done, void *data)
{
        struct change *change = xcalloc(1, sizeof(*change));

        change->driver = driver;
        change->preparing = preparing;
        change->destroys = destroys;
        change->done = done;
        change->data = data;
        change->n_instances = recorded->n_results;
        change->instances = ARENA_ARRAY(&change->arena, struct dra_instance, recorded->n_results);
        change->parts = ARENA_ARRAY(&change->arena, struct part, recorded->n_results);
        for (size_t i = 0; i < recorded->n_results; i++)
                if (recorded->results[i].has_instance) {
                        change->instances[i] = recorded->results[i].instance;
                        change->instances[i].gpu = arena_strdup(&change->arena, change->instances[i].gpu);
                        change->instances[i].uuid = arena_strdup(&change->arena, change->instances[i].uuid);
                }
        uv_timer_init(driver->options.loop, &change->timer);
        change->timer.data = change;
        list_append(&driver->changes, &change->link);
        change_work(change, destroys ? CHANGE_DESTROYING : CHANGE_LOOKING);
}

static struct change *find_waiting(const struct dra_driver *driver, bool is_over)
{
        LIST_FOR_EACH(link, &driver->changes) {
                struct change *change = container_of(link, struct change, link);

                if (change->state == CHANGE_WAITING && (is_over || is_all_as_wanted(change)))
                        return change;
        }
        return NULL;
}

void dra_driver_instances_go_on(struct dra_driver *driver)
{
        struct change *change;

        while ((change = find_waiting(driver, false)))
                change_finish(change, NULL);
}

void dra_driver_refuse_instances(struct dra_driver *driver)
{
        struct change *change;
        struct error err;

        dra_driver_refuse_for_closing(&err);
        while ((change = find_waiting(driver, true)))
                change_finish(change, &err);
}

/* ---- what is there ---- */

bool dra_driver_has_closed_nvml(const struct dra_driver *driver)
{
        return !driver || nvml_pool_has_ended(driver->nvml);
}

bool dra_driver_has_candidates(const struct dra_prepared_claim *recorded)
{
        for (size_t i = 0; i < recorded->n_results; i++)
                if (recorded->results[i].has_instance)
                        return true;
        return false;
}

bool dra_driver_has_instances(const struct dra_prepared_claim *recorded)
{
        for (size_t i = 0; i < recorded->n_results; i++)
                if (recorded->results[i].has_instance && recorded->results[i].instance.state != DRA_INSTANCE_NONE)
                        return true;
        return false;
}

size_t dra_driver_instances(const struct dra_driver *driver, struct arena *arena, const struct dra_instance **ret)
{
        struct dra_instance *instances =
                ARENA_ARRAY(arena, struct dra_instance, dra_record_count(driver->record) * DRA_CLAIM_RESULTS_MAX);
        size_t count = 0;

        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *claim = dra_record_at(driver->record, i);

                for (size_t j = 0; j < claim->n_results; j++) {
                        struct dra_instance *instance = &instances[count];

                        if (!claim->results[j].has_instance || claim->results[j].instance.state == DRA_INSTANCE_NONE)
                                continue;
                        *instance = claim->results[j].instance;
                        instance->gpu = arena_strdup(arena, instance->gpu);
                        instance->uuid = arena_strdup(arena, instance->uuid);
                        count++;
                }
        }
        *ret = instances;
        return count;
}

bool dra_driver_has_made(const struct dra_driver *driver, const char *gpu)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_instance *instances;
        size_t count = driver ? dra_driver_instances(driver, &arena, &instances) : 0;

        for (size_t i = 0; i < count; i++)
                if (strcmp(instances[i].gpu, gpu) == 0)
                        return true;
        return false;
}
