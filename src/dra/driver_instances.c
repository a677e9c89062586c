/*
 * The GPU instances of the MIG candidates of a claim: made for a Prepare, destroyed for an Unprepare, each by jobs on
 * NVML's own thread (gpu/nvml_queue.h), one after the other. What was made or destroyed is waited for in the inventory:
 * only then do plan, CDI and ResourceSlices agree with the GPU.
 *
 *   LOOKING ──► recorded ──► MAKING ──► recorded ──┐
 *      └──── all is there ─────────────────────────┴──► WAITING ──► done        DESTROYING ──► WAITING ──► done
 *
 * A job that hangs keeps its claim's call, the lock of dra/service.h and the driver: nobody else may take up what it
 * has in hand. Calls of other claims are refused meanwhile.
 */
#include "dra/driver_parts.h"

#include <string.h>

#include "base/log.h"
#include "dra/instances.h"
#include "gpu/hangs.h"
#include "gpu/nvml_queue.h"

#define WAIT_MS UINT64_C(20000) /* until the inventory shows what was made: reading it takes a second or two */
#define HANG_TEXT_SIZE 256

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
        struct nvml_job job; /* in all states but WAITING */
        struct error err;    /* kind ERROR_NONE: nothing failed */
        uv_timer_t timer;
        dra_driver_changed_fn *done;
        void *data;
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

/* ---- on NVML's thread ---- */

static int work_on(struct change *change, struct dra_instance *instance, const struct nvml *nvml)
{
        switch (change->state) {
        case CHANGE_LOOKING:
                return dra_instance_look(nvml, instance, &change->arena, &change->err);
        case CHANGE_MAKING:
                return instance->state == DRA_INSTANCE_MAKING
                               ? dra_instance_make(nvml, instance, &change->arena, &change->err)
                               : 0;
        case CHANGE_DESTROYING:
                return dra_instance_destroy(nvml, instance, &change->arena, &change->err);
        case CHANGE_WAITING:
                break;
        }
        return 0;
}

static void work_change(struct nvml_job *job, const struct nvml *nvml, const struct error *err)
{
        struct change *change = container_of(job, struct change, job);
        size_t i = 0;

        change->err = (struct error){.kind = ERROR_NONE};
        if (!nvml) {
                change->err = *err;
                return;
        }
        while (i < change->n_instances &&
                (!change->instances[i].gpu || work_on(change, &change->instances[i], nvml) == 0))
                i++;
        if (i == change->n_instances)
                change->err.kind = ERROR_NONE;
        else if (change->state == CHANGE_MAKING)
                for (i++; i < change->n_instances; i++) /* not tried */
                        if (change->instances[i].state == DRA_INSTANCE_MAKING)
                                change->instances[i].state = DRA_INSTANCE_NONE;
        job->reopen = true; /* who holds the library keeps a driver from being replaced */
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

static void on_change_worked(struct nvml_job *job);

static void change_work(struct change *change, enum change_state state)
{
        change->state = state;
        change->job.work = work_change;
        change->job.done = on_change_worked;
        change->driver->n_jobs++;
        nvml_queue_add(change->driver->nvml, &change->job);
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
static void on_change_worked(struct nvml_job *job)
{
        struct change *change = container_of(job, struct change, job);
        struct dra_driver *driver = change->driver;
        struct error err = change->err;
        struct error unrecorded;

        driver->n_jobs--;
        if (change->state == CHANGE_MAKING &&
                dra_prepare_instances(change->preparing, change->instances, &unrecorded) < 0 && err.kind == ERROR_NONE)
                err = unrecorded;
        if (err.kind == ERROR_NONE && driver->is_closing)
                dra_driver_refuse_for_closing(&err);
        if (err.kind == ERROR_NONE && change->state == CHANGE_LOOKING) {
                if (begin_making(change, &err) == 0)
                        return;
        } else if (err.kind == ERROR_NONE) {
                report(change);
                change_wait(change);
                return;
        }
        change_finish(change, &err);
        dra_driver_free_if_closed(driver);
}

static int check_queue(struct dra_driver *driver, struct error *err)
{
        struct call_info call;
        char text[HANG_TEXT_SIZE];

        if (!driver->nvml)
                return nvml_queue_new(
                        &driver->nvml, driver->options.loop, driver->nvml_library, driver->driver_root, 0, err);
        if (!nvml_queue_hang(driver->nvml, &call))
                return 0;
        hang_print(&call, text, sizeof(text));
        return error_set(err, ERROR_UNAVAILABLE,
                "MIG devices can neither be made nor destroyed: %s has not returned for %ju s", text,
                (uintmax_t)hang_seconds(&call, call_trace_now_ms()));
}

void dra_driver_change_instances(struct dra_driver *driver, struct dra_preparing *preparing,
        const struct dra_prepared_claim *recorded, bool destroys, dra_driver_changed_fn *done, void *data)
{
        struct change *change;
        struct error err;

        if (check_queue(driver, &err) < 0) {
                done(&err, NULL, data);
                return;
        }
        change = xcalloc(1, sizeof(*change));
        change->driver = driver;
        change->preparing = preparing;
        change->destroys = destroys;
        change->done = done;
        change->data = data;
        change->n_instances = recorded->n_results;
        change->instances = ARENA_ARRAY(&change->arena, struct dra_instance, recorded->n_results);
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
