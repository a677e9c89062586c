#include "mps/supervisor/memory_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "gpu/hangs.h"

#define CGROUPS "/sys/fs/cgroup"
#define WORKS_MAX ((size_t)64) /* with so many limits, or so long a question, a request is full */
#define QUESTION_MAX ((size_t)16 * 1024)

void mps_memory_limits_done(struct mps_memory_limits *limits)
{
        arena_done(&limits->arena);
}

static void memory_limits_copy(struct mps_memory_limits *ret, const struct mps_memory_limit *limit)
{
        struct mps_memory_limit *copy = &ret->items[ret->n_items++];

        *copy = *limit;
        mps_container_limit_copy(&copy->status, &ret->arena, &limit->status);
        copy->room = NULL;
}

static void copy_all(struct mps_memory_limits *limits, const bool *keeps, size_t room)
{
        const struct mps_memory_limits old = *limits;
        struct arena arena = old.arena;

        limits->arena = (struct arena)ARENA_INIT;
        limits->items = ARENA_ARRAY(&limits->arena, struct mps_memory_limit, old.n_items + room);
        limits->n_items = 0;
        for (size_t i = 0; i < old.n_items; i++)
                if (!keeps || keeps[i])
                        memory_limits_copy(limits, &old.items[i]);
        arena_done(&arena);
}

void mps_memory_limits_keep(struct mps_memory_limits *limits, const bool *keeps)
{
        copy_all(limits, keeps, 0);
}

void mps_memory_limits_restore(
        struct mps_memory_limits *limits, const struct mps_container_limit *recorded, size_t n_recorded)
{
        limits->items = ARENA_ARRAY(&limits->arena, struct mps_memory_limit, n_recorded);
        for (size_t i = 0; i < n_recorded; i++)
                memory_limits_copy(limits, &(struct mps_memory_limit){.status = recorded[i]});
}

/* ---- who is to have one ---- */

static const struct mps_record_allocation *memory_limits_find_allocation(
        const struct mps_record_allocation *allocations, size_t n_allocations, const char *id, const char *unit)
{
        for (size_t i = 0; i < n_allocations; i++)
                if (allocations[i].allocation.tier == MPS_TIER_NAMESPACE &&
                        strcmp(allocations[i].request.id, id) == 0 && strcmp(allocations[i].request.unit, unit) == 0)
                        return &allocations[i];
        return NULL;
}

static struct mps_memory_limit *limits_find(
        const struct mps_memory_limits *limits, const char *unit, const char *cgroup)
{
        for (size_t i = 0; i < limits->n_items; i++)
                if (strcmp(limits->items[i].status.unit, unit) == 0 &&
                        strcmp(limits->items[i].status.cgroup, cgroup) == 0)
                        return &limits->items[i];
        return NULL;
}

/*
 * False: the container has ended, though its client is still listed. A limit for it would be forgotten at once, and be
 * added again by the change of the status that this is.
 */
static bool has_folder(const struct mps_memory_limits *limits, const char *cgroup)
{
        _free_ char *folder = NULL;

        if (!limits->system_root) /* a unit test's, which has no cgroups */
                return true;
        folder = xasprintf("%s" CGROUPS "%s", limits->system_root, cgroup);
        return access(folder, F_OK) == 0 || errno != ENOENT;
}

static bool takes_part(const struct mps_daemon_status *daemon)
{
        return daemon->tier == MPS_TIER_NAMESPACE && daemon->n_units == 1 &&
               !text_starts_with(daemon->units[0], "MIG-");
}

