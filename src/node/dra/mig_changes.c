#include "node/dra/mig_changes.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "gpu/nvml_pool.h"
#include "node/dra/instances.h"

/*
 * A process that is killed in the middle of a change leaves it half made. Two such waits are less than kubelet's 45 s.
 */
#define NVML_HANG_MS UINT64_C(15000)
#define WAIT_MS UINT64_C(20000) /* until the inventory shows what was made: reading it takes a second or two */

struct dra_changes {
        const struct dra_node *node;
        struct list all;
        struct nvml_pool *nvml;
        unsigned int n_working;     /* changes that wait for it */
        void (*closed)(void *data); /* NULL: it is not to be closed */
        void *data;
};

enum change_state { CHANGE_LOOKING, CHANGE_MAKING, CHANGE_DESTROYING, CHANGE_WAITING };

struct change {
        struct list link;
        struct dra_changes *changes;
        struct arena arena;
        struct dra_instance *instances; /* one a result; gpu NULL: the result is not a candidate */
        size_t n_instances;
        bool destroys;
        enum change_state state;
        struct part *parts; /* in all states but WAITING */
        size_t n_open;      /* of them, without an answer */
        struct error err;   /* kind ERROR_NONE: nothing failed */
        uv_timer_t timer;
        dra_change_record_fn *record;
        dra_change_done_fn *done;
        void *data;
};

/* The request about one GPU. */
struct part {
        struct nvml_request request;
        struct change *change;
};

static void free_if_closed(struct dra_changes *changes)
{
        void (*closed)(void *data) = changes->closed;
        void *data = changes->data;

        if (!closed || changes->n_working > 0)
                return;
        assert(list_is_empty(&changes->all));
        nvml_pool_close(changes->nvml);
        free(changes);
        closed(data);
}

static void on_change_closed(uv_handle_t *handle)
{
        struct change *change = handle->data;

        arena_done(&change->arena);
        free(change);
}

static void change_finish(struct change *change, const struct error *err)
{
        list_remove(&change->link);
        change->done(err, change->data);
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

/* The answer says what became of the instances, even with an error. */
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
        const struct plan *plan = change->changes->node->plan;

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
        change->changes->node->rescan(change->changes->node->data);
}

/* The next instance on |gpu| from |*i| on, or NULL. */
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
        nvml_pool_ask(change->changes->nvml, &part->request);
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
        change->changes->n_working++;
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
        if (change->record(change->instances, change->data, err) < 0)
                return -1;
        if (is_there)
                change_wait(change);
        else
                change_work(change, CHANGE_MAKING);
        return 0;
}

static void mig_changes_report(const struct change *change)
{
        for (size_t i = 0; i < change->n_instances; i++)
                if (change->instances[i].uuid)
                        log_info(change->destroys ? "a MIG device of a DRA claim is destroyed"
                                                  : "a MIG device is made for a DRA claim",
                                LOG_STR("uuid", change->instances[i].uuid), LOG_STR("gpu", change->instances[i].gpu),
                                LOG_UINT("start", change->instances[i].start));
}

/* Instances that were made are recorded even if the change fails in the end: then they are taken back. */
static void change_worked(struct change *change)
{
        struct dra_changes *changes = change->changes;
        struct error err = change->err;
        struct error unrecorded;

        changes->n_working--;
        if (change->state == CHANGE_MAKING && change->record(change->instances, change->data, &unrecorded) < 0 &&
                err.kind == ERROR_NONE)
                err = unrecorded;
        if (err.kind == ERROR_NONE && changes->node->is_closing)
                dra_node_raise_closing(&err);
        if (err.kind == ERROR_NONE && change->state == CHANGE_LOOKING) {
                if (begin_making(change, &err) < 0)
                        change_finish(change, &err);
        } else if (err.kind == ERROR_NONE) {
                mig_changes_report(change);
                change_wait(change);
        } else {
                change_finish(change, &err);
        }
        if (changes->n_working > 0)
                return;
        nvml_pool_renew(changes->nvml); /* a process that has the library open keeps a driver from being replaced */
        free_if_closed(changes);
}

static int mig_changes_take_answer(struct change *change, const char *gpu, struct pack *answer, struct error *err)
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
                (void)!mig_changes_take_answer(change, request->gpu, answer, &problem);
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

static void change_begin(struct dra_changes *changes, const struct dra_prepared_claim *claim, bool destroys,
        dra_change_record_fn *record, dra_change_done_fn *done, void *data)
{
        struct change *change = xcalloc(1, sizeof(*change));

        change->changes = changes;
        change->destroys = destroys;
        change->record = record;
        change->done = done;
        change->data = data;
        change->n_instances = claim->n_results;
        change->instances = ARENA_ARRAY(&change->arena, struct dra_instance, claim->n_results);
        change->parts = ARENA_ARRAY(&change->arena, struct part, claim->n_results);
        for (size_t i = 0; i < claim->n_results; i++)
                if (claim->results[i].has_instance)
                        change->instances[i] = dra_instance_copy(&change->arena, &claim->results[i].instance);
        uv_timer_init(changes->node->loop, &change->timer);
        change->timer.data = change;
        list_append(&changes->all, &change->link);
        change_work(change, destroys ? CHANGE_DESTROYING : CHANGE_LOOKING);
}

void dra_changes_make(struct dra_changes *changes, const struct dra_prepared_claim *claim, dra_change_record_fn *record,
        dra_change_done_fn *done, void *data)
{
        change_begin(changes, claim, false, record, done, data);
}

void dra_changes_destroy(
        struct dra_changes *changes, const struct dra_prepared_claim *claim, dra_change_done_fn *done, void *data)
{
        change_begin(changes, claim, true, NULL, done, data);
}

static struct change *find_waiting(const struct dra_changes *changes, bool is_over)
{
        LIST_FOR_EACH(link, &changes->all) {
                struct change *change = container_of(link, struct change, link);

                if (change->state == CHANGE_WAITING && (is_over || is_all_as_wanted(change)))
                        return change;
        }
        return NULL;
}

void dra_changes_go_on(struct dra_changes *changes)
{
        struct change *change;

        while ((change = find_waiting(changes, false)))
                change_finish(change, NULL);
}

void dra_changes_refuse(struct dra_changes *changes)
{
        struct change *change;
        struct error err;

        dra_node_raise_closing(&err);
        while ((change = find_waiting(changes, true)))
                change_finish(change, &err);
}

bool dra_changes_have_closed_nvml(const struct dra_changes *changes)
{
        return nvml_pool_has_ended(changes->nvml);
}

struct dra_changes *dra_changes_new(const struct dra_node *node, const struct config *config)
{
        struct dra_changes *changes = xcalloc(1, sizeof(*changes));

        changes->node = node;
        list_init(&changes->all);
        changes->nvml = nvml_pool_new(&(struct nvml_pool_options){
                .loop = node->loop,
                .name = "dra-nvml",
                .library = config->driver.nvml_library,
                .driver_root = config->driver.mounted_root,
                .hang_ms = NVML_HANG_MS,
        });
        return changes;
}

void dra_changes_close(struct dra_changes *changes, void (*closed)(void *data), void *data)
{
        changes->closed = closed;
        changes->data = data;
        free_if_closed(changes);
}
