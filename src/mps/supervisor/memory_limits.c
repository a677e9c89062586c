// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/memory_limits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "gpu/hangs.h"

#define CGROUPS "/sys/fs/cgroup"

/* The outcome of a request to NVML about a limit. */
struct limit_result {
        enum memory_limit_outcome outcome;
        bool is_changed; /* it was not there before */
        struct error err;
};

/* ---- the limits of containers ---- */

static struct mps_memory_limit *memory_limit_of(struct list *link)
{
        return container_of(link, struct mps_memory_limit, link);
}

static void limits_add_one(struct mps_memory_limits *limits, const struct mps_container_limit *status)
{
        struct arena arena = ARENA_INIT;
        struct mps_memory_limit *limit = ARENA_NEW(&arena, struct mps_memory_limit);

        limit->limits = limits;
        mps_container_limit_copy(&limit->status, &arena, status);
        limit->arena = arena;
        list_append(&limits->items, &limit->link);
        limits->n_items++;
}

static void limit_free(struct mps_memory_limit *limit)
{
        struct arena arena = limit->arena;

        limit->limits->n_items--;
        list_remove(&limit->link);
        arena_done(&arena);
}

void mps_memory_limits_init(struct mps_memory_limits *limits, struct nvml_pool *nvml, const char *system_root,
        const struct mps_record_owner *owner)
{
        *limits = (struct mps_memory_limits){.nvml = nvml, .system_root = system_root, .owner = *owner};
        list_init(&limits->items);
}

void mps_memory_limits_done(struct mps_memory_limits *limits)
{
        while (!list_is_empty(&limits->items))
                limit_free(memory_limit_of(limits->items.next));
}

void mps_memory_limits_restore(
        struct mps_memory_limits *limits, const struct mps_container_limit *recorded, size_t n_recorded)
{
        for (size_t i = 0; i < n_recorded; i++)
                limits_add_one(limits, &recorded[i]);
}

/* ---- who is to have one ---- */

static const struct mps_record_allocation *memory_limits_find_allocation(
        const struct mps_record *granted, const char *id, const char *unit)
{
        for (size_t i = 0; i < granted->n_allocations; i++) {
                const struct mps_record_allocation *allocation = &granted->allocations[i];

                if (allocation->allocation.tier == MPS_TIER_NAMESPACE && strcmp(allocation->request.id, id) == 0 &&
                        strcmp(allocation->request.unit, unit) == 0)
                        return allocation;
        }
        return NULL;
}

static bool limits_has(const struct mps_memory_limits *limits, const char *unit, const char *cgroup)
{
        LIST_FOR_EACH(link, &limits->items)
                if (strcmp(memory_limit_of(link)->status.unit, unit) == 0 &&
                        strcmp(memory_limit_of(link)->status.cgroup, cgroup) == 0)
                        return true;
        return false;
}

/*
 * False: the container has ended, though its client is still listed. A limit for it would be forgotten at once, and be
 * added again by the change of the status that this is.
 */
static bool has_folder(const struct mps_memory_limits *limits, const char *cgroup)
{
        _free_ char *folder = xasprintf("%s" CGROUPS "%s", limits->system_root, cgroup);

        return access(folder, F_OK) == 0 || errno != ENOENT;
}

static bool takes_part(const struct mps_daemon_status *daemon)
{
        return daemon->tier == MPS_TIER_NAMESPACE && daemon->n_units == 1 &&
               !text_starts_with(daemon->units[0], "MIG-");
}

bool mps_memory_limits_add(
        struct mps_memory_limits *limits, const struct mps_daemon_status *daemon, const struct mps_record *granted)
{
        const size_t before = limits->n_items;