bool mps_memory_limits_add(struct mps_memory_limits *limits, const struct mps_daemon_status *daemon,
        const struct mps_record_allocation *allocations, size_t n_allocations)
{
        const size_t before = limits->n_items;
        bool has_room = false;

        for (size_t i = 0; takes_part(daemon) && i < daemon->n_clients; i++) {
                const struct mps_client *client = &daemon->clients[i];
                const struct mps_record_allocation *allocation =
                        client->cgroup && client->name_space ? memory_limits_find_allocation(allocations, n_allocations,
                                                                       client->name_space, daemon->units[0])
                                                             : NULL;
                struct mps_memory_limit limit;

                if (!allocation || !allocation->request.limit_mib ||
                        limits_find(limits, daemon->units[0], client->cgroup) ||
                        limits->n_items == MPS_MEMORY_LIMITS_MAX || !has_folder(limits, client->cgroup))
                        continue;
                if (!has_room)
                        copy_all(limits, NULL, daemon->n_clients);
                has_room = true;
                limit = (struct mps_memory_limit){.status = {.unit = daemon->units[0],
                                                          .cgroup = client->cgroup,
                                                          .allocation = allocation->request.id,
                                                          .limit_mib = allocation->request.limit_mib}};
                memory_limits_copy(limits, &limit);
        }
        return limits->n_items > before;
}

bool mps_memory_limit_is_void(
        const struct mps_memory_limit *limit, const struct mps_record_allocation *allocations, size_t n_allocations)
{
        return !memory_limits_find_allocation(allocations, n_allocations, limit->status.allocation, limit->status.unit);
}

/* ---- outcomes ---- */

/* Always in the same buffer: problems may come and go many times while the container runs. */
static void memory_limits_set_problem(struct mps_memory_limit *limit, struct arena *arena, const char *problem)
{
        const size_t size = sizeof(((struct error *)0)->text);

        if (!limit->room)
                limit->room = arena_alloc(arena, size, 1);
        snprintf(limit->room, size, "%s", problem);
        limit->status.problem = limit->room;
}

bool mps_memory_limit_take(struct mps_memory_limit *limit, struct arena *arena, bool was_void,
        enum memory_limit_outcome outcome, const char *problem)
{
        limit->was_tried = true;
        limit->was_void = was_void;
        limit->status.is_in_force = outcome == MEMORY_LIMIT_DONE && !was_void;
        if (outcome == MEMORY_LIMIT_DONE)
                limit->status.problem = NULL;
        else if (problem && (!limit->status.problem || strcmp(limit->status.problem, problem) != 0))
                memory_limits_set_problem(limit, arena, problem);
        return outcome != MEMORY_LIMIT_GONE && !(was_void && outcome != MEMORY_LIMIT_FAILED);
}

/* ---- calls of NVML ---- */

static bool is_unsupported(nvmlReturn_t code)
{
        return code == NVML_ERROR_FUNCTION_NOT_FOUND || code == NVML_ERROR_NOT_SUPPORTED;
}

/* If the folder was removed during the call, the result is "gone", with any error of NVML. */
static enum memory_limit_outcome memory_limit_fail(
        const struct nvml *nvml, nvmlReturn_t code, const char *call, const char *folder, struct error *err)
{
        if (access(folder, F_OK) < 0 && errno == ENOENT)
                return MEMORY_LIMIT_GONE;
        nvml_fail(nvml, code, call, err);
        return is_unsupported(code) ? MEMORY_LIMIT_CANNOT : MEMORY_LIMIT_FAILED;
}

static enum memory_limit_outcome memory_limit_find(
        const struct nvml *nvml, const char *uuid, const char *folder, nvmlDevice_t *device, struct error *err)
{
        nvmlReturn_t code;

        if (access(folder, F_OK) < 0 && errno == ENOENT)
                return MEMORY_LIMIT_GONE;
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, device);
        return code == NVML_SUCCESS ? MEMORY_LIMIT_DONE
                                    : memory_limit_fail(nvml, code, "nvmlDeviceGetHandleByUUID", folder, err);
}

/* Without a limit, some drivers report that none is set, others that limits are not known or not supported. */
static nvmlReturn_t read_limits(
        const struct nvml *nvml, nvmlDevice_t device, const char *folder, nvmlGetMemoryLimits_v1_t *limits)
{
        *limits = (nvmlGetMemoryLimits_v1_t){.nameSpace = folder, .hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX};
        return NVML_CALL(nvml, device_get_memory_limits, device, limits);
}

