#include "mig/users.h"

#include <stdbool.h>

#include "base/strbuf.h"
#include "gpu/process_list.h"

#define USERS_MAX 64U /* that are listed of one kind */
#define USERS_NAMED 8U

struct users {
        unsigned int pids[3 * USERS_MAX];
        size_t count;
};

static void add_user(struct users *users, unsigned int pid)
{
        for (size_t i = 0; i < users->count; i++)
                if (users->pids[i] == pid)
                        return;
        users->pids[users->count++] = pid;
}

static int list_users(struct users *users, const struct nvml *nvml, nvmlDevice_t device, struct error *err)
{
        static const unsigned int kinds[] = {GPU_PROCESS_COMPUTE, GPU_PROCESS_GRAPHICS, GPU_PROCESS_MPS};

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                struct gpu_listed_process listed[USERS_MAX];
                unsigned int count = USERS_MAX;
                nvmlReturn_t code = gpu_process_list(nvml, device, kinds[i], listed, &count);
                int known;

                if (code == NVML_ERROR_INSUFFICIENT_SIZE)
                        return error_set(err, ERROR_UNAVAILABLE, "more than %u processes use it", USERS_MAX);
                known = nvml_outcome(nvml, code, gpu_process_list_call(kinds[i]), err);
                if (known < 0)
                        return -1;
                for (unsigned int j = 0; known == 1 && j < count; j++)
                        add_user(users, listed[j].pid);
        }
        return 0;
}

/* |uuid| of a GPU or a MIG device. */
static int check_unused(const struct nvml *nvml, const char *uuid, struct error *err)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(USERS_NAMED);
        struct users users = {0};
        nvmlDevice_t device = NULL;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);

        if (code == NVML_ERROR_NOT_FOUND)
                return 0; /* it is gone already */
        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
        if (list_users(&users, nvml, device, err) < 0)
                return -1;
        if (users.count == 0)
                return 0;
        for (size_t i = 0; i < users.count; i++)
                names_add(&names, "%u", users.pids[i]);
        return error_set(err, ERROR_UNAVAILABLE, "used by process%s %s", users.count > 1 ? "es" : "", names.text.data);
}

static int users_check_gpu(const struct nvml *nvml, const struct mig_plan_gpu *plan, struct error *err)
{
        for (size_t i = 0; i < plan->n_goes; i++) {
                const struct mig_gpu_instance *instance = plan->goes[i];

                for (size_t j = 0; j < instance->n_devices; j++)
                        if (check_unused(nvml, instance->devices[j].uuid, err) < 0)
                                return error_prefix(err, "%s (%s at %u)", instance->devices[j].uuid,
                                        instance->profile->name, instance->placement.start);
        }
        if (plan->gpu->geometry.is_enabled != plan->wanted->is_enabled && check_unused(nvml, plan->gpu->uuid, err) < 0)
                return error_prefix(err, "its MIG mode changes");
        return 0;
}

int mig_users_check(const struct nvml *nvml, const struct mig_plan *plan, struct error *err)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].changes && users_check_gpu(nvml, &plan->gpus[i], err) < 0)
                        return error_prefix(err, "GPU %u (%s)", plan->gpus[i].gpu->index, plan->gpus[i].gpu->uuid);
        return 0;
}