        for (size_t i = 0; takes_part(daemon) && i < daemon->n_clients; i++) {
                const struct mps_client *client = &daemon->clients[i];
                const struct mps_record_allocation *allocation = NULL;

                if (client->cgroup && client->name_space)
                        allocation = memory_limits_find_allocation(granted, client->name_space, daemon->units[0]);
                if (!allocation || !allocation->request.limit_mib ||
                        limits_has(limits, daemon->units[0], client->cgroup) ||
                        limits->n_items == MPS_MEMORY_LIMITS_MAX || !has_folder(limits, client->cgroup))
                        continue;
                limits_add_one(limits, &(struct mps_container_limit){.unit = daemon->units[0],
                                               .cgroup = client->cgroup,
                                               .allocation = allocation->request.id,
                                               .limit_mib = allocation->request.limit_mib});
        }
        return limits->n_items > before;
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

/* ---- requests to NVML ---- */

static void pack_limit(struct pack *pack, struct mps_container_limit *limit, const char **folder, bool *is_void)
{
        pack_text(pack, &limit->unit);
        PACK(pack, limit->limit_mib);
        pack_text(pack, folder);
        PACK(pack, *is_void);
}

static int serve_limit(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct limit_result result = {.outcome = MEMORY_LIMIT_FAILED};
        struct mps_container_limit limit = {0};
        const struct nvml *nvml;
        const char *folder;
        bool is_void;

        pack_limit(question, &limit, &folder, &is_void);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        if (is_void)
                result.outcome = memory_limit_clear(nvml, &limit, folder, &result.err);
        else
                result.outcome = memory_limit_set(nvml, &limit, folder, &result.is_changed, &result.err);
        PACK(answer, result);
        return 0;
}

/* Logs an outcome that differs from |before|. */
static void limit_report(const struct mps_memory_limit *limit, const struct mps_container_limit *before,
        const struct limit_result *result, bool is_new_problem)
{
        const struct mps_container_limit *status = &limit->status;

        if (result->outcome == MEMORY_LIMIT_DONE && limit->was_void)
                log_info("memory limit of a container removed", LOG_STR("unit", status->unit),
                        LOG_STR("allocation", status->allocation), LOG_STR("cgroup", status->cgroup));
        else if (result->outcome == MEMORY_LIMIT_DONE && result->is_changed && before->is_in_force)
                log_warn("the memory limit of a container was changed from outside (configuration drift) and is "
                         "restored",
                        LOG_STR("unit", status->unit), LOG_STR("allocation", status->allocation),
                        LOG_STR("cgroup", status->cgroup), LOG_UINT("mib", status->limit_mib));
        else if (result->outcome == MEMORY_LIMIT_DONE && !before->is_in_force)
                log_info("memory limit of a container", LOG_STR("unit", status->unit),
                        LOG_STR("allocation", status->allocation), LOG_STR("cgroup", status->cgroup),
                        LOG_UINT("mib", status->limit_mib));
        else if (is_new_problem && result->outcome == MEMORY_LIMIT_CANNOT)
                log_info("the memory of a container as a whole is not limited here", LOG_STR("unit", status->unit),
                        LOG_STR("allocation", status->allocation), LOG_ERR(&result->err));
        else if (is_new_problem)
                log_warn(limit->was_void ? "the memory limit of a container cannot be removed"
                                         : "the memory of a container as a whole is not limited",
                        LOG_STR("unit", status->unit), LOG_STR("allocation", status->allocation),
                        LOG_ERR(&result->err));
}

/* Frees a limit that is finished. */
static void limit_take(struct mps_memory_limit *limit, const struct limit_result *result)
{
        const struct mps_container_limit before = limit->status;
        const bool has_problem = result->outcome == MEMORY_LIMIT_CANNOT || result->outcome == MEMORY_LIMIT_FAILED;
        const bool is_new_problem = has_problem && !(before.problem && strcmp(before.problem, result->err.text) == 0);
        const bool is_finished =
                result->outcome == MEMORY_LIMIT_GONE || (limit->was_void && result->outcome != MEMORY_LIMIT_FAILED);

        limit->is_due = false;
        limit->was_tried = true;
        limit->status.is_in_force = result->outcome == MEMORY_LIMIT_DONE && !limit->was_void;
        limit->status.problem = has_problem ? limit->problem.text : NULL;
        if (has_problem)
                limit->problem = result->err;
        limit_report(limit, &before, result, is_new_problem);
        limit->limits->is_shorter |= is_finished;
        if (is_finished)
                limit_free(limit);
}

/* NVML does not answer: what else is due on that unit fails, too, and is tried at the next check of all. */
static void limits_fail_unit(struct mps_memory_limits *limits, const char *unit, const struct error *err)
{
        const struct limit_result failed = {.outcome = MEMORY_LIMIT_FAILED, .err = *err};
        struct list *next;

        for (struct list *link = limits->items.next; link != &limits->items; link = next) {
                struct mps_memory_limit *limit = memory_limit_of(link);

                next = link->next;
                if (!limit->is_due || strcmp(limit->status.unit, unit) != 0)
                        continue;
                limit->was_void = limit->is_void;
                limit_take(limit, &failed);
        }
}

static bool limits_are_asked(const struct mps_memory_limits *limits, const char *unit)
{
        LIST_FOR_EACH(link, &limits->items)
                if (memory_limit_of(link)->is_asked && strcmp(memory_limit_of(link)->status.unit, unit) == 0)
                        return true;
        return false;
}

static void limits_ask_due(struct mps_memory_limits *limits);

static void on_memory_limit(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct mps_memory_limit *limit = container_of(request, struct mps_memory_limit, request);
        struct mps_memory_limits *limits = limit->limits;
        struct limit_result result = {.outcome = MEMORY_LIMIT_FAILED};
        char unit[sizeof(request->gpu)];

        limit->is_asked = false;
        if (!limits->nvml)
                return;
        strcpy(unit, request->gpu);
        if (err) {
                limits_fail_unit(limits, unit, err);
        } else {
                PACK(answer, result);
                limit_take(limit, &result);
        }
        limits_ask_due(limits);
        if (limits_are_asked(limits, unit)) /* one report for all of the unit */
                return;
        limits->owner.changed(limits->is_shorter, limits->owner.data);
        limits->is_shorter = false;
}

/* Asks about one limit of each unit at a time. */
static void limits_ask_due(struct mps_memory_limits *limits)
{
        LIST_FOR_EACH(link, &limits->items) {
                struct mps_memory_limit *limit = memory_limit_of(link);
                _free_ char *path = NULL;
                const char *folder;
                struct pack question;

                if (!limit->is_due || limits_are_asked(limits, limit->status.unit))
                        continue;
                path = xasprintf("%s" CGROUPS "%s", limits->system_root, limit->status.cgroup);
                folder = path;
                limit->is_asked = true;
                limit->was_void = limit->is_void;
                nvml_request_init(&limit->request, serve_limit, limit->status.unit, on_memory_limit);
                question = pack_writer(&limit->request.question);
                pack_limit(&question, &limit->status, &folder, &limit->was_void);
                nvml_pool_ask(limits->nvml, &limit->request);
        }
}

void mps_memory_limits_start(struct mps_memory_limits *limits, const struct mps_record *granted, bool checks_all)
{
        LIST_FOR_EACH(link, &limits->items) {
                struct mps_memory_limit *limit = memory_limit_of(link);

                limit->is_void = !memory_limits_find_allocation(granted, limit->status.allocation, limit->status.unit);
                limit->is_due |= checks_all || !limit->was_tried || limit->is_void != limit->was_void;
        }
        limits_ask_due(limits);
}

/* ---- the record and the status ---- */

void mps_memory_limits_fill_record(const struct mps_memory_limits *limits, struct mps_record *record)
{
        record->limits = ARENA_ARRAY(&record->arena, struct mps_container_limit, limits->n_items);
        LIST_FOR_EACH(link, &limits->items)
                record->limits[record->n_limits++] = memory_limit_of(link)->status;
}

void mps_memory_limits_describe(
        const struct mps_memory_limits *limits, struct arena *arena, struct mps_daemon_status *daemon)
{
        struct mps_container_limit *copies = ARENA_ARRAY(arena, struct mps_container_limit, limits->n_items);

        LIST_FOR_EACH(link, &limits->items)
                for (size_t i = 0; i < daemon->n_units; i++)
                        if (strcmp(memory_limit_of(link)->status.unit, daemon->units[i]) == 0)
                                mps_container_limit_copy(
                                        &copies[daemon->n_limits++], arena, &memory_limit_of(link)->status);
        daemon->limits = copies;
}