/* *ret_changed: the limit was not there before. */
static enum memory_limit_outcome memory_limit_set(const struct nvml *nvml, const struct mps_container_limit *limit,
        const char *folder, bool *ret_changed, struct error *err)
{
        nvmlSetMemoryLimits_v1_t wanted = {.nameSpace = folder, .hardLimit = limit->limit_mib << 20};
        nvmlGetMemoryLimits_v1_t limits;
        nvmlDevice_t device;
        enum memory_limit_outcome outcome = memory_limit_find(nvml, limit->unit, folder, &device, err);
        nvmlReturn_t code;

        *ret_changed = false;
        if (outcome != MEMORY_LIMIT_DONE)
                return outcome;
        code = read_limits(nvml, device, folder, &limits);
        if (code == NVML_SUCCESS && limits.softLimit == 0 && limits.hardLimit == wanted.hardLimit)
                return MEMORY_LIMIT_DONE;
        code = NVML_CALL(nvml, device_set_memory_limits, device, &wanted);
        if (code != NVML_SUCCESS)
                return memory_limit_fail(nvml, code, "nvmlDeviceSetMemoryLimits", folder, err);
        code = read_limits(nvml, device, folder, &limits);
        if (code != NVML_SUCCESS)
                return memory_limit_fail(nvml, code, "nvmlDeviceGetMemoryLimits", folder, err);
        if (limits.softLimit != 0 || limits.hardLimit != wanted.hardLimit) {
                error_raise(err, ERROR_INVALID,
                        "memory limit of a cgroup: %" PRIu64
                        " MiB were set, the driver reports %llu MiB, of which %llu MiB reserved",
                        limit->limit_mib, limits.hardLimit >> 20, limits.softLimit >> 20);
                return MEMORY_LIMIT_FAILED;
        }
        *ret_changed = true;
        return MEMORY_LIMIT_DONE;
}

enum memory_limit_outcome memory_limit_clear(
        const struct nvml *nvml, const struct mps_container_limit *limit, const char *folder, struct error *err)
{
        nvmlSetMemoryLimits_v1_t none = {.nameSpace = folder, .hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX};
        nvmlGetMemoryLimits_v1_t limits;
        nvmlDevice_t device;
        enum memory_limit_outcome outcome = memory_limit_find(nvml, limit->unit, folder, &device, err);
        nvmlReturn_t code;

        if (outcome != MEMORY_LIMIT_DONE)
                return outcome;
        code = read_limits(nvml, device, folder, &limits);
        if (is_unsupported(code) || code == NVML_ERROR_NOT_FOUND ||
                (code == NVML_SUCCESS && limits.hardLimit != limit->limit_mib << 20))
                return MEMORY_LIMIT_DONE;
        if (code == NVML_SUCCESS)
                code = NVML_CALL(nvml, device_set_memory_limits, device, &none);
        return code == NVML_SUCCESS ? MEMORY_LIMIT_DONE
                                    : memory_limit_fail(nvml, code, "nvmlDeviceSetMemoryLimits", folder, err);
}

/* ---- requests ---- */

/* A memory limit to set or clear, as handed to the process with NVML, and its answer. */
struct limit_work {
        struct mps_container_limit limit; /* as it was when the request was made */
        bool is_void;
        struct limit_result {
                enum memory_limit_outcome outcome;
                bool is_changed;
                struct error err;
        } result;
};

/* A request about some limits of one unit. */
struct limits_job {
        struct nvml_request request;
        struct mps_memory_limits *limits;
        struct arena arena;
        struct limit_work works[WORKS_MAX];
        size_t n_works;
        struct list link;
};

