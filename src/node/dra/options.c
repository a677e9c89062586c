#include "node/dra/layout.h"

#include <string.h>

#include "net/kube/object.h"
#include "plan/plan.h"

struct ours {
        const struct dra_instance *all;
        size_t count;
};

/* The MIG device of the GPU instance: Prepare makes exactly one. NULL: it has none. */
static const struct mig_device *options_find_device(const struct gpu *gpu, unsigned int gpu_instance)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                if (gpu->mig_devices[i].gpu_instance == gpu_instance)
                        return &gpu->mig_devices[i];
        return NULL;
}

static struct dra_mig_instance instance_of(
        const struct gpu *gpu, const struct mig_placed *placed, const struct ours *ours)
{
        const struct mig_device *device = options_find_device(gpu, placed->gpu_instance);
        struct dra_mig_instance instance = {.at = *placed};

        for (size_t i = 0; i < ours->count; i++) {
                const struct dra_instance *made = &ours->all[i];

                if (made->state == DRA_INSTANCE_NONE || strcmp(made->gpu, gpu->uuid) != 0 ||
                        made->profile_id != placed->profile_id || made->start != placed->start)
                        continue;
                if (made->uuid && device && strcmp(made->uuid, device->uuid) != 0)
                        continue;
                instance.is_ours = true;
                instance.uuid = made->uuid;
        }
        return instance;
}

/* If the MIG geometry cannot be read, instances of ours are located by their recorded MIG device. */
static size_t add_made_devices(const struct gpu *gpu, const struct ours *ours, struct dra_mig_instance *ret)
{
        size_t count = 0;

        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                for (size_t j = 0; j < ours->count; j++)
                        if (ours->all[j].uuid && strcmp(ours->all[j].uuid, gpu->mig_devices[i].uuid) == 0)
                                ret[count++] =
                                        (struct dra_mig_instance){.at = {gpu->mig_devices[i].gpu_instance,
                                                                          ours->all[j].profile_id, ours->all[j].start},
                                                .is_ours = true,
                                                .uuid = ours->all[j].uuid};
        return count;
}

static struct dra_mig_gpu mig_gpu_of(const struct gpu *gpu, const struct ours *ours, struct arena *arena)
{
        struct dra_mig_instance *instances =
                ARENA_ARRAY(arena, struct dra_mig_instance, gpu->n_mig_placed + gpu->n_mig_devices * ours->count);
        struct dra_mig_gpu mig = {.uuid = gpu->uuid,
                .profiles = gpu->mig_instance_profiles,
                .n_profiles = gpu->n_mig_instance_profiles,
                .instances = instances};

        for (size_t i = 0; i < gpu->n_mig_placed; i++)
                instances[mig.n_instances++] = instance_of(gpu, &gpu->mig_placed[i], ours);
        if (gpu->mig_geometry_failure)
                mig.n_instances += add_made_devices(gpu, ours, instances);
        return mig;
}

struct dra_options dra_options_from(const struct config *config, const struct inventory *inventory,
        const struct dra_instance *instances, size_t n_instances, struct arena *arena)
{
        const struct ours ours = {instances, n_instances};
        struct dra_options options = {.config = config->dra, .features = {true, true, true}};
        const char **devices = ARENA_ARRAY(arena, const char *, inventory->n_gpus + 1);
        struct dra_mig_gpu *mig_gpus = ARENA_ARRAY(arena, struct dra_mig_gpu, inventory->n_gpus);

        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (plan_is_for_dra(config, inventory, &inventory->gpus[i]))
                        devices[options.n_devices++] = inventory->gpus[i].uuid;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].mig_enabled)
                        mig_gpus[options.n_mig_gpus++] = mig_gpu_of(&inventory->gpus[i], &ours, arena);
        options.mig_gpus = mig_gpus;
        options.devices = devices;
        return options;
}

bool dra_release_forgets_shares(const char *git_version)
{
        struct kube_version version;

        if (!git_version || !kube_version_read(&version, git_version))
                return true;
        /* Where the correction was backported, a later minor release before its first patch need not have it. */
        return !kube_version_is_since(&version, 1, version.minor > 36 ? 37 : 36, version.minor > 36 ? 0 : 2);
}
