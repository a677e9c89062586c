/*
 * Memory limits of containers. mps/supervisor/memory_limits.h decides which, NVML's thread sets them, and all are read
 * back at intervals.
 */
#include "mps/supervisor/parts.h"

#include <string.h>

#include "base/log.h"

#define CGROUPS "/sys/fs/cgroup"

/* One limit, for NVML's thread. */
struct limit_work {
        struct mps_memory_limit limit; /* a copy from when the job was created */
        const char *folder;
        bool is_void;
        bool is_changed;
        enum memory_limit_outcome outcome;
        struct error err;
};

struct limits_job {
        struct nvml_job job;
        struct mps_supervisor *supervisor;
        struct arena arena;
        struct limit_work *works; /* one for each of supervisor->limits, in its order */
        size_t n_works;
};

/* ---- on NVML's thread ---- */

static void work_one(struct limit_work *work, const struct nvml *nvml)
{
        const struct mps_memory_limit *limit = &work->limit;

        if (work->is_void)
                work->outcome = memory_limit_clear(nvml, limit->unit, work->folder, limit->limit_mib, &work->err);
        else
                work->outcome = memory_limit_set(
                        nvml, limit->unit, work->folder, limit->limit_mib, &work->is_changed, &work->err);
}

static void work_limits(struct nvml_job *job, const struct nvml *nvml, const struct error *err)
{
        struct limits_job *limits = container_of(job, struct limits_job, job);

        for (size_t i = 0; i < limits->n_works; i++) {
                limits->works[i].err = *err;
                if (nvml)
                        work_one(&limits->works[i], nvml);
        }
}

/* ---- on the loop ---- */

/* Logs a changed outcome once. */
static void limits_report(const struct mps_memory_limit *limit, const struct limit_work *work)
{
        const struct mps_memory_limit *before = &work->limit;
        bool is_new = !before->problem || !limit->problem || strcmp(before->problem, limit->problem) != 0;

        if (work->outcome == MEMORY_LIMIT_DONE && work->is_void)
                log_info("memory limit of a container removed", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_STR("cgroup", limit->cgroup));
        else if (work->outcome == MEMORY_LIMIT_DONE && work->is_changed && before->is_in_force)
                log_warn("the memory limit of a container was changed from outside (configuration drift) and is "
                         "restored",
                        LOG_STR("unit", limit->unit), LOG_STR("allocation", limit->allocation),
                        LOG_STR("cgroup", limit->cgroup), LOG_UINT("mib", limit->limit_mib));
        else if (work->outcome == MEMORY_LIMIT_DONE && !before->is_in_force)
                log_info("memory limit of a container", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_STR("cgroup", limit->cgroup),
                        LOG_UINT("mib", limit->limit_mib));
        else if (limit->problem && is_new && work->outcome == MEMORY_LIMIT_CANNOT)
                log_info("the memory of a container as a whole is not limited here", LOG_STR("unit", limit->unit),
                        LOG_STR("allocation", limit->allocation), LOG_ERR(&work->err));
        else if (limit->problem && is_new)
                log_warn(work->is_void ? "the memory limit of a container cannot be removed"
                                       : "the memory of a container as a whole is not limited",
                        LOG_STR("unit", limit->unit), LOG_STR("allocation", limit->allocation), LOG_ERR(&work->err));
}

static struct mps_memory_limit *limits_find(struct mps_memory_limits *limits, const struct mps_memory_limit *wanted)
{
        for (size_t i = 0; i < limits->n_items; i++)
                if (strcmp(limits->items[i].unit, wanted->unit) == 0 &&
                        strcmp(limits->items[i].cgroup, wanted->cgroup) == 0)
                        return &limits->items[i];
        return NULL;
}

static void on_limits(struct nvml_job *job)
{
        struct limits_job *done = container_of(job, struct limits_job, job);
        struct mps_supervisor *supervisor = done->supervisor;
        struct mps_memory_limits *limits = &supervisor->limits;
        struct arena arena = done->arena;
        bool *keeps = ARENA_ARRAY(&arena, bool, limits->n_items);
        bool is_shorter = false;

        for (size_t i = 0; i < limits->n_items; i++)
                keeps[i] = true;
        for (size_t i = 0; job->has_worked && i < done->n_works; i++) {
                struct mps_memory_limit *limit = limits_find(limits, &done->works[i].limit);

                if (!limit) /* none was removed meanwhile: only this file removes limits */
                        continue;
                keeps[limit - limits->items] = mps_memory_limit_take(
                        limit, &limits->arena, done->works[i].is_void, done->works[i].outcome, done->works[i].err.text);
                is_shorter |= !keeps[limit - limits->items];
                limits_report(limit, &done->works[i]);
        }
        if (is_shorter)
                mps_memory_limits_keep(limits, keeps);
        supervisor->limits_job = NULL;
        arena_done(&arena);
        supervisor_note(supervisor, is_shorter);
        supervisor_check_end(supervisor);
}

/* ---- starting jobs ---- */