static void pack_work(struct pack *pack, struct mps_container_limit *limit, const char **folder, bool *is_void)
{
        pack_text(pack, &limit->unit);
        PACK(pack, limit->limit_mib);
        pack_text(pack, folder);
        PACK(pack, *is_void);
}

static int serve_limits(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        const struct nvml *nvml;

        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        while (question->left) {
                struct limit_result result = {.outcome = MEMORY_LIMIT_FAILED};
                struct mps_container_limit limit = {0};
                const char *folder;
                bool is_void;

                pack_work(question, &limit, &folder, &is_void);
                if (is_void)
                        result.outcome = memory_limit_clear(nvml, &limit, folder, &result.err);
                else
                        result.outcome = memory_limit_set(nvml, &limit, folder, &result.is_changed, &result.err);
                PACK(answer, result);
        }
        return 0;
}

static void memory_limits_read_results(struct limits_job *job, const struct error *err, struct pack *answer)
{
        for (size_t i = 0; i < job->n_works; i++)
                if (err)
                        job->works[i].result = (struct limit_result){.outcome = MEMORY_LIMIT_FAILED, .err = *err};
                else
                        PACK(answer, job->works[i].result);
}

/* ---- on the loop ---- */

/* Logs an outcome that differs from the one before. */
static void limits_report(const struct mps_container_limit *limit, const struct limit_work *work)
{
        const struct mps_container_limit *before = &work->limit;
        bool is_new = !before->problem || !limit->problem || strcmp(before->problem, limit->problem) != 0;

        if (work->result.outcome == MEMORY_LIMIT_DONE && work->is_void)
                log_info("memory limit of a container removed", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_STR("cgroup", limit->cgroup));
        else if (work->result.outcome == MEMORY_LIMIT_DONE && work->result.is_changed && before->is_in_force)
                log_warn("the memory limit of a container was changed from outside (configuration drift) and is "
                         "restored",
                        LOG_STR("unit", limit->unit), LOG_STR("allocation", limit->allocation),
                        LOG_STR("cgroup", limit->cgroup), LOG_UINT("mib", limit->limit_mib));
        else if (work->result.outcome == MEMORY_LIMIT_DONE && !before->is_in_force)
                log_info("memory limit of a container", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_STR("cgroup", limit->cgroup),
                        LOG_UINT("mib", limit->limit_mib));
        else if (limit->problem && is_new && work->result.outcome == MEMORY_LIMIT_CANNOT)
                log_info("the memory of a container as a whole is not limited here", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_ERR(&work->result.err));
        else if (limit->problem && is_new)
                log_warn(work->is_void ? "the memory limit of a container cannot be removed"
                                       : "the memory of a container as a whole is not limited",
                        LOG_STR("unit", limit->unit), LOG_STR("allocation", limit->allocation),
                        LOG_ERR(&work->result.err));
}

static void limits_take(struct limits_job *job)
{
        struct mps_memory_limits *limits = job->limits;
        bool *keeps = ARENA_ARRAY(&job->arena, bool, limits->n_items);
        bool is_shorter = false;

        for (size_t i = 0; i < limits->n_items; i++)
                keeps[i] = true;
        for (size_t i = 0; i < job->n_works; i++) {
                const struct limit_work *work = &job->works[i];
                struct mps_memory_limit *limit = limits_find(limits, work->limit.unit, work->limit.cgroup);

                if (!limit) /* none was taken away meanwhile: that is done here alone, for one unit after the other */
                        continue;
                keeps[limit - limits->items] = mps_memory_limit_take(
                        limit, &limits->arena, work->is_void, work->result.outcome, work->result.err.text);
                is_shorter |= !keeps[limit - limits->items];
                limits_report(&limit->status, work);
        }
        if (is_shorter)
                mps_memory_limits_keep(limits, keeps);
        limits->owner.changed(is_shorter, limits->owner.data);
}

static void on_limits(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct limits_job *job = container_of(request, struct limits_job, request);
        struct arena arena;

        list_remove(&job->link);
        if (job->limits->nvml) {
                memory_limits_read_results(job, err, answer);
                limits_take(job);
        }
        arena = job->arena;
        arena_done(&arena);
}

