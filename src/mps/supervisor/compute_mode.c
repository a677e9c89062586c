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
        nvmlReturn_t code;

        if (compute_mode_find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_get_compute_mode, device, ret);
        return nvml_outcome(nvml, code, "nvmlDeviceGetComputeMode", err);
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

static struct mps_record_mode *find_mode(const struct compute_modes *modes, const char *uuid)
{
        for (size_t i = 0; i < modes->n_items; i++)
                if (strcmp(modes->items[i].uuid, uuid) == 0)
                        return &modes->items[i];
        return NULL;
}

void compute_modes_add(struct compute_modes *modes, const char *uuid, nvmlComputeMode_t before)
{
        modes->items = xrealloc(modes->items, (modes->n_items + 1) * sizeof(*modes->items));
        modes->items[modes->n_items++] =
                (struct mps_record_mode){.uuid = arena_strdup(&modes->arena, uuid), .before = before};
}

static void remove_mode(struct compute_modes *modes, const char *uuid)
{
        struct mps_record_mode *mode = find_mode(modes, uuid);

        if (mode)
                *mode = modes->items[--modes->n_items];
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
        remove_mode(modes, uuid);
        return error_prefix(err, "the previous mode cannot be recorded");
}

struct mode_job {
        struct nvml_request request;
        struct compute_modes *modes;
        nvmlComputeMode_t before;
        char *uuid;
};

/* NVML has not answered: |err| is not its own. */
static bool is_unanswered(const struct nvml_request *request, const struct error *err)
{
        return err && (err->kind == ERROR_TIMEOUT || err->kind == ERROR_EXHAUSTED || *request->lost.call);
}

/* The mode stays on record. While the supervisor ends it is not tried again. */
static void note_mode_stays(const struct mode_job *job, struct mps_record_mode *recorded, const struct error *err)
{
        const bool is_closing = job->modes->is_closing;

        recorded->is_going_back = is_closing;
        if (is_closing)
                log_warn("the compute mode is not put back: the next start does it", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        else if (!recorded->is_late)
                log_warn("the compute mode is not put back yet", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        recorded->is_late = true;
}

static void note_mode_is_done(const struct mode_job *job, struct mps_record_mode *recorded, const struct error *err)
{
        struct compute_modes *modes = job->modes;

        if (err)
                log_warn("the compute mode is not restored", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)), LOG_ERR(err));
        else
                log_info("compute mode restored", LOG_STR("unit", job->uuid),
                        LOG_STR("mode", compute_mode_name(job->before)));
        /* A unit that is wanted again keeps its recorded mode. */
        if (modes->is_needed(job->uuid, modes->owner.data))
                recorded->is_going_back = recorded->is_late = false;
        else
                remove_mode(modes, job->uuid);
        modes->owner.changed(true, modes->owner.data);
}

static void on_mode(struct nvml_request *request, const struct error *err, struct pack *answer UNUSED)
{
        struct mode_job *job = container_of(request, struct mode_job, request);
        struct compute_modes *modes = job->modes;
        struct mps_record_mode *recorded = find_mode(modes, job->uuid); /* it stays as long as it is going back */

        modes->n_jobs--;
        if (!modes->nvml || is_unanswered(request, err))
                note_mode_stays(job, recorded, err);
        else
                note_mode_is_done(job, recorded, err);
        free(job->uuid);
        free(job);
        if (modes->is_closing && modes->nvml)
                modes->owner.changed(false, modes->owner.data); /* the supervisor may wait for this */
}

/*
 * The unit may be wanted again before NVML restores the mode. Then its mode is read and set again after that, since
 * requests about one unit are served in order.
 */
void compute_modes_restore(struct compute_modes *modes)
{
        for (size_t i = 0; i < modes->n_items; i++) {
                struct mps_record_mode *recorded = &modes->items[i];
                struct mode_job *job;

                if (recorded->is_going_back || modes->is_needed(recorded->uuid, modes->owner.data))
                        continue;
                job = xcalloc(1, sizeof(*job));
                job->modes = modes;
                job->before = recorded->before;
                job->uuid = xstrdup(recorded->uuid);
                recorded->is_going_back = true;
                modes->n_jobs++;
                compute_mode_ask_to_set(modes->nvml, &job->request, job->uuid, job->before, on_mode);
        }
}

bool compute_modes_are_left(const struct compute_modes *modes)
{
        for (size_t i = 0; i < modes->n_items; i++)
                if (modes->items[i].is_going_back)
                        return true;
        return false;
}

void compute_modes_done(struct compute_modes *modes)
{
        arena_done(&modes->arena);
        free(modes->items);
}
