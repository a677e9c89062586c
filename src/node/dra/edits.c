#include "node/dra/edits.h"

#include "plan/mps_limits.h"

#define VARIABLES_MAX ((size_t)8)
#define MOUNTS_MAX ((size_t)2)

/* A namespace limits memory itself, and the variable could only lift that: plan/mps_limits.h. */
static size_t add_limits(struct arena *arena, const struct ledger_claim_device *const *devices, size_t n_devices,
        enum mps_tier tier, const char **env)
{
        uint64_t *mib = ARENA_ARRAY(arena, uint64_t, n_devices);
        unsigned int permille = 1000;
        const char *memory;
        size_t count = 0;

        for (size_t i = 0; i < n_devices; i++) {
                mib[i] = devices[i]->limit_mib;
                permille = MIN(permille, devices[i]->threads_permille);
        }
        memory = mps_limits_memory(arena, mib, n_devices);
        env[count++] = arena_printf(arena, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s", mps_limits_threads(arena, permille));
        if (memory && tier != MPS_TIER_NAMESPACE)
                env[count++] = arena_printf(arena, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", memory);
        if (n_devices > 1)
                env[count++] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        else if (memory)
                env[count++] = arena_printf(arena, "WARPSHARE_MEMORY_LIMIT_MIB=%ju", (uintmax_t)mib[0]);
        env[count++] = arena_printf(arena, "WARPSHARE_THREAD_PERCENTAGE=%u.%u", permille / 10, permille % 10);
        return count;
}

static bool limits_memory(const struct ledger_claim_device *const *devices, size_t n_devices)
{
        for (size_t i = 0; i < n_devices; i++)
                if (!devices[i]->limit_mib)
                        return false;
        return true;
}

struct dra_edits dra_edits_of(struct arena *arena, const struct config *config,
        const struct ledger_claim_device *const *devices, size_t n_devices, const struct ledger_claimed *claimed)
{
        const char **env = ARENA_ARRAY(arena, const char *, VARIABLES_MAX);
        struct dra_edit_mount *mounts = ARENA_ARRAY(arena, struct dra_edit_mount, MOUNTS_MAX);
        struct dra_edits edits = {.env = env, .mounts = mounts};
        const char *pipe;

        env[edits.n_env++] = "NVIDIA_VISIBLE_DEVICES=void";
        if (!claimed->daemon)
                return edits;
        pipe = arena_printf(arena, "/mps/%s/pipe", claimed->daemon);
        env[edits.n_env++] = arena_printf(arena, "CUDA_MPS_PIPE_DIRECTORY=%s", pipe);
        env[edits.n_env++] = arena_printf(arena, "WARPSHARE_GRANT=%s", devices[0]->id);
        env[edits.n_env++] = arena_printf(
                arena, "WARPSHARE_TIER=%s", mps_tier_promise(claimed->tier, limits_memory(devices, n_devices)));
        edits.n_env += add_limits(arena, devices, n_devices, claimed->tier, &env[edits.n_env]);
        mounts[edits.n_mounts++] =
                (struct dra_edit_mount){.host_path = arena_path(arena, config->mps_root, claimed->pipe),
                        .path = pipe,
                        .is_writable = config->mps_pipes_writable};
        mounts[edits.n_mounts++] =
                (struct dra_edit_mount){.host_path = arena_path(arena, config->mps_root, claimed->shm),
                        .path = "/dev/shm",
                        .is_writable = true};
        return edits;
}