/* ---- what is to be done ---- */

static struct limits_job *limits_job_new(struct mps_memory_limits *limits, const char *unit)
{
        struct arena arena = ARENA_INIT;
        struct limits_job *job = ARENA_NEW(&arena, struct limits_job);

        nvml_request_init(&job->request, serve_limits, unit, on_limits);
        job->limits = limits;
        job->arena = arena;
        return job;
}

static void limits_job_add(struct limits_job *job, const struct mps_container_limit *limit, bool is_void)
{
        struct limit_work *work = &job->works[job->n_works++];
        const char *folder = arena_printf(&job->arena, "%s" CGROUPS "%s", job->limits->system_root, limit->cgroup);
        struct pack question = pack_writer(&job->request.question);

        work->is_void = is_void;
        mps_container_limit_copy(&work->limit, &job->arena, limit);
        pack_work(&question, &work->limit, &folder, &work->is_void);
}

static void limits_job_ask(struct limits_job *job)
{
        if (!job)
                return;
        list_append(&job->limits->jobs, &job->link);
        nvml_pool_ask(job->limits->nvml, &job->request);
}

static bool is_void(const struct mps_memory_limit *limit, const struct mps_record *granted)
{
        return mps_memory_limit_is_void(limit, granted->allocations, granted->n_allocations);
}

/* All limits of the unit, in as many requests as it takes: they are served one after the other. */
static void limits_ask(struct mps_memory_limits *limits, const char *unit, const struct mps_record *granted)
{
        struct limits_job *job = NULL;

        for (size_t i = 0; i < limits->n_items; i++) {
                const struct mps_memory_limit *limit = &limits->items[i];

                if (strcmp(limit->status.unit, unit) != 0)
                        continue;
                if (!job)
                        job = limits_job_new(limits, unit);
                limits_job_add(job, &limit->status, is_void(limit, granted));
                if (job->n_works == WORKS_MAX || job->request.question.size > QUESTION_MAX)
                        limits_job_ask(TAKE_PTR(job));
        }
        limits_job_ask(job);
}

static bool limits_are_asked(const struct mps_memory_limits *limits, const char *unit)
{
        LIST_FOR_EACH(link, &limits->jobs)
                if (strcmp(container_of(link, struct limits_job, link)->works[0].limit.unit, unit) == 0)
                        return true;
        return false;
}

void mps_memory_limits_start(struct mps_memory_limits *limits, const struct mps_record *granted, bool checks_all)
{
        for (size_t i = 0; i < limits->n_items; i++) {
                const struct mps_memory_limit *limit = &limits->items[i];

                if ((checks_all || mps_memory_limit_is_due(limit, is_void(limit, granted))) &&
                        !limits_are_asked(limits, limit->status.unit))
                        limits_ask(limits, limit->status.unit, granted);
        }
}

/* ---- the record and the status ---- */

void mps_memory_limits_fill_record(const struct mps_memory_limits *limits, struct mps_record *record)
{
        record->limits = ARENA_ARRAY(&record->arena, struct mps_container_limit, limits->n_items);
        for (size_t i = 0; i < limits->n_items; i++)
                record->limits[record->n_limits++] = limits->items[i].status;
}

void mps_memory_limits_describe(
        const struct mps_memory_limits *limits, struct arena *arena, struct mps_daemon_status *daemon)
{
        struct mps_container_limit *copies = ARENA_ARRAY(arena, struct mps_container_limit, limits->n_items);

        for (size_t i = 0; i < limits->n_items; i++)
                for (size_t j = 0; j < daemon->n_units; j++)
                        if (strcmp(limits->items[i].status.unit, daemon->units[j]) == 0)
                                mps_container_limit_copy(&copies[daemon->n_limits++], arena, &limits->items[i].status);
        daemon->limits = copies;
}