static void limits_start(struct mps_supervisor *supervisor, const struct mps_record *granted)
{
        struct arena arena = ARENA_INIT;
        struct limits_job *job = ARENA_NEW(&arena, struct limits_job);

        job->works = ARENA_ARRAY(&arena, struct limit_work, supervisor->limits.n_items);
        for (size_t i = 0; i < supervisor->limits.n_items; i++) {
                const struct mps_memory_limit *limit = &supervisor->limits.items[i];
                struct limit_work *work = &job->works[job->n_works++];

                *work = (struct limit_work){.limit = *limit,
                        .folder = arena_printf(&arena, "%s" CGROUPS "%s", supervisor->system_root, limit->cgroup),
                        .is_void = mps_memory_limit_is_void(limit, granted->allocations, granted->n_allocations),
                        .outcome = MEMORY_LIMIT_FAILED};
                work->limit.unit = arena_strdup(&arena, limit->unit);
                work->limit.cgroup = arena_strdup(&arena, limit->cgroup);
                work->limit.allocation = arena_strdup(&arena, limit->allocation);
                work->limit.problem = arena_strdup(&arena, limit->problem);
        }
        job->job.work = work_limits;
        job->job.done = on_limits;
        job->supervisor = supervisor;
        job->arena = arena;
        supervisor->limits_job = job;
        nvml_queue_add(supervisor->nvml, &job->job);
}

static bool is_any_due(const struct mps_supervisor *supervisor, const struct mps_record *granted)
{
        for (size_t i = 0; i < supervisor->limits.n_items; i++)
                if (mps_memory_limit_is_due(
                            &supervisor->limits.items[i], mps_memory_limit_is_void(&supervisor->limits.items[i],
                                                                  granted->allocations, granted->n_allocations)))
                        return true;
        return false;
}

static void limits_follow(struct mps_supervisor *supervisor, bool checks_all)
{
        const struct mps_status *status = supervisor->status;
        struct mps_record granted = {0};
        bool is_longer = false;
        struct error err;

        if (supervisor->is_closing || supervisor->limits_job || !status)
                return;
        supervisor_allocations_fill_record(supervisor, &granted);
        for (size_t i = 0; i < status->n_daemons; i++)
                is_longer |= mps_memory_limits_add(
                        &supervisor->limits, &status->daemons[i], granted.allocations, granted.n_allocations);
        /*
         * Recorded before it is set, so that no limit is left without a record after a crash. A write that failed is
         * repeated, and then this runs again.
         */
        if (is_longer && supervisor_write_record(supervisor, &err) < 0)
                log_debug("limits of containers wait for the record", LOG_ERR(&err));
        if (!supervisor->record_failures && supervisor->limits.n_items &&
                (checks_all || is_any_due(supervisor, &granted)))
                limits_start(supervisor, &granted);
        arena_done(&granted.arena);
}

void supervisor_follow_limits(struct mps_supervisor *supervisor)
{
        limits_follow(supervisor, false);
}

void supervisor_check_limits(struct mps_supervisor *supervisor)
{
        limits_follow(supervisor, true);
}

/* ---- record and status ---- */

void supervisor_fill_limits(const struct mps_supervisor *supervisor, struct mps_record *record)
{
        const struct mps_memory_limits *limits = &supervisor->limits;

        record->limits = ARENA_ARRAY(&record->arena, struct mps_record_limit, limits->n_items);
        for (size_t i = 0; i < limits->n_items; i++)
                record->limits[record->n_limits++] = (struct mps_record_limit){
                        .unit = limits->items[i].unit,
                        .cgroup = limits->items[i].cgroup,
                        .allocation = limits->items[i].allocation,
                        .limit_mib = limits->items[i].limit_mib,
                };
}

void supervisor_read_limits(struct mps_supervisor *supervisor, const struct mps_record *record)
{
        struct mps_memory_limits *limits = &supervisor->limits;

        limits->items = ARENA_ARRAY(&limits->arena, struct mps_memory_limit, record->n_limits);
        for (size_t i = 0; i < record->n_limits; i++)
                limits->items[limits->n_items++] = (struct mps_memory_limit){
                        .unit = arena_strdup(&limits->arena, record->limits[i].unit),
                        .cgroup = arena_strdup(&limits->arena, record->limits[i].cgroup),
                        .allocation = arena_strdup(&limits->arena, record->limits[i].allocation),
                        .limit_mib = record->limits[i].limit_mib,
                };
}

void supervisor_describe_limits(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon)
{
        const struct mps_memory_limits *all = &supervisor->limits;
        struct mps_container_limit *limits = ARENA_ARRAY(arena, struct mps_container_limit, all->n_items);

        for (size_t i = 0; i < all->n_items; i++)
                for (size_t j = 0; j < daemon->n_units; j++)
                        if (strcmp(all->items[i].unit, daemon->units[j]) == 0)
                                limits[daemon->n_limits++] = (struct mps_container_limit){
                                        .allocation = arena_strdup(arena, all->items[i].allocation),
                                        .unit = daemon->units[j],
                                        .cgroup = arena_strdup(arena, all->items[i].cgroup),
                                        .limit_mib = all->items[i].limit_mib,
                                        .is_in_force = all->items[i].is_in_force,
                                        .problem = arena_strdup(arena, all->items[i].problem),
                                };
        daemon->limits = limits;
}
