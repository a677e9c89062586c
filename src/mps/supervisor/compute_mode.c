// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/compute_mode.h"

#include <string.h>

#include "base/log.h"

const char *compute_mode_name(nvmlComputeMode_t mode)
{
        switch (mode) {
        case NVML_COMPUTEMODE_DEFAULT:
                return "DEFAULT";
        case NVML_COMPUTEMODE_EXCLUSIVE_THREAD:
                return "EXCLUSIVE_THREAD";
        case NVML_COMPUTEMODE_PROHIBITED:
                return "PROHIBITED";
        case NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
                return "EXCLUSIVE_PROCESS";
        }
        return "unknown";
}

static int compute_mode_find(const struct nvml *nvml, const char *uuid, nvmlDevice_t *device, struct error *err)
{
        nvmlReturn_t code;

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, device);
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
}

int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err)
{
        nvmlDevice_t device = NULL;

        if (compute_mode_find(nvml, uuid, &device, err) < 0)
                return -1;
        return NVML_ASK(nvml, err, device_get_compute_mode, device, ret);
}

int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err)
{
        nvmlDevice_t device = NULL;
        nvmlReturn_t code;

        if (compute_mode_find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_set_compute_mode, device, mode);
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceSetComputeMode", err);
}

static int serve_set(struct nvml_serving *serving, struct pack *question, struct pack *answer UNUSED, struct error *err)
{
        const struct nvml *nvml;
        nvmlComputeMode_t mode;
        const char *uuid;

        pack_text(question, &uuid);
        PACK(question, mode);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        return compute_mode_set(nvml, uuid, mode, err);
}

void compute_mode_ask_to_set(struct nvml_pool *pool, struct nvml_request *request, const char *uuid,
        nvmlComputeMode_t mode,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer))
{
        struct pack question;

        nvml_request_init(request, serve_set, uuid, done);
        question = pack_writer(&request->question);
        pack_text(&question, &uuid);
        PACK(&question, mode);
        nvml_pool_ask(pool, request);
}

/* ---- the modes of before ---- */

struct mode {
        struct list link; /* modes->items */
        struct compute_modes *modes;
        struct nvml_request request;
        char *uuid;
        nvmlComputeMode_t before;
        bool is_going_back; /* NVML is restoring it; it stays on record until that is done */
        bool is_late;       /* NVML did not answer */
};

static struct mode *mode_at(struct list *link)
{
        return container_of(link, struct mode, link);
}

static struct mode *find_mode(const struct compute_modes *modes, const char *uuid)
{
        LIST_FOR_EACH(link, &modes->items)
                if (strcmp(mode_at(link)->uuid, uuid) == 0)
                        return mode_at(link);
        return NULL;
}

void compute_modes_add(struct compute_modes *modes, const char *uuid, nvmlComputeMode_t before)
{
        struct mode *mode = xcalloc(1, sizeof(*mode));

        mode->modes = modes;
        mode->uuid = xstrdup(uuid);
        mode->before = before;
        list_append(&modes->items, &mode->link);
}

static void remove_mode(struct mode *mode)
{
        list_remove(&mode->link);
        free(mode->uuid);
        free(mode);
}

bool compute_modes_has(const struct compute_modes *modes, const char *uuid)
{
        return find_mode(modes, uuid) != NULL;
}

/* A mode in memory is on file, too: one that could not be written is forgotten. */
int compute_modes_record(struct compute_modes *modes, const char *uuid, nvmlComputeMode_t before, struct error *err)
{
        if (find_mode(modes, uuid))
                return 0;
        compute_modes_add(modes, uuid, before);
        if (modes->owner.write(err, modes->owner.data) == 0)
                return 0;
        remove_mode(mode_at(modes->items.previous));
        return error_prefix(err, "the previous mode cannot be recorded");
}

void compute_modes_fill_record(const struct compute_modes *modes, struct mps_record *record)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &modes->items)
                count++;
        record->modes = ARENA_ARRAY(&record->arena, struct mps_record_mode, count);
        LIST_FOR_EACH(link, &modes->items)
                record->modes[record->n_modes++] =
                        (struct mps_record_mode){.uuid = mode_at(link)->uuid, .before = mode_at(link)->before};
}

/* NVML has not answered: |err| is not its own. */
static bool is_unanswered(const struct nvml_request *request, const struct error *err)
{
        return err && (err->kind == ERROR_TIMEOUT || err->kind == ERROR_EXHAUSTED || *request->lost.call);
}

/* The mode stays on record. While the supervisor ends it is not tried again. */
static void note_mode_stays(struct mode *mode, const struct error *err)
{
        mode->is_going_back = mode->modes->is_closing;
        if (mode->modes->is_closing)
                log_warn("the compute mode is not put back: the next start does it", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)), LOG_ERR(err));
        else if (!mode->is_late)
                log_warn("the compute mode is not put back yet", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)), LOG_ERR(err));
        mode->is_late = true;
}

/* A unit that is wanted again keeps its recorded mode. */
static void note_mode_is_done(struct mode *mode, const struct error *err)
{
        struct compute_modes *modes = mode->modes;

        if (err)
                log_warn("the compute mode is not restored", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)), LOG_ERR(err));
        else
                log_info("compute mode restored", LOG_STR("unit", mode->uuid),
                        LOG_STR("mode", compute_mode_name(mode->before)));
        if (modes->is_needed(mode->uuid, modes->owner.data))
                mode->is_going_back = mode->is_late = false;
        else
                remove_mode(mode);
        modes->owner.changed(true, modes->owner.data);
}

static void on_mode(struct nvml_request *request, const struct error *err, struct pack *answer UNUSED)
{
        struct mode *mode = container_of(request, struct mode, request);
        struct compute_modes *modes = mode->modes;

        modes->n_jobs--;
        if (!modes->nvml || is_unanswered(request, err))
                note_mode_stays(mode, err);
        else
                note_mode_is_done(mode, err);
        if (modes->is_closing && modes->nvml)
                modes->owner.changed(false, modes->owner.data); /* the supervisor may wait for this */
}

/*
 * The unit may be wanted again before NVML restores the mode. Then its mode is read and set again after that, since
 * requests about one unit are served in order.
 */
void compute_modes_restore(struct compute_modes *modes)
{
        LIST_FOR_EACH(link, &modes->items) {
                struct mode *mode = mode_at(link);

                if (mode->is_going_back || modes->is_needed(mode->uuid, modes->owner.data))
                        continue;
                mode->is_going_back = true;
                modes->n_jobs++;
                compute_mode_ask_to_set(modes->nvml, &mode->request, mode->uuid, mode->before, on_mode);
        }
}

bool compute_modes_are_left(const struct compute_modes *modes)
{
        LIST_FOR_EACH(link, &modes->items)
                if (mode_at(link)->is_going_back)
                        return true;
        return false;
}

void compute_modes_init(struct compute_modes *modes, struct nvml_pool *nvml, const struct mps_record_owner *owner,
        bool (*is_needed)(const char *uuid, void *data))
{
        *modes = (struct compute_modes){.nvml = nvml, .owner = *owner, .is_needed = is_needed};
        list_init(&modes->items);
}

void compute_modes_done(struct compute_modes *modes)
{
        while (!list_is_empty(&modes->items))
                remove_mode(mode_at(modes->items.next));
}
